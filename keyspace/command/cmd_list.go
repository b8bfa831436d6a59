package command

import (
	"slices"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

var listRows = []row{
	{Spec: resp.Spec{
		Name: "lpush", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "list", Since: "1.0.0", Summary: "Prepend one or multiple elements to a list",
		Syntax: "key element [element ...]",
	}, Parse: parsePush(value.LeftEnd, false)},
	{Spec: resp.Spec{
		Name: "rpush", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "list", Since: "1.0.0", Summary: "Append one or multiple elements to a list",
		Syntax: "key element [element ...]",
	}, Parse: parsePush(value.RightEnd, false)},
	{Spec: resp.Spec{
		Name: "lpushx", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "list", Since: "2.2.0", Summary: "Prepend an element to a list, only if the list exists",
		Syntax: "key element [element ...]",
	}, Parse: parsePush(value.LeftEnd, true)},
	{Spec: resp.Spec{
		Name: "rpushx", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "list", Since: "2.2.0", Summary: "Append an element to a list, only if the list exists",
		Syntax: "key element [element ...]",
	}, Parse: parsePush(value.RightEnd, true)},
	{Spec: resp.Spec{
		Name: "lpop", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "list", Since: "1.0.0", Summary: "Remove and get the first elements in a list",
		Syntax: "key [count]",
	}, Parse: parsePop(value.LeftEnd)},
	{Spec: resp.Spec{
		Name: "rpop", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "list", Since: "1.0.0", Summary: "Remove and get the last elements in a list",
		Syntax: "key [count]",
	}, Parse: parsePop(value.RightEnd)},
	{Spec: resp.Spec{
		Name: "llen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "list", Since: "1.0.0", Summary: "Get the length of a list",
		Syntax: "key",
	}, Parse: ofKey(listLen)},
	{Spec: resp.Spec{
		Name: "lrange", Arity: 4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Get a range of elements from a list",
		Syntax: "key start stop",
	}, Parse: parseLRange},
	{Spec: resp.Spec{
		Name: "lindex", Arity: 3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Get an element from a list by its index",
		Syntax: "key index",
	}, Parse: ofKeyAnd(listIndex)},
	{Spec: resp.Spec{
		Name: "lset", Arity: 4, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey, Access: "RW update",
		Group: "list", Since: "1.0.0", Summary: "Set the value of an element in a list by its index",
		Syntax: "key index element",
	}, Parse: ofKeyAndMany(listSet)},
	{Spec: resp.Spec{
		Name: "linsert", Arity: 5, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey, Access: "RW insert",
		Group: "list", Since: "2.2.0", Summary: "Insert an element before or after another element in a list",
		Syntax: "key <BEFORE | AFTER> pivot element",
	}, Parse: parseLInsert},
	{Spec: resp.Spec{
		Name: "lrem", Arity: 4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "list", Since: "1.0.0", Summary: "Remove elements from a list",
		Syntax: "key count element",
	}, Parse: parseLRem},
	{Spec: resp.Spec{
		Name: "ltrim", Arity: 4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "list", Since: "1.0.0", Summary: "Trim a list to the specified range",
		Syntax: "key start stop",
	}, Parse: parseLTrim},
	{Spec: resp.Spec{
		Name: "lpos", Arity: -3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "list", Since: "6.0.6", Summary: "Return the index of matching elements on a list",
		Syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
	}, Parse: parseLPos},
	{Spec: resp.Spec{
		Name: "lmove", Arity: 5, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 RW insert",
		Group: "list", Since: "6.2.0", Summary: "Pop an element from a list, push it to another list and return it",
		Syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
	}, Parse: parseLMove},
	{Spec: resp.Spec{
		Name: "rpoplpush", Arity: 3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 RW insert",
		Group: "list", Since: "1.2.0",
		Summary: "Remove the last element in a list, prepend it to another list and return it",
		Syntax:  "source destination",
	}, Parse: parseRPopLPush},
	{Spec: resp.Spec{
		Name: "lmpop", Arity: -4, Flags: resp.Write | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 1}, Access: "RW access delete",
		Group: "list", Since: "7.0.0", Summary: "Pop elements from a list",
		Syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
	}, Parse: parseLMPop},
}

