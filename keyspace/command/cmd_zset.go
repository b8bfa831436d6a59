package command

import (
	"math"
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

var zsetRows = []row{
	{Spec: resp.Spec{
		Name: "zadd", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "sorted-set", Since: "1.2.0",
		Summary: "Add one or more members to a sorted set, or update its score if it already exists",
		Syntax:  "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
	}, Parse: parseZAdd(addOptions{})},
	{Spec: resp.Spec{
		Name: "zincrby", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "1.2.0", Summary: "Increment the score of a member in a sorted set",
		Syntax: "key increment member",
	}, Parse: parseZAdd(addOptions{incr: true})},
	{Spec: resp.Spec{
		Name: "zrem", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW delete",
		Group: "sorted-set", Since: "1.2.0", Summary: "Remove one or more members from a sorted set",
		Syntax: "key member [member ...]",
	}, Parse: ofKeyAndMany(zrem)},
	{Spec: resp.Spec{
		Name: "zcard", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "sorted-set", Since: "1.2.0", Summary: "Get the number of members in a sorted set",
		Syntax: "key",
	}, Parse: ofKey(zcard)},
	{Spec: resp.Spec{
		Name: "zscore", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "1.2.0", Summary: "Get the score associated with the given member in a sorted set",
		Syntax: "key member",
	}, Parse: ofKeyAnd(zscore)},
	{Spec: resp.Spec{
		Name: "zmscore", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "6.2.0", Summary: "Get the score associated with the given members in a sorted set",
		Syntax: "key member [member ...]",
	}, Parse: ofKeyAndMany(zmscore)},
	{Spec: resp.Spec{
		Name: "zrank", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.0.0", Summary: "Determine the index of a member in a sorted set",
		Syntax: "key member [WITHSCORE]",
	}, Parse: parseRankOf("zrank", false)},
	{Spec: resp.Spec{
		Name: "zrevrank", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Determine the index of a member in a sorted set, with scores ordered from high to low",
		Syntax:  "key member [WITHSCORE]",
	}, Parse: parseRankOf("zrevrank", true)},
	{Spec: resp.Spec{
		Name: "zpopmin", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "sorted-set", Since: "5.0.0",
		Summary: "Remove and return members with the lowest scores in a sorted set",
		Syntax:  "key [count]",
	}, Parse: parsePopEnd(popMin)},
	{Spec: resp.Spec{
		Name: "zpopmax", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "sorted-set", Since: "5.0.0",
		Summary: "Remove and return members with the highest scores in a sorted set",
		Syntax:  "key [count]",
	}, Parse: parsePopEnd(popMax)},
	{Spec: resp.Spec{
		Name: "zmpop", Arity: -4, Flags: resp.Write | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 1}, Access: "RW access delete",
		Group: "sorted-set", Since: "7.0.0", Summary: "Remove and return members with scores in a sorted set",
		Syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
	}, Parse: parseZMPop},
	{Spec: resp.Spec{
		Name: "zrandmember", Arity: -2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "6.2.0", Summary: "Get one or multiple random elements from a sorted set",
		Syntax: "key [count [WITHSCORES]]",
	}, Parse: parseDraw("WITHSCORES", memberAt)},
	{Spec: resp.Spec{
		Name: "zscan", Arity: -3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.8.0",
		Summary: "Incrementally iterate sorted sets elements and associated scores",
		Syntax:  "key cursor [MATCH pattern] [COUNT count]",
	}, Parse: parseScanItems(scanZset)},
}

// The error texts that only these commands use.
const (
	errAddNXAndXX   = "ERR XX and NX options at the same time are not compatible"
	errAddGTLTNX    = "ERR GT, LT, and/or NX options at the same time are not compatible"
	errAddIncrPairs = "ERR INCR option supports a single increment-element pair"
	errScoreNaN     = "ERR resulting score is not a number (NaN)"
)

// addOptions has the options of ZADD.
type addOptions struct{ nx, xx, gt, lt, ch, incr bool }

