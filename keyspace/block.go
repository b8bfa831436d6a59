package keyspace

import (
	"math"
	"slices"
	"strings"

	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Blocking commands. A command that finds nothing is registered as a waiter, in the order of the
// log. The entry that makes a key ready also serves the key's waiters, in the order in which they
// came. So the queue is the same on every node and survives every change of leader. DESIGN.md
// explains how a command is executed once although its node may have to ask twice.

// pending is what a command waits for, and what it does then. It follows from the arguments alone, so that a command
// which waits is the same after an image. Commands that take from the first key that has something are no more than
// this: it is their call.
type pending struct {
	kind      *value.Kind // of the values that it takes from
	keys      []string    // checked in this order
	timeoutMs int64       // 0: it waits for ever
	absent    func() resp.Reply
	take      taker
	lock      *lockRequest // of LOCK, which has no kind

	// ready reports whether a key that holds the kind has something for the command; nil: it always
	// has. A waiter that is not ready goes on waiting, and those behind it are served.
	ready func(c *ctx, key string) bool
}

// waiting is a call that may wait.
type waiting interface {
	call
	waits() *pending // nil: it can not, as its arguments mean something else with time
}

func (p *pending) Run(c *ctx) resp.Reply { return c.await(p) }
func (p *pending) waits() *pending       { return p }

// The methods of wait.Command.

func (p *pending) Kind() wait.Kind {
	if p.lock != nil {
		return wait.LockLine
	}
	return kindOf(p.kind)
}

func (p *pending) Keys() []string   { return p.keys }
func (p *pending) TimeoutMs() int64 { return p.timeoutMs }

func (p *pending) Lock() *lock.Want {
	if p.lock == nil {
		return nil
	}
	return &p.lock.Want
}

func kindOf(k *value.Kind) wait.Kind { return wait.Kind(k.Image) }

// pendingOf is the command of a waiter.
func pendingOf(w *wait.Waiter) *pending { return w.Command.(*pending) }

// taker executes a blocking command on a key that holds what it waits for. The undo is nil where the client is given
// nothing that could be taken back; of a LOCK it follows from the reply (undoLock).
type taker func(c *ctx, key string) (resp.Reply, *wait.Reversal)

// sweepSessions ends the sessions that were not renewed, with all their waiters.
func (m *Machine) sweepSessions() {
	for _, id := range m.waits.Sessions.Over(m.tick) {
		m.closeSession(id)
	}
	m.waits.Gifts.Sweep(m.tick)
}

// closeSession ends a session with all its waiters.
func (m *Machine) closeSession(id uint64) {
	for _, w := range m.waits.Of(id) {
		m.endWait(w, resp.BlockLapsed, resp.Reply{})
	}
	m.waits.Sessions.Close(id)
}

// suspend has the waiters of a session passed over: its node may be dead. They keep their places.
func (m *Machine) suspend(id uint64) {
	passed, work, ok := m.waits.Suspend(id)
	if !ok {
		return
	}
	m.meter.Spend(work)
	m.emitEnd(resp.BlockID{Session: id}, resp.BlockSuspended)
	for _, w := range passed { // those behind may have what they were in the way of
		if w.Lock() != nil {
			m.markLeft(w.Name())
		}
	}
}

// resume ends a suspension of a session, unless it was suspended again since.
func (m *Machine) resume(id, suspensions uint64) {
	m.waits.Resume(id, suspensions, func(w *wait.Waiter, work int64) {
		m.meter.Spend(work)
		m.markPresent(w)
	})
}

// markPresent marks the keys of a waiter that hold what it waits for.
func (m *Machine) markPresent(w *wait.Waiter) {
	if w.Lock() != nil {
		m.markFreed(w.Name())
		return
	}
	d := m.keys.DBs[w.DB]
	for _, key := range w.Keys() {
		m.meter.Spend(d.FindWork(key))
		if e, ok := d.Keys.Get(key); ok {
			m.markArrived(w.DB, e)
		}
	}
}

// BlockRevision changes with what BlockSessions lists; see cluster.Machine.
func (m *Machine) BlockRevision() uint64 { return m.waits.Sessions.Revision }

// BlockSessions lists the sessions; see cluster.Machine.
func (m *Machine) BlockSessions() []resp.BlockSession { return m.waits.Sessions.All() }

// BlockGifts lists what those who had waited in a session were given; see cluster.Machine.
func (m *Machine) BlockGifts(session uint64) (all []resp.BlockGift) {
	for _, gift := range m.waits.Gifts.Of(session, math.MaxUint64) {
		if gift.Waited {
			all = append(all, resp.BlockGift{ID: gift.ID, Entry: gift.Entry})
		}
	}
	return all
}

// BlockGiven reports whether something that was given can be taken back; see cluster.Machine.
func (m *Machine) BlockGiven(id resp.BlockID) bool { return m.waits.Gifts.Get(id) != nil }

// endWait ends a wait. Those behind in a line may be served by it.
func (m *Machine) endWait(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	m.dropWaiter(w, how, reply)
	if w.Lock() != nil {
		m.markLeft(w.Name())
	}
}

// dropWaiter ends a wait, without serving those behind.
func (m *Machine) dropWaiter(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	m.meter.Spend(m.waits.Leave(w))
	m.recordWaitEnd(w, how, reply)
	end := &resp.BlockEnd{ID: w.ID, How: how, Reply: reply}
	if how == resp.BlockDropped || how == resp.BlockLapsed {
		end.Args = w.Args
	}
	m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: end})
}

