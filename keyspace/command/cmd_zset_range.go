package command

import (
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

var zsetRangeRows = []row{
	{Spec: resp.Spec{
		Name: "zrange", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "1.2.0", Summary: "Return a range of members in a sorted set",
		Syntax: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
	}, Parse: parseRange(zrange{})},
	{Spec: resp.Spec{
		Name: "zrevrange", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "1.2.0",
		Summary: "Return a range of members in a sorted set, by index, with scores ordered from high to low",
		Syntax:  "key start stop [WITHSCORES]",
	}, Parse: parseRange(zrange{by: byRank, directed: true, reverse: true})},
	{Spec: resp.Spec{
		Name: "zrangebyscore", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "1.0.5", Summary: "Return a range of members in a sorted set, by score",
		Syntax: "key min max [WITHSCORES] [LIMIT offset count]",
	}, Parse: parseRange(zrange{by: byScore, directed: true})},
	{Spec: resp.Spec{
		Name: "zrevrangebyscore", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.2.0",
		Summary: "Return a range of members in a sorted set, by score, with scores ordered from high to low",
		Syntax:  "key max min [WITHSCORES] [LIMIT offset count]",
	}, Parse: parseRange(zrange{by: byScore, directed: true, reverse: true})},
	{Spec: resp.Spec{
		Name: "zrangebylex", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.8.9",
		Summary: "Return a range of members in a sorted set, by lexicographical range",
		Syntax:  "key min max [LIMIT offset count]",
	}, Parse: parseRange(zrange{by: byLex, directed: true})},
	{Spec: resp.Spec{
		Name: "zrevrangebylex", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.8.9",
		Summary: "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower " +
			"strings.",
		Syntax: "key max min [LIMIT offset count]",
	}, Parse: parseRange(zrange{by: byLex, directed: true, reverse: true})},
	{Spec: resp.Spec{
		Name: "zrangestore", Arity: -5, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.TwoKeys, Access: "1 OW update; 2 RO access",
		Group: "sorted-set", Since: "6.2.0", Summary: "Store a range of members from sorted set into another key",
		Syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
	}, Parse: parseZRangeStore},
	{Spec: resp.Spec{
		Name: "zcount", Arity: 4, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Count the members in a sorted set with scores within the given values",
		Syntax:  "key min max",
	}, Parse: parseRangeCount(byScore)},
	{Spec: resp.Spec{
		Name: "zlexcount", Arity: 4, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "sorted-set", Since: "2.8.9",
		Summary: "Count the number of members in a sorted set between a given lexicographical range",
		Syntax:  "key min max",
	}, Parse: parseRangeCount(byLex)},
	{Spec: resp.Spec{
		Name: "zremrangebyrank", Arity: 4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "sorted-set", Since: "2.0.0", Summary: "Remove all members in a sorted set within the given indexes",
		Syntax: "key start stop",
	}, Parse: parseRangeRemoval(byRank, "zremrangebyrank")},
	{Spec: resp.Spec{
		Name: "zremrangebyscore", Arity: 4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "sorted-set", Since: "1.2.0", Summary: "Remove all members in a sorted set within the given scores",
		Syntax: "key min max",
	}, Parse: parseRangeRemoval(byScore, "zremrangebyscore")},
	{Spec: resp.Spec{
		Name: "zremrangebylex", Arity: 4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "sorted-set", Since: "2.8.9",
		Summary: "Remove all members in a sorted set between the given lexicographical range",
		Syntax:  "key min max",
	}, Parse: parseRangeRemoval(byLex, "zremrangebylex")},
}

// The error texts that only these commands use.
const (
	errScoreRange      = "ERR min or max is not a float"
	errLexRange        = "ERR min or max not valid string range item"
	errLimitByRank     = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	errWithScoresByLex = "ERR syntax error, WITHSCORES not supported in combination with BYLEX"
)

// rangeBy is a way to name the ends of a range.
type rangeBy struct {
	ranks, lex bool
	// read reads the ends, the lower one first.
	read func(low, high string) (find rangeFind, err error)
}

// rangeFind finds the members of a range: those of the ranks from <= rank < to.
type rangeFind func(z *value.Zset, reverse bool) (from, to int)

var (
	byRank  = &rangeBy{read: readRanks, ranks: true}
	byScore = &rangeBy{read: readScores}
	byLex   = &rangeBy{read: readMembers, lex: true}
)

func readRanks(start, stop string) (rangeFind, error) {
	first, ok1 := resp.ParseInt(start)
	last, ok2 := resp.ParseInt(stop)
	if !ok1 || !ok2 {
		return nil, resp.Error(resp.ErrNotInteger)
	}
	return func(z *value.Zset, reverse bool) (from, to int) {
		n, end := int64(z.Len()), last
		if end < 0 {
			end += n
		}
		from, to = int(arg.FromEnd(first, n)), int(min(end, n-1)+1)
		switch {
		case from >= to:
			return 0, 0
		case reverse:
			return int(n) - to, int(n) - from
		}
		return from, to
	}, nil
}

func readScores(low, high string) (rangeFind, error) {
	first, ok1 := value.ParseScoreBound(low)
	last, ok2 := value.ParseScoreBound(high)
	if !ok1 || !ok2 {
		return nil, resp.Error(errScoreRange)
	}
	return between(first.Begins, last.Ends), nil
}

func readMembers(low, high string) (rangeFind, error) {
	first, ok1 := value.ParseLexBound(low)
	last, ok2 := value.ParseLexBound(high)
	if !ok1 || !ok2 {
		return nil, resp.Error(errLexRange)
	}
	return between(first.Begins, last.Ends), nil
}

func between(begins, ends func(m value.Scored) bool) rangeFind {
	return func(z *value.Zset, _ bool) (from, to int) {
		from = z.Search(begins)
		return from, max(from, z.Search(ends))
	}
}

// zrange has what a command asks of a range: the members between two ends, in their
// order or against it, and of those the ones that LIMIT leaves.
type zrange struct {
	by         *rangeBy // nil: what the options say
	directed   bool     // the options do not say the direction
	reverse    bool
	store      bool
	withScores bool
	offset     int64
	limit      int64 // negative: none
	find       rangeFind
}

// parse reads the ends and the options that follow them, in the order of Redis's
// checks.
func (q *zrange) parse(args resp.Args) (err error) {
	q.limit = -1
	if err = q.parseOptions(args[2:]); err != nil {
		return err
	}
	if q.by == nil {
		q.by = byRank
	}
	switch {
	case q.limit != -1 && q.by.ranks:
		return resp.Error(errLimitByRank)
	case q.withScores && q.by.lex:
		return resp.Error(errWithScoresByLex)
	}
	low, high := args[0], args[1]
	if q.reverse && !q.by.ranks {
		low, high = high, low
	}
	q.find, err = q.by.read(low, high)
	return err
}

func (q *zrange) parseOptions(words resp.Args) (err error) {
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case !q.store && resp.Is(word, "WITHSCORES"):
			q.withScores = true
		case resp.Is(word, "LIMIT") && i+2 < len(words):
			var ok1, ok2 bool
			q.offset, ok1 = resp.ParseInt(words[i+1])
			q.limit, ok2 = resp.ParseInt(words[i+2])
			if !ok1 || !ok2 {
				return resp.Error(resp.ErrNotInteger)
			}
			i += 2
		case !q.directed && resp.Is(word, "REV"):
			q.reverse, q.directed = true, true
		case q.by == nil && resp.Is(word, "BYLEX"):
			q.by = byLex
		case q.by == nil && resp.Is(word, "BYSCORE"):
			q.by = byScore
		default:
			return resp.Error(resp.ErrSyntax)
		}
	}
	return nil
}

