package track

import (
	"slices"
	"sync/atomic"

	"lockd/resp"
)

// Limits of what one entry tells. Beyond them any key may have changed.
const (
	broadcastMax = 1 << 17 // pairs of its changes and their prefixes
	ownMax       = 1 << 17 // those pairs, for each client that gets a list without its own changes
	toldMax      = 1 << 18 // pairs of its changes and the readers of their keys
)

// cleanedMax bounds the keys whose readers are cleaned at once.
const cleanedMax = 1 << 11

// Table has the clients that track, and tells them of changes: of the keys that they have read, and, in mode BCAST, of
// all keys with their prefixes.
type Table struct {
	inUse     atomic.Int64 // len(clients) and len(unclean)
	clients   map[*Client]struct{}
	unclean   map[*Client]struct{} // with dead keys
	cached    cached
	prefixes  prefixes
	recent    recent
	published uint64 // index of the last entry that was published to its end
	entry     entryCount
}

// entryCount sums up the changes of one entry, which may arrive in several messages.
type entryCount struct {
	index uint64
	pairs int // pairs of a change and a prefix
	own   int // those pairs, for each client that made some of the changes
	told  int // readers of their keys
}

// NewTable returns an empty table. keysMax returns how many keys it may have, 0 for any number.
func NewTable(keysMax func() int64) *Table {
	return &Table{
		clients: map[*Client]struct{}{}, unclean: map[*Client]struct{}{},
		cached:   cached{keysMax: keysMax, readers: map[string]*readers{}},
		prefixes: prefixes{followers: map[string]map[*Client]struct{}{}},
	}
}

// InUse reports whether any client tracks, or readers are left to clean. It needs no lock.
func (t *Table) InUse() bool { return t.inUse.Load() > 0 }

// Sizes returns the number of tracked keys, the sum of their readers, and the number of prefixes. It cleans a step
// first: of keys that a flush has just forgotten, only those beyond cleanedMax are counted still.
func (t *Table) Sizes() (keys, items, prefixes int) {
	t.Clean()
	return len(t.cached.readers), t.cached.items, len(t.prefixes.followers)
}

// Start starts a mode that Check has allowed. Prefixes are added to those that the client has; without any, BCAST
// covers every key.
func (t *Table) Start(c *Client, mode Mode, prefixes []string) {
	t.enter(c)
	c.Mode = mode
	c.On, c.Broken = true, false
	if c.Broadcast && len(prefixes) == 0 {
		prefixes = []string{""}
	}
	for _, prefix := range prefixes {
		t.prefixes.add(c, prefix)
	}
}

// Stop ends the mode of a client. The keys that it has read are forgotten when they change, as in Redis.
func (t *Table) Stop(c *Client) {
	t.prefixes.remove(c)
	c.Mode, c.Caching, c.own = Mode{}, false, nil
}

// Forget removes a client that ends. Its keys are left to Clean.
func (t *Table) Forget(c *Client) {
	if _, in := t.clients[c]; !in {
		return
	}
	t.Stop(c)
	c.waiting = false
	t.drop(c, afterAll)
	delete(t.clients, c)
	t.inUse.Add(-1)
}

// drop makes the client's reads before a place dead. Clean removes the client from the readers of those keys later: a
// million of them would take seconds under the lock.
func (t *Table) drop(c *Client, at place) {
	if len(c.keys) == 0 {
		return
	}
	c.flush(at)
	if _, in := t.unclean[c]; !in {
		t.unclean[c] = struct{}{}
		t.inUse.Add(1)
	}
}

// Clean removes clients from the readers of some of their dead keys. It reports whether that was all; if not, call
// again.
func (t *Table) Clean() (done bool) {
	left := cleanedMax
	for c := range t.unclean {
		for key := range c.dead {
			if left--; left < 0 {
				return false
			}
			left -= t.cached.steps(key) // the search for the client
			t.cached.unread(c, key)
		}
		delete(t.unclean, c)
		t.inUse.Add(-1)
	}
	return true
}

func (t *Table) enter(c *Client) {
	if _, in := t.clients[c]; !in {
		t.clients[c] = struct{}{}
		t.inUse.Add(1)
	}
}

// Publish sends invalidations for changes of an entry of the log. A client that waits for an answer gets them after
// it.
func (t *Table) Publish(m *resp.Message) {
	t.published = m.Index - 1 // more changes of this entry may follow
	if t.entry.index != m.Index {
		t.entry = entryCount{index: m.Index}
	}
	n, b, last := &t.entry, broadcast{}, lastFlush(m.Changes)
	at := place{m.Index, int64(m.From)}
	for i, one := range m.Changes {
		at.pos = int64(m.From+i) + 1
		c := change{Change: one, at: at}
		if c.Kind == resp.ChangeAll {
			if t.recent.add(c); i == last { // which covers those before
				t.prefixes.send(b, n)
				b, *n = broadcast{}, entryCount{index: m.Index}
				t.flushAll(at)
			}
			continue
		}
		t.recent.add(c)
		if n.told <= toldMax {
			n.told += t.cached.changed(c)
		}
		if n.pairs <= broadcastMax {
			prefixes := t.prefixes.of(c.Key)
			n.pairs += len(prefixes)
			b.add(c, prefixes...)
		}
	}
	if n.told > toldMax {
		t.flushReaders(at)
	}
	if n.pairs > broadcastMax {
		t.flushBroadcast()
	} else {
		t.prefixes.send(b, n)
	}
}

// lastFlush returns the index of the last change of everything; -1: there is none.
func lastFlush(changes []resp.Change) int {
	for i, c := range slices.Backward(changes) {
		if c.Kind == resp.ChangeAll {
			return i
		}
	}
	return -1
}

// Missed tells all clients that any key may have changed: this node may have missed changes.
func (t *Table) Missed() {
	t.recent.add(change{Change: resp.Change{Kind: resp.ChangeAll}, at: afterAll})
	t.flushAll(afterAll)
}

// flushBroadcast tells the clients of BCAST that any key may have changed, except those that wait for an answer.
func (t *Table) flushBroadcast() {
	for c := range t.clients {
		if c.Broadcast && !c.waiting {
			c.Conn.Invalidate(&Invalidation{})
		}
	}
}

// flushAll flushes all clients, except those that wait for an answer.
func (t *Table) flushAll(at place) {
	for c := range t.clients {
		if !c.waiting {
			t.flush(c, at)
		}
	}
}

// flushReaders flushes the clients that read any key before a place, except those that wait for an answer.
func (t *Table) flushReaders(at place) {
	for c := range t.clients {
		if !c.waiting && len(c.keys) > 0 {
			t.flush(c, at)
		}
	}
}

// flush tells a client that any key may have changed, and drops its reads before a place.
func (t *Table) flush(c *Client, at place) {
	t.drop(c, at)
	if c.On {
		c.Conn.Invalidate(&Invalidation{})
	}
}

// Shrink evicts some keys if the table exceeds its limits. It reports whether the table is within them now; if not,
// call again.
func (t *Table) Shrink() (done bool) { return t.cached.makeRoom(0, 0) }
