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
type observer func(m *Machine, why *fate.Cause, c store.Change)

// observers lists those who learn of each change, in this order. The digest and the order of messages follow from it:
// what has become of a lock is told before the event "new" of its key.
func observers() [6]observer {
	return [...]observer{
		noteLock,     // what becomes of a lock
		foldChange,   // the digest
		trackChange,  // clients that track the key
		notifyNew,    // the event "new"
		markWaiters,  // those who wait for the key, or in its line
		queueWakeups, // those who wait by a library
	}
}

// put makes next the entry of key, or the key absent where next is nil; was is the entry that is stored there now. It
// is the one function that changes a key, so that nothing of what a change means can be forgotten: it decides whether,
// has the store change it, and tells the observers.
func (m *Machine) put(why *fate.Cause, db int, key string, was, next *store.Entry) {
	next, raises, ok := m.allow(why, key, was, next)
	if !ok {
		return
	}
	c := m.keys.Put(m.leastFence(), db, key, was, next, raises)
	m.meter.Spend(c.Work)
	for _, tell := range m.observers {
		tell(m, why, c)
	}
}

// allow decides whether a change may be made: a dry run makes none. It completes a new entry with the facts of the lock
// that the key is, says whether the lock needs a new fence, and notes a grant that an embargo forbids.
func (m *Machine) allow(why *fate.Cause, key string, was, next *store.Entry) (complete *store.Entry, raises, ok bool) {
	if m.dryRun.stops() {
		return nil, false, false
	}
	complete, raises = m.locks().Complete(why, was, next)
	m.embargo.Check(why, key, was, complete)
	return complete, raises, true
}

// foldChange folds what the key holds into the digest.
func foldChange(m *Machine, _ *fate.Cause, c store.Change) { m.digest.Stored(c.DB, c.Key, c.Next) }

// trackChange adds a change to those that the entry emits.
func trackChange(m *Machine, _ *fate.Cause, of store.Change) {
	e := of.Next
	if e == nil {
		e = of.Was
	}
	c := resp.Change{Key: e.Key()}
	if m.serving {
		c.Kind = resp.ChangeServed // the waiter's change, not that of the command that made the key ready
	}
	m.out.Change(c)
}

// notify sends the notifications of an event, if the settings ask for its class. A running script's are taken back with
// its writes.
func (m *Machine) notify(db int, class emit.Classes, event, key string) {
	if asked := m.settings.Notify; asked&class != 0 {
		m.meter.Spend(emit.NotifyWork(key))
		m.out.Notify(asked, db, event, key)
	}
}

// notifyNew sends the event of a key that comes into being.
func notifyNew(m *Machine, _ *fate.Cause, c store.Change) {
	if c.Was == nil && c.Next != nil {
		m.notify(c.DB, emit.New, "new", c.Key)
	}
}

// expired reports whether the lease of e has ended by the machine's clock. The
// machine's, never the reader's: see law 4 of DESIGN.md.
func (m *Machine) expired(e *store.Entry) bool {
	return m.tick > e.Tick
}

// expire ends a lease.
func (m *Machine) expire(db int, e *store.Entry) {
	m.put(&fate.LeaseIsOver, db, e.Key(), e, nil)
	m.out.MarkExpired()
	m.stats.expiredKeys++
	m.notify(db, emit.Expired, "expired", e.Key())
}

// leastFence bounds the fences that the running entry gives from below.
func (m *Machine) leastFence() uint64 { return m.index }

// version returns the version of a key as of now, for WATCH.
func (m *Machine) version(db int, key string) uint64 { return m.keys.Version(m.tick, db, key) }

