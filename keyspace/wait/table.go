package wait

import (
	"cmp"

	"github.com/tidwall/btree"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Limits of the waiters of the whole cluster.
const (
	WaitersMax = 1 << 16
	BytesMax   = 64 << 20
	KeysMax    = 1 << 14 // of one command
	LineMax    = 1 << 14 // in the line for one lock
	LinesMax   = 3 << 14 // in all lines; waiters for other things have room beside them
)

// lineWork is the work of looking whether somebody waits for a lock.
const lineWork = 2 * value.FindWork

// What Admit answers a command that may not wait.
const (
	ErrTooManyWaiters = resp.Error("ERR too many clients wait in blocking commands")
	ErrTooManyKeys    = resp.Error("ERR too many keys to wait for")
	ErrTooManyInLine  = resp.Error("ERR too many clients wait for this lock")
	ErrTooManyInLines = resp.Error("ERR too many clients wait for locks")
)

// Table has everything that waits.
type Table struct {
	Sessions Sessions
	Gifts    Gifts
	Ready    Ready

	LastSeq uint64                 // the last place that was given to a waiter
	waiters *btree.BTreeG[*Waiter] // by id

	// Derived from these.
	Queues Queues             // of waiters whose session is not suspended, but for those in line
	line   lock.Line          // the waiters for locks
	ends   *btree.BTreeG[end] // of waiters that do not wait for ever
	bytes  int64
}

// end is the end of a waiter's time.
type end struct {
	tick int64
	seq  uint64
	of   *Waiter
}

func byEnd(a, b end) bool { return cmp.Or(cmp.Compare(a.tick, b.tick), cmp.Compare(a.seq, b.seq)) < 0 }

// New returns a table in which nobody waits.
func New() Table {
	return Table{
		Sessions: newSessions(), Gifts: newGifts(),
		waiters: newOrder(func(a, b *Waiter) bool { return byID(a.ID, b.ID) }),
		Queues:  Queues{newOrder(byPlace)}, line: lock.NewLine(), ends: newOrder(byEnd),
	}
}

// Cleared returns a table in which nobody waits, and which gives no number a second time.
func (t *Table) Cleared() Table {
	next := New()
	next.LastSeq, next.Sessions.Last = t.LastSeq, t.Sessions.Last
	return next
}

// Len is the number of waiters.
func (t *Table) Len() int { return t.waiters.Len() }

// Bytes is the memory that all waiters are assumed to take.
func (t *Table) Bytes() int64 { return t.bytes }

// Line returns the waiters for locks. It is for reading.
func (t *Table) Line() *lock.Line { return &t.line }

// Waiter returns the waiter with an id, or nil.
func (t *Table) Waiter(id resp.BlockID) *Waiter {
	w, _ := t.waiters.Get(&Waiter{ID: id})
	return w
}

// InLine returns the LOCK that waits at a place in a line; nil: it does not any more.
func (t *Table) InLine(at *lock.Waiter) *Waiter {
	if w := t.Waiter(resp.BlockID(at.ID)); w != nil && w.inLine == at {
		return w
	}
	return nil
}

// Each visits the waiters, by their ids.
func (t *Table) Each(visit func(w *Waiter) bool) { t.waiters.Scan(visit) }

// Of lists the waiters of a session.
func (t *Table) Of(session uint64) (waiting []*Waiter) {
	t.waiters.Ascend(&Waiter{ID: resp.BlockID{Session: session}}, func(w *Waiter) bool {
		if w.ID.Session == session {
			waiting = append(waiting, w)
		}
		return w.ID.Session == session
	})
	return waiting
}

// State returns what is known of a command.
func (t *Table) State(id resp.BlockID) resp.BlockState {
	switch {
	case id.Session > t.Sessions.Last:
		return resp.BlockUnseen
	case !t.Sessions.Has(id.Session):
		return resp.BlockOver
	case t.Waiter(id) != nil:
		return resp.BlockWaiting
	case t.Sessions.Used(id):
		return resp.BlockOver
	}
	return resp.BlockUnseen
}

// Admit gives a waiter its place among all, or says why the command may not wait.
func (t *Table) Admit(w *Waiter) error {
	switch {
	case len(w.Keys()) > KeysMax:
		return ErrTooManyKeys
	case t.waiters.Len() >= WaitersMax || t.bytes+w.bytes() > BytesMax:
		return ErrTooManyWaiters
	}
	if w.Lock() != nil && t.line.Waiter(w.Name(), w.Lock().Token) == nil {
		switch {
		case t.line.LenOf(w.Name()) >= LineMax:
			return ErrTooManyInLine
		case t.line.Len() >= LinesMax:
			return ErrTooManyInLines
		}
	}
	t.LastSeq++
	w.Seq = t.LastSeq
	return nil
}

// Enter has a waiter wait at its place, and returns its work. In a line its token has no other place.
func (t *Table) Enter(w *Waiter) (work int64) {
	work = t.placesWork(w)
	t.waiters.Set(w)
	t.bytes += w.bytes()
	if w.Lock() != nil {
		w.inLine = w.lineWaiter()
		t.line.Enter(w.inLine)
	}
	if t.Sessions.suspended(w.ID.Session) {
		t.unqueue(w)
	} else {
		t.queue(w)
	}
	if w.End != store.Never.Tick {
		t.ends.Set(end{w.End, w.Seq, w})
	}
	return work
}

// Leave has a waiter wait no more, and returns its work.
func (t *Table) Leave(w *Waiter) (work int64) {
	work = t.placesWork(w)
	t.waiters.Delete(w)
	t.bytes -= w.bytes()
	t.ends.Delete(end{w.End, w.Seq, w})
	if w.inLine != nil {
		t.line.Leave(w.inLine)
	} else {
		t.unqueue(w)
	}
	return work
}

// queue puts a waiter into the queues of its keys, at the place that it has had from the beginning.
func (t *Table) queue(w *Waiter) {
	if w.inLine != nil {
		t.line.Resume(w.inLine)
		return
	}
	t.Queues.enter(w)
}

// unqueue has a waiter passed over.
func (t *Table) unqueue(w *Waiter) {
	if w.inLine != nil {
		t.line.PassOver(w.inLine)
		return
	}
	t.Queues.leave(w)
}

// placesWork is the work of adding a waiter to the queues of its keys, or of removing it.
func (t *Table) placesWork(w *Waiter) (work int64) {
	for _, key := range w.Keys() {
		work += value.HashWork * int64(len(key))
	}
	return work + t.findWork()*int64(len(w.Keys()))
}

// findWork is the work of finding a place.
func (t *Table) findWork() int64 { return value.TreeWork(t.Queues.Len() + t.line.Len()) }

// Suspend has the waiters of a session passed over, as its node may be dead: they keep their places. It returns them,
// and its work; ok is false where the session is suspended already, or not open.
func (t *Table) Suspend(session uint64) (passed []*Waiter, work int64, ok bool) {
	if !t.Sessions.suspend(session) {
		return nil, 0, false
	}
	passed = t.Of(session)
	for _, w := range passed {
		work += (t.findWork() + value.CompareWork) * int64(len(w.Keys()))
		t.unqueue(w)
	}
	return passed, work, true
}

// Resume ends a suspension of a session, unless it was suspended again since. Its waiters come back to their places,
// and back is told of each, with the work of that.
func (t *Table) Resume(session, suspensions uint64, back func(w *Waiter, work int64)) {
	if !t.Sessions.resume(session, suspensions) {
		return
	}
	for _, w := range t.Of(session) {
		work := (t.findWork() + value.CompareWork) * int64(len(w.Keys()))
		t.queue(w)
		back(w, work)
	}
}

// Arrived marks the queue of a key that has come to hold a value, if somebody waits in it.
func (t *Table) Arrived(q Queue) {
	if t.Queues.Next(q, 0) != nil {
		t.Ready.Mark(q)
	}
}

// Freed marks the line for a lock that has given way, if somebody waits in it, and returns its work.
func (t *Table) Freed(name lock.Name) (work int64) {
	waits, work := t.Awaited(name)
	if waits {
		t.Ready.Mark(LineOf(name))
	}
	return work
}

// Awaited reports whether somebody waits in the line for a lock, and the work of looking.
func (t *Table) Awaited(name lock.Name) (waits bool, work int64) {
	if t.line.Len() == 0 {
		return false, 0
	}
	return t.line.LenOf(name) > 0, lineWork
}

// FirstEnd returns the waiter whose time is over first; nil: all wait for ever.
func (t *Table) FirstEnd() *Waiter {
	e, _ := t.ends.Min()
	return e.of
}

// NextEnd is the tick after which the time of a waiter, or a session, is over next; false: there is none.
func (t *Table) NextEnd() (tick int64, ok bool) {
	if w := t.FirstEnd(); w != nil {
		tick, ok = w.End, true
	}
	for s := range t.Sessions.byID.Scan {
		if !ok || s.until < tick {
			tick, ok = s.until, true
		}
	}
	return tick, ok
}
