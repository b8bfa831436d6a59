package track

import (
	"slices"
	"strings"
	"sync/atomic"

	"lockd/resp"
)

// Limits of what is kept.
const (
	prefixBytesMax   = 512       // prefix of keys to be told of (BCAST)
	prefixesMax      = 1 << 10   // prefixes of one client
	trackedBytesMax  = 128 << 20 // bytes of the keys that are tracked, for all clients
	evictionsMax     = 128       // keys that are let go at once to make room for one
	recentChangesMax = 1 << 16   // changes kept while a request of a client is on its way
	recentBytesMax   = 16 << 20  // bytes of their keys
)

// Table has the clients that track.
type Table struct {
	keysMax   func() int64 // 0: no limit
	inUse     atomic.Int64 // len(clients)
	clients   map[*Client]struct{}
	readers   map[string]*readers // by key
	keyBytes  int                 // of the keys of readers
	items     int                 // clients in all readers
	prefixes  map[string]map[*Client]struct{}
	lengths   map[int]int // of the prefixes: how many have it
	recent    recent
	published uint64 // index of the last entry that was published to its end
}

// readers are the clients that may have cached a key.
type readers struct {
	key  string
	list []*Client
}

// NewTable makes an empty table. keysMax is asked how many keys it may have, 0 for any number.
func NewTable(keysMax func() int64) *Table {
	return &Table{keysMax: keysMax, clients: map[*Client]struct{}{}, readers: map[string]*readers{},
		prefixes: map[string]map[*Client]struct{}{}, lengths: map[int]int{}}
}

// InUse reports whether anybody tracks. It may be called without the lock.
func (t *Table) InUse() bool { return t.inUse.Load() > 0 }

// Sizes are how many keys are tracked, by how many clients in sum, and how many prefixes.
func (t *Table) Sizes() (keys, items, prefixes int) { return len(t.readers), t.items, len(t.prefixes) }

// Start begins a mode. Prefixes are added to those that the client has; none at all, of BCAST,
// stand for every key. Check has allowed it.
func (t *Table) Start(c *Client, mode Mode, prefixes []string) {
	t.enter(c)
	c.Mode = mode
	c.On, c.Broken = true, false
	if c.Broadcast && len(prefixes) == 0 {
		prefixes = []string{""}
	}
	for _, prefix := range prefixes {
		t.addPrefix(c, prefix)
	}
}

// Stop ends the mode of a client. What it has read is forgotten when it changes, as in Redis.
func (t *Table) Stop(c *Client) {
	t.removePrefixes(c)
	c.Mode, c.Caching, c.own = Mode{}, false, nil
}

// Forget lets go of a client that ends.
func (t *Table) Forget(c *Client) {
	if _, in := t.clients[c]; !in {
		return
	}
	for key := range c.keys {
		t.unread(c, key)
	}
	t.removePrefixes(c)
	delete(t.clients, c)
	t.inUse.Add(-1)
}

func (t *Table) enter(c *Client) {
	if _, in := t.clients[c]; !in {
		t.clients[c] = struct{}{}
		t.inUse.Add(1)
	}
}

func (t *Table) addPrefix(c *Client, prefix string) {
	if t.prefixes[prefix] == nil {
		t.prefixes[prefix] = map[*Client]struct{}{}
		t.lengths[len(prefix)]++
	}
	t.prefixes[prefix][c] = struct{}{}
	if c.prefixes == nil {
		c.prefixes = map[string]struct{}{}
	}
	c.prefixes[prefix] = struct{}{}
}

func (t *Table) removePrefixes(c *Client) {
	for prefix := range c.prefixes {
		followers := t.prefixes[prefix]
		if delete(followers, c); len(followers) == 0 {
			delete(t.prefixes, prefix)
			if t.lengths[len(prefix)]--; t.lengths[len(prefix)] == 0 {
				delete(t.lengths, len(prefix))
			}
		}
	}
	c.prefixes = nil
}