// ranks finds what the range is in z: the ranks from <= rank < to. An offset counts
// in the direction of the range; a negative one is beyond everything.
func (q *zrange) ranks(z *value.Zset) (from, to int) {
	from, to = q.find(z, q.reverse)
	n := int64(to - from)
	if q.by.ranks {
		return from, to
	}
	if q.offset < 0 || q.offset >= n {
		return 0, 0
	}
	count := n - q.offset
	if q.limit >= 0 {
		count = min(count, q.limit)
	}
	if q.reverse {
		to -= int(q.offset)
		return to - int(count), to
	}
	from += int(q.offset)
	return from, from + int(count)
}

// rangeCall is ZRANGE, or an older command for one kind of range, or the part of ZRANGESTORE that reads.
type rangeCall struct {
	key       string // the sorted set
	low, high string // the ends as written
	zrange
}

// newRangeCall reads a key, the ends of a range in it, and options.
func newRangeCall(args resp.Args, q zrange) (rangeCall, error) {
	r := rangeCall{args[0], args[1], args[2], q}
	err := r.parse(args[1:])
	return r, err
}

func parseRange(q zrange) parser {
	return func(args resp.Args) (call, error) {
		r, err := newRangeCall(args[1:], q)
		if err != nil {
			return nil, err
		}
		return &r, nil
	}
}

