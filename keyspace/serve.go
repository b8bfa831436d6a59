package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/fate"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// A command that finds nothing waits: package wait keeps it, in the order of the log. A change of a key marks what may
// be served (marks); the entry that has made the change serves it, at the end of the command, transaction or script
// (service).

// marks tells package wait what changes. The queues that are marked are served at the end of the command.
type marks struct{ m *Machine }

// markWaiters marks what a change may give to those who wait.
func markWaiters(m *Machine, _ *fate.Cause, c store.Change) {
	n, name := marks{m}, lock.Name{Space: c.DB, Key: c.Key}
	if c.Next != nil {
		n.arrived(c.DB, c.Next)
		n.taken(name)
	}
	if c.Next == nil || m.expired(c.Next) || givesWay(c.Was, c.Next) {
		n.freed(name)
	}
}

// queueOf returns the queue for what a key holds, which is no string.
func queueOf(db int, e *store.Entry) wait.Queue {
	return wait.Queue{DB: db, Key: e.Key(), Kind: kindOf(e.Aggregate().Kind())}
}

// arrived marks a key that holds a value for which others may wait.
func (n marks) arrived(db int, e *store.Entry) {
	if e.Aggregate() == nil || n.m.waits.Len() == 0 {
		return
	}
	if e.Lock() == nil {
		n.freed(lock.Name{Space: db, Key: e.Key()}) // it is no lock
	}
	n.m.waits.Arrived(queueOf(db, e))
}

// swapped marks all keys of a database that somebody waits for, because its content was replaced. It visits the waiters
// or the keys, whichever are fewer.
func (n marks) swapped(db int) {
	n.allFreed(db)
	d, waiting := n.m.keys.DBs[db], n.m.waits.Queues.Len()
	if d.Keys.Len() < waiting {
		n.m.meter.Spend((value.VisitWork + value.TreeWork(waiting)) * int64(d.Keys.Len()))
		n.allArrived(db)
		return
	}
	n.m.meter.Spend((value.VisitWork + value.TreeWork(d.Keys.Len())) * int64(waiting))
	for _, key := range n.m.waits.Queues.Keys(db) {
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(db, e)
		}
	}
}

// allArrived marks the keys of a database that hold what somebody waits for, in the order of the keys.
func (n marks) allArrived(db int) {
	var found []*store.Entry
	for e := range n.m.keys.DBs[db].Keys.Each {
		if e.Aggregate() != nil && n.m.waits.Queues.Next(queueOf(db, e), 0) != nil {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *store.Entry) int { return strings.Compare(a.Key(), b.Key()) })
	for _, e := range found {
		n.arrived(db, e)
	}
}

// present marks the keys of a waiter that hold what it waits for.
func (n marks) present(w *wait.Waiter) {
	if w.Lock() != nil {
		n.freed(w.Name())
		return
	}
	d := n.m.keys.DBs[w.DB]
	for _, key := range w.Keys() {
		n.m.meter.Spend(d.FindWork(key))
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(w.DB, e)
		}
	}
}

// freed marks a lock that somebody waits for, because its key has gone, has fewer holders, or holds what is no lock.
func (n marks) freed(name lock.Name) { n.m.meter.Spend(n.m.waits.Freed(name)) }

// taken marks a lock that somebody waits for, because a token that waits has come to hold it in another way than by
// its LOCK: by SET, or by a script.
func (n marks) taken(name lock.Name) {
	waits, work := n.m.waits.Awaited(name)
	if n.m.meter.Spend(work); !waits {
		return
	}
	t := lockTable(&ctx{m: n.m})
	if t.HolderWaits(name) {
		n.m.waits.Ready.Mark(wait.LineOf(name))
	}
	payFor(n.m, &t)
}

// left marks a lock whose line somebody has left, or asks otherwise in: those behind may share it with its holders.
func (n marks) left(name lock.Name) {
	if e, _ := n.m.keys.DBs[name.Space].Keys.Get(name.Key); e.Lock() != nil {
		n.freed(name)
	}
}

// givesWay reports whether a lock has lost holders, and has some left.
func givesWay(was, next *store.Entry) bool {
	before, after := was.Lock(), next.Lock()
	return before != nil && after != nil && after.Len() < before.Len()
}

// allFreed marks the locks of a database whose content was replaced.
func (n marks) allFreed(db int) {
	for _, name := range n.lines(db) {
		if e, ok := n.m.keys.DBs[db].Keys.Get(name.Key); !ok || e.Aggregate() != nil {
			n.freed(name)
		}
	}
}

// lines lists the locks of a database that somebody stands in line for, in the order of their keys.
func (n marks) lines(db int) []lock.Name {
	if n.m.waits.Line().Len() == 0 {
		return nil
	}
	n.m.meter.Spend((value.VisitWork + value.TreeWork(n.m.keys.DBs[db].Keys.Len())) * int64(n.m.waits.Line().Len()))
	return n.m.waits.Line().Locks(db)
}

