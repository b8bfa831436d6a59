package command

import (
	"slices"

	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// A blocking command that finds nothing waits (package wait), in the order of the log. The entry that makes a key ready
// also serves the key's waiters, in the order in which they came. So the queue is the same on every node and survives
// every change of leader. DESIGN.md explains how a command is executed once although its node may have to ask twice.

// blocking describes a blocking command: what it takes, from which keys. It follows from the arguments alone, so that a
// waiting command is the same after an image. It is the whole call of a command that takes from the first key that has
// something.
type blocking struct {
	kind      *value.Kind // of the values that it takes from
	keys      []string    // checked in this order
	timeoutMs int64       // 0: it waits for ever
	absent    func() resp.Reply
	take      taker
	lock      *lockRequest // of LOCK, which has no kind

	// ready reports whether a key that holds the kind has something for the command; nil: it always has. A waiter that
	// is not ready goes on waiting, and the waiters behind it are served.
	ready func(c *Ctx, key string) bool
}

// waiting is a call that may wait.
type waiting interface {
	call
	waits() *blocking // nil: it can not, as its arguments mean something else with time
}

func (b *blocking) Run(c *Ctx) resp.Reply { return await(c, b) }
func (b *blocking) waits() *blocking      { return b }

// The methods of wait.Command.

func (b *blocking) Kind() wait.Kind {
	if b.lock != nil {
		return wait.LockLine
	}
	return state.KindOf(b.kind)
}

func (b *blocking) Keys() []string   { return b.keys }
func (b *blocking) TimeoutMs() int64 { return b.timeoutMs }

func (b *blocking) Lock() *lock.Want {
	if b.lock == nil {
		return nil
	}
	return &b.lock.Want
}

// blockingOf returns the command of a waiter.
func blockingOf(w *wait.Waiter) *blocking { return w.Command.(*blocking) }

// taker executes a blocking command on a key that holds what it waits for. The reversal is nil where the client is
// given nothing that could be taken back; of a LOCK it follows from the reply (reverseLock).
type taker func(c *Ctx, key string) (resp.Reply, *wait.Reversal)

// BlockCall is the run of a blocking command that a step has asked for.
type BlockCall struct {
	blocking
	Waits    bool           // the command has found nothing
	Args     resp.Args      // the arguments to wait with, if they differ from those asked for
	reversal *wait.Reversal // of what it has done
}

// Ask executes a blocking command for a client, up to where it would wait. If it answers something else, the
// call is the zero one.
func Ask(s *state.State, at resp.Stamp, cmd resp.Cmd, client resp.Sender) (asked *BlockCall, reply resp.Reply) {
	asked = &BlockCall{}
	if cmd.Spec == nil {
		cmd.Spec, reply = Find(cmd.Args)
	}
	switch {
	case cmd.Spec == nil:
	case !cmd.Spec.Blocks(cmd.Args):
		reply = resp.Err("ERR this is no blocking command")
	default:
		c := NewCtx(s, at, cmd.DB)
		c.Why.Client, c.block = client, asked
		reply = c.Execute(cmd)
	}
	return asked, reply
}

// Reverse returns the reversal of what the command has done with its reply; of a LOCK, if it was given a fence above the
// last one before it.
func (b *BlockCall) Reverse(s *state.State, db int, reply resp.Reply, lastFence uint64) *wait.Reversal {
	if b.lock != nil {
		return reverseLock(s, db, &b.blocking, reply, lastFence)
	}
	return b.reversal
}

// Ready reports whether a key that holds the kind that a waiter waits for has something for it.
func Ready(c *Ctx, w *wait.Waiter, key string) bool {
	ready := blockingOf(w).ready
	return ready == nil || ready(c, key)
}

// Serve executes the command of a waiter on a key that has something for it.
func Serve(c *Ctx, w *wait.Waiter, key string) (resp.Reply, *wait.Reversal) {
	lastFence, b := c.s.Keys.LastFence, blockingOf(w)
	reply, u := b.take(c, key)
	if b.lock != nil {
		u = reverseLock(c.s, w.DB, b, reply, lastFence)
	}
	return reply, u
}

// Redo executes a command that takes back what was given, whatever limits say. It reports whether that did anything.
func Redo(c *Ctx, args resp.Args) bool {
	row, _ := table.Find(args)
	c.Why, c.takesBack = lifecycle.Cause{By: row.Name}, true
	c.s.Meter.Spend(meter.CommandWork)
	req, wrong := row.Run(args)
	reply := perform(c, req, wrong)
	return !reply.IsErr() && (reply.Kind != resp.KindInt || reply.Int != 0)
}

// await executes a blocking command, or lets it wait if it may.
func await(c *Ctx, b *blocking) resp.Reply {
	if err := c.begin(b.timeoutMs, b.waits); err != nil {
		return resp.Fail(err)
	}
	for _, key := range b.keys {
		switch e := c.Lookup(key); {
		case e == nil:
		case e.Aggregate() == nil || e.Aggregate().Kind() != b.kind:
			return resp.Err(resp.ErrWrongType)
		default:
			return c.served(b.take(c, key))
		}
	}
	return c.wait(b.absent())
}

// served keeps the reversal of a blocking command that need not wait.
func (c *Ctx) served(reply resp.Reply, u *wait.Reversal) resp.Reply {
	if c.block != nil {
		c.block.reversal = u
	}
	return reply
}

// begin is told of a command before it is executed. It judges the timeout as far as that needs a clock.
func (c *Ctx) begin(timeoutMs int64, waits func() *blocking) error {
	if _, ok := c.After(timeoutMs); !ok {
		return resp.Error(errTimeoutRange)
	}
	if c.block != nil {
		c.block.blocking = *waits()
	}
	return nil
}

// wait lets a command that has found nothing wait, if it may; otherwise it answers what stands for nothing.
func (c *Ctx) wait(absent resp.Reply) resp.Reply {
	if c.block != nil {
		c.block.Waits = true
	}
	return absent
}

// Waitable returns the commands of a level that can wait.
func Waitable(level int) wait.Commands { return waitable{commandsAt(level).table} }

// waitable finds commands that can wait, and commands of reversals; see wait.Commands.
type waitable struct{ *resp.Table[parser] }

// Waiting implements wait.Commands.
func (t waitable) Waiting(args resp.Args) wait.Command {
	if len(args) == 0 {
		return nil
	}
	row, _ := t.Find(args)
	if row == nil || !row.Blocks(args) {
		return nil
	}
	req, err := row.Run(args)
	if r, ok := req.(waiting); ok && err == nil {
		if b := r.waits(); b != nil {
			return b
		}
	}
	return nil
}

// reversing are the commands of which reversals are made.
var reversing = []string{"lpush", "rpush", "lrem", "zadd", "unlock"}

// Reverses implements wait.Commands.
func (t waitable) Reverses(args resp.Args) bool {
	if len(args) == 0 || !slices.Contains(reversing, args[0]) {
		return false
	}
	row, _ := table.Find(args)
	return row != nil
}

// granted returns the version of a lock that a command has granted, by which the lock can be taken back; nil where the
// command was no LOCK or has got nothing. A token that held the lock before (its fence is no later than the last one
// before the command) may have been told so: a request of its program that comes late takes nothing away.
func granted(s *state.State, db int, b *blocking, reply resp.Reply, lastFence uint64) *resp.Watch {
	if b.lock == nil || reply.Kind != resp.KindInt || uint64(reply.Int) <= lastFence {
		return nil
	}
	w := &resp.Watch{DB: db, Key: b.keys[0], Version: s.Version(db, b.keys[0])}
	e, _ := s.Keys.DBs[db].Keys.Get(w.Key)
	if e.Lock() == nil {
		return w
	}
	if h := e.Lock().Holder(b.lock.Token); h != nil {
		w.Version, w.Holder = h.Version, true // the key's own changes with every holder
	}
	return w
}

// reverseLock returns the reversal of a LOCK that was granted to a token; nil where the command has granted nothing
// new.
func reverseLock(s *state.State, db int, b *blocking, reply resp.Reply, lastFence uint64) *wait.Reversal {
	lock := granted(s, db, b, reply, lastFence)
	if lock == nil {
		return nil
	}
	return &wait.Reversal{Lock: lock, Cmds: []resp.Args{{"unlock", lock.Key, b.lock.Token}}}
}
