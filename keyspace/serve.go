package keyspace

import (
	"strings"

	"lockd/keyspace/command"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// A command that finds nothing waits: package wait keeps it, in the order of the log. A change of a key marks what may
// be served (state.Waiters); the entry that has made the change serves it, at the end of the command, transaction or
// script (service).

// service serves waiters, and ends waits, at a stamp.
type service struct {
	state.Waiters
	state *state.State
	at    resp.Stamp
}

func serviceAt(s *state.State, at resp.Stamp) service { return service{s.Waiters(), s, at} }

// ready serves the queues that are marked, in the order of their marks. Queues that are marked meanwhile come last. A
// waiter does not pay for the work of the command that woke it.
func (s service) ready() {
	before := s.state.Meter.Restart()
	defer func() { s.state.Meter.Spend(before) }()
	for {
		s.wakeLibraries()
		q, ok := s.state.Waits.Ready.Take()
		switch {
		case !ok:
			return
		case q.Kind == wait.LockLine:
			s.line(lock.Name{Space: q.DB, Key: q.Key}, s.state.Tick, false)
		default:
			s.queue(q)
		}
	}
}

// queue serves the waiters of a queue, as long as its key holds something for them.
func (s service) queue(q wait.Queue) {
	s.state.Serving = true
	defer func() { s.state.Serving = false }()
	for w := s.state.Waits.Queues.Next(q, 0); w != nil; w = s.state.Waits.Queues.Next(q, w.Seq) {
		c := command.NewCtx(s.state, s.at, q.DB)
		if e := c.Lookup(q.Key); e == nil || e.Aggregate() == nil || state.KindOf(e.Aggregate().Kind()) != q.Kind {
			return
		}
		if s.state.ServedBytes > meter.ReplyBytesMax || s.state.Meter.Exceeded() {
			s.End(w, resp.BlockDropped, resp.Reply{}) // its node asks again, in another entry
			continue
		}
		if !command.Ready(&c, w, q.Key) {
			continue
		}
		s.serve(&c, w, q.Key)
	}
}

// serve executes the command of a waiter.
func (s service) serve(c *command.Ctx, w *wait.Waiter, key string) {
	s.state.Meter.Spend(s.state.Waits.Leave(w))
	began := s.state.Out.Mark()
	c.Why = causeOf(w, s.state.Tick)
	reply, u := command.Serve(c, w, key)
	s.state.ServedBytes += reply.Size()
	s.state.Meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	given := s.remember(w.ID, w.DB, u, true)
	s.state.Out.EmitServed(resp.BlockEnd{ID: w.ID, Reply: reply, Given: given, Waited: true}, began)
}

// causeOf is the cause of what a waiter is served.
func causeOf(w *wait.Waiter, now int64) lifecycle.Cause {
	return lifecycle.Cause{By: strings.ToLower(w.Args[0]), Client: w.Client, WaitedMs: w.WaitedMs(now)}
}

// remember keeps a gift, and reports whether it does. A command that has changed nothing has no reversal.
func (s service) remember(id resp.BlockID, db int, u *wait.Reversal, waited bool) bool {
	if u == nil {
		return false
	}
	given, work := s.state.Waits.Gifts.Give(&wait.Gift{
		ID: id, Entry: s.state.Index, Tick: s.state.Tick, DB: db, Version: s.state.Keys.Sequence, Waited: waited, Reversal: *u,
	})
	s.state.Meter.Spend(work)
	return given
}

// sweepMax bounds the leases, and the keys of waits, that one entry ends before it runs its requests. A lease counts
// for each event of its end, at least once, since a lock may have a thousand holders. The lease or wait that reaches
// the bound still ends. The rest stay due: NextDeadline reports them, and the leader proposes another tick at once.
const sweepMax = 1000

// sweep ends what the clock has ended: leases and waits, the earliest first, up to sweepMax of each,
// and then sessions. The order is total (deadline, database, key), so a machine restored from an image
// ends them in the same order as one that lived through it.
func (s service) sweep() {
	if !s.sweepEnds() {
		s.sweepLines()
	}
	s.sweepSessions()
	s.ready()
}

// sweepEnds ends leases and waits. It reports whether it has come to an end.
func (s service) sweepEnds() bool {
	for leases, waits := 0, 0; leases < sweepMax && waits < sweepMax; {
		db, l, leased := s.state.Keys.NextLease()
		w := s.state.Waits.FirstEnd()
		leased, waited := leased && l.Tick < s.state.Tick, w != nil && w.End < s.state.Tick
		switch {
		case leased && (!waited || l.Tick <= w.End):
			before := s.state.Out.Mark()
			s.expire(db, l.Of)
			leases += max(1, eventsIn(s.state.Out.Since(before)))
		case waited:
			waits += len(w.Keys())
			s.timeOut(w)
		default:
			return true
		}
	}
	return false
}

// eventsIn counts messages about locks.
func eventsIn(messages []resp.Message) (n int) {
	for i := range messages {
		n += resp.One(messages[i].Kind == resp.MessageLock)
	}
	return n
}

// sweepSessions ends the sessions that were not renewed, with all their waiters.
func (s service) sweepSessions() {
	for _, id := range s.state.Waits.Sessions.Over(s.state.Tick) {
		s.closeSession(id)
	}
	s.state.Waits.Gifts.Sweep(s.state.Tick)
}

// closeSession ends a session with all its waiters.
func (s service) closeSession(id uint64) {
	for _, w := range s.state.Waits.Of(id) {
		s.End(w, resp.BlockLapsed, resp.Reply{})
	}
	s.state.Waits.Sessions.Close(id)
}

// sweepLines ends the leases and the waits that are over of keys that somebody stands in line for, however many: or
// else a command of this entry might find one of them over, and take the lock before those in line.
func (s service) sweepLines() {
	for db := range s.state.Keys.DBs {
		for _, name := range s.Lines(db) {
			s.sweepLine(name)
		}
	}
}

// sweepLine is sweepLines of one lock.
func (s service) sweepLine(name lock.Name) {
	over := s.state.Waits.Line().Overdue(name, s.state.Tick)
	for {
		e, ok := s.state.Keys.DBs[name.Space].Keys.Get(name.Key)
		switch {
		case ok && e.Due(s.state.Tick) && (len(over) == 0 || e.Ends() <= over[0].End):
			s.expire(name.Space, e)
		case len(over) == 0:
			return
		default:
			if w := s.state.Waits.InLine(over[0]); w != nil {
				s.timeOut(w)
			}
			over = over[1:]
		}
	}
}

// expire ends the next lease of a key, at its moment, and lets those in line have what it frees.
func (s service) expire(db int, e *store.Entry) {
	freedAt := e.Ends() + 1
	s.state.EndLeases(db, e, freedAt)
	s.moveUp(lock.Name{Space: db, Key: e.Key()}, freedAt)
}

// timeOut ends a wait whose time is over, at its moment. Those behind may share the lock then.
func (s service) timeOut(w *wait.Waiter) {
	s.End(w, resp.BlockTimedOut, resp.Reply{})
	if w.Lock() != nil {
		s.moveUp(w.Name(), w.End+1)
	}
}

// moveUp serves the line of a lock that has given way at a tick, if the lock was the last to be marked.
func (s service) moveUp(name lock.Name, freedAt int64) {
	if s.state.Waits.Ready.Has(wait.LineOf(name)) {
		s.state.Waits.Ready.Truncate(s.state.Waits.Ready.Len() - 1)
		s.line(name, freedAt, true)
	}
}

// line serves the line of a lock that has given way at a tick. What has ended since is still there: each lease and each
// wait ends at its moment, the earliest first, or a waiter would be granted what was held in its time. See
// lock.Table.OnlyEnded.
func (s service) line(name lock.Name, freedAt int64, onlyEnded bool) {
	s.state.Serving = true
	defer func() { s.state.Serving = false }()
	c := command.NewCtx(s.state, s.at, name.Space)
	c.Moment = freedAt
	c.Lookup(name.Key) // a lease that is over ends first
	holdings := s.state.Holdings(freedAt)
	t := state.LockTable(holdings)
	t.OnlyEnded = onlyEnded
	for s.turn(&c, t, name, freedAt) {
	}
}

// turn does what comes next in the line for a lock, and reports whether there was anything.
func (s service) turn(c *command.Ctx, t lock.Table, name lock.Name, freedAt int64) bool {
	turn := t.Turn(name, freedAt, s.at.Tick, s.state.Searched <= deadlockEntryWorkMax)
	s.state.Searched += state.PayFor(s.state, &t)
	if turn.Action == lock.Rest {
		return false
	}
	switch w := s.state.Waits.InLine(turn.Waiter); turn.Action {
	case lock.Grant:
		s.serve(c, w, name.Key)
	case lock.GiveUp:
		s.Drop(w, resp.BlockTimedOut, resp.Reply{})
	case lock.Refuse:
		s.Drop(w, resp.BlockServed, resp.Fail(command.LockError(turn.Err)))
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
		s.Left(w.Name())
	}
	return s.state.Waits.Waiter(w.ID) == w
}

// circle looks for owners that wait for each other, through the line for a lock.
func (s service) circle(now int64, name lock.Name) *lock.Circle {
	if s.state.Searched > deadlockEntryWorkMax {
		return nil
	}
	t := state.LockTable(s.state.Holdings(0))
	circle := t.Circle(name, now)
	s.state.Searched += state.PayFor(s.state, &t)
	return circle
}

// breakCircle ends the wait that has closed a circle.
func (s service) breakCircle(circle *lock.Circle) {
	owner, holds, waits, through := circle.Tell()
	s.Drop(s.state.Waits.InLine(circle.Waiter), resp.BlockServed, resp.Errf(errDeadlockFmt, owner, holds, waits, through))
}
