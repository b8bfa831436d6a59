package command

import (
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

var blockRows = []row{
	{Spec: resp.Spec{
		Name: "blpop", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking,
		Keys: allButLast, Access: "RW access delete",
		Group: "list", Since: "2.0.0",
		Summary: "Remove and get the first element in a list, or block until one is available",
		Syntax:  "key [key ...] timeout",
	}, Parse: parseBLPop},
	{Spec: resp.Spec{
		Name: "brpop", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking,
		Keys: allButLast, Access: "RW access delete",
		Group: "list", Since: "2.0.0",
		Summary: "Remove and get the last element in a list, or block until one is available",
		Syntax:  "key [key ...] timeout",
	}, Parse: parseBRPop},
	{Spec: resp.Spec{
		Name: "blmove", Arity: 6, Flags: resp.Write | resp.DenyOOM | resp.NoScript | resp.Blocking,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 RW insert",
		Group: "list", Since: "6.2.0",
		Summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
		Syntax:  "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
	}, Parse: parseBLMove},
	{Spec: resp.Spec{
		Name: "brpoplpush", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.NoScript | resp.Blocking,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 RW insert",
		Group: "list", Since: "2.2.0",
		Summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
		Syntax:  "source destination timeout",
	}, Parse: parseBRPopLPush},
	{Spec: resp.Spec{
		Name: "blmpop", Arity: -5, Flags: resp.Write | resp.Blocking | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 2}, Access: "RW access delete",
		Group: "list", Since: "7.0.0", Summary: "Pop elements from a list, or block until one is available",
		Syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
	}, Parse: parseBLMPop},
	{Spec: resp.Spec{
		Name: "bzpopmin", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking | resp.Fast,
		Keys: allButLast, Access: "RW access delete",
		Group: "sorted-set", Since: "5.0.0",
		Summary: "Remove and return the member with the lowest score from one or more sorted sets, or block until " +
			"one is available",
		Syntax: "key [key ...] timeout",
	}, Parse: parseBZPopMin},
	{Spec: resp.Spec{
		Name: "bzpopmax", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking | resp.Fast,
		Keys: allButLast, Access: "RW access delete",
		Group: "sorted-set", Since: "5.0.0",
		Summary: "Remove and return the member with the highest score from one or more sorted sets, or block until " +
			"one is available",
		Syntax: "key [key ...] timeout",
	}, Parse: parseBZPopMax},
	{Spec: resp.Spec{
		Name: "bzmpop", Arity: -5, Flags: resp.Write | resp.Blocking | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 2}, Access: "RW access delete",
		Group: "sorted-set", Since: "7.0.0",
		Summary: "Remove and return members with scores in a sorted set or block until one is available",
		Syntax:  "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
	}, Parse: parseBZMPop},
}

// allButLast finds the keys of commands that end with a timeout.
var allButLast = resp.Keys{First: 1, Last: -2, Step: 1}

const (
	errTimeoutFloat    = "ERR timeout is not a float or out of range"
	errTimeoutNegative = "ERR timeout is negative"
	errTimeoutRange    = "ERR timeout is out of range"
)

// parseTimeout parses seconds and rounds them up to milliseconds; 0 is for ever.
func parseTimeout(word string) (ms int64, err error) {
	seconds, ok := value.ParseLongDouble(word)
	if !ok {
		return 0, resp.Error(errTimeoutFloat)
	}
	if ms, ok = seconds.CeilThousand(); !ok {
		return 0, resp.Error(errTimeoutRange)
	}
	if ms < 0 {
		return 0, resp.Error(errTimeoutNegative)
	}
	return ms, nil
}

// withTimeout completes a parsed command with a timeout in seconds.
func withTimeout(word string, b *blocking) (call, error) {
	var err error
	if b.timeoutMs, err = parseTimeout(word); err != nil {
		return nil, err
	}
	return b, nil
}

func parseBLPop(args resp.Args) (call, error) { return parseBlockPop(args, value.LeftEnd) }
func parseBRPop(args resp.Args) (call, error) { return parseBlockPop(args, value.RightEnd) }

func parseBlockPop(args resp.Args, end value.ListEnd) (call, error) {
	return withTimeout(args[len(args)-1], &blocking{
		kind: value.ListKind, keys: args[1 : len(args)-1], absent: resp.NilArray,
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			u := reversePop(c, key, end)
			taken := popList(c, key, end, 1)
			if taken.IsErr() {
				return taken, nil
			}
			return resp.Array(resp.Bulk(key), taken.Elems[0]), popped(u, taken.Elems)
		},
	})
}

// popList pops from a key that holds a list.
func popList(c *Ctx, key string, end value.ListEnd, count int64) resp.Reply {
	l, _ := LookupList(c, key)
	return popEnd(c, key, l, end, count)
}

