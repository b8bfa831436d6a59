package command

import (
	"lockd/keyspace/algebra"
	"lockd/keyspace/arg"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

// keysToStore finds the keys of ZUNIONSTORE, ZINTERSTORE and ZDIFFSTORE: the result, a count, the sources.
var keysToStore = resp.Keys{First: 1, Last: 1, Step: 1, NumAt: 2}

var zsetOpRows = []row{
	{Spec: resp.Spec{
		Name: "zunion", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Add multiple sorted sets",
		Syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
	}, Parse: parseZsetOp(zsetOpArgs{command: "zunion", weights: true, scores: true}, (*algebra.Zsets).Union)},
	{Spec: resp.Spec{
		Name: "zinter", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Intersect multiple sorted sets",
		Syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
	}, Parse: parseZsetOp(zsetOpArgs{command: "zinter", weights: true, scores: true}, (*algebra.Zsets).Inter)},
	{Spec: resp.Spec{
		Name: "zdiff", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Subtract multiple sorted sets",
		Syntax: "numkeys key [key ...] [WITHSCORES]",
	}, Parse: parseZsetOp(zsetOpArgs{command: "zdiff", scores: true}, (*algebra.Zsets).Diff)},
	{Spec: resp.Spec{
		Name: "zunionstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Add multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
	}, Parse: parseZsetStore(zsetOpArgs{command: "zunionstore", weights: true}, (*algebra.Zsets).Union)},
	{Spec: resp.Spec{
		Name: "zinterstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Intersect multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
	}, Parse: parseZsetStore(zsetOpArgs{command: "zinterstore", weights: true}, (*algebra.Zsets).Inter)},
	{Spec: resp.Spec{
		Name: "zdiffstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "6.2.0",
		Summary: "Subtract multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...]",
	}, Parse: parseZsetStore(zsetOpArgs{command: "zdiffstore"}, (*algebra.Zsets).Diff)},
	{Spec: resp.Spec{
		Name: "zintercard", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "7.0.0",
		Summary: "Intersect multiple sorted sets and return the cardinality of the result",
		Syntax:  "numkeys key [key ...] [LIMIT limit]",
	}, Parse: parseZInterCard},
}

const errWeight = "ERR weight value is not a float"

// zsetOpArgs has the arguments of an operation from numkeys on, and what may be among
// them.
type zsetOpArgs struct {
	command    string
	weights    bool // WEIGHTS and AGGREGATE may be
	scores     bool // WITHSCORES may be
	card       bool // LIMIT may be
	withScores bool
	limit      int64 // 0: none
}

var (
	roomToStore = algebra.ScoredRoom{
		OverheadBytes: value.ScoredOverheadBytes, Max: meter.GrowthBytesMax, Err: resp.Error(meter.ErrGrowth),
	}
	roomToAnswer = algebra.ScoredRoom{
		OverheadBytes: meter.MemberReplyBytes, Max: meter.ReplyBytesMax, Err: resp.Error(meter.ErrReplyTooLarge),
	}
	roomToAnswerScores = algebra.ScoredRoom{
		OverheadBytes: meter.ScoredReplyBytes, Max: meter.ReplyBytesMax, Err: resp.Error(meter.ErrReplyTooLarge),
	}
)

// zsetOp has the arguments of an operation. Run judges the options, once it has found the sources, as Redis does.
type zsetOp struct {
	zsetOpArgs
	keys    []string
	options resp.Args
}

// newZsetOp reads numkeys and the sources.
func newZsetOp(args resp.Args, a zsetOpArgs) (zsetOp, error) {
	n, isInt := resp.ParseInt(args[0])
	switch {
	case !isInt:
		return zsetOp{}, resp.Error(resp.ErrNotInteger)
	case n < 1:
		return zsetOp{}, resp.Error("ERR at least 1 input key is needed for '" + a.command + "' command")
	case n > int64(len(args)-1):
		return zsetOp{}, resp.Error(resp.ErrSyntax)
	}
	return zsetOp{a, args[1 : 1+n], args[1+n:]}, nil
}

// zsetOpCall is ZUNION, ZINTER or ZDIFF.
type zsetOpCall struct {
	zsetOp
	run func(op *algebra.Zsets)
}

func parseZsetOp(a zsetOpArgs, run func(op *algebra.Zsets)) parser {
	return func(args resp.Args) (call, error) {
		o, err := newZsetOp(args[1:], a)
		if err != nil {
			return nil, err
		}
		return &zsetOpCall{o, run}, nil
	}
}

func (r *zsetOpCall) Run(c *Ctx) resp.Reply {
	a := &r.zsetOp
	op, err := findSources(c, a)
	if err != nil {
		return resp.Fail(err)
	}
	op.Room = roomToAnswer
	if a.withScores {
		op.Room = roomToAnswerScores
	}
	if r.run(op); op.Err != nil {
		return resp.Fail(op.Err)
	}
	items := memberReplies(op.Result, a.withScores)
	if a.withScores {
		return resp.Pairs(items...)
	}
	return resp.Array(items...)
}

// zsetStoreCall is ZUNIONSTORE, ZINTERSTORE or ZDIFFSTORE. It stores the result, with an event of its own name.
type zsetStoreCall struct {
	to string
	zsetOpCall
}

func parseZsetStore(a zsetOpArgs, run func(op *algebra.Zsets)) parser {
	return func(args resp.Args) (call, error) {
		o, err := newZsetOp(args[2:], a)
		if err != nil {
			return nil, err
		}
		return &zsetStoreCall{args[1], zsetOpCall{o, run}}, nil
	}
}

func (r *zsetStoreCall) Run(c *Ctx) resp.Reply {
	op, err := findSources(c, &r.zsetOp)
	if err != nil {
		return resp.Fail(err)
	}
	op.Room = roomToStore
	if r.run(op); op.Err != nil {
		return resp.Fail(op.Err)
	}
	return storeScored(c, r.to, op.Result, r.command)
}

// zsetCardCall is ZINTERCARD.
type zsetCardCall struct{ zsetOp }

func parseZInterCard(args resp.Args) (call, error) {
	o, err := newZsetOp(args[1:], zsetOpArgs{command: "zintercard", card: true})
	if err != nil {
		return nil, err
	}
	return &zsetCardCall{o}, nil
}

func (r *zsetCardCall) Run(c *Ctx) resp.Reply {
	a := &r.zsetOp
	op, err := findSources(c, a)
	if err != nil {
		return resp.Fail(err)
	}
	n := int64(0)
	op.Common(func(value.Scored) bool {
		n++
		return n != a.limit
	})
	if op.Err != nil {
		return resp.Fail(op.Err)
	}
	return resp.Int(n)
}

// lookupScores finds a key that must hold a sorted set or a set; one that is absent
// is an empty sorted set.
func lookupScores(c *Ctx, key string) (s algebra.Scores, err error) {
	e := c.Lookup(key)
	if e == nil {
		return value.NewZset(c.s.Keys.Generation), nil
	}
	switch agg := e.Aggregate().(type) {
	case *value.Zset:
		return agg, nil
	case *value.Set:
		return algebra.OfSet(agg), nil
	}
	return nil, resp.Error(resp.ErrWrongType)
}

// findSources finds the sources, and then reads the options, in the order of Redis's checks.
func findSources(c *Ctx, a *zsetOp) (op *algebra.Zsets, err error) {
	op = algebra.NewZsets(int64(len(a.keys)), c.s.Meter.Pay)
	for i, key := range a.keys {
		s, err := lookupScores(c, key)
		if err != nil {
			return nil, err
		}
		op.Sources[i] = algebra.Weighted{Scores: s, Weight: 1}
		if c.s.Meter.Exceeded() {
			return nil, resp.Error(meter.ErrWork)
		}
	}
	for rest := a.options; len(rest) > 0; {
		if rest, err = a.option(op, rest); err != nil {
			return nil, err
		}
	}
	return op, nil
}

// option reads one option and returns what follows it.
func (a *zsetOpArgs) option(op *algebra.Zsets, words resp.Args) (rest resp.Args, err error) {
	switch word := words[0]; {
	case a.weights && resp.Is(word, "WEIGHTS") && len(words) > len(op.Sources):
		for i := range op.Sources {
			weight, ok := value.ParseScore(words[1+i])
			if !ok {
				return nil, resp.Error(errWeight)
			}
			op.Sources[i].Weight = weight
		}
		return words[1+len(op.Sources):], nil
	case a.weights && resp.Is(word, "AGGREGATE") && len(words) > 1:
		if op.Combine = combiner(words[1]); op.Combine == nil {
			return nil, resp.Error(resp.ErrSyntax)
		}
		return words[2:], nil
	case a.scores && resp.Is(word, "WITHSCORES"):
		a.withScores = true
		return words[1:], nil
	case a.card && resp.Is(word, "LIMIT") && len(words) > 1:
		n, ok := resp.ParseInt(words[1])
		if !ok || n < 0 {
			return nil, resp.Error(arg.ErrLimitNegative)
		}
		a.limit = n
		return words[2:], nil
	}
	return nil, resp.Error(resp.ErrSyntax)
}

// combiner returns the function that AGGREGATE names; nil where there is none.
func combiner(word string) func(a, b float64) float64 {
	switch {
	case resp.Is(word, "SUM"):
		return algebra.Sum
	case resp.Is(word, "MIN"):
		return algebra.Min
	case resp.Is(word, "MAX"):
		return algebra.Max
	}
	return nil
}
