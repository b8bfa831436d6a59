package store

import (
	"testing"

	"lockd/keyspace/value"
)

// Buckets are in images: they can never change.
func TestBucketsNeverChange(t *testing.T) {
	if a, b := bucket(0, "lock"), bucket(3, "lock"); a != 620 || b != 595 {
		t.Errorf("buckets %d and %d", a, b)
	}
}

// A store gives versions and fences by the calls alone: a fence is not below the least that is asked for, rises when a key comes
// into being, when its string changes, and when it is asked for, and else stays.
func TestPutGivesFences(t *testing.T) {
	s := New()
	put := func(least uint64, v string, raises bool) *Entry {
		was, _ := s.DBs[0].Keys.Get("k")
		next := NewEntry("k", was, value.OfString(v), Never, nil, NoLock)
		c := s.Put(least, 0, was, next, raises)
		if c.Was != was || c.Next != next || c.Key() != "k" || c.Work <= 0 {
			t.Errorf("the change is told as %+v", c)
		}
		return next
	}
	for _, step := range []struct {
		least  uint64
		v      string
		raises bool
		want   uint64
	}{{7, "a", false, 7}, {7, "a", false, 7}, {7, "b", false, 8}, {9, "b", true, 9}, {9, "b", false, 9}} {
		version := s.Version(0, 0, "k")
		if e := put(step.least, step.v, step.raises); e.Fence != step.want || e.Version <= version {
			t.Errorf("%+v: fence %d, version %d after %d", step, e.Fence, e.Version, version)
		}
	}
}

// An attempt that is taken back leaves the keys, the databases, versions and fences as it has found them.
func TestRollback(t *testing.T) {
	s := New()
	put := func(db int, key, v string) {
		was, _ := s.DBs[db].Keys.Get(key)
		var next *Entry
		if v != "" {
			next = NewEntry(key, was, value.OfString(v), Deadline{Tick: 9}, nil, NoLock)
		}
		s.Put(1, db, was, next, false)
	}
	put(0, "k", "before")
	put(1, "gone", "before")
	was := Store{DBs: s.DBs, Sequence: s.Sequence, LastFence: s.LastFence, CreatedAt: s.CreatedAt}
	first, _ := s.DBs[0].Keys.Get("k")
	s.Begin()
	put(0, "k", "after")
	put(0, "new", "x")
	put(1, "gone", "")
	s.KeepDatabases()
	s.Swap(2, 0, 1)
	s.Clear(1)
	put(1, "k", "another")
	s.Rollback()
	is, _ := s.DBs[0].Keys.Get("k")
	if is != first || s.Len() != 2 || s.Sequence != was.Sequence || s.LastFence != was.LastFence ||
		s.CreatedAt != was.CreatedAt || s.DBs != was.DBs || s.DBs[0].Swapped != 0 || s.DBs[0].Floor != 0 {
		t.Errorf("something is left: %d keys, sequence %d, fence %d", s.Len(), s.Sequence, s.LastFence)
	}
	if db, l, ok := s.NextLease(); !ok || db != 0 || l.Of != first {
		t.Errorf("the next lease is %v of database %d", l, db)
	}
}
