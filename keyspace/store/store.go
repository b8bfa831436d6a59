package store

import "lockd/keyspace/value"

// WatchBuckets is the size of the table that remembers, for absent keys, when a key of their bucket was last created.
// Two keys in one bucket can make a transaction repeat without need, nothing worse.
const WatchBuckets = 1024

// Store has the keys of all databases, and gives versions and fences.
//
// Put is the one way to change a key. It completes the new entry (its fence, its version), keeps the old one for a
// running attempt (Begin), and returns the Change for the observers. Clear and Swap replace whole databases.
//
// The zero Store has no databases; see New. A Store must not be copied: a running attempt is a part of it that it points
// to, so a copy would note what it replaces in the attempt of the original.
type Store struct {
	_          noCopy
	DBs        [Databases]*Database
	Sequence   uint64 // the last version given
	LastFence  uint64 // the last fence given
	CreatedAt  [WatchBuckets]uint64
	Generation uint64 // the owner of aggregates that may be changed in place

	journal *journal // the running attempt, in the field below, or nil
	attempt journal  // kept between attempts for the room that it has
}

// New returns a store of empty databases.
func New() *Store {
	s := &Store{}
	for i := range s.DBs {
		s.DBs[i] = NewDatabase()
	}
	return s
}

// Change tells how a key has changed. Was or Next is nil if the key was, or is, absent: never both.
type Change struct {
	DB        int
	Was, Next *Entry
	Work      int64 // of the change itself
}

// Key returns the key that has changed. It aliases an entry.
func (c Change) Key() string {
	if c.Next != nil {
		return c.Next.Key()
	}
	return c.Was.Key()
}

// Put stores next as the entry of its key, or deletes the key of was if next is nil; was is the entry that is stored
// now. No new fence is below least. raises asks for a new fence although key and token stay.
func (s *Store) Put(least uint64, db int, was, next *Entry, raises bool) Change {
	c, d := Change{DB: db, Was: was, Next: next}, s.DBs[db]
	key := c.Key()
	s.keep(db, key, was)
	c.Work = d.FindWork(key)
	if next != nil {
		s.stamp(least, db, key, was, next, raises)
		c.Work += value.CopyWork * int64(len(next.Str())) // a string is copied when it is changed
	}
	if was != nil && was.Leased() || next != nil && next.Leased() {
		c.Work += value.TreeWork(d.Leases.Len())
	}
	d.Replace(was, next)
	return c
}

// stamp gives an entry that is about to be stored its fence and its version.
func (s *Store) stamp(least uint64, db int, key string, was, next *Entry, raises bool) {
	switch {
	case was == nil:
		next.Fence = s.NextFence(least)
		s.Sequence++
		s.CreatedAt[bucket(db, key)] = s.Sequence
	case raises || ChangesToken(was, next):
		next.Fence = s.NextFence(least)
	default:
		next.Fence = was.Fence
	}
	s.Sequence++
	next.Version = s.Sequence
}

// NextFence gives a fence that was never given, and is not below least.
func (s *Store) NextFence(least uint64) uint64 {
	s.LastFence = s.UpcomingFence(least)
	return s.LastFence
}

// UpcomingFence returns the fence that NextFence would give.
func (s *Store) UpcomingFence(least uint64) uint64 { return max(s.LastFence+1, least) }

// Swap exchanges two databases. Each key of both has a new version, and a fence that no key had before.
func (s *Store) Swap(least uint64, a, b int) {
	s.Sequence++
	s.NextFence(least)
	s.DBs[a], s.DBs[b] = s.DBs[b], s.DBs[a]
	for _, db := range []int{a, b} {
		s.DBs[db].Swapped, s.DBs[db].Floor = s.Sequence, s.LastFence
	}
}

// NextLease returns the lease that ends first, and its database: the first of those that end at once.
func (s *Store) NextLease() (db int, first Lease, ok bool) {
	for i, d := range s.DBs {
		if l, found := d.Leases.First(); found && (!ok || l.Tick < first.Tick) {
			db, first, ok = i, l, true
		}
	}
	return db, first, ok
}

// Bytes returns the bytes that all keys count for.
func (s *Store) Bytes() (n int64) {
	for _, d := range s.DBs {
		n += d.Bytes
	}
	return n
}

// Len returns the number of keys in all databases.
func (s *Store) Len() (n int) {
	for _, d := range s.DBs {
		n += d.Keys.Len()
	}
	return n
}

// bucket returns the place of a key in CreatedAt.
func bucket(db int, key string) int {
	return int((value.Position(key) ^ uint64(db)*0x9e3779b97f4a7c15) % WatchBuckets)
}

// Version returns the number of a key that WATCH remembers and EXEC compares. It differs if the key was modified in
// between. An absent key has the sequence at which a key of its bucket was last created, so creating and deleting it in
// between is seen. If its database was exchanged since then, it has the sequence of that with a mark (AbsentSwapped),
// because an existing key may have the same sequence. A key whose lease is over at the tick is absent.
func (s *Store) Version(tick int64, db int, key string) uint64 {
	d := s.DBs[db]
	e, ok := d.Keys.Get(key)
	if ok && tick <= e.Tick {
		return max(e.Version, d.Swapped)
	}
	if created := s.CreatedAt[bucket(db, key)]; created >= d.Swapped {
		return created
	}
	return AbsentSwapped | d.Swapped
}

// AbsentSwapped marks the version of a key that was absent when its database was
// exchanged.
const AbsentSwapped = 1 << 62
