package keyspace

import (
	"lockd/keyspace/algebra"
	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// keysToStore are those of ZUNIONSTORE and its like: the result, a count, the sources.
var keysToStore = resp.Keys{First: 1, Last: 1, Step: 1, NumAt: 2}

var zsetOpRows = []row{
	{Spec: resp.Spec{
		Name: "zunion", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Add multiple sorted sets",
		Syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
	}, Run: cmdZUnion},
	{Spec: resp.Spec{
		Name: "zinter", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Intersect multiple sorted sets",
		Syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
	}, Run: cmdZInter},
	{Spec: resp.Spec{
		Name: "zdiff", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "6.2.0", Summary: "Subtract multiple sorted sets",
		Syntax: "numkeys key [key ...] [WITHSCORES]",
	}, Run: cmdZDiff},
	{Spec: resp.Spec{
		Name: "zunionstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Add multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
	}, Run: cmdZUnionStore},
	{Spec: resp.Spec{
		Name: "zinterstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "2.0.0",
		Summary: "Intersect multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
	}, Run: cmdZInterStore},
	{Spec: resp.Spec{
		Name: "zdiffstore", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: keysToStore,
		Group: "sorted-set", Since: "6.2.0",
		Summary: "Subtract multiple sorted sets and store the resulting sorted set in a new key",
		Syntax:  "destination numkeys key [key ...]",
	}, Run: cmdZDiffStore},
	{Spec: resp.Spec{
		Name: "zintercard", Arity: -3, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.Keys{NumAt: 1},
		Group: "sorted-set", Since: "7.0.0",
		Summary: "Intersect multiple sorted sets and return the cardinality of the result",
		Syntax:  "numkeys key [key ...] [LIMIT limit]",
	}, Run: cmdZInterCard},
}

const errWeight = "ERR weight value is not a float"

// zsetOpArgs are the arguments of an operation from numkeys on, and what may be among
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
		OverheadBytes: value.ScoredOverheadBytes, Max: growthBytesMax, Err: resp.Error(errGrowthMeter),
	}
	roomToAnswer = algebra.ScoredRoom{
		OverheadBytes: memberReplyBytes, Max: replyBytesMax, Err: resp.Error(errReplyTooLarge),
	}
	roomToAnswerScores = algebra.ScoredRoom{
		OverheadBytes: scoredReplyBytes, Max: replyBytesMax, Err: resp.Error(errReplyTooLarge),
	}
)

func cmdZUnion(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpReply(args, zsetOpArgs{command: "zunion", weights: true, scores: true}, (*algebra.Zsets).Union)
}

func cmdZInter(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpReply(args, zsetOpArgs{command: "zinter", weights: true, scores: true}, (*algebra.Zsets).Inter)
}

func cmdZDiff(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpReply(args, zsetOpArgs{command: "zdiff", scores: true}, (*algebra.Zsets).Diff)
}

func (c *ctx) zsetOpReply(args resp.Args, a zsetOpArgs, run func(op *algebra.Zsets)) resp.Reply {
	op, err := c.parseZsetOp(args[1:], &a)
	if err != nil {
		return resp.Fail(err)
	}
	op.Room = roomToAnswer
	if a.withScores {
		op.Room = roomToAnswerScores
	}
	if run(op); op.Err != nil {
		return resp.Fail(op.Err)
	}
	items := memberReplies(op.Result, a.withScores)
	if a.withScores {
		return resp.Pairs(items...)
	}
	return resp.Array(items...)
}

func cmdZUnionStore(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpStore(args, zsetOpArgs{command: "zunionstore", weights: true}, (*algebra.Zsets).Union)
}

func cmdZInterStore(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpStore(args, zsetOpArgs{command: "zinterstore", weights: true}, (*algebra.Zsets).Inter)
}

func cmdZDiffStore(c *ctx, args resp.Args) resp.Reply {
	return c.zsetOpStore(args, zsetOpArgs{command: "zdiffstore"}, (*algebra.Zsets).Diff)
}

// zsetOpStore stores the result; its event has the name of the command.
func (c *ctx) zsetOpStore(args resp.Args, a zsetOpArgs, run func(op *algebra.Zsets)) resp.Reply {
	op, err := c.parseZsetOp(args[2:], &a)
	if err != nil {
		return resp.Fail(err)
	}
	op.Room = roomToStore
	if run(op); op.Err != nil {
		return resp.Fail(op.Err)
	}
	return c.storeScored(args[1], op.Result, a.command)
}

func cmdZInterCard(c *ctx, args resp.Args) resp.Reply {
	a := zsetOpArgs{command: "zintercard", card: true}
	op, err := c.parseZsetOp(args[1:], &a)
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
func (c *ctx) lookupScores(key string) (s algebra.Scores, err error) {
	e := c.lookup(key)
	if e == nil {
		return value.NewZset(c.m.generation), nil
	}
	switch agg := e.agg().(type) {
	case *value.Zset:
		return agg, nil
	case *value.Set:
		return algebra.OfSet(agg), nil
	}
	return nil, resp.Error(resp.ErrWrongType)
}

// parseZsetOp reads numkeys, the sources and the options, in the order of Redis's
// checks.
func (c *ctx) parseZsetOp(args resp.Args, a *zsetOpArgs) (op *algebra.Zsets, err error) {
	n, isInt := resp.ParseInt(args[0])
	switch {
	case !isInt:
		return nil, resp.Error(resp.ErrNotInteger)
	case n < 1:
		return nil, resp.Error("ERR at least 1 input key is needed for '" + a.command + "' command")
	case n > int64(len(args)-1):
		return nil, resp.Error(resp.ErrSyntax)
	}
	op = algebra.NewZsets(n, c.m.pay)
	for i, key := range args[1 : 1+n] {
		s, err := c.lookupScores(key)
		if err != nil {
			return nil, err
		}
		op.Sources[i] = algebra.Weighted{Scores: s, Weight: 1}
		if c.m.overBudget() {
			return nil, resp.Error(errWorkMeter)
		}
	}
	for rest := args[1+n:]; len(rest) > 0; {
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

// combiner is the function that AGGREGATE names; nil where there is none.
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
