package state

import (
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// observer learns of a change of a key, once it is made. why is read only.
type observer func(s *State, why *lifecycle.Cause, c store.Change)

// observers learn of each change, in this order. The digest and the order of messages follow from it:
// what has become of a lock is told before the event "new" of its key.
var observers = [...]observer{
	recordLock,   // the history of locks
	foldChange,   // the digest
	trackChange,  // clients that track the key
	notifyNew,    // the event "new"
	markWaiters,  // waiters for the key, and in its line
	queueWakeups, // programs that wait by a library
}

// Put makes next the entry of its key, or the key of was absent where next is nil; was is the entry that is stored now.
// It is the one function that changes a key, so that nothing of what a change means can be forgotten: it decides
// whether, has the store change it, and tells the observers. It returns the entry as it is stored: nil if there is none,
// or a dry run makes no change.
func (s *State) Put(why *lifecycle.Cause, db int, was, next *store.Entry) *store.Entry {
	next, raises, ok := s.allow(why, was, next)
	if !ok {
		return nil
	}
	c := s.Keys.Put(s.LeastFence(), db, was, next, raises)
	s.Meter.Spend(c.Work)
	for _, tell := range observers {
		tell(s, why, c)
	}
	return next
}

// allow decides whether a change may be made: a dry run makes none. It completes a new entry with the facts of the lock
// that the key is, says whether the lock needs a new fence, and notes a grant that an embargo forbids.
func (s *State) allow(why *lifecycle.Cause, was, next *store.Entry) (complete *store.Entry, raises, ok bool) {
	if s.DryRun.Stops() {
		return nil, false, false
	}
	complete, raises = s.Locks().Complete(why, was, next)
	s.Embargo.Check(why, was, complete)
	return complete, raises, true
}

// foldChange folds what the key holds into the digest.
func foldChange(s *State, _ *lifecycle.Cause, c store.Change) { s.Digest.Stored(c.DB, c.Key(), c.Next) }

// trackChange emits a change of a key.
func trackChange(s *State, _ *lifecycle.Cause, of store.Change) {
	c := resp.Change{Key: of.Key()}
	if s.Serving {
		c.Kind = resp.ChangeServed // the waiter's change, not that of the command that made the key ready
	}
	s.Out.Change(c)
}

// notifyNew sends the event of a key that comes into being.
func notifyNew(s *State, _ *lifecycle.Cause, c store.Change) {
	if c.Was == nil && c.Next != nil {
		s.Notify(c.DB, emit.New, "new", c.Key())
	}
}

// expire ends a lease.
func (s *State) expire(db int, e *store.Entry) {
	s.Put(&lifecycle.LeaseIsOver, db, e, nil)
	s.Out.MarkExpired()
	s.Stats.ExpiredKeys++
	s.Notify(db, emit.Expired, "expired", e.Key())
}

// EndLeases ends the leases of e that are over at a tick, and returns what is left of it, or nil.
func (s *State) EndLeases(db int, e *store.Entry, tick int64) *store.Entry {
	if e.Lock() == nil || tick > e.Tick {
		s.expire(db, e)
		return nil
	}
	return endHolders(s, db, e, tick)
}

// journal remembers where all but the keys stood when an attempt began, which the store undoes: a script that
// meets a limit must not leave half of its writes.
type journal struct {
	out    emit.Mark
	reads  int // recorded reads
	ready  int // keys that have become ready
	gone   int // keys that have gone
	events history.Mark
	stats  Stats
	gifts  *wait.Gifts // before the first FLUSHALL or FLUSHDB that concerned one
}

// Begin starts an attempt: what it does can be taken back.
func (s *State) Begin() {
	s.Keys.Begin()
	s.Journal = &journal{
		out: s.Out.Mark(), reads: s.Reads.Len(), ready: s.Waits.Ready.Len(), gone: len(s.Gone),
		stats: s.Stats, events: s.Events.Mark(),
	}
}

// ReplaceDatabases must come before a change that replaces databases.
func (s *State) ReplaceDatabases() {
	s.Out.Change(resp.Change{Kind: resp.ChangeAll})
	s.Keys.KeepDatabases()
}

// Commit ends the attempt and keeps what it did.
func (s *State) Commit() {
	forgetAnnounced(s, s.Journal)
	s.Journal = nil
	s.Keys.Commit()
}

// Rollback ends the attempt and undoes what it did.
func (s *State) Rollback() {
	j := s.Journal
	s.Journal = nil
	s.Keys.Rollback()
	if j.gifts != nil {
		s.Waits.Gifts = *j.gifts
	}
	s.Out.Truncate(j.out)
	s.Reads.Truncate(j.reads)
	s.Waits.Ready.Truncate(j.ready)
	s.Gone = s.Gone[:j.gone]
	s.Events.Truncate(j.events)
	s.Stats = j.stats
}

// EntryOfMany returns the entry of a lock that several may hold. Its key ends with the last of its holders.
func EntryOfMany(s *State, key string, was *store.Entry, l *lock.Many) *store.Entry {
	s.Meter.Spend(value.LockWork(l))
	return store.NewEntry(key, was, value.OfAggregate((*value.Lock)(l)), store.EndOf(l), nil, store.NoLock)
}

// Until returns the entry of a key with another deadline: that of all holders, if it is a lock of many.
func (s *State) Until(why *lifecycle.Cause, was *store.Entry, d store.Deadline) *store.Entry {
	l := was.Lock()
	if l == nil || s.DryRun.Stops() {
		return store.NewEntry(was.Key(), was, was.Value(), d, was.Tag(), was.Mark())
	}
	s.Keys.Sequence++
	all := l.Until(func(h *lock.Holder) {
		h.Tick, h.WallMs, h.Version = d.Tick, d.WallMs, s.Keys.Sequence
		s.Locks().StampLease(why, was.Key(), h)
	})
	return EntryOfMany(s, was.Key(), was, all)
}

// endHolders ends the leases of holders that are over at a tick, of a lock that has others.
func endHolders(s *State, db int, e *store.Entry, tick int64) *store.Entry {
	left := e.Lock().Without(func(h *lock.Holder) bool { return tick > h.Tick })
	next := s.Put(&lifecycle.LeaseIsOver, db, e, EntryOfMany(s, e.Key(), e, left))
	s.Out.MarkExpired()
	s.Notify(db, emit.Generic, "unlock", e.Key())
	return next
}
