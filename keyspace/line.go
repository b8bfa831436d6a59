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

// lockName returns the name of the lock of a key.
func (c *ctx) lockName(key string) lock.Name { return lock.Name{Space: c.db, Key: key} }

// lockTable returns the lines of all locks, with what their keys hold.
func lockTable(c *ctx) lock.Table { return lock.Table{Line: c.m.waits.Line(), Keys: c} }

// payFor charges what a table has looked at, and returns it.
func payFor(m *Machine, t *lock.Table) int64 {
	work := value.TreeWork(t.Len())*int64(t.Looked) + value.HashWork*int64(t.Named)
	m.meter.Spend(work)
	return work
}

// Holding returns how a key holds its lock; see lock.Keys.
func (c *ctx) Holding(name lock.Name) lock.Holding {
	d := c.m.keys.DBs[name.Space]
	c.m.meter.Spend(d.FindWork(name.Key))
	if e, ok := d.Keys.Get(name.Key); ok && c.asOf() <= e.Tick {
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
func (c *ctx) Moving(name lock.Name) bool { return c.m.waits.Ready.Has(wait.LineOf(name)) }

// askFor asks for a lock for a client. A dry run does not know whether one in line whose time is over by its own clock
// still stands there.
func askFor(c *ctx, l *lockRequest) (lock.Answer, error) {
	var held lock.Holding
	if e := c.lookup(l.key); e != nil {
		held = holdingOf(e)
		c.m.meter.Spend(value.LockWork(held.Many))
	}
	line := c.m.waits.Line()
	if c.m.dryRun.running && held.Many != nil {
		if first := line.First(c.lockName(l.key)); first != nil && c.now() > first.End {
			c.m.dryRun.changes = true
		}
	}
	answer, err := line.Ask(c.lockName(l.key), &l.Want, &held)
	return answer, lockError(err)
}

// lockError returns an error of package lock in the words for clients.
func lockError(err error) error {
	switch limit, ok := err.(lock.LimitError); {
	case ok:
		return resp.Errorf(errOtherLimitFmt, limit.Limit)
	case err == lock.ErrForeign:
		return resp.Error(resp.ErrWrongType)
	case err == lock.ErrHeldOtherwise:
		return resp.Error(errHeldOtherwise)
	}
	return err
}

// granted returns the version of a lock that a command has granted, by which the lock can be taken back; nil where the
// command was no LOCK or has got nothing. A token that held the lock before (its fence is no later than the last one
// before the command) may have been told so: a request of its program that comes late takes nothing away.
func granted(m *Machine, db int, p *pending, reply resp.Reply, lastFence uint64) *resp.Watch {
	if p.lock == nil || reply.Kind != resp.KindInt || uint64(reply.Int) <= lastFence {
		return nil
	}
	w := &resp.Watch{DB: db, Key: p.keys[0], Version: m.version(db, p.keys[0])}
	e, _ := m.keys.DBs[db].Keys.Get(w.Key)
	if e.Lock() == nil {
		return w
	}
	if h := e.Lock().Holder(p.lock.Token); h != nil {
		w.Version, w.Holder = h.Version, true // the key's own changes with every holder
	}
	return w
}

// stillHeld reports whether nobody has touched the holder with a version since it got that. The key is still the one
// that the holder was given: RENAME and SWAPDB make another one of it.
func stillHeld(m *Machine, db int, key string, version uint64) bool {
	d := m.keys.DBs[db]
	e, _ := d.Keys.Get(key)
	if e.Lock() == nil || d.Swapped > version {
		return false
	}
	for h := range e.Lock().Each {
		if h.Version == version && h.Fence >= e.Fence && m.tick <= h.Tick {
			return true
		}
	}
	return false
}

// haveChanged reports whether a watched key has another version than it had.
func haveChanged(m *Machine, watched []resp.Watch) bool {
	for _, w := range watched {
		switch {
		case w.DB < 0 || w.DB >= store.Databases:
			return true
		case w.Holder:
			if !stillHeld(m, w.DB, w.Key, w.Version) {
				return true
			}
		case m.version(w.DB, w.Key) != w.Version:
			return true
		}
	}
	return false
}

// reverseLock returns the reversal of a LOCK that was granted to a token; nil where the command has granted nothing
// new.
func reverseLock(m *Machine, db int, p *pending, reply resp.Reply, lastFence uint64) *wait.Reversal {
	lock := granted(m, db, p, reply, lastFence)
	if lock == nil {
		return nil
	}
	return &wait.Reversal{Lock: lock, Cmds: []resp.Args{{"unlock", lock.Key, p.lock.Token}}}
}
