package keyspace

import (
	"math/big"
	"strconv"
	"strings"

	"lockd/resp"
)

const internalBlock = resp.Write | resp.NoScript | resp.Internal

var blockRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "blpop", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking, Keys: allButLast,
		Group: "list", Since: "2.0.0", Summary: "Remove and get the first element in a list, or block until one is available",
		Syntax: "key [key ...] timeout",
	}, Run: cmdBLPop},
	{Spec: resp.Spec{
		Name: "brpop", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking, Keys: allButLast,
		Group: "list", Since: "2.0.0", Summary: "Remove and get the last element in a list, or block until one is available",
		Syntax: "key [key ...] timeout",
	}, Run: cmdBRPop},
	{Spec: resp.Spec{
		Name: "blmove", Arity: 6, Flags: resp.Write | resp.DenyOOM | resp.NoScript | resp.Blocking, Keys: resp.TwoKeys,
		Group: "list", Since: "6.2.0", Summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
		Syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
	}, Run: cmdBLMove},
	{Spec: resp.Spec{
		Name: "brpoplpush", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.NoScript | resp.Blocking, Keys: resp.TwoKeys,
		Group: "list", Since: "2.2.0", Summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
		Syntax: "source destination timeout",
	}, Run: cmdBRPopLPush},
	{Spec: resp.Spec{
		Name: "blmpop", Arity: -5, Flags: resp.Write | resp.Blocking | resp.MovableKeys, Keys: resp.Keys{NumAt: 2},
		Group: "list", Since: "7.0.0", Summary: "Pop elements from a list, or block until one is available",
		Syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
	}, Run: cmdBLMPop},
	{Spec: resp.Spec{
		Name: "bzpopmin", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking | resp.Fast, Keys: allButLast,
		Group: "sorted-set", Since: "5.0.0", Summary: "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available",
		Syntax: "key [key ...] timeout",
	}, Run: cmdBZPopMin},
	{Spec: resp.Spec{
		Name: "bzpopmax", Arity: -3, Flags: resp.Write | resp.NoScript | resp.Blocking | resp.Fast, Keys: allButLast,
		Group: "sorted-set", Since: "5.0.0", Summary: "Remove and return the member with the highest score from one or more sorted sets, or block until one is available",
		Syntax: "key [key ...] timeout",
	}, Run: cmdBZPopMax},
	{Spec: resp.Spec{
		Name: "bzmpop", Arity: -5, Flags: resp.Write | resp.Blocking | resp.MovableKeys, Keys: resp.Keys{NumAt: 2},
		Group: "sorted-set", Since: "7.0.0", Summary: "Remove and return members with scores in a sorted set or block until one is available",
		Syntax: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
	}, Run: cmdBZMPop},
	{Spec: resp.Spec{
		Name: "block", Arity: -2, Flags: resp.Internal, Group: "lockd", Since: "1.0.0",
		Summary: "What nodes say of blocking commands; see resp.BlockAsk",
	}, Subs: []resp.Row[command]{
		blockRow("open", 2, "Open a session", cmdBlockOpen),
		blockRow("ask", -6, "Execute a blocking command, or let it wait", cmdBlockAsk),
		blockRow("cancel", 4, "End the wait of a command", cmdBlockCancel),
		blockRow("keep", -2, "Prolong sessions", cmdBlockKeep),
		blockRow("close", -2, "End sessions", cmdBlockClose),
	}},
}

// allButLast are the keys of commands that end with a timeout.
var allButLast = resp.Keys{First: 1, Last: -2, Step: 1}

func blockRow(word string, arity int, summary string, run command) resp.Row[command] {
	return resp.Row[command]{Spec: resp.Spec{
		Name: "block|" + word, Arity: arity, Flags: internalBlock, Group: "lockd", Since: "1.0.0", Summary: summary,
	}, Run: run}
}

const (
	errTimeoutFloat    = "ERR timeout is not a float or out of range"
	errTimeoutNegative = "ERR timeout is negative"
	errTimeoutRange    = "ERR timeout is out of range"
)

// parseTimeout reads seconds and rounds them up to milliseconds; 0 is for ever.
func (c *ctx) parseTimeout(word string) (ms int64, fail resp.Reply, ok bool) {
	seconds, ok := parseLongDouble(word)
	if !ok {
		return 0, resp.Err(errTimeoutFloat), false
	}
	exact := new(big.Float).SetPrec(longDoubleBits).Mul(seconds.f, big.NewFloat(1000))
	ms, accuracy := exact.Int64() // towards zero
	switch {
	case accuracy == big.Below && ms == maxInt:
		return 0, resp.Err(errTimeoutRange), false
	case accuracy == big.Below:
		ms++
	}
	if ms < 0 {
		return 0, resp.Err(errTimeoutNegative), false
	}
	if _, ok := c.after(ms); !ok {
		return 0, resp.Err(errTimeoutRange), false
	}
	return ms, resp.Reply{}, true
}

