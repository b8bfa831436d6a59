package command

import (
	"slices"
	"strings"

	"lockd/keyspace/algebra"
	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

var setRows = []row{
	{Spec: resp.Spec{
		Name: "sadd", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey, Access: "RW insert",
		Group: "set", Since: "1.0.0", Summary: "Add one or more members to a set",
		Syntax: "key member [member ...]",
	}, Parse: ofKeyAndMany(sadd)},
	{Spec: resp.Spec{
		Name: "srem", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW delete",
		Group: "set", Since: "1.0.0", Summary: "Remove one or more members from a set",
		Syntax: "key member [member ...]",
	}, Parse: ofKeyAndMany(srem)},
	{Spec: resp.Spec{
		Name: "sismember", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "set", Since: "1.0.0", Summary: "Determine if a given value is a member of a set",
		Syntax: "key member",
	}, Parse: ofKeyAnd(sismember)},
	{Spec: resp.Spec{
		Name: "smismember", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "set", Since: "6.2.0", Summary: "Returns the membership associated with the given elements for a set",
		Syntax: "key member [member ...]",
	}, Parse: ofKeyAndMany(smismember)},
	{Spec: resp.Spec{
		Name: "smembers", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "set", Since: "1.0.0", Summary: "Get all the members in a set",
		Syntax: "key",
	}, Parse: ofKey(smembers)},
	{Spec: resp.Spec{
		Name: "scard", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "set", Since: "1.0.0", Summary: "Get the number of members in a set",
		Syntax: "key",
	}, Parse: ofKey(scard)},
	{Spec: resp.Spec{
		Name: "spop", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "set", Since: "1.0.0", Summary: "Remove and return one or multiple random members from a set",
		Syntax: "key [count]",
	}, Parse: parseSPop},
	{Spec: resp.Spec{
		Name: "srandmember", Arity: -2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "set", Since: "1.0.0", Summary: "Get one or multiple random members from a set",
		Syntax: "key [count]",
	}, Parse: parseSRandMember},
	{Spec: resp.Spec{
		Name: "smove", Arity: 4, Flags: resp.Write | resp.Fast,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 RW insert",
		Group: "set", Since: "1.0.0", Summary: "Move a member from one set to another",
		Syntax: "source destination member",
	}, Parse: ofKeyAndMany(smove)},
	{Spec: resp.Spec{
		Name: "sinter", Arity: -2, Flags: resp.ReadOnly, Keys: resp.AllKeys,
		Group: "set", Since: "1.0.0", Summary: "Intersect multiple sets",
		Syntax: "key [key ...]",
	}, Parse: parseSetOp((*algebra.Sets).Inter)},
	{Spec: resp.Spec{
		Name: "sinterstore", Arity: -3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.AllKeys, Access: "1 RW update; 2- RO access",
		Group: "set", Since: "1.0.0", Summary: "Intersect multiple sets and store the resulting set in a key",
		Syntax: "destination key [key ...]",
	}, Parse: parseSetStore((*algebra.Sets).Inter, "sinterstore")},
	{Spec: resp.Spec{
		Name: "sintercard", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "set", Since: "7.0.0", Summary: "Intersect multiple sets and return the cardinality of the result",
		Syntax: "numkeys key [key ...] [LIMIT limit]",
	}, Parse: parseSInterCard},
	{Spec: resp.Spec{
		Name: "sunion", Arity: -2, Flags: resp.ReadOnly, Keys: resp.AllKeys,
		Group: "set", Since: "1.0.0", Summary: "Add multiple sets",
		Syntax: "key [key ...]",
	}, Parse: parseSetOp((*algebra.Sets).Union)},
	{Spec: resp.Spec{
		Name: "sunionstore", Arity: -3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.AllKeys, Access: "1 OW update; 2- RO access",
		Group: "set", Since: "1.0.0", Summary: "Add multiple sets and store the resulting set in a key",
		Syntax: "destination key [key ...]",
	}, Parse: parseSetStore((*algebra.Sets).Union, "sunionstore")},
	{Spec: resp.Spec{
		Name: "sdiff", Arity: -2, Flags: resp.ReadOnly, Keys: resp.AllKeys,
		Group: "set", Since: "1.0.0", Summary: "Subtract multiple sets",
		Syntax: "key [key ...]",
	}, Parse: parseSetOp((*algebra.Sets).Diff)},
	{Spec: resp.Spec{
		Name: "sdiffstore", Arity: -3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.AllKeys, Access: "1 OW update; 2- RO access",
		Group: "set", Since: "1.0.0", Summary: "Subtract multiple sets and store the resulting set in a key",
		Syntax: "destination key [key ...]",
	}, Parse: parseSetStore((*algebra.Sets).Diff, "sdiffstore")},
	{Spec: resp.Spec{
		Name: "sscan", Arity: -3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "set", Since: "2.8.0", Summary: "Incrementally iterate Set elements",
		Syntax: "key cursor [MATCH pattern] [COUNT count]",
	}, Parse: parseScanItems(scanSet)},
}

// errNumKeysBeyond is also an answer of EVAL and FCALL.
const errNumKeysBeyond = "ERR Number of keys can't be greater than number of args"

func sadd(c *Ctx, key string, members []string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	if !c.s.Meter.Affords(value.FindAllWork(s, members)) {
		return resp.Err(meter.ErrWork)
	}
	if !slices.ContainsFunc(members, func(member string) bool { return !s.Has(member) }) {
		return resp.Int(0)
	}
	if !c.s.Meter.Affords(value.GrowWork(s, members)) {
		return resp.Err(meter.ErrWork)
	}
	var n int64
	editSet(c, key, func(s *value.Set) {
		s.Expect(members[0], int64(len(members)))
		for _, member := range members {
			if s.Add(strings.Clone(member)) {
				n++
			}
		}
	})
	c.Notify(emit.Set, "sadd", key)
	return resp.Int(n)
}

func srem(c *Ctx, key string, members []string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	if !c.s.Meter.Affords(2 * value.FindAllWork(s, members)) {
		return resp.Err(meter.ErrWork)
	}
	if !slices.ContainsFunc(members, s.Has) {
		return resp.Int(0)
	}
	return removeElems(c, key, members, editSet, emit.Set, "srem")
}

func sismember(c *Ctx, key, member string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	return isMember(c, s, member)
}

func smismember(c *Ctx, key string, members []string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	replies := make([]resp.Reply, len(members))
	for i, member := range members {
		replies[i] = isMember(c, s, member)
	}
	return resp.Array(replies...)
}

func isMember(c *Ctx, s *value.Set, member string) resp.Reply {
	c.s.Meter.Spend(s.FindWork(member))
	return oneIf(s.Has(member))
}

func smembers(c *Ctx, key string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	return membersReply(s)
}

// membersReply answers all members, or why they are too many.
func membersReply(s *value.Set) resp.Reply {
	if s.ReplyBytes() > meter.ReplyBytesMax {
		return resp.Err(meter.ErrReplyTooLarge)
	}
	return setReply(s.Members())
}

func setReply(members []string) resp.Reply { return resp.Set(resp.Bulks(members...).Elems...) }

func scard(c *Ctx, key string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(s.Len()))
}