// Publish sends invalidations for what an entry of the log has changed. A client that waits for an
// answer gets them behind it.
func (t *Table) Publish(m *resp.Message) {
	t.published = m.Index - 1 // more of this entry may come
	b := broadcast{}
	for i, one := range m.Changes {
		c := change{one, place{m.Index, int64(m.From+i) + 1}}
		t.recent.add(c)
		if c.Kind == resp.ChangeAll {
			t.sendBroadcast(b)
			b = broadcast{}
			t.flushAll(c.at)
			continue
		}
		t.invalidateKey(c)
		t.addTo(b, c)
	}
	t.sendBroadcast(b)
}

// Missed tells all clients that any key may have changed: this node may have missed changes.
func (t *Table) Missed() {
	t.recent.add(change{resp.Change{Kind: resp.ChangeAll}, afterAll})
	t.flushAll(afterAll)
}

// flushAll flushes all clients, but for those that wait for an answer.
func (t *Table) flushAll(at place) {
	for c := range t.clients {
		if !c.waiting {
			t.flush(c, at)
		}
	}
}

// flush tells a client that any key may have changed, and forgets what it has read before.
func (t *Table) flush(c *Client, at place) {
	for key, since := range c.keys {
		if at.after(since) {
			t.unread(c, key)
		}
	}
	if c.On {
		c.Conn.Invalidate(&Invalidation{})
	}
}

// invalidateKey tells the clients that have read a key of its change, but for those that wait for
// an answer.
func (t *Table) invalidateKey(ch change) {
	r := t.readers[ch.Key]
	if r == nil {
		return
	}
	inv := Invalidation{keys: []string{r.key}}
	for _, c := range slices.Clone(r.list) {
		if !c.waiting {
			t.invalidate(c, ch, &inv)
		}
	}
}

// invalidate tells one client of the change of a key, unless the client has read the key after it, or
// (NOLOOP) has made the change.
func (t *Table) invalidate(c *Client, ch change, inv *Invalidation) {
	since, reads := c.keys[ch.Key]
	if !reads || !ch.at.after(since) || c.made(ch) {
		return
	}
	t.unread(c, ch.Key)
	if c.On && !c.Broadcast {
		c.Conn.Invalidate(inv)
	}
}

// read remembers that a client has read a key, at a place. Of several reads it keeps the place
// of the first: the client may have cached the answer of any.
func (t *Table) read(c *Client, key string, at place) {
	if _, known := c.keys[key]; known {
		return
	}
	r := t.readers[key]
	if r == nil {
		t.makeRoom(1, len(key))
		r = &readers{key: strings.Clone(key)}
		t.readers[r.key] = r
		t.keyBytes += len(key)
	}
	r.list = append(r.list, c)
	t.items++
	if c.keys == nil {
		c.keys = map[string]place{}
	}
	c.keys[r.key] = at
}

// unread forgets that a client has read a key.
func (t *Table) unread(c *Client, key string) {
	delete(c.keys, key)
	r := t.readers[key]
	i := slices.Index(r.list, c)
	r.list = slices.Delete(r.list, i, i+1)
	t.items--
	if len(r.list) == 0 {
		delete(t.readers, key)
		t.keyBytes -= len(key)
	}
}

// Shrink makes the table smaller where its limit has become so, by some keys. It reports
// whether the table is within its limits now; if not, call again.
func (t *Table) Shrink() (done bool) { return t.makeRoom(0, 0) }

// makeRoom makes room for so many more keys: it takes out random keys, and tells the clients that
// have read them. It does a bounded part of that, and reports whether there is room now.
func (t *Table) makeRoom(keys, bytes int) bool {
	keysMax := int(t.keysMax())
	for range evictionsMax {
		full := keysMax > 0 && len(t.readers)+keys > keysMax || t.keyBytes+bytes > trackedBytesMax
		if !full || len(t.readers) == 0 {
			return true
		}
		for key, r := range t.readers { // a random one
			inv := Invalidation{keys: []string{key}}
			for _, c := range slices.Clone(r.list) {
				t.invalidate(c, change{resp.Change{Kind: resp.ChangeExpired, Key: key}, afterAll}, &inv)
			}
			break
		}
	}
	return false
}
