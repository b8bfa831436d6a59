package keyspace

import (
	"math"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
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

// allButLast are the keys of commands that end with a timeout.
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
func withTimeout(word string, p *pending) (call, error) {
	var err error
	if p.timeoutMs, err = parseTimeout(word); err != nil {
		return nil, err
	}
	return p, nil
}

func parseBLPop(args resp.Args) (call, error) { return parseBlockPop(args, value.LeftEnd) }
func parseBRPop(args resp.Args) (call, error) { return parseBlockPop(args, value.RightEnd) }

func parseBlockPop(args resp.Args, end value.ListEnd) (call, error) {
	return withTimeout(args[len(args)-1], &pending{
		kind: value.ListKind, keys: args[1 : len(args)-1], absent: resp.NilArray,
		take: func(c *ctx, key string) (resp.Reply, *wait.Reversal) {
			u := c.undoPop(key, end)
			taken := c.popList(key, end, 1)
			if taken.IsErr() {
				return taken, nil
			}
			return resp.Array(resp.Bulk(key), taken.Elems[0]), popped(u, taken.Elems)
		},
	})
}

// popList pops from a key that holds a list.
func (c *ctx) popList(key string, end value.ListEnd, count int64) resp.Reply {
	l, _ := c.lookupList(key)
	return c.pop(key, l, end, count)
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
	return withTimeout(args[len(args)-1], &pending{
		kind: value.ListKind, keys: args[1:2], absent: resp.Nil,
		take: func(c *ctx, key string) (resp.Reply, *wait.Reversal) {
			u := c.undoMove(key, target, from, to)
			moved := c.moveElement(key, target, from, to)
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
	return withTimeout(args[1], &pending{
		kind: value.ListKind, keys: o.Keys, absent: resp.NilArray,
		take: func(c *ctx, key string) (resp.Reply, *wait.Reversal) {
			u := c.undoPop(key, value.ListEnd(o.End))
			taken := c.popList(key, value.ListEnd(o.End), o.Count)
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
	return withTimeout(args[len(args)-1], &pending{
		kind: value.ZsetKind, keys: args[1 : len(args)-1], absent: resp.NilArray,
		take: func(c *ctx, key string) (resp.Reply, *wait.Reversal) {
			z, _ := c.lookupZset(key)
			u := c.undoPopScored(key)
			popped, err := c.popScored(key, z, from, 1)
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
	return withTimeout(args[1], &pending{
		kind: value.ZsetKind, keys: o.Keys, absent: resp.NilArray,
		take: func(c *ctx, key string) (resp.Reply, *wait.Reversal) {
			z, _ := c.lookupZset(key)
			u := c.undoPopScored(key)
			popped, err := c.popScored(key, z, popEnds[o.End], o.Count)
			if err != nil {
				return resp.Fail(err), nil
			}
			return pairsReply(key, popped), scored(u, popped)
		},
	})
}

// blockStep executes a node's step about blocking commands, which is a request of its own.
func (m *Machine) blockStep(at resp.Stamp, req resp.Request) resp.Reply {
	if !m.applying {
		return resp.Err(errNotLogged)
	}
	step := req.Block
	var reply resp.Reply
	switch step.Kind {
	case resp.BlockOpen:
		reply = resp.Int(int64(m.waits.Sessions.Open(step.Node, step.Process, m.tick)))
	case resp.BlockAsk:
		if !wait.IsID(step.ID) || len(req.Cmds) != 1 {
			return resp.Err(errStep)
		}
		c := ctx{m: m, at: at, db: req.Cmds[0].DB, why: cause{client: req.Sender}}
		reply = resp.Int(c.askOnce(step, req.Cmds[0]))
	case resp.BlockTend:
		return m.tend(at, step)
	case resp.BlockSuspend:
		for _, id := range step.Sessions {
			m.suspend(id)
		}
		m.giveBackAll(at, step.Undelivered)
		reply = resp.OK()
	case resp.BlockClose:
		m.giveBackAll(at, step.Undelivered)
		for _, id := range step.Sessions {
			m.closeSession(id)
			m.meter.Spend(m.waits.Gifts.Settle(id, math.MaxUint64)) // whatever else was given is delivered
		}
		reply = resp.OK()
	default:
		return resp.Err(errStep)
	}
	m.digest.reply(reply)
	return reply
}

const errStep = "ERR a step of blocking commands that can not be"

// giveBackAll takes back what was given under some names.
func (m *Machine) giveBackAll(at resp.Stamp, ids []resp.BlockID) {
	for _, id := range ids {
		m.meter.Spend(meter.CommandWork)
		m.giveBack(at, id)
		m.digest.reply(resp.OK())
	}
}

// askOnce executes a blocking command, or lets it wait, unless it was asked for or cancelled
// before: a step may arrive again, or late. It returns how long the command may still wait.
func (c *ctx) askOnce(step *resp.BlockStep, cmd resp.Cmd) (leftMs int64) {
	m, id := c.m, step.ID
	switch w := m.waits.Waiter(id); {
	case !m.waits.Sessions.Has(id.Session):
		m.emitEnd(id, resp.BlockLapsed)
		return 0
	case w != nil:
		m.waits.Sessions.Keep(id.Session, m.tick)
		return w.LeftMs(m.tick)
	case m.waits.Sessions.Used(id):
		m.emitEnd(id, resp.BlockDropped) // a node that knows its end ignores this
		return 0
	}
	m.waits.Sessions.Use(id, m.tick)
	return c.ask(step, cmd)
}

// ask executes a blocking command, or lets it wait.
func (c *ctx) ask(step *resp.BlockStep, cmd resp.Cmd) (leftMs int64) {
	call, began, args, reply := &blockCall{}, c.m.out.Mark(), cmd.Args, resp.Reply{}
	id, lastFence := step.ID, c.m.keys.LastFence
	if cmd.Spec == nil {
		cmd.Spec, reply = c.m.Find(args)
	}
	switch {
	case cmd.Spec == nil:
	case !cmd.Spec.Blocks(args):
		reply = resp.Err("ERR this is no blocking command")
	default:
		inner := ctx{m: c.m, at: c.at, db: c.db, why: c.why, block: call}
		reply = inner.execute(cmd)
	}
	w := &wait.Waiter{ID: id, DB: c.db, End: store.Never.Tick, Client: resp.Sender(strings.Clone(string(c.why.client)))}
	if call.args != nil {
		args = call.args
	}
	if call.waits {
		reply = c.m.admit(w, args)
	}
	if call.waits && call.timeoutMs > 0 {
		w.End = c.m.tick + call.timeoutMs - step.SpentMs
	}
	switch {
	case !call.waits || reply.IsErr():
		c.m.meter.AddReply(reply.Size())
		if call.lock != nil {
			lastFence = c.m.replaceGift(step, call, lastFence)
			call.undo = c.m.undoLock(c.db, &call.pending, reply, lastFence)
		}
		given := c.m.remember(id, c.db, call.undo, false)
		c.m.out.EmitServed(resp.BlockEnd{ID: id, Reply: reply, Given: given}, began)
		return 0
	case w.End <= c.m.tick:
		c.m.emitEnd(id, resp.BlockTimedOut)
		return 0
	}
	c.m.enter(w)
	if !c.m.mayWait(c.now(), w) {
		return 0
	}
	return w.LeftMs(c.m.tick)
}

// replaceGift forgets a lock that was granted under another name, of which nobody was told, and returns the fence that
// was the last before that grant: what the token is granted now takes its place.
func (m *Machine) replaceGift(step *resp.BlockStep, call *blockCall, lastFence uint64) uint64 {
	gift := m.waits.Gifts.Get(step.Instead)
	if gift == nil || gift.Lock == nil || gift.Lock.Key != call.lock.key || gift.Cmds[0][2] != call.lock.Token {
		return lastFence
	}
	m.waits.Gifts.TakeBack(gift.ID)
	return 0
}

// enter lets a waiter wait. In the line for a lock it takes the place of one with its token.
func (m *Machine) enter(w *wait.Waiter) {
	if want := w.Lock(); want != nil {
		if before := m.waits.Line().Waiter(w.Name(), want.Token); before != nil {
			w.Seq = before.Seq
			m.dropWaiter(m.waits.InLine(before), resp.BlockServed, resp.Err(errTokenElsewhere))
			defer m.markLeft(w.Name()) // it may ask for less than the one before
		}
	}
	m.meter.Spend(m.waits.Enter(w))
}

// admit fills in the waiter, or returns an error if the command may not wait.
func (m *Machine) admit(w *wait.Waiter, args resp.Args) resp.Reply {
	w.Args = value.CloneTexts(args)
	w.Command = m.parseWait(w.Args)
	if err := m.waits.Admit(w); err != nil {
		return resp.Fail(err)
	}
	return resp.Reply{}
}

// tend renews sessions, resumes some, cancels commands, and takes back what was not delivered. It replies how many of
// the sessions exist.
func (m *Machine) tend(at resp.Stamp, step *resp.BlockStep) resp.Reply {
	kept := int64(0)
	for _, id := range step.Sessions {
		if m.waits.Sessions.Keep(id, m.tick) {
			kept++
		}
	}
	if len(step.Sessions) > 0 {
		m.digest.reply(resp.Int(kept))
	}
	for _, id := range step.Cancelled {
		m.cancel(id)
		m.meter.Spend(meter.CommandWork)
		m.digest.reply(resp.OK())
	}
	m.giveBackAll(at, step.Undelivered)
	for _, id := range step.Sessions {
		m.meter.Spend(m.waits.Gifts.Settle(id, step.Settled))
	}
	for _, id := range step.Resumed {
		m.resume(id.Session, id.Number)
	}
	return resp.Int(kept)
}

// cancel ends the wait of a command, and prevents it from starting later. Where its session is over it will never start.
func (m *Machine) cancel(id resp.BlockID) {
	if !wait.IsID(id) {
		return
	}
	switch w := m.waits.Waiter(id); {
	case w != nil:
		m.endWait(w, resp.BlockCancelled, resp.Reply{})
	case m.waits.Sessions.WasClosed(id.Session):
		m.emitEnd(id, resp.BlockLapsed)
	case m.waits.State(id) == resp.BlockUnseen && m.waits.Sessions.Use(id, m.tick):
		m.emitEnd(id, resp.BlockCancelled)
	}
}