// The error texts that only these commands use.
const (
	errRankZero = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... " +
		"or use negative to start from the end of the list"
	errCountNegative  = "ERR COUNT can't be negative"
	errMaxLenNegative = "ERR MAXLEN can't be negative"
)

// The events of pushing to and popping from each end.
var (
	pushEvents = [...]string{value.LeftEnd: "lpush", value.RightEnd: "rpush"}
	popEvents  = [...]string{value.LeftEnd: "lpop", value.RightEnd: "rpop"}
)

func parsePush(end value.ListEnd, onlyThere bool) parser {
	return ofKeyAndMany(func(c *Ctx, key string, elems []string) resp.Reply {
		return PushAll(c, key, elems, end, onlyThere)
	})
}

// pushWork is the work of putting an element at an end of a list.
const pushWork = 2 * value.VisitWork

// PushAll pushes one element after the other; with onlyThere, only to a list that
// is there. It answers how many there are then.
func PushAll(c *Ctx, key string, elems []string, end value.ListEnd, onlyThere bool) resp.Reply {
	l, err := LookupList(c, key)
	if err != nil || l == nil && onlyThere {
		return orZero(err)
	}
	n := 0
	editList(c, key, func(l *value.List) {
		for _, s := range elems {
			c.s.Meter.Spend(pushWork + value.CopyWork*int64(len(s)))
			l.Push(end, s)
		}
		n = l.Len()
	})
	c.Notify(emit.List, pushEvents[end], key)
	return resp.Int(int64(n))
}

// popCall is LPOP or RPOP: one element by itself, or as many as a count says, as an array.
type popCall struct {
	key   string
	end   value.ListEnd
	count arg.Count
}

func parsePop(end value.ListEnd) parser {
	return func(args resp.Args) (call, error) {
		if len(args) > 3 {
			return nil, wrongArity(popEvents[end])
		}
		count, err := arg.OptionalCount(args)
		if err != nil {
			return nil, err
		}
		return &popCall{args[1], end, count}, nil
	}
}

func (p *popCall) Run(c *Ctx) resp.Reply {
	absent := resp.Nil()
	if p.count.Given {
		absent = resp.NilArray()
	}
	l, err := LookupList(c, p.key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return absent
	case p.count.N == 0:
		return resp.Array()
	}
	popped := popEnd(c, p.key, l, p.end, p.count.N)
	if !p.count.Given && !popped.IsErr() {
		return popped.Elems[0]
	}
	return popped
}

// popEnd removes up to count elements, count > 0, at an end of the list at key and
// answers them, from the end inwards. If they are too many for a reply it changes
// nothing and answers so.
func popEnd(c *Ctx, key string, l *value.List, end value.ListEnd, count int64) resp.Reply {
	from, to := l.End(end, count)
	popped := listReplies(c, l, from, to, end)
	if popped.IsErr() {
		return popped
	}
	emptied := editList(c, key, func(l *value.List) { l.Cut(from, to) })
	notifyRemoved(c, emit.List, popEvents[end], key, emptied)
	return popped
}

// listReplies is an array of the elements of a range, the first at the given end.
func listReplies(c *Ctx, l *value.List, from, to int, first value.ListEnd) resp.Reply {
	if err := c.s.Meter.Listable(to - from); err != nil {
		return resp.Fail(err)
	}
	elems := []resp.Reply{}
	size := int64(0)
	take := func(s string) bool {
		elems = append(elems, resp.Bulk(s))
		size += elems[len(elems)-1].Size()
		return size <= meter.ReplyBytesMax && len(elems) < to-from
	}
	switch {
	case from == to:
	case first == value.LeftEnd:
		l.Ascend(from, take)
	default:
		l.Descend(to-1, take)
	}
	if size > meter.ReplyBytesMax {
		return resp.Err(meter.ErrReplyTooLarge)
	}
	return resp.Array(elems...)
}

func listLen(c *Ctx, key string) resp.Reply {
	l, err := LookupList(c, key)
	if err != nil || l == nil {
		return orZero(err)
	}
	return resp.Int(int64(l.Len()))
}