func parseBLMove(args resp.Args) (call, error) {
	from, ok1 := parseEnd(args[3])
	to, ok2 := parseEnd(args[4])
	if !ok1 || !ok2 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return parseBlockMove(args, from, to)
}

func parseBRPopLPush(args resp.Args) (call, error) {
	return parseBlockMove(args, value.RightEnd, value.LeftEnd)
}

func parseBlockMove(args resp.Args, from, to value.ListEnd) (call, error) {
	target := args[2]
	return withTimeout(args[len(args)-1], &blocking{
		kind: value.ListKind, keys: args[1:2], absent: resp.Nil,
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			u := reverseMove(c, key, target, from, to)
			moved := moveElement(c, key, target, from, to)
			if moved.IsErr() {
				return moved, nil
			}
			return moved, u
		},
	})
}

func parseBLMPop(args resp.Args) (call, error) {
	o, err := arg.ParsePop(args[2:], "LEFT", "RIGHT")
	if err != nil {
		return nil, err
	}
	return withTimeout(args[1], &blocking{
		kind: value.ListKind, keys: o.Keys, absent: resp.NilArray,
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			u := reversePop(c, key, value.ListEnd(o.End))
			taken := popList(c, key, value.ListEnd(o.End), o.Count)
			if taken.IsErr() {
				return taken, nil
			}
			return resp.Array(resp.Bulk(key), taken), popped(u, taken.Elems)
		},
	})
}

func parseBZPopMin(args resp.Args) (call, error) { return parseBlockPopScored(args, popMin) }
func parseBZPopMax(args resp.Args) (call, error) { return parseBlockPopScored(args, popMax) }

func parseBlockPopScored(args resp.Args, from popFrom) (call, error) {
	return withTimeout(args[len(args)-1], &blocking{
		kind: value.ZsetKind, keys: args[1 : len(args)-1], absent: resp.NilArray,
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			z, _ := LookupZset(c, key)
			u := reversePopScored(c, key)
			popped, err := popScored(c, key, z, from, 1)
			if err != nil {
				return resp.Fail(err), nil
			}
			return resp.Array(resp.Bulk(key), resp.Bulk(popped[0].Member), resp.Double(popped[0].Score)), scored(u, popped)
		},
	})
}

func parseBZMPop(args resp.Args) (call, error) {
	o, err := arg.ParsePop(args[2:], "MIN", "MAX")
	if err != nil {
		return nil, err
	}
	return withTimeout(args[1], &blocking{
		kind: value.ZsetKind, keys: o.Keys, absent: resp.NilArray,
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			z, _ := LookupZset(c, key)
			u := reversePopScored(c, key)
			popped, err := popScored(c, key, z, popEnds[o.End], o.Count)
			if err != nil {
				return resp.Fail(err), nil
			}
			return pairsReply(key, popped), scored(u, popped)
		},
	})
}

// The reversals of these commands.

// reversePop returns the reversal of a command that pops from an end of a list. It is called before that command runs,
// and completed with what that has popped.
func reversePop(c *Ctx, key string, end value.ListEnd) *wait.Reversal {
	return &wait.Reversal{Key: key, Until: c.Lookup(key).Deadline(), Cmds: []resp.Args{{pushEvents[end], key}}}
}

// popped completes a reversal with the elements that were popped, in their order: the first goes back last.
func popped(u *wait.Reversal, elems []resp.Reply) *wait.Reversal {
	for _, e := range slices.Backward(elems) {
		u.Cmds[0] = append(u.Cmds[0], e.Str)
	}
	return u
}

// reverseMove returns the reversal of a command that moves an element from an end of a list to an end of another:
// unless somebody has taken it from there, it goes back.
func reverseMove(c *Ctx, source, target string, from, to value.ListEnd) *wait.Reversal {
	l, _ := LookupList(c, source)
	at, _ := l.End(from, 1)
	elem, nearest := l.Get(at), "1"
	if to == value.RightEnd {
		nearest = "-1"
	}
	u := reversePop(c, source, from)
	u.Cmds = []resp.Args{{"lrem", target, nearest, elem}, {pushEvents[from], source, elem}}
	return u
}

// reversePopScored returns the reversal of a command that pops from a sorted set, to be completed by scored.
func reversePopScored(c *Ctx, key string) *wait.Reversal {
	return &wait.Reversal{Key: key, Until: c.Lookup(key).Deadline(), Cmds: []resp.Args{{"zadd", key, "NX"}}}
}

// scored completes a reversal with the members that were popped. One that was added again meanwhile keeps its new
// score.
func scored(u *wait.Reversal, popped []value.Scored) *wait.Reversal {
	for _, m := range popped {
		u.Cmds[0] = append(u.Cmds[0], resp.FormatDouble(m.Score), m.Member)
	}
	return u
}