// take reads the options before the scores and returns what follows them.
func (o *addOptions) take(args resp.Args) resp.Args {
	for i, word := range args {
		switch {
		case resp.Is(word, "NX"):
			o.nx = true
		case resp.Is(word, "XX"):
			o.xx = true
		case resp.Is(word, "GT"):
			o.gt = true
		case resp.Is(word, "LT"):
			o.lt = true
		case resp.Is(word, "CH"):
			o.ch = true
		case resp.Is(word, "INCR"):
			o.incr = true
		default:
			return args[i:]
		}
	}
	return nil
}

// wrong returns what Redis says about the options and the words after them, or nil.
func (o *addOptions) wrong(pairs resp.Args) error {
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return resp.Error(resp.ErrSyntax)
	case o.nx && o.xx:
		return resp.Error(errAddNXAndXX)
	case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
		return resp.Error(errAddGTLTNX)
	case o.incr && len(pairs) > 2:
		return resp.Error(errAddIncrPairs)
	}
	return nil
}

// addCount counts what a ZADD has done so far.
type addCount struct {
	added, updated int64
	score          float64 // of the last member that the options let pass
	passed         bool
	nan            bool
}

// addPair counts one pair of a ZADD, and returns the score that the member must get, and
// whether that changes anything.
func (n *addCount) addPair(z *value.Zset, o *addOptions, pair value.Scored) (score float64, change bool) {
	old, had := 0.0, false
	if z != nil {
		old, had = z.Get(pair.Member)
	}
	score = pair.Score
	if had && o.incr {
		score += old
	}
	switch {
	case had && o.nx || !had && o.xx:
		return 0, false
	case math.IsNaN(score):
		n.nan = true
		return 0, false
	case had && (o.lt && score >= old || o.gt && score <= old):
		return 0, false
	}
	n.score, n.passed = score, true
	switch {
	case !had:
		n.added++
	case score != old:
		n.updated++
	}
	return score, !had || score != old
}

// addCall is ZADD or ZINCRBY, which is ZADD INCR, with its options, too, as in Redis.
type addCall struct {
	key   string
	o     addOptions
	pairs []value.Scored
}

// parseZAdd reads the options that follow the key, beside those that the command means by itself, and the pairs.
func parseZAdd(o addOptions) parser {
	return func(args resp.Args) (call, error) {
		r := &addCall{key: args[1], o: o}
		words := r.o.take(args[2:])
		if err := r.o.wrong(words); err != nil {
			return nil, err
		}
		var ok bool
		if r.pairs, ok = parsePairs(words); !ok {
			return nil, resp.Error(resp.ErrNotFloat)
		}
		return r, nil
	}
}