// spanCall is LRANGE or LTRIM key first last.
type spanCall struct {
	key         string
	first, last int64
	run         func(c *Ctx, key string, first, last int64) resp.Reply
}

func (s *spanCall) Run(c *Ctx) resp.Reply { return s.run(c, s.key, s.first, s.last) }

func parseLRange(args resp.Args) (call, error) { return newSpanCall(args, rangeOfList) }
func parseLTrim(args resp.Args) (call, error)  { return newSpanCall(args, trimList) }

func newSpanCall(args resp.Args, run func(c *Ctx, key string, first, last int64) resp.Reply) (call, error) {
	first, last, err := parseSpan(args)
	if err != nil {
		return nil, err
	}
	return &spanCall{args[1], first, last, run}, nil
}

func rangeOfList(c *Ctx, key string, first, last int64) resp.Reply {
	l, err := LookupList(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return resp.Array()
	}
	from, to := l.Span(first, last)
	return listReplies(c, l, from, to, value.LeftEnd)
}

// parseSpan reads the two indexes that follow the key.
func parseSpan(args resp.Args) (first, last int64, err error) {
	first, ok1 := resp.ParseInt(args[2])
	last, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		return 0, 0, resp.Error(resp.ErrNotInteger)
	}
	return first, last, nil
}

// listIndex judges the index after the key, as Redis does.
func listIndex(c *Ctx, key, index string) resp.Reply {
	l, err := LookupList(c, key)
	if err != nil || l == nil {
		return orNil(err)
	}
	i, ok := resp.ParseInt(index)
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	at, ok := l.Index(i)
	if !ok {
		return resp.Nil()
	}
	return resp.Bulk(l.Get(at))
}

// listSet runs LSET; words are the index, which it judges after the key, as Redis does, and the element.
func listSet(c *Ctx, key string, words []string) resp.Reply {
	index, elem := words[0], words[1]
	l, err := LookupList(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return resp.Err(resp.ErrNoSuchKey)
	}
	i, ok := resp.ParseInt(index)
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	at, ok := l.Index(i)
	if !ok {
		return resp.Err(resp.ErrIndexRange)
	}
	editList(c, key, func(l *value.List) { l.Set(at, strings.Clone(elem)) })
	c.Notify(emit.List, "lset", key)
	return resp.OK()
}

// The answers of LINSERT where nothing was inserted.
const (
	insertNoKey   = 0
	insertNoPivot = -1
)

// insertCall is LINSERT key BEFORE or AFTER pivot element.
type insertCall struct {
	key, pivot, elem string
	after            bool
}

