package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/fate"
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// waiters tells package wait what changes, and ends waits. The queues that are marked are served at the end of the
// command.
type waiters struct{ s *state }

func (s *state) waiters() waiters { return waiters{s} }

// markWaiters marks what a change may give to those who wait.
func markWaiters(s *state, _ *fate.Cause, c store.Change) {
	n, name := waiters{s}, lock.Name{Space: c.DB, Key: c.Key}
	if c.Next != nil {
		n.arrived(c.DB, c.Next)
		n.taken(name)
	}
	if c.Next == nil || s.expired(c.Next) || givesWay(c.Was, c.Next) {
		n.freed(name)
	}
}

// kindOf returns the kind of the waits for values of a kind.
func kindOf(k *value.Kind) wait.Kind { return wait.Kind(k.Image) }

// queueOf returns the queue for what a key holds, which is no string.
func queueOf(db int, e *store.Entry) wait.Queue {
	return wait.Queue{DB: db, Key: e.Key(), Kind: kindOf(e.Aggregate().Kind())}
}

// arrived marks a key that holds a value for which others may wait.
func (n waiters) arrived(db int, e *store.Entry) {
	if e.Aggregate() == nil || n.s.waits.Len() == 0 {
		return
	}
	if e.Lock() == nil {
		n.freed(lock.Name{Space: db, Key: e.Key()}) // it is no lock
	}
	n.s.waits.Arrived(queueOf(db, e))
}

// swapped marks all keys of a database that somebody waits for, because its content was replaced. It visits the waiters
// or the keys, whichever are fewer.
func (n waiters) swapped(db int) {
	n.allFreed(db)
	d, waiting := n.s.keys.DBs[db], n.s.waits.Queues.Len()
	if d.Keys.Len() < waiting {
		n.s.meter.Spend((value.VisitWork + value.TreeWork(waiting)) * int64(d.Keys.Len()))
		n.allArrived(db)
		return
	}
	n.s.meter.Spend((value.VisitWork + value.TreeWork(d.Keys.Len())) * int64(waiting))
	for _, key := range n.s.waits.Queues.Keys(db) {
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(db, e)
		}
	}
}

// allArrived marks the keys of a database that hold what somebody waits for, in the order of the keys.
func (n waiters) allArrived(db int) {
	var found []*store.Entry
	for e := range n.s.keys.DBs[db].Keys.Each {
		if e.Aggregate() != nil && n.s.waits.Queues.Next(queueOf(db, e), 0) != nil {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *store.Entry) int { return strings.Compare(a.Key(), b.Key()) })
	for _, e := range found {
		n.arrived(db, e)
	}
}

// present marks the keys of a waiter that hold what it waits for.
func (n waiters) present(w *wait.Waiter) {
	if w.Lock() != nil {
		n.freed(w.Name())
		return
	}
	d := n.s.keys.DBs[w.DB]
	for _, key := range w.Keys() {
		n.s.meter.Spend(d.FindWork(key))
		if e, ok := d.Keys.Get(key); ok {
			n.arrived(w.DB, e)
		}
	}
}

// freed marks a lock that somebody waits for, because its key has gone, has fewer holders, or holds what is no lock.
func (n waiters) freed(name lock.Name) { n.s.meter.Spend(n.s.waits.Freed(name)) }

// taken marks a lock that somebody waits for, because a token that waits has come to hold it in another way than by
// its LOCK: by SET, or by a script.
func (n waiters) taken(name lock.Name) {
	waits, work := n.s.waits.Awaited(name)
	if n.s.meter.Spend(work); !waits {
		return
	}
	t := lockTable(n.s.holdings(0))
	if t.HolderWaits(name) {
		n.s.waits.Ready.Mark(wait.LineOf(name))
	}
	payFor(n.s, &t)
}

// left marks a lock whose line somebody has left, or asks otherwise in: those behind may share it with its holders.
func (n waiters) left(name lock.Name) {
	if e, _ := n.s.keys.DBs[name.Space].Keys.Get(name.Key); e.Lock() != nil {
		n.freed(name)
	}
}

// givesWay reports whether a lock has lost holders, and has some left.
func givesWay(was, next *store.Entry) bool {
	before, after := was.Lock(), next.Lock()
	return before != nil && after != nil && after.Len() < before.Len()
}

// allFreed marks the locks of a database whose content was replaced.
func (n waiters) allFreed(db int) {
	for _, name := range n.lines(db) {
		if e, ok := n.s.keys.DBs[db].Keys.Get(name.Key); !ok || e.Aggregate() != nil {
			n.freed(name)
		}
	}
}

// lines lists the locks of a database that somebody stands in line for, in the order of their keys.
func (n waiters) lines(db int) []lock.Name {
	if n.s.waits.Line().Len() == 0 {
		return nil
	}
	n.s.meter.Spend((value.VisitWork + value.TreeWork(n.s.keys.DBs[db].Keys.Len())) * int64(n.s.waits.Line().Len()))
	return n.s.waits.Line().Locks(db)
}

// emptied lets nothing return to the databases from one to before another. A client that waits for the answer may still
// be told what it was given.
func (n waiters) emptied(from, to int) {
	lost, work := n.s.waits.Gifts.Returnable(from, to)
	n.s.meter.Spend(work)
	if len(lost) == 0 {
		return
	}
	if j := n.s.journal; j != nil && j.gifts == nil {
		j.gifts = n.s.waits.Gifts.Copy()
	}
	n.s.meter.Spend(n.s.waits.Gifts.Forfeit(lost))
}

// end ends a wait. Those behind in a line may be served by it.
func (n waiters) end(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	n.drop(w, how, reply)
	if w.Lock() != nil {
		n.left(w.Name())
	}
}

// drop ends a wait, without serving those behind.
func (n waiters) drop(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	n.s.meter.Spend(n.s.waits.Leave(w))
	n.record(w, how, reply)
	end := &resp.BlockEnd{ID: w.ID, How: how, Reply: reply}
	if how == resp.BlockDropped || how == resp.BlockLapsed {
		end.Args = w.Args
	}
	n.s.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: end})
}

// tell emits the end of a command that does not wait.
func (n waiters) tell(id resp.BlockID, how resp.Ending) {
	n.s.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: id, How: how}})
}

// errTokenElsewhere answers a waiter whose place another one of its token has taken.
const errTokenElsewhere = "ERR another connection waits for this lock with the same token now, in the same place of the line"

// record notes how a wait in line has ended, other than by the lock.
func (n waiters) record(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	want := w.Lock()
	if want == nil || !n.s.locks().NamesLock(w.Name().Key) {
		return
	}
	e := &history.Event{
		Kind: history.Gone, DB: w.DB, Tick: n.s.tick, Key: w.Name().Key, Token: want.Token, Owner: want.Owner,
		Permits: int64(want.Mode),
	}
	switch {
	case how == resp.BlockTimedOut:
		e.Kind, e.Tick = history.GaveUp, min(n.s.tick, w.End)
	case how != resp.BlockServed:
	case reply.Str == errTokenElsewhere:
		e.Kind = history.Replaced
	case reply.IsErr():
		e.Kind, e.Reason = history.Refused, reply.Str
	default:
		e.Kind = history.Left
	}
	e.WaitedMs = w.WaitedMs(e.Tick)
	n.s.locks().Record(&fate.Cause{Client: w.Client}, e)
}