// countedCall is SPOP or SRANDMEMBER: of one member, or of as many as a count says.
type countedCall struct {
	key   string
	count arg.Count
	one   func(c *Ctx, key string) resp.Reply
	many  func(c *Ctx, key string, count int64) resp.Reply
}

func (r *countedCall) Run(c *Ctx) resp.Reply {
	if r.count.Given {
		return r.many(c, r.key, r.count.N)
	}
	return r.one(c, r.key)
}

func parseSPop(args resp.Args) (call, error) {
	count, err := arg.OptionalCount(args)
	if err != nil {
		return nil, err
	}
	return &countedCall{args[1], count, popMember, popMembers}, nil
}

func popMember(c *Ctx, key string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil || s == nil {
		return orNil(err)
	}
	member := s.At(c.randN(s.Len()))
	c.s.Meter.Spend(s.FindWork(member))
	takeMembers(c, key, []string{member})
	return resp.Bulk(member)
}

// takeMembers removes what SPOP answers, which has paid for it.
func takeMembers(c *Ctx, key string, members []string) {
	emptied := editSet(c, key, func(s *value.Set) {
		for _, member := range members {
			s.Delete(member)
		}
	})
	notifyRemoved(c, emit.Set, "spop", key, emptied)
}

// popMembers is SPOP with a count.
func popMembers(c *Ctx, key string, count int64) resp.Reply {
	s, err := lookupSet(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil || count == 0:
		return resp.Set()
	}
	members, err := drawMembers(c, s, count)
	if err != nil {
		return resp.Fail(err)
	}
	if !c.s.Meter.Affords(value.FindAllWork(s, members)) {
		return resp.Err(meter.ErrWork)
	}
	takeMembers(c, key, members)
	return setReply(members)
}