// emitEnd emits the end of a command that does not wait.
func (m *Machine) emitEnd(id resp.BlockID, how resp.Ending) {
	m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: id, How: how}})
}

// Blocked returns what is known of a blocking command; see cluster.Machine.
func (m *Machine) Blocked(id resp.BlockID) resp.BlockState { return m.waits.State(id) }

// queueOf is the queue for what a key holds, which is no string.
func queueOf(db int, e *store.Entry) wait.Queue {
	return wait.Queue{DB: db, Key: e.Key(), Kind: kindOf(e.Aggregate().Kind())}
}

// markArrived marks a key that holds a value for which others may wait. They are served at the end of
// the command or transaction.
func (m *Machine) markArrived(db int, e *store.Entry) {
	if e.Aggregate() == nil || m.waits.Len() == 0 {
		return
	}
	if e.Lock() == nil {
		m.markFreed(lock.Name{Space: db, Key: e.Key()}) // it is no lock
	}
	m.waits.Arrived(queueOf(db, e))
}

// markSwapped marks all keys of a database that somebody waits for, because its content was
// replaced. It visits the waiters or the keys, whichever are fewer.
func (m *Machine) markSwapped(db int) {
	m.markAllFreed(db)
	d, waiting := m.keys.DBs[db], m.waits.Queued()
	if d.Keys.Len() < waiting {
		m.meter.Spend((value.VisitWork + value.TreeWork(waiting)) * int64(d.Keys.Len()))
		m.markReadyKeys(db)
		return
	}
	m.meter.Spend((value.VisitWork + value.TreeWork(d.Keys.Len())) * int64(waiting))
	for _, key := range m.waits.Keys(db) {
		if e, ok := d.Keys.Get(key); ok {
			m.markArrived(db, e)
		}
	}
}

// markReadyKeys marks the keys of a database that somebody waits for, in the order of the keys.
func (m *Machine) markReadyKeys(db int) {
	var found []*store.Entry
	for e := range m.keys.DBs[db].Keys.Each {
		if e.Aggregate() != nil && m.waits.Next(queueOf(db, e), 0) != nil {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *store.Entry) int { return strings.Compare(a.Key(), b.Key()) })
	for _, e := range found {
		m.markArrived(db, e)
	}
}

// serveReady serves the waiters of keys that have become ready, in the order in which the keys did.
// Keys that become ready meanwhile come last. A waiter does not pay for the work of the command
// that woke it.
func (m *Machine) serveReady(at resp.Stamp) {
	before := m.meter.Restart()
	defer func() { m.meter.Spend(before) }()
	for {
		m.wakeLibraries(at)
		q, ok := m.waits.Ready.Take()
		switch {
		case !ok:
			return
		case q.Kind == wait.LockLine:
			m.serveLine(at, lock.Name{Space: q.DB, Key: q.Key}, m.tick)
		default:
			m.serveQueue(at, q)
		}
	}
}

