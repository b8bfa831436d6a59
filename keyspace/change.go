package keyspace

import (
	"lockd/keyspace/emit"
	"lockd/keyspace/fate"
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// observer learns of a change of a key, once it is made. why is read only.
type observer func(s *state, why *fate.Cause, c store.Change)

// observers lists those who learn of each change, in this order. The digest and the order of messages follow from it:
// what has become of a lock is told before the event "new" of its key.
var observers = [...]observer{
	noteLock,     // what becomes of a lock
	foldChange,   // the digest
	trackChange,  // clients that track the key
	notifyNew,    // the event "new"
	markWaiters,  // those who wait for the key, or in its line
	queueWakeups, // those who wait by a library
}

// put makes next the entry of key, or the key absent where next is nil; was is the entry that is stored there now. It
// is the one function that changes a key, so that nothing of what a change means can be forgotten: it decides whether,
// has the store change it, and tells the observers.
func (s *state) put(why *fate.Cause, db int, key string, was, next *store.Entry) {
	next, raises, ok := s.allow(why, key, was, next)
	if !ok {
		return
	}
	c := s.keys.Put(s.leastFence(), db, key, was, next, raises)
	s.meter.Spend(c.Work)
	for _, tell := range observers {
		tell(s, why, c)
	}
}

// allow decides whether a change may be made: a dry run makes none. It completes a new entry with the facts of the lock
// that the key is, says whether the lock needs a new fence, and notes a grant that an embargo forbids.
func (s *state) allow(why *fate.Cause, key string, was, next *store.Entry) (complete *store.Entry, raises, ok bool) {
	if s.dryRun.stops() {
		return nil, false, false
	}
	complete, raises = s.locks().Complete(why, was, next)
	s.embargo.Check(why, key, was, complete)
	return complete, raises, true
}

// foldChange folds what the key holds into the digest.
func foldChange(s *state, _ *fate.Cause, c store.Change) { s.digest.Stored(c.DB, c.Key, c.Next) }

// trackChange adds a change to those that the entry emits.
func trackChange(s *state, _ *fate.Cause, of store.Change) {
	e := of.Next
	if e == nil {
		e = of.Was
	}
	c := resp.Change{Key: e.Key()}
	if s.serving {
		c.Kind = resp.ChangeServed // the waiter's change, not that of the command that made the key ready
	}
	s.out.Change(c)
}

// notifyNew sends the event of a key that comes into being.
func notifyNew(s *state, _ *fate.Cause, c store.Change) {
	if c.Was == nil && c.Next != nil {
		s.notify(c.DB, emit.New, "new", c.Key)
	}
}

// expire ends a lease.
func (s *state) expire(db int, e *store.Entry) {
	s.put(&fate.LeaseIsOver, db, e.Key(), e, nil)
	s.out.MarkExpired()
	s.stats.expiredKeys++
	s.notify(db, emit.Expired, "expired", e.Key())
}

// endLeases ends the leases of e that are over at a tick, and returns what is left of it, or nil.
func (s *state) endLeases(db int, e *store.Entry, tick int64) *store.Entry {
	if e.Lock() == nil || tick > e.Tick {
		s.expire(db, e)
		return nil
	}
	return endHolders(s, db, e, tick)
}

// journal remembers where the rest of the machine stood when an attempt began, which the store undoes: a script that
// meets a limit must not leave half of its writes.
type journal struct {
	out    emit.Mark
	reads  int // recorded reads
	ready  int // keys that have become ready
	gone   int // keys that have gone
	events history.Mark
	stats  stats
	gifts  *wait.Gifts // before the first FLUSHALL or FLUSHDB that concerned one
}

// begin starts an attempt: what it does can be taken back.
func (s *state) begin() {
	s.keys.Begin()
	s.journal = &journal{
		out: s.out.Mark(), reads: s.reads.Len(), ready: s.waits.Ready.Len(), gone: len(s.gone),
		stats: s.stats, events: s.events.Mark(),
	}
}

// replaceDatabases must come before a change that replaces databases.
func (s *state) replaceDatabases() {
	s.out.Change(resp.Change{Kind: resp.ChangeAll})
	s.keys.KeepDatabases()
}

// commit ends the attempt and keeps what it did.
func (s *state) commit() {
	forgetAnnounced(s, s.journal)
	s.journal = nil
	s.keys.Commit()
}

// rollback ends the attempt and undoes what it did.
func (s *state) rollback() {
	j := s.journal
	s.journal = nil
	s.keys.Rollback()
	if j.gifts != nil {
		s.waits.Gifts = *j.gifts
	}
	s.out.Truncate(j.out)
	s.reads.Truncate(j.reads)
	s.waits.Ready.Truncate(j.ready)
	s.gone = s.gone[:j.gone]
	s.events.Truncate(j.events)
	s.stats = j.stats
}

// storeLock stores a lock that several may hold. Its key ends with the last of its holders.
func (s *state) storeLock(why *fate.Cause, db int, key string, was *store.Entry, l *lock.Many) {
	s.meter.Spend(value.LockWork(l))
	s.put(why, db, key, was, store.NewEntry(key, was, value.OfAggregate((*value.Lock)(l)), store.EndOf(l)))
}

// until returns the entry of a key with another deadline: that of all holders, if it is a lock of many.
func (s *state) until(why *fate.Cause, was *store.Entry, d store.Deadline) *store.Entry {
	l := was.Lock()
	if l == nil || s.dryRun.stops() {
		return store.NewTagged(was.Key(), was, was.Value(), d, was.Tag())
	}
	s.meter.Spend(value.LockWork(l))
	s.keys.Sequence++
	all := l.Until(func(h *lock.Holder) {
		h.Tick, h.WallMs, h.Version = d.Tick, d.WallMs, s.keys.Sequence
		s.locks().StampLease(why, was.Key(), h)
	})
	return store.NewEntry(was.Key(), was, value.OfAggregate((*value.Lock)(all)), d)
}

// endHolders ends the leases of holders that are over at a tick, of a lock that has others.
func endHolders(s *state, db int, e *store.Entry, tick int64) *store.Entry {
	left := e.Lock().Without(func(h *lock.Holder) bool { return tick > h.Tick })
	s.storeLock(&fate.LeaseIsOver, db, e.Key(), e, left)
	s.out.MarkExpired()
	s.notify(db, emit.Generic, "unlock", e.Key())
	next, _ := s.keys.DBs[db].Keys.Get(e.Key())
	return next
}
