package store

import (
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

// Databases is the number of databases, which is the default of Redis.
const Databases = 16

// Database is one numbered database.
type Database struct {
	Keys    KeyTree
	Leases  *LeaseOrder // of keys that have one; derived from keys
	Bytes   int64       // of all entries; derived from keys
	Locks   int         // keys that are locks; derived from keys
	Swapped uint64      // sequence of the last SWAPDB: it touches every key
	Floor   uint64      // the least fence of its keys after that SWAPDB
}

// NewDatabase returns an empty database.
func NewDatabase() *Database {
	return &Database{Leases: newLeaseOrder()}
}

// Replace replaces an entry of a key, and updates what is derived from the entries.
func (d *Database) Replace(was, next *Entry) {
	if was != nil {
		d.Bytes -= was.Size()
		d.Locks -= resp.One(was.IsLocked())
		if was.Leased() {
			d.Leases.remove(LeaseOf(was))
		}
	}
	if next == nil {
		if was != nil {
			d.Keys.del(was)
		}
		return
	}
	d.Bytes += next.Size()
	d.Locks += resp.One(next.IsLocked())
	if next.Leased() {
		d.Leases.add(LeaseOf(next))
	}
	d.Keys.set(next)
}

// FindWork returns the work of looking for a key, or of storing or deleting one.
func (d *Database) FindWork(key string) int64 {
	return value.TreeWork(d.Keys.Len()) + value.HashWork*int64(len(key))
}

// EditWork returns the work of storing or deleting keys, which are every step-th of names.
func (d *Database) EditWork(names []string, step int) (work int64) {
	each := value.TreeWork(d.Keys.Len() + len(names)/step)
	for i := 0; i < len(names); i += step {
		work += 2 * (each + value.HashWork*int64(len(names[i])))
	}
	return work
}

// Load adds an entry of an image, at its position, which comes after all others. LoadLeases then adds the leases.
func (d *Database) Load(pos uint64, e *Entry) {
	d.Bytes += e.Size()
	d.Locks += resp.One(e.IsLocked())
	d.Keys.load(pos, e)
}

// LoadLeases adds the leases of all entries of an image, in the order of their ends: in the order of the keys each
// would have a random place in a large tree.
func (d *Database) LoadLeases(leases []Lease) {
	slices.SortFunc(leases, compareLeases)
	d.Leases.load(leases)
}

// AverageTTL returns the mean time that the leases have left, in milliseconds; 0 if there are none.
func (d *Database) AverageTTL(now int64) int64 {
	if d.Leases.Len() == 0 {
		return 0
	}
	return max(d.Leases.averageTick(), now) - now
}