// Run only reads until it comes to the first change, so that a ZADD that changes nothing is no modification of its key.
func (r *addCall) Run(c *Ctx) resp.Reply {
	key, pairs, o := r.key, r.pairs, r.o
	z, err := LookupZset(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	has := z
	if has == nil {
		has = value.NewZset(c.s.Keys.Generation)
	}
	if !c.s.Meter.Affords(value.GrowScoredWork(has, pairs)) {
		return resp.Err(meter.ErrWork)
	}
	var n addCount
	for i, p := range pairs {
		if score, change := n.addPair(z, &o, p); change {
			addRest(c, key, &o, &n, value.Scored{Score: score, Member: p.Member}, pairs[i+1:])
			break
		}
	}
	if n.nan {
		return resp.Err(errScoreNaN)
	}
	return n.reply(o)
}

func parsePairs(words resp.Args) (pairs []value.Scored, ok bool) {
	pairs = make([]value.Scored, len(words)/2)
	for i := range pairs {
		pairs[i].Member = words[2*i+1]
		if pairs[i].Score, ok = value.ParseScore(words[2*i]); !ok {
			return nil, false
		}
	}
	return pairs, true
}

// addRest writes the first change and goes on from there.
func addRest(c *Ctx, key string, o *addOptions, n *addCount, first value.Scored, rest []value.Scored) {
	editZset(c, key, func(z *value.Zset) {
		z.Set(first.Member, first.Score)
		for _, p := range rest {
			if score, change := n.addPair(z, o, p); change {
				z.Set(p.Member, score)
			}
		}
	})
	event := "zadd"
	if o.incr {
		event = "zincr"
	}
	c.Notify(emit.Zset, event, key)
}

func (n *addCount) reply(o addOptions) resp.Reply {
	switch {
	case o.incr && n.passed:
		return resp.Double(n.score)
	case o.incr:
		return resp.Nil()
	case o.ch:
		return resp.Int(n.added + n.updated)
	}
	return resp.Int(n.added)
}

func zrem(c *Ctx, key string, members []string) resp.Reply {
	z, err := LookupZset(c, key)
	if err != nil || z == nil {
		return orZero(err)
	}
	if !c.s.Meter.Affords(value.FindAllWork(z, members)) {
		return resp.Err(meter.ErrWork)
	}
	if !slices.ContainsFunc(members, z.Has) {
		return resp.Int(0)
	}
	work := int64(0)
	for _, member := range members {
		work += value.EditWork(z, member)
	}
	if z.IsTree() && !c.s.Meter.Affords(work) {
		return resp.Err(meter.ErrWork)
	}
	return removeElems(c, key, members, editZset, emit.Zset, "zrem")
}

func zcard(c *Ctx, key string) resp.Reply {
	z, err := LookupZset(c, key)
	if err != nil || z == nil {
		return orZero(err)
	}
	return resp.Int(int64(z.Len()))
}

func zscore(c *Ctx, key, member string) resp.Reply {
	z, err := LookupZset(c, key)
	if err != nil || z == nil {
		return orNil(err)
	}
	c.s.Meter.Spend(z.FindWork(member))
	return scoreReply(z, member)
}

func zmscore(c *Ctx, key string, members []string) resp.Reply {
	z, err := LookupZset(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	replies := make([]resp.Reply, len(members))
	for i, member := range members {
		replies[i] = resp.Nil()
		if z != nil {
			c.s.Meter.Spend(z.FindWork(member))
			replies[i] = scoreReply(z, member)
		}
	}
	return resp.Array(replies...)
}

func scoreReply(z *value.Zset, member string) resp.Reply {
	score, had := z.Get(member)
	if !had {
		return resp.Nil()
	}
	return resp.Double(score)
}

// rankCall is ZRANK or ZREVRANK key member, with the score or without.
type rankCall struct {
	key, member        string
	reverse, withScore bool
}

func parseRankOf(command string, reverse bool) parser {
	return func(args resp.Args) (call, error) {
		r := &rankCall{args[1], args[2], reverse, len(args) == 4}
		switch {
		case len(args) > 4:
			return nil, wrongArity(command)
		case r.withScore && !resp.Is(args[3], "WITHSCORE"):
			return nil, resp.Error(resp.ErrSyntax)
		}
		return r, nil
	}
}

func (r *rankCall) Run(c *Ctx) resp.Reply {
	none := resp.Nil()
	if r.withScore {
		none = resp.NilArray()
	}
	z, err := LookupZset(c, r.key)
	if err != nil {
		return resp.Fail(err)
	}
	if z == nil {
		return none
	}
	c.s.Meter.Spend(2 * value.EditWork(z, r.member))
	rank, score, had := z.Rank(r.member)
	if !had {
		return none
	}
	if r.reverse {
		rank = z.Len() - 1 - rank
	}
	if r.withScore {
		return resp.Array(resp.Int(int64(rank)), resp.Double(score))
	}
	return resp.Int(int64(rank))
}

// popFrom is an end of a sorted set, and the event of taking members from it.
type popFrom struct {
	event   string
	reverse bool
}

var (
	popMin  = popFrom{event: "zpopmin"}
	popMax  = popFrom{event: "zpopmax", reverse: true}
	popEnds = [2]popFrom{popMin, popMax}
)

// popEndCall is ZPOPMIN or ZPOPMAX: only a count makes the answer a list of pairs.
type popEndCall struct {
	key   string
	from  popFrom
	count arg.Count
}

func parsePopEnd(from popFrom) parser {
	return func(args resp.Args) (call, error) {
		count, err := arg.OptionalCount(args)
		if err != nil {
			return nil, err
		}
		return &popEndCall{args[1], from, count}, nil
	}
}

func (r *popEndCall) Run(c *Ctx) resp.Reply {
	z, err := LookupZset(c, r.key)
	if err != nil {
		return resp.Fail(err)
	}
	if z == nil || r.count.N == 0 {
		return resp.Array()
	}
	popped, err := popScored(c, r.key, z, r.from, r.count.N)
	if err != nil {
		return resp.Fail(err)
	}
	items := memberReplies(popped, true)
	if r.count.Given {
		return resp.Pairs(items...)
	}
	return resp.Array(items...)
}

// popScored takes up to count members, count > 0, from one end of z, the sorted set at
// key. What would be too large to answer stays.
func popScored(c *Ctx, key string, z *value.Zset, from popFrom, count int64) (popped []value.Scored, err error) {
	n := int(min(count, int64(z.Len())))
	if err := c.s.Meter.Listable(n); err != nil {
		return nil, err
	}
	if from.reverse {
		popped = z.Members(z.Len()-n, z.Len())
		slices.Reverse(popped)
	} else {
		popped = z.Members(0, n)
	}
	if value.BytesOf(popped, meter.ScoredReplyBytes) > meter.ReplyBytesMax {
		return nil, resp.Error(meter.ErrReplyTooLarge)
	}
	if !c.s.Meter.Affords(value.EditAllWork(z, popped)) {
		return nil, resp.Error(meter.ErrWork)
	}
	removeScored(c, key, popped, from.event)
	return popped, nil
}

// removeScored takes members, at least one, out of the sorted set at key, which has
// them all. The caller has paid for it.
func removeScored(c *Ctx, key string, members []value.Scored, event string) {
	emptied := editZset(c, key, func(z *value.Zset) {
		for _, m := range members {
			z.Delete(m.Member)
		}
	})
	notifyRemoved(c, emit.Zset, event, key, emptied)
}

// popFirstScoredCall is ZMPOP: it pops from the first of its keys that holds a sorted set.
type popFirstScoredCall struct{ arg.Pop }

func parseZMPop(args resp.Args) (call, error) {
	o, err := arg.ParsePop(args[1:], "MIN", "MAX")
	if err != nil {
		return nil, err
	}
	return &popFirstScoredCall{o}, nil
}

func (o *popFirstScoredCall) Run(c *Ctx) resp.Reply {
	key, z, err := lookupFirst(c, o.Keys, LookupZset)
	switch {
	case err != nil:
		return resp.Fail(err)
	case z == nil:
		return resp.NilArray()
	}
	return popPairs(c, key, z, popEnds[o.End], o.Count)
}

// popPairs pops as popScored does, and answers as ZMPOP does.
func popPairs(c *Ctx, key string, z *value.Zset, from popFrom, count int64) resp.Reply {
	popped, err := popScored(c, key, z, from, count)
	if err != nil {
		return resp.Fail(err)
	}
	return pairsReply(key, popped)
}

// pairsReply is the reply of a command that has popped members from a key.
func pairsReply(key string, popped []value.Scored) resp.Reply {
	var pairs []resp.Reply
	for _, m := range popped {
		pairs = append(pairs, resp.Array(resp.Bulk(m.Member), resp.Double(m.Score)))
	}
	return resp.Array(resp.Bulk(key), resp.Array(pairs...))
}

func memberAt(z *value.Zset, rank int) (member, score resp.Reply) {
	m := z.At(rank)
	return resp.Bulk(m.Member), resp.Double(m.Score)
}

func scanZset(z *value.Zset, o *arg.Scan) (next uint64, items []string) {
	next = z.Scan(o.Cursor, o.Count, func(member string, score float64) {
		if o.Match.Matches(member) {
			items = append(items, member, resp.FormatDouble(score))
		}
	})
	return next, items
}

// memberReplies lists members, or members and scores in turn.
func memberReplies(members []value.Scored, withScores bool) []resp.Reply {
	items := make([]resp.Reply, 0, 2*len(members))
	for _, m := range members {
		items = append(items, resp.Bulk(m.Member))
		if withScores {
			items = append(items, resp.Double(m.Score))
		}
	}
	return items
}