// endLeases ends the leases of e that are over at a tick, and returns what is left of it, or nil.
func (m *Machine) endLeases(db int, e *store.Entry, tick int64) *store.Entry {
	if e.Lock() == nil || tick > e.Tick {
		m.expire(db, e)
		return nil
	}
	return m.endHolders(db, e, tick)
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
func (m *Machine) begin() {
	m.keys.Begin()
	m.journal = &journal{
		out: m.out.Mark(), reads: m.reads.Len(), ready: m.waits.Ready.Len(), gone: len(m.gone),
		stats: m.stats, events: m.events.Mark(),
	}
}

// replaceDatabases must come before a change that replaces databases.
func (m *Machine) replaceDatabases() {
	m.out.Change(resp.Change{Kind: resp.ChangeAll})
	m.keys.KeepDatabases()
}

// commit ends the attempt and keeps what it did.
func (m *Machine) commit() {
	forgetAnnounced(m, m.journal)
	m.journal = nil
	m.keys.Commit()
}

// rollback ends the attempt and undoes what it did.
func (m *Machine) rollback() {
	j := m.journal
	m.journal = nil
	m.keys.Rollback()
	if j.gifts != nil {
		m.waits.Gifts = *j.gifts
	}
	m.out.Truncate(j.out)
	m.reads.Truncate(j.reads)
	m.waits.Ready.Truncate(j.ready)
	m.gone = m.gone[:j.gone]
	m.events.Truncate(j.events)
	m.stats = j.stats
}

// dryRun is a command that runs to see whether it would change anything.
type dryRun struct {
	running bool
	changes bool // it would: its reply means nothing
}

// stops reports whether a change is only tried, and notes that there would be one.
func (t *dryRun) stops() bool {
	t.changes = t.changes || t.running
	return t.running
}

// found notes an entry that a dry run reads. Whether its lease has ended when the request takes
// effect, only the log can say.
func (t *dryRun) found(now int64, e *store.Entry) {
	if t.running && now > e.Ends() {
		t.changes = true
	}
}

// storeLock stores a lock that several may hold. Its key ends with the last of its holders.
func (m *Machine) storeLock(why *fate.Cause, db int, key string, was *store.Entry, l *lock.Many) {
	m.meter.Spend(value.LockWork(l))
	m.put(why, db, key, was, store.NewEntry(key, was, value.OfAggregate((*value.Lock)(l)), store.EndOf(l)))
}

// until returns the entry of a key with another deadline: that of all holders, if it is a lock of many.
func (m *Machine) until(why *fate.Cause, was *store.Entry, d store.Deadline) *store.Entry {
	l := was.Lock()
	if l == nil || m.dryRun.stops() {
		return store.NewTagged(was.Key(), was, was.Value(), d, was.Tag())
	}
	m.meter.Spend(value.LockWork(l))
	m.keys.Sequence++
	all := l.Until(func(h *lock.Holder) {
		h.Tick, h.WallMs, h.Version = d.Tick, d.WallMs, m.keys.Sequence
		m.locks().StampLease(why, was.Key(), h)
	})
	return store.NewEntry(was.Key(), was, value.OfAggregate((*value.Lock)(all)), d)
}

// endHolders ends the leases of holders that are over at a tick, of a lock that has others.
func (m *Machine) endHolders(db int, e *store.Entry, tick int64) *store.Entry {
	left := e.Lock().Without(func(h *lock.Holder) bool { return tick > h.Tick })
	m.storeLock(&fate.LeaseIsOver, db, e.Key(), e, left)
	m.out.MarkExpired()
	m.notify(db, emit.Generic, "unlock", e.Key())
	next, _ := m.keys.DBs[db].Keys.Get(e.Key())
	return next
}

// usedBytes returns the estimate of the memory that data take, in all databases, and what else clients have left here.
func (m *Machine) usedBytes() int64 {
	return m.library.Bytes() + m.functions.Bytes() + m.waits.Bytes() + m.events.Bytes() + m.keys.Bytes()
}

func (m *Machine) overMemory() bool {
	limit := m.settings.MaxMemoryBytes
	return limit > 0 && m.usedBytes() > limit
}

// exhausted says why the running request may not run another command, or "".
func (m *Machine) exhausted(row *resp.Row[parser]) string {
	if why := m.meter.Exhausted(); why != "" || row.Flags&resp.DenyOOM == 0 {
		return why
	}
	return m.meter.Grown(m.usedBytes())
}
