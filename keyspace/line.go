package keyspace

import (
	"lockd/keyspace/fate"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Package lock decides which token gets a lock. This file tells it how keys hold locks.

// holdings tells how keys hold their locks at a moment. It implements lock.Keys.
type holdings struct {
	s      *state
	moment int64 // a tick: what has ended since is still there. 0: what the clock has ended has ended.
}

// holdings returns how keys hold their locks at a moment; 0: now.
func (s *state) holdings(moment int64) *holdings { return &holdings{s, moment} }

// lockTable returns the lines of all locks, with what their keys hold.
func lockTable(h *holdings) lock.Table { return lock.Table{Line: h.s.waits.Line(), Keys: h} }

// payFor charges what a table has looked at, and returns it.
func payFor(s *state, t *lock.Table) int64 {
	work := value.TreeWork(t.Len())*int64(t.Looked) + value.HashWork*int64(t.Named)
	s.meter.Spend(work)
	return work
}

// Holding returns how a key holds its lock; see lock.Keys.
func (h *holdings) Holding(name lock.Name) lock.Holding {
	d := h.s.keys.DBs[name.Space]
	h.s.meter.Spend(d.FindWork(name.Key))
	if e, ok := d.Keys.Get(name.Key); ok && h.s.asOf(h.moment) <= e.Tick {
		return holdingOf(e)
	}
	return lock.Holding{}
}

// holdingOf returns how a key that is there holds a lock. No token can hold a string that is too long for one.
func holdingOf(e *store.Entry) lock.Holding {
	h := lock.Holding{Held: true, Ends: e.Ends()}
	if e.Aggregate() != nil {
		h.Many = e.Lock()
		h.Foreign = h.Many == nil
		return h
	}
	if len(e.Str()) <= fate.TokenBytesMax {
		h.Token = e.Str()
	}
	if t := e.Tag(); t != nil {
		h.Owner = t.Owner
	}
	return h
}

// Moving reports whether the line of a lock has still to move up; see lock.Keys.
func (h *holdings) Moving(name lock.Name) bool { return h.s.waits.Ready.Has(wait.LineOf(name)) }

// stillHeld reports whether nobody has touched the holder with a version since it got that. The key is still the one
// that the holder was given: RENAME and SWAPDB make another one of it.
func stillHeld(s *state, db int, key string, version uint64) bool {
	d := s.keys.DBs[db]
	e, _ := d.Keys.Get(key)
	if e.Lock() == nil || d.Swapped > version {
		return false
	}
	for h := range e.Lock().Each {
		if h.Version == version && h.Fence >= e.Fence && s.tick <= h.Tick {
			return true
		}
	}
	return false
}

// versions returns the versions that haveChanged compares.
func (s *state) versions(keys []resp.Key) []uint64 {
	versions := make([]uint64, len(keys))
	for i, k := range keys {
		if k.DB >= 0 && k.DB < store.Databases {
			s.meter.Spend(2 * s.keys.DBs[k.DB].FindWork(k.Name))
			versions[i] = s.version(k.DB, k.Name)
		}
	}
	return versions
}

// haveChanged reports whether a watched key has another version than it had.
func (s *state) haveChanged(watched []resp.Watch) bool {
	for _, w := range watched {
		switch {
		case w.DB < 0 || w.DB >= store.Databases:
			return true
		case w.Holder:
			if !stillHeld(s, w.DB, w.Key, w.Version) {
				return true
			}
		case s.version(w.DB, w.Key) != w.Version:
			return true
		}
	}
	return false
}
