package keyspace

import (
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Package lock decides who gets a lock; here it learns how keys hold locks, and what it decides is done.

// lockName is the name of the lock of a key.
func (c *ctx) lockName(key string) lock.Name { return lock.Name{Space: c.db, Key: key} }

// lockTable are the lines of all locks, with what their keys hold.
func (c *ctx) lockTable() lock.Table { return lock.Table{Line: c.m.waits.Line(), Keys: c} }

// payFor charges what a table has looked at, and returns it.
func (m *Machine) payFor(t *lock.Table) int64 {
	work := value.TreeWork(t.Len())*int64(t.Looked) + value.HashWork*int64(t.Named)
	m.meter.Spend(work)
	return work
}

// Holding is how the key of a lock holds it; see lock.Keys.
func (c *ctx) Holding(name lock.Name) lock.Holding {
	d := c.m.keys.DBs[name.Space]
	c.m.meter.Spend(d.FindWork(name.Key))
	if e, ok := d.Keys.Get(name.Key); ok && c.asOf() <= e.Tick {
		return holdingOf(e)
	}
	return lock.Holding{}
}

// holdingOf is how a key that is there holds a lock. A string that is too long for a token is held by nobody who could
// ask for it.
func holdingOf(e *store.Entry) lock.Holding {
	h := lock.Holding{Held: true, Ends: e.Ends()}
	if e.Aggregate() != nil {
		h.Many = e.Lock()
		h.Foreign = h.Many == nil
		return h
	}
	if len(e.Str()) <= lockTokenBytesMax {
		h.Token = e.Str()
	}
	if t := e.Tag(); t != nil {
		h.Owner = t.Owner
	}
	return h
}

// Moving reports whether the line of a lock has still to move up; see lock.Keys.
func (c *ctx) Moving(name lock.Name) bool { return c.m.waits.Moving(name) }

// askFor asks for a lock for a client. A dry run does not know whether one in line whose time is over by its own clock
// still stands there.
func (c *ctx) askFor(l *lockRequest) (lock.Answer, error) {
	var held lock.Holding
	if e := c.lookup(l.key); e != nil {
		held = holdingOf(e)
		c.m.meter.Spend(value.LockWork(held.Many))
	}
	line := c.m.waits.Line()
	if c.m.dryRun.running && held.Many != nil {
		if first := line.First(c.lockName(l.key)); first != nil && c.now() > first.End {
			c.m.dryRun.changes = true
		}
	}
	answer, err := line.Ask(c.lockName(l.key), &l.Want, &held)
	return answer, lockError(err)
}

// lockError is what a client is told of an error of package lock.
func lockError(err error) error {
	switch limit, ok := err.(lock.LimitError); {
	case ok:
		return resp.Errorf(errOtherLimitFmt, limit.Limit)
	case err == lock.ErrForeign:
		return resp.Error(resp.ErrWrongType)
	case err == lock.ErrHeldOtherwise:
		return resp.Error(errHeldOtherwise)
	}
	return err
}

// markFreed marks a lock that somebody waits for, because its key has gone, has fewer holders, or
// holds what is no lock.
func (m *Machine) markFreed(name lock.Name) {
	m.meter.Spend(m.waits.Freed(name))
}

// markTaken marks a lock that somebody waits for, because a token that waits has come to hold it in another way than by
// its LOCK: by SET, or by a script.
func (m *Machine) markTaken(name lock.Name) {
	waits, work := m.waits.Awaited(name)
	if m.meter.Spend(work); !waits {
		return
	}
	t := (&ctx{m: m}).lockTable()
	if t.HolderWaits(name) {
		m.waits.Ready.Mark(wait.LineOf(name))
	}
	m.payFor(&t)
}

// markLeft marks a lock whose line somebody has left, or asks otherwise in: those behind may share it
// with its holders.
func (m *Machine) markLeft(name lock.Name) {
	if e, _ := m.keys.DBs[name.Space].Keys.Get(name.Key); e.Lock() != nil {
		m.markFreed(name)
	}
}

// givesWay reports whether a lock has lost holders, and has some left.
func givesWay(was, next *store.Entry) bool {
	before, after := was.Lock(), next.Lock()
	return before != nil && after != nil && after.Len() < before.Len()
}

// markAllFreed marks the locks of a database whose content was replaced.
func (m *Machine) markAllFreed(db int) {
	for _, name := range m.linesOf(db) {
		if e, ok := m.keys.DBs[db].Keys.Get(name.Key); !ok || e.Aggregate() != nil {
			m.markFreed(name)
		}
	}
}

// linesOf lists the locks of a database that somebody stands in line for, in the order of their keys.
func (m *Machine) linesOf(db int) []lock.Name {
	if m.waits.Line().Len() == 0 {
		return nil
	}
	m.meter.Spend((value.VisitWork + value.TreeWork(m.keys.DBs[db].Keys.Len())) * int64(m.waits.Line().Len()))
	return m.waits.Line().Locks(db)
}

// sweepLines ends the leases and the waits that are over of keys that somebody stands in line for,
// however many: or else a command of this entry might find one of them over, and take the lock before
// those in line.
func (m *Machine) sweepLines(at resp.Stamp) {
	for db := range m.keys.DBs {
		for _, name := range m.linesOf(db) {
			m.sweepLine(at, name)
		}
	}
}

func (m *Machine) sweepLine(at resp.Stamp, name lock.Name) {
	over := m.waits.Line().Overdue(name, m.tick)
	for {
		e, ok := m.keys.DBs[name.Space].Keys.Get(name.Key)
		switch {
		case ok && e.Due(m.tick) && (len(over) == 0 || e.Ends() <= over[0].End):
			m.expireLock(at, name.Space, e)
		case len(over) == 0:
			return
		default:
			if w := m.waits.InLine(over[0]); w != nil {
				m.timeOut(at, w)
			}
			over = over[1:]
		}
	}
}

// expireLock ends the next lease of a key, at its moment, and lets those in line have what it frees.
func (m *Machine) expireLock(at resp.Stamp, db int, e *store.Entry) {
	gave := e.Ends() + 1
	m.endLeases(db, e, gave)
	m.serveFreed(at, lock.Name{Space: db, Key: e.Key()}, gave)
}

// timeOut ends a wait whose time is over, at its moment. Those behind may share the lock then.
func (m *Machine) timeOut(at resp.Stamp, w *wait.Waiter) {
	m.endWait(w, resp.BlockTimedOut, resp.Reply{})
	if w.Lock() != nil {
		m.serveFreed(at, w.Name(), w.End+1)
	}
}

// serveFreed has the line of a lock move up that has given way at a tick, if the lock was the last to be marked.
func (m *Machine) serveFreed(at resp.Stamp, name lock.Name, gave int64) {
	if m.waits.Moving(name) {
		m.waits.Ready.Truncate(m.waits.Ready.Len() - 1)
		m.serveLine(at, name, gave)
	}
}

// serveLine has the line of a lock that has given way at a tick move up. What has ended since is still there: each lease
// and each wait ends at its moment, the earliest first, or one who waits would be granted what was held in his time.
func (m *Machine) serveLine(at resp.Stamp, name lock.Name, gave int64) {
	m.serving = true
	defer func() { m.serving = false }()
	c := &ctx{m: m, at: at, db: name.Space, moment: gave}
	c.lookup(name.Key) // a lease that is over ends first
	for m.takeTurn(c, name, gave) {
	}
}

// takeTurn does what comes next in the line for a lock, and reports whether there was anything.
func (m *Machine) takeTurn(c *ctx, name lock.Name, gave int64) bool {
	t := c.lockTable()
	turn := t.Turn(name, gave, c.at.Tick, m.searched <= deadlockEntryWorkMax)
	m.searched += m.payFor(&t)
	if turn.What == lock.Rest {
		return false
	}
	switch w := m.waits.InLine(turn.Waiter); turn.What {
	case lock.Grant:
		m.serve(c, w, name.Key)
	case lock.GiveUp:
		m.dropWaiter(w, resp.BlockTimedOut, resp.Reply{})
	case lock.Refuse:
		m.dropWaiter(w, resp.BlockServed, resp.Fail(lockError(turn.Err)))
	case lock.Deadlock:
		m.endDeadlock(turn.Circle)
	}
	return true
}

// granted is the version of a lock that its client has only now, for the case that it is not there
// any more; nil where the command was no LOCK or has got nothing. A token that held the lock before
// (its fence is no later than the last one before the command) may have been told so: a request of
// its program that comes late takes nothing away.
func (m *Machine) granted(db int, p *pending, reply resp.Reply, lastFence uint64) *resp.Watch {
	if p.lock == nil || reply.Kind != resp.KindInt || uint64(reply.Int) <= lastFence {
		return nil
	}
	w := &resp.Watch{DB: db, Key: p.keys[0], Version: m.version(db, p.keys[0])}
	e, _ := m.keys.DBs[db].Keys.Get(w.Key)
	if e.Lock() == nil {
		return w
	}
	if h := e.Lock().Holder(p.lock.Token); h != nil {
		w.Version, w.Holder = h.Version, true // the key's own changes with every holder
	}
	return w
}

// stillHeld reports whether nobody has touched the holder of a version since. The key is still the
// one that the holder was given: RENAME and SWAPDB make another one of it.
func (m *Machine) stillHeld(db int, key string, version uint64) bool {
	d := m.keys.DBs[db]
	e, _ := d.Keys.Get(key)
	if e.Lock() == nil || d.Swapped > version {
		return false
	}
	for h := range e.Lock().Each {
		if h.Version == version && h.Fence >= e.Fence && m.tick <= h.Tick {
			return true
		}
	}
	return false
}

const errDeadlockFmt = "DEADLOCK %s holds %s and waits for %s%s"

// deadlockEntryWorkMax bounds the work of all searches for circles of one entry, 0.1 s. Beyond it none is found.
const deadlockEntryWorkMax = 1 << 29

// mayWait reports whether a waiter that has just begun to wait may go on.
func (m *Machine) mayWait(now int64, w *wait.Waiter) bool {
	if w.Lock() == nil {
		return true
	}
	for circle := m.findCircle(now, w.Name()); circle != nil; circle = m.findCircle(now, w.Name()) {
		m.endDeadlock(circle)
		m.markLeft(w.Name())
	}
	return m.waits.Waiter(w.ID) == w
}

// findCircle looks for owners that wait for each other, through the line for a lock.
func (m *Machine) findCircle(now int64, name lock.Name) *lock.Circle {
	if m.searched > deadlockEntryWorkMax {
		return nil
	}
	t := (&ctx{m: m}).lockTable()
	circle := t.Circle(name, now)
	m.searched += m.payFor(&t)
	return circle
}

// endDeadlock ends the wait that has closed a circle.
func (m *Machine) endDeadlock(circle *lock.Circle) {
	owner, holds, waits, through := circle.Tell()
	m.dropWaiter(m.waits.InLine(circle.Waiter), resp.BlockServed, resp.Errf(errDeadlockFmt, owner, holds, waits, through))
}
