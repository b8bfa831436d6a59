package keyspace

import (
	"slices"

	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// watchBuckets is the size of the table that remembers, for keys that are absent,
// when one like them was last created. Two keys in one bucket cost a transaction
// that would not have had to be repeated, nothing worse.
const watchBuckets = 1024

// store makes next the entry of key, or the key absent where next is nil; was is
// what is stored there now. It is the one function that changes a database, so
// that nothing of what a change means can be forgotten: the version, the fence,
// the lease, the memory, the journal of a running script, the event "new", the
// change for clients that track the key, what becomes of a lock, and that its waiters may be
// served, or woken. why is read only.
func (m *Machine) store(why *cause, db int, key string, was, next *store.Entry) {
	if m.dryRun.stops() {
		return
	}
	m.journalEntry(db, key, was)
	if next != nil {
		m.stamp(db, key, was, next)
		m.spend(value.CopyWork * int64(len(next.Str()))) // a string is copied when it is changed
	}
	next = m.recordLock(why, db, key, was, next)
	m.checkEmbargo(why, key, was, next)
	m.spend(m.dbs[db].FindWork(key))
	if was != nil && was.Leased() || next != nil && next.Leased() {
		m.spend(value.TreeWork(m.dbs[db].Leases.Len()))
	}
	m.digest.stored(db, key, next)
	m.dbs[db].Replace(was, next)
	m.trackChange(was, next)
	if was == nil && next != nil {
		m.notify(db, notifyNew, "new", key)
	}
	if next != nil {
		m.markArrived(db, next)
		m.markTaken(lock.Name{Space: db, Key: key})
	}
	if next == nil || m.expired(next) || givesWay(was, next) {
		m.markFreed(lock.Name{Space: db, Key: key})
	}
	if next == nil && was != nil {
		m.queueWakeup(db, was)
	}
}

// stamp completes an entry that is about to be stored.
func (m *Machine) stamp(db int, key string, was, next *store.Entry) {
	switch {
	case was == nil:
		m.nextFence()
		m.sequence++
		m.createdAt[bucket(db, key)] = m.sequence
		next.Fence = m.lastFence
	case store.ChangesToken(was, next):
		m.nextFence()
		next.Fence = m.lastFence
	default:
		next.Fence = was.Fence
	}
	m.sequence++
	next.Version = m.sequence
}

// expired reports whether the lease of e has ended by the machine's clock. The
// machine's, never the reader's: see law 4 of DESIGN.md.
func (m *Machine) expired(e *store.Entry) bool {
	return m.tick > e.Tick
}

// expire ends a lease.
func (m *Machine) expire(db int, e *store.Entry) {
	m.store(&leaseIsOver, db, e.Key(), e, nil)
	m.trackExpiry()
	m.stats.expiredKeys++
	m.notify(db, notifyExpired, "expired", e.Key())
}

// endLeases ends the leases of e that are over at a tick, and returns what is left of it, or nil.
func (m *Machine) endLeases(db int, e *store.Entry, tick int64) *store.Entry {
	if e.Lock() == nil || tick > e.Tick {
		m.expire(db, e)
		return nil
	}
	return m.endHolders(db, e, tick)
}

// bucket is the place of a key in Machine.createdAt.
func bucket(db int, key string) int {
	return int((value.Position(key) ^ uint64(db)*0x9e3779b97f4a7c15) % watchBuckets)
}

// version is what WATCH remembers of a key, and what is compared at EXEC. It
// differs whenever the key was modified in between. An absent key has the
// sequence at which a key of its bucket was last created: to create and delete
// it is seen, and what ends by itself or is flushed needs no care at all. So has one
// whose database was exchanged since then, but with a mark: a key that is there may
// have the same sequence.
func (m *Machine) version(db int, key string) uint64 {
	d := m.dbs[db]
	e, ok := d.Keys.Get(key)
	if ok && !m.expired(e) {
		return max(e.Version, d.Swapped)
	}
	if created := m.createdAt[bucket(db, key)]; created >= d.Swapped {
		return created
	}
	return absentSwapped | d.Swapped
}

// absentSwapped marks the version of a key that was absent when its database was
// exchanged.
const absentSwapped = 1 << 62

// journal keeps what a running script has replaced, so that all of it can be undone: a script that
// meets a limit must not leave half of its writes.
type journal struct {
	undo      []undo
	messages  int // their number before the script
	changed   int // changes, likewise
	reads     int // recorded reads, likewise
	ready     int // keys that have become ready, likewise
	gone      int // keys that have gone, likewise
	events    history.Mark
	sequence  uint64
	lastFence uint64
	stats     stats
	places    *[store.Databases]place // before the first FLUSHALL, FLUSHDB or SWAPDB; nil: there was none yet
	gifts     *gifts                  // before the first FLUSHALL or FLUSHDB that concerned one
}

// place is the database of a number, and what SWAPDB changes of it.
type place struct {
	*store.Database
	swapped, floor uint64
}

// undo is one change to undo.
type undo struct {
	in        *store.Database // nil: made by the script, which need not be restored
	key       string
	was       *store.Entry // nil: the key was absent
	bucket    int
	createdAt uint64
}

// begin starts the journal of a script. Its new generation makes aggregates copy themselves before
// a change, so that the entries in the journal stay as they were.
func (m *Machine) begin() {
	m.generation++
	m.journal = &journal{
		messages: len(m.messages), changed: len(m.changed), reads: m.reads.len(), ready: len(m.ready), gone: len(m.gone),
		sequence: m.sequence, lastFence: m.lastFence, stats: m.stats, events: m.events.Mark(),
	}
}

// journalEntry records what a key held. It skips values that the script itself has stored, because
// undo has what they replaced. Otherwise a string that grows in a loop would be kept in each of its
// lengths, gigabytes of it.
func (m *Machine) journalEntry(db int, key string, was *store.Entry) {
	j := m.journal
	if j == nil || was != nil && !j.keeps(was) {
		return
	}
	b := bucket(db, key)
	u := undo{bucket: b, createdAt: m.createdAt[b]}
	if d := m.dbs[db]; j.found(d) {
		u.in, u.key, u.was = d, key, was
	}
	j.undo = append(j.undo, u)
}

// keeps reports whether a script runs, and has found this value, and not stored it itself: the journal keeps it as it
// is, so a change begins with a copy. A snapshot asks for copies too, but each node takes it when it likes: its copies
// cost nothing that is counted, or a request would meet its limit at another command on each node.
func (j *journal) keeps(was *store.Entry) bool { return j != nil && was.Version <= j.sequence }

// found reports whether the script has found a database here, and not made it.
func (j *journal) found(d *store.Database) bool {
	return j.places == nil || slices.ContainsFunc(j.places[:], func(p place) bool { return p.Database == d })
}

// replaceDatabases must come before a change that replaces databases.
func (m *Machine) replaceDatabases() {
	m.changed = append(m.changed, resp.Change{Kind: resp.ChangeAll})
	if m.journal == nil || m.journal.places != nil {
		return
	}
	m.journal.places = &[store.Databases]place{}
	for i, d := range m.dbs {
		m.journal.places[i] = place{Database: d, swapped: d.Swapped, floor: d.Floor}
	}
}

// release takes back what the script has done to a database that it is about to replace by an
// empty one.
func (j *journal) release(d *store.Database) {
	if !j.found(d) {
		return
	}
	for i := len(j.undo) - 1; i >= 0; i-- {
		if j.undo[i].in == d {
			j.undo[i].restore()
		}
	}
}

// restore gives the database what it held.
func (u *undo) restore() {
	if u.in != nil {
		is, _ := u.in.Keys.Get(u.key)
		u.in.Replace(is, u.was)
		u.in, u.key, u.was = nil, "", nil
	}
}

// commit ends the journal and keeps what the script did.
func (m *Machine) commit() {
	m.forgetAnnounced(m.journal)
	m.journal = nil
}

// rollback ends the journal and undoes what the script did, newest first.
func (m *Machine) rollback() {
	j := m.journal
	m.journal = nil
	for i := len(j.undo) - 1; i >= 0; i-- {
		j.undo[i].restore()
		m.createdAt[j.undo[i].bucket] = j.undo[i].createdAt
	}
	if j.places != nil {
		for i, p := range j.places {
			m.dbs[i] = p.Database
			p.Database.Swapped, p.Database.Floor = p.swapped, p.floor
		}
	}
	if j.gifts != nil {
		m.blocked.gifts = *j.gifts
	}
	m.messages, m.changed = m.messages[:j.messages], m.changed[:j.changed]
	m.reads.truncate(j.reads)
	m.forgetReady(j.ready)
	m.gone = m.gone[:j.gone]
	m.events.Truncate(j.events)
	m.sequence, m.lastFence, m.stats = j.sequence, j.lastFence, j.stats
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
func (m *Machine) storeLock(why *cause, db int, key string, was *store.Entry, l *lock.Many) {
	m.spend(value.LockWork(l))
	m.store(why, db, key, was, store.NewEntry(key, was, value.OfAggregate((*value.Lock)(l)), endOf(l)))
}

// endOf is the deadline of a key with such a lock.
func endOf(l *lock.Many) store.Deadline {
	return store.Deadline{Tick: l.Last().Tick, WallMs: l.Last().WallMs}
}

// until is the entry of a key with another deadline: that of all holders, if it is a lock of many.
func (m *Machine) until(why *cause, was *store.Entry, d store.Deadline) *store.Entry {
	l := was.Lock()
	if l == nil || m.dryRun.stops() {
		return store.NewTagged(was.Key(), was, was.Value(), d, was.Tag())
	}
	m.spend(value.LockWork(l))
	m.sequence++
	all := l.Until(func(h *lock.Holder) {
		h.Tick, h.WallMs, h.Version = d.Tick, d.WallMs, m.sequence
		m.stampLease(why, was.Key(), h)
	})
	return store.NewEntry(was.Key(), was, value.OfAggregate((*value.Lock)(all)), d)
}

// endHolders ends the leases of holders that are over at a tick, of a lock that has others.
func (m *Machine) endHolders(db int, e *store.Entry, tick int64) *store.Entry {
	left := e.Lock().Without(func(h *lock.Holder) bool { return tick > h.Tick })
	m.storeLock(&leaseIsOver, db, e.Key(), e, left)
	m.trackExpiry()
	m.notify(db, notifyGeneric, "unlock", e.Key())
	next, _ := m.dbs[db].Keys.Get(e.Key())
	return next
}