// drawMembers chooses members at random; see choose. What would be too much for one
// reply is refused before anything is done.
func drawMembers(c *Ctx, s *value.Set, count int64) (members []string, err error) {
	count = min(count, int64(s.Len()))
	n := max(count, -count)
	frames := n * meter.MemberReplyBytes
	if frames > meter.ReplyBytesMax {
		return nil, resp.Error(meter.ErrReplyTooLarge)
	}
	if !c.s.Meter.Affords(2 * n * value.TreeWork(s.Len())) { // to draw it, and to find it
		return nil, resp.Error(meter.ErrWork)
	}
	members = make([]string, 0, n)
	bytes := frames
	for _, i := range choose(c, s.Len(), count) {
		member := s.At(i)
		if bytes += int64(len(member)); bytes > meter.ReplyBytesMax {
			return nil, resp.Error(meter.ErrReplyTooLarge)
		}
		members = append(members, member)
	}
	return members, nil
}

func parseSRandMember(args resp.Args) (call, error) {
	r := &countedCall{key: args[1], one: randomMember, many: randomMembers}
	if len(args) > 3 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	if len(args) == 2 {
		return r, nil
	}
	n, ok := resp.ParseInt(args[2])
	switch r.count = (arg.Count{Given: true, N: n}); {
	case !ok:
		return nil, resp.Error(resp.ErrNotInteger)
	case n < -maxInt:
		return nil, resp.Error(arg.ErrCountRange)
	case n < -arg.DrawsMax:
		return nil, resp.Error(resp.ErrOutOfRange)
	}
	return r, nil
}

func randomMember(c *Ctx, key string) resp.Reply {
	s, err := lookupSet(c, key)
	if err != nil || s == nil {
		return orNil(err)
	}
	c.s.Meter.Spend(value.TreeWork(s.Len()))
	return resp.Bulk(s.At(c.randN(s.Len())))
}

// randomMembers is SRANDMEMBER with a count. A positive one asks for different
// members, a negative one for that many draws.
func randomMembers(c *Ctx, key string, count int64) resp.Reply {
	s, err := lookupSet(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil || count == 0:
		return resp.Array()
	}
	members, err := drawMembers(c, s, count)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulks(members...)
}

// smove takes the key that the member goes to, and the member.
func smove(c *Ctx, from string, words []string) resp.Reply {
	to, member := words[0], words[1]
	source, err := lookupSet(c, from)
	if err != nil || source == nil {
		return orZero(err)
	}
	target, err := lookupSet(c, to)
	if err != nil {
		return resp.Fail(err)
	}
	c.s.Meter.Spend(2*source.FindWork(member) + 2*value.GrowWork(target, []string{member}))
	if from == to || !source.Has(member) {
		return isMember(c, source, member)
	}
	isNew := !target.Has(member)
	emptied := editSet(c, from, func(s *value.Set) { s.Delete(member) })
	notifyRemoved(c, emit.Set, "srem", from, emptied)
	if isNew {
		editSet(c, to, func(s *value.Set) {
			s.Expect(member, 1)
			s.Add(strings.Clone(member))
		})
		c.Notify(emit.Set, "sadd", to)
	}
	return resp.Int(1)
}

// lookupSets finds sets; an absent one is nil.
func lookupSets(c *Ctx, keys []string) (sets []*value.Set, err error) {
	sets = make([]*value.Set, len(keys))
	for i, key := range keys {
		if sets[i], err = lookupSet(c, key); err != nil {
			return nil, err
		}
		if c.s.Meter.Exceeded() {
			return nil, resp.Error(meter.ErrWork)
		}
	}
	return sets, nil
}