func (m *Machine) serveQueue(at resp.Stamp, q wait.Queue) {
	m.serving = true
	defer func() { m.serving = false }()
	for w := m.waits.Next(q, 0); w != nil; w = m.waits.Next(q, w.Seq) {
		c := &ctx{m: m, at: at, db: q.DB}
		if e := c.lookup(q.Key); e == nil || e.Aggregate() == nil || kindOf(e.Aggregate().Kind()) != q.Kind {
			return
		}
		if m.servedBytes > meter.ReplyBytesMax || m.meter.Exceeded() {
			m.endWait(w, resp.BlockDropped, resp.Reply{}) // its node asks again, in another entry
			continue
		}
		if ready := pendingOf(w).ready; ready != nil && !ready(c, q.Key) {
			continue
		}
		m.serve(c, w, q.Key)
	}
}

// serve executes the command of a waiter.
func (m *Machine) serve(c *ctx, w *wait.Waiter, key string) {
	m.meter.Spend(m.waits.Leave(w))
	began, lastFence := m.out.Mark(), m.keys.LastFence
	c.why = causeOf(w, m.tick)
	p := pendingOf(w)
	reply, u := p.take(c, key)
	if p.lock != nil {
		u = m.undoLock(w.DB, p, reply, lastFence)
	}
	m.servedBytes += reply.Size()
	m.meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	given := m.remember(w.ID, w.DB, u, true)
	m.out.EmitServed(resp.BlockEnd{ID: w.ID, Reply: reply, Given: given, Waited: true}, began)
}

// blockCall is how a blocking command runs when it was asked for by a step.
type blockCall struct {
	pending
	waits bool           // the command has found nothing
	args  resp.Args      // the arguments to wait with, if they differ from those asked for
	undo  *wait.Reversal // of what it has done
}

// await executes a blocking command, or lets it wait if it may.
func (c *ctx) await(p *pending) resp.Reply {
	if err := c.begin(p.timeoutMs, p.waits); err != nil {
		return resp.Fail(err)
	}
	for _, key := range p.keys {
		switch e := c.lookup(key); {
		case e == nil:
		case e.Aggregate() == nil || e.Aggregate().Kind() != p.kind:
			return resp.Err(resp.ErrWrongType)
		default:
			return c.served(p.take(c, key))
		}
	}
	return c.wait(p.absent())
}

// served keeps the undo of a blocking command that need not wait.
func (c *ctx) served(reply resp.Reply, u *wait.Reversal) resp.Reply {
	if c.block != nil {
		c.block.undo = u
	}
	return reply
}

// begin is told of a command before it is executed. It judges the timeout as far as that needs a clock.
func (c *ctx) begin(timeoutMs int64, waits func() *pending) error {
	if _, ok := c.after(timeoutMs); !ok {
		return resp.Error(errTimeoutRange)
	}
	if c.block != nil {
		c.block.pending = *waits()
	}
	return nil
}

// wait lets a command that has found nothing wait, if it may; otherwise it answers what stands for nothing.
func (c *ctx) wait(absent resp.Reply) resp.Reply {
	if c.block != nil {
		c.block.waits = true
	}
	return absent
}

// imageCommands are the commands in an image; see wait.Commands.
type imageCommands struct{ *Machine }

func (c imageCommands) Waiting(args resp.Args) wait.Command {
	if p := c.parseWait(args); p != nil {
		return p
	}
	return nil
}

// reversing are the commands of which reversals are made.
var reversing = []string{"lpush", "rpush", "lrem", "zadd", "unlock"}

func (c imageCommands) Reverses(args resp.Args) bool {
	if len(args) == 0 || !slices.Contains(reversing, args[0]) {
		return false
	}
	row, _ := table.Find(args)
	return row != nil
}

// parseWait parses a blocking command that waits; nil: it can not.
func (m *Machine) parseWait(args resp.Args) *pending {
	if len(args) == 0 {
		return nil
	}
	row, _ := m.table.Find(args)
	if row == nil || !row.Blocks(args) {
		return nil
	}
	req, err := row.Run(args)
	if r, ok := req.(waiting); ok && err == nil {
		return r.waits()
	}
	return nil
}
