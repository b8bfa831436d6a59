package keyspace

import (
	"strings"

	"lockd/keyspace/fate"
	"lockd/keyspace/history"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// What becomes of locks is noted by package fate: put tells it every change of a key, with its cause.

// locks returns what notes the fate of locks, as of now.
func (m *Machine) locks() fate.Recorder {
	return fate.Recorder{
		Applying: m.applying, Attempt: m.journal != nil, Tick: m.tick, WallMs: m.wallUs / 1000, Index: m.index,
		Settings: m.settings, Meter: &m.meter, Events: &m.events, Digest: &m.digest, Out: &m.out,
	}
}

// noteLock notes who has lost a lock, and to whom it was granted.
func noteLock(m *Machine, why *fate.Cause, c store.Change) {
	if m.applying {
		m.locks().Note(why, c)
	}
}

// Leases returns the leases of locks; see cluster.Machine.
func (m *Machine) Leases(locks []resp.HeldLock) []resp.Lease {
	return fate.Leases(&m.keys, &m.events, locks)
}

// embargoed reports whether no lock is granted yet; see fate.Embargo.
func (m *Machine) embargoed() bool { return m.tick <= m.settings.HoldUntil }

func (m *Machine) embargoError() resp.Reply {
	return fate.EmbargoError(m.settings.HoldUntil - m.tick + 1)
}

// causeOf is the cause of what a waiter is served.
func causeOf(w *wait.Waiter, now int64) fate.Cause {
	return fate.Cause{By: strings.ToLower(w.Args[0]), Client: w.Client, WaitedMs: w.WaitedMs(now)}
}

// recordLocksOf notes what becomes of all locks of a database.
func (m *Machine) recordLocksOf(why *fate.Cause, kind history.Kind, db, other int) {
	if m.keys.DBs[db].Keys.Len() > 0 {
		m.locks().RecordAll(why, kind, db, other)
	}
}

// recordWaitEnd notes how a wait in line has ended, other than by the lock.
func (m *Machine) recordWaitEnd(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	want := w.Lock()
	if want == nil || !m.locks().NamesLock(w.Name().Key) {
		return
	}
	e := &history.Event{
		Kind: history.Gone, DB: w.DB, Tick: m.tick, Key: w.Name().Key, Token: want.Token, Owner: want.Owner,
		Permits: int64(want.Mode),
	}
	switch {
	case how == resp.BlockTimedOut:
		e.Kind, e.Tick = history.GaveUp, min(m.tick, w.End)
	case how != resp.BlockServed:
	case reply.Str == errTokenElsewhere:
		e.Kind = history.Replaced
	case reply.IsErr():
		e.Kind, e.Reason = history.Refused, reply.Str
	default:
		e.Kind = history.Left
	}
	e.WaitedMs = w.WaitedMs(e.Tick)
	m.locks().Record(&fate.Cause{Client: w.Client}, e)
}

// Clients that hold locks get the events of them (history/news.go). What else they need is below.

// emitHeld answers the fence of a LOCK. If the token had the lock before, it also emits a grant: the client may be
// another one now, and has to learn of the loss, too. In the history such a LOCK is a renewal.
func emitHeld(c *ctx, l *lockRequest, again bool, fence resp.Reply) resp.Reply {
	held := resp.HeldLock{DB: c.db, Key: l.key, Token: l.Token, Fence: uint64(fence.Int)}
	if again && c.m.applying && fate.LeaseOf(&c.m.keys, held).Held {
		e := history.Event{Kind: history.Granted, DB: c.db, Tick: c.m.tick, Key: l.key, Token: l.Token, Fence: held.Fence}
		e.LeaseMs = l.leaseMs
		r := c.m.locks()
		r.Attribute(&c.why, &e)
		r.Emit(resp.MessageHeld, history.Append(nil, &e))
	}
	return fence
}