func parseLInsert(args resp.Args) (call, error) {
	after := resp.Is(args[2], "AFTER")
	if !after && !resp.Is(args[2], "BEFORE") {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return &insertCall{args[1], args[3], args[4], after}, nil
}

func (r *insertCall) Run(c *Ctx) resp.Reply {
	key := r.key
	l, err := LookupList(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return resp.Int(insertNoKey)
	}
	at := -1
	searchList(c, l, value.LeftEnd, r.pivot, maxInt, func(i int) bool {
		at = i
		return false
	})
	switch {
	case c.s.Meter.Exceeded():
		return resp.Err(meter.ErrWork)
	case at < 0:
		return resp.Int(insertNoPivot)
	}
	if r.after {
		at++
	}
	n := 0
	editList(c, key, func(l *value.List) {
		l.Insert(at, strings.Clone(r.elem))
		n = l.Len()
	})
	c.Notify(emit.List, "linsert", key)
	return resp.Int(int64(n))
}

// searchList visits the positions of the elements that equal want, from an end on, until
// visit returns false. It looks at no more than most elements, and stops when the request has
// used up its work: the caller asks Meter.Exceeded.
func searchList(c *Ctx, l *value.List, from value.ListEnd, want string, most int64, visit func(at int) bool) {
	at, step, work := 0, 1, int64(0)
	if from == value.RightEnd {
		at, step = l.Len()-1, -1
	}
	look := func(s string) bool {
		work += value.VisitWork
		most--
		goOn := true
		if len(s) == len(want) {
			work += int64(len(s))
			goOn = s != want || visit(at)
		}
		at += step
		return goOn && most > 0 && c.s.Meter.HasRoom(work)
	}
	if from == value.RightEnd {
		l.Descend(at, look)
	} else {
		l.Ascend(at, look)
	}
	c.s.Meter.Spend(work)
}

// removeWork is the work of taking an element out of a list.
const removeWork = 4 * value.VisitWork

// removeCall is LREM key count element. It removes the first elements that equal one, or the last ones if the count is
// negative; all if it is 0.
type removeCall struct {
	key, elem string
	count     int64
}

func parseLRem(args resp.Args) (call, error) {
	count, ok := resp.ParseInt(args[2])
	if !ok {
		return nil, resp.Error(resp.ErrNotInteger)
	}
	return &removeCall{args[1], args[3], count}, nil
}

func (r *removeCall) Run(c *Ctx) resp.Reply {
	key := r.key
	l, err := LookupList(c, key)
	if err != nil || l == nil {
		return orZero(err)
	}
	found := positionsIn(c, l, r.elem, r.count)
	switch {
	case !c.s.Meter.Affords(removeWork * int64(len(found))):
		return resp.Err(meter.ErrWork)
	case len(found) == 0:
		return resp.Int(0)
	}
	emptied := editList(c, key, func(l *value.List) { l.Remove(found) })
	notifyRemoved(c, emit.List, "lrem", key, emptied)
	return resp.Int(int64(len(found)))
}

// positionsIn lists, from the last to the first, where elements equal want: the first
// count of them, the last -count, or all for 0.
func positionsIn(c *Ctx, l *value.List, want string, count int64) (found []int) {
	from := value.LeftEnd
	if count < 0 {
		from = value.RightEnd
	}
	searchList(c, l, from, want, maxInt, func(at int) bool {
		found = append(found, at)
		return count == 0 || int64(len(found)) != max(count, -count)
	})
	if from == value.LeftEnd {
		slices.Reverse(found)
	}
	return found
}

func trimList(c *Ctx, key string, first, last int64) resp.Reply {
	l, err := LookupList(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return resp.OK()
	}
	from, to := l.Span(first, last)
	emptied := editList(c, key, func(l *value.List) {
		l.Cut(to, l.Len())
		l.Cut(0, from)
	})
	notifyRemoved(c, emit.List, "ltrim", key, emptied)
	return resp.OK()
}

// posOptions has the options of LPOS.
type posOptions struct {
	rank    int64 // the match to begin with; a negative one counts from the end
	count   int64 // how many matches, 0 for all
	counted bool  // COUNT was given: the answer is an array
	maxLen  int64 // how many elements to look at
}

// posCall is LPOS key element with its options.
type posCall struct {
	key, elem string
	posOptions
}

func parseLPos(args resp.Args) (call, error) {
	o, err := parsePos(args[3:])
	if err != nil {
		return nil, err
	}
	return &posCall{args[1], args[2], o}, nil
}

func (r *posCall) Run(c *Ctx) resp.Reply {
	l, err := LookupList(c, r.key)
	if err != nil {
		return resp.Fail(err)
	}
	found, fits := []resp.Reply{}, true
	if l != nil {
		found, fits = matchesIn(c, l, r.elem, r.posOptions)
	}
	switch {
	case !fits:
		return resp.Err(meter.ErrReplyTooLarge)
	case c.s.Meter.Exceeded():
		return resp.Err(meter.ErrWork)
	case r.counted:
		return resp.Array(found...)
	case len(found) == 0:
		return resp.Nil()
	}
	return found[0]
}

// matchesIn lists where LPOS finds want, or reports false if a reply cannot hold it.
func matchesIn(c *Ctx, l *value.List, want string, o posOptions) (found []resp.Reply, ok bool) {
	from, skip := value.LeftEnd, o.rank-1
	if o.rank < 0 {
		from, skip = value.RightEnd, -o.rank-1
	}
	most := int64(meter.ReplyBytesMax) / resp.Int(0).Size()
	searchList(c, l, from, want, o.maxLen, func(at int) bool {
		if skip > 0 {
			skip--
			return true
		}
		found = append(found, resp.Int(int64(at)))
		return int64(len(found)) != o.count && int64(len(found)) <= most
	})
	return found, int64(len(found)) <= most
}

func parsePos(args resp.Args) (o posOptions, err error) {
	o = posOptions{rank: 1, count: 1, maxLen: maxInt}
	for i := 0; i < len(args); i += 2 {
		last := i+1 == len(args)
		switch {
		case !last && resp.Is(args[i], "RANK"):
			o.rank, err = parseRank(args[i+1])
		case !last && resp.Is(args[i], "COUNT"):
			o.count, err = arg.AtLeast(0, args[i+1], errCountNegative)
			o.counted = true
		case !last && resp.Is(args[i], "MAXLEN"):
			o.maxLen, err = arg.AtLeast(0, args[i+1], errMaxLenNegative)
			if o.maxLen == 0 {
				o.maxLen = maxInt
			}
		default:
			return o, resp.Error(resp.ErrSyntax)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func parseRank(number string) (rank int64, err error) {
	rank, ok := resp.ParseInt(number)
	switch {
	case !ok:
		return 0, resp.Error(resp.ErrNotInteger)
	case rank < -maxInt:
		return 0, resp.Error(arg.ErrCountRange)
	case rank == 0:
		return 0, resp.Error(errRankZero)
	}
	return rank, nil
}

// moveCall is LMOVE source target and the end of each.
type moveCall struct {
	source, target string
	from, to       value.ListEnd
}

func (r *moveCall) Run(c *Ctx) resp.Reply { return moveElement(c, r.source, r.target, r.from, r.to) }

func parseLMove(args resp.Args) (call, error) {
	from, ok1 := parseEnd(args[3])
	to, ok2 := parseEnd(args[4])
	if !ok1 || !ok2 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return &moveCall{args[1], args[2], from, to}, nil
}

func parseRPopLPush(args resp.Args) (call, error) {
	return &moveCall{args[1], args[2], value.RightEnd, value.LeftEnd}, nil
}

// parseEnd reads LEFT or RIGHT.
func parseEnd(word string) (value.ListEnd, bool) {
	if resp.Is(word, "RIGHT") {
		return value.RightEnd, true
	}
	return value.LeftEnd, resp.Is(word, "LEFT")
}

// moveElement takes an element from an end of one list to an end of another, which
// may be the same list: then it is never empty in between.
func moveElement(c *Ctx, source, target string, from, to value.ListEnd) resp.Reply {
	l, err := LookupList(c, source)
	if err != nil || l == nil {
		return orNil(err)
	}
	if _, err = LookupList(c, target); err != nil {
		return resp.Fail(err)
	}
	at, _ := l.End(from, 1)
	s, emptied := l.Get(at), false
	if source == target {
		editList(c, source, func(l *value.List) {
			l.Cut(at, at+1)
			l.Push(to, s)
		})
	} else {
		emptied = editList(c, source, func(l *value.List) { l.Cut(at, at+1) })
		editList(c, target, func(l *value.List) { l.Push(to, s) })
	}
	c.Notify(emit.List, pushEvents[to], target)
	notifyRemoved(c, emit.List, popEvents[from], source, emptied)
	return resp.Bulk(s)
}

// popFirstCall is LMPOP: it pops from the first of its keys that holds a list.
type popFirstCall struct{ arg.Pop }

func parseLMPop(args resp.Args) (call, error) {
	o, err := arg.ParsePop(args[1:], "LEFT", "RIGHT")
	if err != nil {
		return nil, err
	}
	return &popFirstCall{o}, nil
}

func (o *popFirstCall) Run(c *Ctx) resp.Reply {
	key, l, err := lookupFirst(c, o.Keys, LookupList)
	switch {
	case err != nil:
		return resp.Fail(err)
	case l == nil:
		return resp.NilArray()
	}
	popped := popEnd(c, key, l, value.ListEnd(o.End), o.Count)
	if popped.IsErr() {
		return popped
	}
	return resp.Array(resp.Bulk(key), popped)
}