// setOperation is one of the three ways to make a set of others.
type setOperation func(op *algebra.Sets, sets []*value.Set)

var (
	setToStore  = algebra.SetRoom{Of: (*value.Set).Size, Max: meter.GrowthBytesMax, Err: resp.Error(meter.ErrGrowth)}
	setToAnswer = algebra.SetRoom{Of: (*value.Set).ReplyBytes, Max: meter.ReplyBytesMax, Err: resp.Error(meter.ErrReplyTooLarge)}
)

func newSetOp(c *Ctx, room algebra.SetRoom) *algebra.Sets {
	return algebra.NewSets(c.s.Keys.Generation, c.s.Settings.Sets, c.s.Meter.Pay, room)
}

func parseSetOp(compute setOperation) parser {
	return ofMany(func(c *Ctx, keys []string) resp.Reply { return answerSet(c, keys, compute) })
}

// answerSet runs SUNION, SINTER or SDIFF.
func answerSet(c *Ctx, keys []string, compute setOperation) resp.Reply {
	result, err := computeSet(c, keys, compute, setToAnswer)
	if err != nil {
		return resp.Fail(err)
	}
	return membersReply(result)
}

func computeSet(c *Ctx, keys []string, compute setOperation, room algebra.SetRoom) (*value.Set, error) {
	sets, err := lookupSets(c, keys)
	if err != nil {
		return nil, err
	}
	op := newSetOp(c, room)
	compute(op, sets)
	return op.Result, op.Err
}

func parseSetStore(compute setOperation, event string) parser {
	return ofKeyAndMany(func(c *Ctx, to string, keys []string) resp.Reply { return storeSet(c, to, keys, compute, event) })
}

// storeSet runs SUNIONSTORE, SINTERSTORE or SDIFFSTORE: the result replaces whatever the destination
// holds, and an empty one deletes it.
func storeSet(c *Ctx, to string, keys []string, compute setOperation, event string) resp.Reply {
	result, err := computeSet(c, keys, compute, setToStore)
	if err != nil {
		return resp.Fail(err)
	}
	n := result.Len()
	switch {
	case n > 0:
		c.putUntil(to, value.OfAggregate(result), store.Never)
		c.Notify(emit.Set, event, to)
	case c.delete(to):
		c.Notify(emit.Generic, "del", to)
	}
	return resp.Int(int64(n))
}

// interCardCall is SINTERCARD.
type interCardCall struct {
	keys  []string
	limit int64 // 0: none
}

func (r *interCardCall) Run(c *Ctx) resp.Reply {
	sets, err := lookupSets(c, r.keys)
	if err != nil {
		return resp.Fail(err)
	}
	var n int64
	op := newSetOp(c, setToAnswer)
	op.Common(sets, func(string) bool {
		n++
		return n != r.limit
	})
	if op.Err != nil {
		return resp.Fail(op.Err)
	}
	return resp.Int(n)
}

// parseSInterCard reads the keys and the limit, in the order of Redis's checks.
func parseSInterCard(args resp.Args) (call, error) {
	n, ok := resp.ParseInt(args[1])
	switch {
	case !ok || n < 1:
		return nil, resp.Error(arg.ErrNumKeys)
	case n > int64(len(args)-2):
		return nil, resp.Error(errNumKeysBeyond)
	}
	r := &interCardCall{keys: args[2 : 2+n]}
	options := args[2+n:]
	for i := 0; i < len(options); i += 2 {
		if !resp.Is(options[i], "LIMIT") || i+1 == len(options) {
			return nil, resp.Error(resp.ErrSyntax)
		}
		if r.limit, ok = resp.ParseInt(options[i+1]); !ok || r.limit < 0 {
			return nil, resp.Error(arg.ErrLimitNegative)
		}
	}
	return r, nil
}

func scanSet(s *value.Set, o *arg.Scan) (next uint64, members []string) {
	next = s.Scan(o.Cursor, o.Count, func(member string) {
		if o.Match.Matches(member) {
			members = append(members, member)
		}
	})
	return next, members
}