func cmdBLPop(c *ctx, args resp.Args) resp.Reply { return c.blockPop(args, leftEnd) }
func cmdBRPop(c *ctx, args resp.Args) resp.Reply { return c.blockPop(args, rightEnd) }

func (c *ctx) blockPop(args resp.Args, end listEnd) resp.Reply {
	timeoutMs, fail, ok := c.parseTimeout(args[len(args)-1])
	if !ok {
		return fail
	}
	return c.await(pending{
		kind: listKind, keys: args[1 : len(args)-1], timeoutMs: timeoutMs, absent: resp.NilArray(),
		take: func(c *ctx, key string) resp.Reply {
			popped := c.popList(key, end, 1)
			if popped.IsErr() {
				return popped
			}
			return resp.Array(resp.Bulk(key), popped.Elems[0])
		},
	})
}

// popList pops from a key that holds a list.
func (c *ctx) popList(key string, end listEnd, count int64) resp.Reply {
	l, _, _ := c.lookupList(key)
	return c.pop(key, l, end, count)
}

func cmdBLMove(c *ctx, args resp.Args) resp.Reply {
	from, ok1 := parseEnd(args[3])
	to, ok2 := parseEnd(args[4])
	if !ok1 || !ok2 {
		return resp.Err(resp.ErrSyntax)
	}
	return c.blockMove(args, from, to)
}

func cmdBRPopLPush(c *ctx, args resp.Args) resp.Reply { return c.blockMove(args, rightEnd, leftEnd) }

func (c *ctx) blockMove(args resp.Args, from, to listEnd) resp.Reply {
	timeoutMs, fail, ok := c.parseTimeout(args[len(args)-1])
	if !ok {
		return fail
	}
	target := args[2]
	return c.await(pending{
		kind: listKind, keys: args[1:2], timeoutMs: timeoutMs, absent: resp.Nil(),
		take: func(c *ctx, key string) resp.Reply { return c.moveElement(key, target, from, to) },
	})
}

func cmdBLMPop(c *ctx, args resp.Args) resp.Reply {
	keys, end, count, fail, ok := parseMPop(args[2:])
	if !ok {
		return fail
	}
	timeoutMs, fail, ok := c.parseTimeout(args[1])
	if !ok {
		return fail
	}
	return c.await(pending{
		kind: listKind, keys: keys, timeoutMs: timeoutMs, absent: resp.NilArray(),
		take: func(c *ctx, key string) resp.Reply {
			popped := c.popList(key, end, count)
			if popped.IsErr() {
				return popped
			}
			return resp.Array(resp.Bulk(key), popped)
		},
	})
}

func cmdBZPopMin(c *ctx, args resp.Args) resp.Reply { return c.blockPopScored(args, popMin) }
func cmdBZPopMax(c *ctx, args resp.Args) resp.Reply { return c.blockPopScored(args, popMax) }

func (c *ctx) blockPopScored(args resp.Args, from popFrom) resp.Reply {
	timeoutMs, fail, ok := c.parseTimeout(args[len(args)-1])
	if !ok {
		return fail
	}
	return c.await(pending{
		kind: zsetKind, keys: args[1 : len(args)-1], timeoutMs: timeoutMs, absent: resp.NilArray(),
		take: func(c *ctx, key string) resp.Reply {
			z, _, _ := c.lookupZset(key)
			popped, fail, ok := c.popScored(key, z, from, 1)
			if !ok {
				return fail
			}
			return resp.Array(resp.Bulk(key), resp.Bulk(popped[0].member), resp.Double(popped[0].score))
		},
	})
}

func cmdBZMPop(c *ctx, args resp.Args) resp.Reply {
	keys, from, count, fail, ok := popArguments(args[1:])
	if !ok {
		return fail
	}
	timeoutMs, fail, ok := c.parseTimeout(args[1])
	if !ok {
		return fail
	}
	return c.await(pending{
		kind: zsetKind, keys: keys, timeoutMs: timeoutMs, absent: resp.NilArray(),
		take: func(c *ctx, key string) resp.Reply {
			z, _, _ := c.lookupZset(key)
			return c.popPairs(key, z, from, count)
		},
	})
}

// cmdBlockOpen gives out a number that no session has had before.
func cmdBlockOpen(c *ctx, _ resp.Args) resp.Reply {
	b := &c.m.blocked
	b.lastSession++
	b.sessions.Set(&blockSession{id: b.lastSession, until: c.m.tick + blockLeaseMs})
	return resp.Int(int64(b.lastSession))
}

