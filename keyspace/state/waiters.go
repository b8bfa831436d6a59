package state

import (
	"slices"
	"strings"

	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Waiters tells package wait what changes, and ends waits. The queues that are marked are served at the end of the
// command.
type Waiters struct{ s *State }

// Waiters returns what tells package wait of the state's changes.
func (s *State) Waiters() Waiters { return Waiters{s} }

// markWaiters marks the queues and the lines that a change may serve.
func markWaiters(s *State, _ *lifecycle.Cause, c store.Change) {
	n, name := Waiters{s}, lock.Name{Space: c.DB, Key: c.Key()}
	if c.Next != nil {
		n.arrived(c.DB, c.Next)
		n.taken(name)
	}
	if c.Next == nil || s.Expired(c.Next) || givesWay(c.Was, c.Next) {
		n.freed(name)
	}
}

// KindOf returns the kind of the waits for values of a kind.
func KindOf(k *value.Kind) wait.Kind { return wait.Kind(k.Image) }

// queueOf returns the queue for what a key holds, which is no string.
func queueOf(db int, e *store.Entry) wait.Queue {
	return wait.Queue{DB: db, Key: e.Key(), Kind: KindOf(e.Aggregate().Kind())}
}

// arrived marks a key that holds a value for which others may wait.
func (n Waiters) arrived(db int, e *store.Entry) {
	if e.Aggregate() == nil || n.s.Waits.Len() == 0 {
		return
	}
	if e.Lock() == nil {
		n.freed(lock.Name{Space: db, Key: e.Key()}) // it is no lock
	}
	n.s.Waits.Arrived(queueOf(db, e))
}

// Swapped marks all keys of a database that somebody waits for, because its content was replaced. It visits the waiters
// or the keys, whichever are fewer.
func (n Waiters) Swapped(db int) {
	n.AllFreed(db)
	d, waiting := n.s.Keys.DBs[db], n.s.Waits.Queues.Len()
	if d.Keys.Len() < waiting {
		n.s.Meter.Spend((value.VisitWork + value.TreeWork(waiting)) * int64(d.Keys.Len()))
		n.allArrived(db)
		return
	}
	n.s.Meter.Spend((value.VisitWork + value.TreeWork(d.Keys.Len())) * int64(waiting))
	for _, key := range n.s.Waits.Queues.Keys(db) {
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(db, e)
		}
	}
}

// allArrived marks the keys of a database that hold what somebody waits for, in the order of the keys.
func (n Waiters) allArrived(db int) {
	var found []*store.Entry
	for e := range n.s.Keys.DBs[db].Keys.Each {
		if e.Aggregate() != nil && n.s.Waits.Queues.Next(queueOf(db, e), 0) != nil {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *store.Entry) int { return strings.Compare(a.Key(), b.Key()) })
	for _, e := range found {
		n.arrived(db, e)
	}
}

// Present marks the keys of a waiter that hold what it waits for.
func (n Waiters) Present(w *wait.Waiter) {
	if w.Lock() != nil {
		n.freed(w.Name())
		return
	}
	d := n.s.Keys.DBs[w.DB]
	for _, key := range w.Keys() {
		n.s.Meter.Spend(d.FindWork(key))
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(w.DB, e)
		}
	}
}

// freed marks a lock that somebody waits for, because its key has gone, has fewer holders, or holds what is no lock.
func (n Waiters) freed(name lock.Name) { n.s.Meter.Spend(n.s.Waits.Freed(name)) }

// taken marks a lock that somebody waits for, because a token that waits has come to hold it in another way than by
// its LOCK: by SET, or by a script.
func (n Waiters) taken(name lock.Name) {
	waits, work := n.s.Waits.Awaited(name)
	if n.s.Meter.Spend(work); !waits {
		return
	}
	t := LockTable(n.s.Holdings(0))
	if t.HolderWaits(name) {
		n.s.Waits.Ready.Mark(wait.LineOf(name))
	}
	PayFor(n.s, &t)
}

