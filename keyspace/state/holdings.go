package state

import (
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Package lock decides which token gets a lock. This file tells it how keys hold locks.

// Holdings tells how keys hold their locks at a moment. It implements lock.Keys.
type Holdings struct {
	s      *State
	moment int64 // a tick: what has ended since is still there. 0: what the clock has ended has ended.
}

// Holdings returns how keys hold their locks at a moment; 0: now.
func (s *State) Holdings(moment int64) *Holdings { return &Holdings{s, moment} }

// LockTable returns the lines of all locks, with what their keys hold.
func LockTable(h *Holdings) lock.Table { return lock.Table{Line: h.s.Waits.Line(), Keys: h} }

// PayFor charges what a table has looked at, and returns it.
func PayFor(s *State, t *lock.Table) int64 {
	work := value.TreeWork(t.Len())*int64(t.Looked) + value.HashWork*int64(t.Named)
	s.Meter.Spend(work)
	return work
}

// Holding returns how a key holds its lock; see lock.Keys.
func (h *Holdings) Holding(name lock.Name) lock.Holding {
	d := h.s.Keys.DBs[name.Space]
	h.s.Meter.Spend(d.FindWork(name.Key))
	if e, ok := d.Keys.Get(name.Key); ok && h.s.AsOf(h.moment) <= e.Tick {
		return HoldingOf(e)
	}
	return lock.Holding{}
}

// HoldingOf returns how a key that is there holds a lock. No token can hold a string that is too long for one.
func HoldingOf(e *store.Entry) lock.Holding {
	h := lock.Holding{Held: true, Ends: e.Ends()}
	if e.Aggregate() != nil {
		h.Many = e.Lock()
		h.Foreign = h.Many == nil
		return h
	}
	if len(e.Str()) <= lifecycle.TokenBytesMax {
		h.Token = e.Str()
	}
	if t := e.Tag(); t != nil {
		h.Owner = t.Owner
	}
	return h
}

// Moving reports whether the line of a lock has still to move up; see lock.Keys.
func (h *Holdings) Moving(name lock.Name) bool { return h.s.Waits.Ready.Has(wait.LineOf(name)) }

// stillHeld reports whether nobody has touched the holder with a version since it got that. The key is still the one
// that the holder was given: RENAME and SWAPDB make another one of it.
func stillHeld(s *State, db int, key string, version uint64) bool {
	d := s.Keys.DBs[db]
	e, _ := d.Keys.Get(key)
	if e.Lock() == nil || d.Swapped > version {
		return false
	}
	for h := range e.Lock().Each {
		if h.Version == version && h.Fence >= e.Fence && s.Tick <= h.Tick {
			return true
		}
	}
	return false
}

// Versions returns the versions that HaveChanged compares.
func (s *State) Versions(keys []resp.Key) []uint64 {
	versions := make([]uint64, len(keys))
	for i, k := range keys {
		if k.DB >= 0 && k.DB < store.Databases {
			s.Meter.Spend(2 * s.Keys.DBs[k.DB].FindWork(k.Name))
			versions[i] = s.Version(k.DB, k.Name)
		}
	}
	return versions
}

// HaveChanged reports whether a watched key has another version than it had.
func (s *State) HaveChanged(watched []resp.Watch) bool {
	for _, w := range watched {
		if w.DB < 0 || w.DB >= store.Databases {
			return true
		}
		s.Meter.Spend(2 * s.Keys.DBs[w.DB].FindWork(w.Key))
		switch {
		case w.Holder:
			if !stillHeld(s, w.DB, w.Key, w.Version) {
				return true
			}
		case s.Version(w.DB, w.Key) != w.Version:
			return true
		}
	}
	return false
}