func (q *rangeCall) Run(c *Ctx) resp.Reply {
	z, err := LookupZset(c, q.key)
	if err != nil {
		return resp.Fail(err)
	}
	if z == nil {
		return resp.Array()
	}
	c.s.Meter.Spend(value.RangeWork(z, q.low, q.high))
	from, to := q.ranks(z)
	if err := c.s.Meter.Listable(to - from); err != nil {
		return resp.Fail(err)
	}
	members := z.Members(from, to)
	if q.reverse {
		slices.Reverse(members)
	}
	items := memberReplies(members, q.withScores)
	if q.withScores {
		return resp.Pairs(items...)
	}
	return resp.Array(items...)
}

// rangeStoreCall is ZRANGESTORE.
type rangeStoreCall struct {
	to string
	rangeCall
}

func parseZRangeStore(args resp.Args) (call, error) {
	r, err := newRangeCall(args[2:], zrange{store: true})
	if err != nil {
		return nil, err
	}
	return &rangeStoreCall{args[1], r}, nil
}

func (q *rangeStoreCall) Run(c *Ctx) resp.Reply {
	z, err := LookupZset(c, q.key)
	if err != nil {
		return resp.Fail(err)
	}
	var members []value.Scored
	if z != nil {
		c.s.Meter.Spend(value.RangeWork(z, q.low, q.high))
		from, to := q.ranks(z)
		if !c.s.Meter.Affords(value.VisitWork * int64(to-from)) {
			return resp.Err(meter.ErrWork)
		}
		members = z.Members(from, to)
	}
	return storeScored(c, q.to, members, "zrangestore")
}

// storeScored makes members, which are in order and alias nothing, the sorted set at
// key; where there are none, key is deleted.
func storeScored(c *Ctx, key string, members []value.Scored, event string) resp.Reply {
	if len(members) == 0 {
		if c.delete(key) {
			c.Notify(emit.Generic, "del", key)
		}
		return resp.Int(0)
	}
	if value.BytesOf(members, value.ScoredOverheadBytes) > meter.GrowthBytesMax {
		return resp.Err(meter.ErrGrowth)
	}
	if !c.s.Meter.Affords(value.GrowScoredWork(value.NewZset(c.s.Keys.Generation), members)) {
		return resp.Err(meter.ErrWork)
	}
	z := value.NewZsetOf(c.s.Keys.Generation, c.s.Settings.Zsets, members)
	c.putUntil(key, value.OfAggregate(z), store.Never)
	c.Notify(emit.Zset, event, key)
	return resp.Int(int64(len(members)))
}

// rangeOf is a range that has no options, in the sorted set at key.
type rangeOf struct {
	key       string
	low, high string // the ends as written
	find      rangeFind
}

func parseRangeOf(args resp.Args, by *rangeBy) (rangeOf, error) {
	find, err := by.read(args[2], args[3])
	return rangeOf{args[1], args[2], args[3], find}, err
}

// rangeCountCall is ZCOUNT or ZLEXCOUNT.
type rangeCountCall struct{ rangeOf }

func parseRangeCount(by *rangeBy) parser {
	return func(args resp.Args) (call, error) {
		of, err := parseRangeOf(args, by)
		if err != nil {
			return nil, err
		}
		return &rangeCountCall{of}, nil
	}
}

func (r *rangeCountCall) Run(c *Ctx) resp.Reply {
	z, err := LookupZset(c, r.key)
	if err != nil || z == nil {
		return orZero(err)
	}
	c.s.Meter.Spend(value.RangeWork(z, r.low, r.high))
	from, to := r.find(z, false)
	return resp.Int(int64(to - from))
}

// rangeRemovalCall is ZREMRANGEBYRANK, ZREMRANGEBYSCORE or ZREMRANGEBYLEX.
type rangeRemovalCall struct {
	rangeOf
	event string
}

func parseRangeRemoval(by *rangeBy, event string) parser {
	return func(args resp.Args) (call, error) {
		of, err := parseRangeOf(args, by)
		if err != nil {
			return nil, err
		}
		return &rangeRemovalCall{of, event}, nil
	}
}

func (r *rangeRemovalCall) Run(c *Ctx) resp.Reply {
	z, err := LookupZset(c, r.key)
	if err != nil || z == nil {
		return orZero(err)
	}
	c.s.Meter.Spend(value.RangeWork(z, r.low, r.high))
	from, to := r.find(z, false)
	if from == to {
		return resp.Int(0)
	}
	if !c.s.Meter.Affords(value.VisitWork * int64(to-from)) {
		return resp.Err(meter.ErrWork)
	}
	members := z.Members(from, to)
	if !c.s.Meter.Affords(value.EditAllWork(z, members)) {
		return resp.Err(meter.ErrWork)
	}
	removeScored(c, r.key, members, r.event)
	return resp.Int(int64(to - from))
}
