package keyspace

import (
	"slices"

	"lockd/keyspace/value"
)

// databases is how many databases there are, as in Redis by default.
const databases = 16

// watchBuckets is the size of the table that remembers, for keys that are absent,
// when one like them was last created. Two keys in one bucket cost a transaction
// that would not have had to be repeated, nothing worse.
const watchBuckets = 1024

// database is one numbered database.
type database struct {
	keys    keyTree
	leases  *leaseOrder // of keys that have a deadline; derived from keys
	bytes   int64       // of all entries; derived from keys
	swapped uint64      // sequence of the last SWAPDB: it touches every key
	floor   uint64      // what that SWAPDB has made the least fence of its keys
}

func newDatabase() *database {
	return &database{
		keys:   newKeyTree(),
		leases: newLeaseOrder(),
	}
}

// store makes next the entry of key, or the key absent where next is nil; was is
// what is stored there now. It is the one function that changes a database, so
// that nothing of what a change means can be forgotten: the version, the fence,
// the lease, the memory, the journal of a running script, the event "new", what
// clients that track the key are told, and that those who wait for it may be served.
func (m *Machine) store(db int, key string, was, next *entry) {
	if m.trial.stops() {
		return
	}
	m.journalEntry(db, key, was)
	if next != nil {
		m.stamp(db, key, was, next)
		m.spend(value.CopyWork * int64(len(next.str()))) // a string is copied when it is changed
	}
	m.spend(m.dbs[db].findWork(key))
	if was != nil && was.deadline.set() || next != nil && next.deadline.set() {
		m.spend(value.TreeWork(m.dbs[db].leases.count))
	}
	m.digest.stored(db, key, next)
	m.dbs[db].replace(was, next)
	m.noteChange(was, next)
	if was == nil && next != nil {
		m.notify(db, notifyNew, "new", key)
	}
	if next != nil {
		m.noteReady(db, next)
	}
	if next == nil || m.expired(next) {
		m.noteFreed(db, key)
	}
}

// stamp completes an entry that is about to be stored.
func (m *Machine) stamp(db int, key string, was, next *entry) {
	if was != nil {
		next.fence = was.fence
	} else {
		m.nextFence()
		m.sequence++
		m.createdAt[bucket(db, key)] = m.sequence
		next.fence = m.lastFence
	}
	m.sequence++
	next.version = m.sequence
}

// nextFence raises lastFence to one that was never given.
func (m *Machine) nextFence() { m.lastFence = max(m.lastFence+1, m.index) }

// replace exchanges entries of one key and keeps what is derived from them.
func (d *database) replace(was, next *entry) {
	if was != nil {
		d.bytes -= was.size()
		if was.deadline.set() {
			d.leases.remove(leaseOf(was))
		}
	}
	if next == nil {
		if was != nil {
			d.keys.del(was)
		}
		return
	}
	d.bytes += next.size()
	if next.deadline.set() {
		d.leases.add(leaseOf(next))
	}
	d.keys.set(next)
}

// findWork is the work of looking for a key, or of storing or deleting one.
func (d *database) findWork(key string) int64 {
	return value.TreeWork(d.keys.len()) + value.HashWork*int64(len(key))
}

// editWork is the work of storing or deleting keys: one in so many of the names.
func (d *database) editWork(names []string, step int) (work int64) {
	each := value.TreeWork(d.keys.len() + len(names)/step)
	for i := 0; i < len(names); i += step {
		work += 2 * (each + value.HashWork*int64(len(names[i])))
	}
	return work
}

// load adds an entry that comes after all that are there: replace for an image. What
// is derived from the leases waits for loadLeases.
func (d *database) load(e *entry) {
	d.bytes += e.size()
	d.keys.load(e)
}

// loadLeases adds the leases of all entries of an image, in their own order: each in
// the order of the keys would be at a random place of a large tree.
func (d *database) loadLeases(leases []lease) {
	slices.SortFunc(leases, compareLeases)
	for _, l := range leases {
		d.leases.add(l)
	}
}

// expired reports whether the lease of e has ended by the machine's clock. The
// machine's, never the reader's: see law 4 of DESIGN.md.
func (m *Machine) expired(e *entry) bool {
	return m.tick > e.deadline.tick
}

// expire ends a lease.
func (m *Machine) expire(db int, e *entry) {
	m.store(db, e.key(), e, nil)
	m.noteExpiry()
	m.stats.expiredKeys++
	m.notify(db, notifyExpired, "expired", e.key())
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
	e, ok := d.keys.get(key)
	if ok && !m.expired(e) {
		return max(e.version, d.swapped)
	}
	if created := m.createdAt[bucket(db, key)]; created >= d.swapped {
		return created
	}
	return absentSwapped | d.swapped
}

// absentSwapped marks the version of a key that was absent when its database was
// exchanged.
const absentSwapped = 1 << 62

// usedBytes is the estimate of the memory that data take, in all databases, and what
// else clients have left here.
func (m *Machine) usedBytes() int64 {
	n := m.library.bytes + m.functions.bytes + m.blocked.bytes
	for _, d := range m.dbs {
		n += d.bytes
	}
	return n
}