// emptied lets nothing return to the databases from one to before another. A client that waits for the answer may still
// be told what it was given.
func (n marks) emptied(from, to int) {
	lost, work := n.m.waits.Gifts.Returnable(from, to)
	n.m.meter.Spend(work)
	if len(lost) == 0 {
		return
	}
	if j := n.m.journal; j != nil && j.gifts == nil {
		j.gifts = n.m.waits.Gifts.Copy()
	}
	n.m.meter.Spend(n.m.waits.Gifts.Forfeit(lost))
}

// service serves those who wait, and ends waits, at a stamp.
type service struct {
	marks
	at resp.Stamp
}

func serviceAt(m *Machine, at resp.Stamp) service { return service{marks{m}, at} }

// ready serves the queues that are marked, in the order of their marks. Queues that are marked meanwhile come last. A
// waiter does not pay for the work of the command that woke it.
func (s service) ready() {
	before := s.m.meter.Restart()
	defer func() { s.m.meter.Spend(before) }()
	for {
		s.wakeLibraries()
		q, ok := s.m.waits.Ready.Take()
		switch {
		case !ok:
			return
		case q.Kind == wait.LockLine:
			s.line(lock.Name{Space: q.DB, Key: q.Key}, s.m.tick)
		default:
			s.queue(q)
		}
	}
}

// queue serves the waiters of a queue, as long as its key holds something for them.
func (s service) queue(q wait.Queue) {
	s.m.serving = true
	defer func() { s.m.serving = false }()
	for w := s.m.waits.Queues.Next(q, 0); w != nil; w = s.m.waits.Queues.Next(q, w.Seq) {
		c := &ctx{m: s.m, at: s.at, db: q.DB}
		if e := c.lookup(q.Key); e == nil || e.Aggregate() == nil || kindOf(e.Aggregate().Kind()) != q.Kind {
			return
		}
		if s.m.servedBytes > meter.ReplyBytesMax || s.m.meter.Exceeded() {
			s.end(w, resp.BlockDropped, resp.Reply{}) // its node asks again, in another entry
			continue
		}
		if ready := pendingOf(w).ready; ready != nil && !ready(c, q.Key) {
			continue
		}
		s.serve(c, w, q.Key)
	}
}

// serve executes the command of a waiter.
func (s service) serve(c *ctx, w *wait.Waiter, key string) {
	s.m.meter.Spend(s.m.waits.Leave(w))
	began, lastFence := s.m.out.Mark(), s.m.keys.LastFence
	c.why = causeOf(w, s.m.tick)
	p := pendingOf(w)
	reply, u := p.take(c, key)
	if p.lock != nil {
		u = reverseLock(s.m, w.DB, p, reply, lastFence)
	}
	s.m.servedBytes += reply.Size()
	s.m.meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	given := s.remember(w.ID, w.DB, u, true)
	s.m.out.EmitServed(resp.BlockEnd{ID: w.ID, Reply: reply, Given: given, Waited: true}, began)
}

// remember keeps a gift, and reports whether it does. A command that has changed nothing has no reversal.
func (s service) remember(id resp.BlockID, db int, u *wait.Reversal, waited bool) bool {
	if u == nil {
		return false
	}
	given, work := s.m.waits.Gifts.Give(&wait.Gift{
		ID: id, Entry: s.m.index, Tick: s.m.tick, DB: db, Version: s.m.keys.Sequence, Waited: waited, Reversal: *u,
	})
	s.m.meter.Spend(work)
	return given
}

// sweepSessions ends the sessions that were not renewed, with all their waiters.
func (s service) sweepSessions() {
	for _, id := range s.m.waits.Sessions.Over(s.m.tick) {
		s.closeSession(id)
	}
	s.m.waits.Gifts.Sweep(s.m.tick)
}

// closeSession ends a session with all its waiters.
func (s service) closeSession(id uint64) {
	for _, w := range s.m.waits.Of(id) {
		s.end(w, resp.BlockLapsed, resp.Reply{})
	}
	s.m.waits.Sessions.Close(id)
}

// end ends a wait. Those behind in a line may be served by it.
func (s service) end(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	s.drop(w, how, reply)
	if w.Lock() != nil {
		s.left(w.Name())
	}
}

// drop ends a wait, without serving those behind.
func (s service) drop(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	s.m.meter.Spend(s.m.waits.Leave(w))
	s.m.recordWaitEnd(w, how, reply)
	end := &resp.BlockEnd{ID: w.ID, How: how, Reply: reply}
	if how == resp.BlockDropped || how == resp.BlockLapsed {
		end.Args = w.Args
	}
	s.m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: end})
}