// Left marks a lock whose line somebody has left, or asks otherwise in: those behind may share it with its holders.
func (n Waiters) Left(name lock.Name) {
	if e, _ := n.s.Keys.DBs[name.Space].Keys.Get(name.Key); e.Lock() != nil {
		n.freed(name)
	}
}

// givesWay reports whether a lock has lost holders, and has some left.
func givesWay(was, next *store.Entry) bool {
	before, after := was.Lock(), next.Lock()
	return before != nil && after != nil && after.Len() < before.Len()
}

// AllFreed marks the locks of a database whose content was replaced: a lock may be free now, or a token that waits for
// it may hold it.
func (n Waiters) AllFreed(db int) {
	for _, name := range n.Lines(db) {
		if e, ok := n.s.Keys.DBs[db].Keys.Get(name.Key); !ok || e.Aggregate() != nil {
			n.freed(name)
		} else {
			n.taken(name)
		}
	}
}

// Lines lists the locks of a database that somebody stands in line for, in the order of their keys.
func (n Waiters) Lines(db int) []lock.Name {
	if n.s.Waits.Line().Len() == 0 {
		return nil
	}
	n.s.Meter.Spend((value.VisitWork + value.TreeWork(n.s.Keys.DBs[db].Keys.Len())) * int64(n.s.Waits.Line().Len()))
	return n.s.Waits.Line().Locks(db)
}

// Emptied lets nothing return to the databases from one to before another. A client that waits for the answer may still
// be told what it was given.
func (n Waiters) Emptied(from, to int) {
	lost, work := n.s.Waits.Gifts.Returnable(from, to)
	n.s.Meter.Spend(work)
	if len(lost) == 0 {
		return
	}
	if j := n.s.Journal; j != nil && j.gifts == nil {
		j.gifts = n.s.Waits.Gifts.Copy()
	}
	n.s.Meter.Spend(n.s.Waits.Gifts.Forfeit(lost))
}

// End ends a wait. Those behind in a line may be served by it.
func (n Waiters) End(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	n.Drop(w, how, reply)
	if w.Lock() != nil {
		n.Left(w.Name())
	}
}

// Drop ends a wait, without serving those behind.
func (n Waiters) Drop(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	n.s.Meter.Spend(n.s.Waits.Leave(w))
	n.record(w, how, reply)
	end := &resp.BlockEnd{ID: w.ID, How: how, Reply: reply}
	if how == resp.BlockDropped || how == resp.BlockLapsed {
		end.Args = w.Args
	}
	n.s.Out.Emit(resp.Message{Kind: resp.MessageBlock, Block: end})
}

// Tell emits the end of a command that does not wait.
func (n Waiters) Tell(id resp.BlockID, how resp.Ending) {
	n.s.Out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: id, How: how}})
}

// record notes how a wait in line has ended, other than by the lock.
func (n Waiters) record(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	want := w.Lock()
	if want == nil || !n.s.Locks().NamesLock(w.Name().Key) {
		return
	}
	e := &history.Event{
		Kind: history.Gone, DB: w.DB, Tick: n.s.Tick, Key: w.Name().Key, Token: want.Token, Owner: want.Owner,
		Permits: int64(want.Mode),
	}
	switch {
	case how == resp.BlockTimedOut:
		e.Kind, e.Tick = history.GaveUp, min(n.s.Tick, w.End)
	case how != resp.BlockServed:
	case reply.Str == resp.ErrTokenElsewhere:
		e.Kind = history.Replaced
	case reply.IsErr():
		e.Kind, e.Reason = history.Refused, reply.Str
	default:
		e.Kind = history.Left
	}
	e.WaitedMs = w.WaitedMs(e.Tick)
	n.s.Locks().Record(&lifecycle.Cause{Client: w.Client}, e)
}