// cmdBlockAsk may come again, or late: what has been asked for, or cancelled, is not
// done again.
func cmdBlockAsk(c *ctx, args resp.Args) resp.Reply {
	id, ok := parseBlockID(args)
	spentMs, isInt := resp.ParseInt(args[4])
	if !ok || !isInt || spentMs < 0 {
		return resp.Err(resp.ErrNotInteger)
	}
	m := c.m
	switch s, w := m.blocked.session(id.Session), m.blocked.waiter(id); {
	case s == nil:
		m.emitEnd(id, resp.BlockLapsed, resp.Reply{})
		return resp.Int(0)
	case w != nil:
		m.keepSession(id.Session, 0)
		return resp.Int(w.left(m.tick))
	case s.used.has(id.Number):
		m.emitEnd(id, resp.BlockDropped, resp.Reply{}) // who has heard of its end does not listen any more
		return resp.Int(0)
	}
	m.keepSession(id.Session, id.Number)
	return c.ask(id, spentMs, args[5:])
}

// ask executes a blocking command, or has it wait.
func (c *ctx) ask(id resp.BlockID, spentMs int64, args resp.Args) resp.Reply {
	call, began := &blockCall{}, c.m.toldNow()
	spec, reply := c.m.Find(args)
	switch {
	case spec == nil:
	case !spec.Blocks(args):
		reply = resp.Err("ERR this is no blocking command")
	default:
		inner := ctx{m: c.m, at: c.at, db: c.db, block: call}
		reply = inner.execute(resp.Cmd{DB: c.db, Args: args, Spec: spec})
	}
	w := &waiter{id: id, db: c.db, end: never.tick}
	if call.args != nil {
		args = call.args
	}
	if call.waits {
		reply = c.m.admit(w, args)
	}
	if call.waits && call.timeoutMs > 0 {
		w.end = c.m.tick + call.timeoutMs - spentMs
	}
	switch {
	case !call.waits || reply.IsErr():
		c.m.request.replyBytes += reply.Size()
		c.m.emitServed(id, reply, began)
		return resp.Int(0)
	case w.end <= c.m.tick:
		c.m.emitEnd(id, resp.BlockTimedOut, resp.Reply{})
		return resp.Int(0)
	}
	c.m.blocked.add(w)
	return resp.Int(w.left(c.m.tick))
}

// admit fills in what a waiter is to keep, or says why it may not wait.
func (m *Machine) admit(w *waiter, args resp.Args) resp.Reply {
	for _, a := range args {
		w.args = append(w.args, strings.Clone(a))
	}
	w.pending, _ = m.readPending(w.args)
	switch {
	case len(w.keys) > waiterKeysMax:
		return resp.Err(errTooManyKeys)
	case m.blocked.waiters.Len() >= waitersMax || m.blocked.bytes+w.bytes() > waiterBytesMax:
		return resp.Err(errTooManyWaiters)
	}
	m.blocked.lastSeq++
	w.seq = m.blocked.lastSeq
	return resp.Reply{}
}

// left is for how long a waiter may wait yet, as BlockAsk answers it.
func (w *waiter) left(tick int64) int64 {
	if w.end == never.tick {
		return -1
	}
	return max(w.end-tick, 1)
}

func cmdBlockCancel(c *ctx, args resp.Args) resp.Reply {
	id, ok := parseBlockID(args)
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	m := c.m
	if w := m.blocked.waiter(id); w != nil {
		m.endWait(w, resp.BlockCancelled, resp.Reply{})
	} else if m.Blocked(id) == resp.BlockUnseen && m.keepSession(id.Session, id.Number) {
		m.emitEnd(id, resp.BlockCancelled, resp.Reply{})
	}
	return resp.OK()
}

// cmdBlockKeep answers how many of the sessions are there.
func cmdBlockKeep(c *ctx, args resp.Args) resp.Reply {
	n := int64(0)
	for _, word := range args[2:] {
		if id, ok := parseNumber(word); ok && c.m.keepSession(id, 0) {
			n++
		}
	}
	return resp.Int(n)
}

func cmdBlockClose(c *ctx, args resp.Args) resp.Reply {
	for _, word := range args[2:] {
		if id, ok := parseNumber(word); ok {
			c.m.closeSession(id)
		}
	}
	return resp.OK()
}

func parseBlockID(args resp.Args) (id resp.BlockID, ok bool) {
	session, ok1 := parseNumber(args[2])
	number, ok2 := parseNumber(args[3])
	return resp.BlockID{Session: session, Number: number}, ok1 && ok2
}

func parseNumber(word string) (uint64, bool) {
	n, err := strconv.ParseUint(word, 10, 64)
	return n, err == nil && n > 0 && n <= blockNumberMax
}