// tell emits the end of a command that does not wait.
func (s service) tell(id resp.BlockID, how resp.Ending) {
	s.m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: id, How: how}})
}

// sweepLines ends the leases and the waits that are over of keys that somebody stands in line for, however many: or
// else a command of this entry might find one of them over, and take the lock before those in line.
func (s service) sweepLines() {
	for db := range s.m.keys.DBs {
		for _, name := range s.lines(db) {
			s.sweepLine(name)
		}
	}
}

// sweepLine is sweepLines of one lock.
func (s service) sweepLine(name lock.Name) {
	over := s.m.waits.Line().Overdue(name, s.m.tick)
	for {
		e, ok := s.m.keys.DBs[name.Space].Keys.Get(name.Key)
		switch {
		case ok && e.Due(s.m.tick) && (len(over) == 0 || e.Ends() <= over[0].End):
			s.expire(name.Space, e)
		case len(over) == 0:
			return
		default:
			if w := s.m.waits.InLine(over[0]); w != nil {
				s.timeOut(w)
			}
			over = over[1:]
		}
	}
}

// expire ends the next lease of a key, at its moment, and lets those in line have what it frees.
func (s service) expire(db int, e *store.Entry) {
	gave := e.Ends() + 1
	s.m.endLeases(db, e, gave)
	s.moveUp(lock.Name{Space: db, Key: e.Key()}, gave)
}

// timeOut ends a wait whose time is over, at its moment. Those behind may share the lock then.
func (s service) timeOut(w *wait.Waiter) {
	s.end(w, resp.BlockTimedOut, resp.Reply{})
	if w.Lock() != nil {
		s.moveUp(w.Name(), w.End+1)
	}
}

// moveUp serves the line of a lock that has given way at a tick, if the lock was the last to be marked.
func (s service) moveUp(name lock.Name, gave int64) {
	if s.m.waits.Ready.Has(wait.LineOf(name)) {
		s.m.waits.Ready.Truncate(s.m.waits.Ready.Len() - 1)
		s.line(name, gave)
	}
}

// line serves the line of a lock that has given way at a tick. What has ended since is still there: each lease and each
// wait ends at its moment, the earliest first, or a waiter would be granted what was held in its time.
func (s service) line(name lock.Name, gave int64) {
	s.m.serving = true
	defer func() { s.m.serving = false }()
	c := &ctx{m: s.m, at: s.at, db: name.Space, moment: gave}
	c.lookup(name.Key) // a lease that is over ends first
	for s.turn(c, name, gave) {
	}
}

// turn does what comes next in the line for a lock, and reports whether there was anything.
func (s service) turn(c *ctx, name lock.Name, gave int64) bool {
	t := lockTable(c)
	turn := t.Turn(name, gave, c.at.Tick, s.m.searched <= deadlockEntryWorkMax)
	s.m.searched += payFor(s.m, &t)
	if turn.What == lock.Rest {
		return false
	}
	switch w := s.m.waits.InLine(turn.Waiter); turn.What {
	case lock.Grant:
		s.serve(c, w, name.Key)
	case lock.GiveUp:
		s.drop(w, resp.BlockTimedOut, resp.Reply{})
	case lock.Refuse:
		s.drop(w, resp.BlockServed, resp.Fail(lockError(turn.Err)))
	case lock.Deadlock:
		s.breakCircle(turn.Circle)
	}
	return true
}

const errDeadlockFmt = "DEADLOCK %s holds %s and waits for %s%s"

// deadlockEntryWorkMax bounds the work of all searches for circles of one entry, 0.1 s. Beyond it none is found.
const deadlockEntryWorkMax = 1 << 29

// mayWait reports whether a waiter that has just begun to wait may go on.
func (s service) mayWait(now int64, w *wait.Waiter) bool {
	if w.Lock() == nil {
		return true
	}
	for circle := s.circle(now, w.Name()); circle != nil; circle = s.circle(now, w.Name()) {
		s.breakCircle(circle)
		s.left(w.Name())
	}
	return s.m.waits.Waiter(w.ID) == w
}

// circle looks for owners that wait for each other, through the line for a lock.
func (s service) circle(now int64, name lock.Name) *lock.Circle {
	if s.m.searched > deadlockEntryWorkMax {
		return nil
	}
	t := lockTable(&ctx{m: s.m})
	circle := t.Circle(name, now)
	s.m.searched += payFor(s.m, &t)
	return circle
}

// breakCircle ends the wait that has closed a circle.
func (s service) breakCircle(circle *lock.Circle) {
	owner, holds, waits, through := circle.Tell()
	s.drop(s.m.waits.InLine(circle.Waiter), resp.BlockServed, resp.Errf(errDeadlockFmt, owner, holds, waits, through))
}
