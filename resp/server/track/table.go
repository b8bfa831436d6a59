package track

import (
	"slices"
	"strings"
	"sync/atomic"

	"lockd/resp"
)

// Limits of what is stored.
const (
	prefixBytesMax   = 512       // a prefix of keys (BCAST)
	prefixesMax      = 1 << 10   // prefixes of one client
	trackedBytesMax  = 128 << 20 // bytes of the keys that are tracked, for all clients
	trackedItemsMax  = 1 << 21   // clients of all keys together
	evictionsMax     = 128       // keys evicted at once to make room for one
	cleanedMax       = 1 << 11   // keys whose readers are cleaned at once
	readersPerStep   = 64        // readers of a key whose scan costs as much as one more key
	broadcastMax     = 1 << 17   // pairs of an entry's changes and their prefixes: beyond it any key may have changed
	toldMax          = 1 << 18   // pairs of an entry's changes and the readers of their keys: likewise
	recentChangesMax = 1 << 16   // changes kept while a request of a client is on its way
	recentBytesMax   = 16 << 20  // bytes of their keys
	prefixKeptBytes  = 16        // of each of their prefixes
)

// Table has the clients that track.
type Table struct {
	keysMax   func() int64 // 0: no limit
	inUse     atomic.Int64 // len(clients) and len(unclean)
	clients   map[*Client]struct{}
	unclean   map[*Client]struct{} // those with dead keys
	readers   map[string]*readers  // by key
	keyBytes  int                  // of the keys of readers
	items     int                  // clients in all readers
	prefixes  map[string]map[*Client]struct{}
	tree      prefixTree // of the prefixes
	recent    recent
	published uint64 // index of the last entry that was published to its end
	entry     entryCount
}

// entryCount sums up the changes of one entry, which may arrive in several messages.
type entryCount struct {
	index uint64
	pairs int // pairs of a change and a prefix
	told  int // readers of their keys
}

// readers are the clients that may have cached a key.
type readers struct {
	key  string
	list []*Client
}

// NewTable returns an empty table. keysMax returns how many keys it may have, 0 for any number.
func NewTable(keysMax func() int64) *Table {
	return &Table{keysMax: keysMax, clients: map[*Client]struct{}{}, unclean: map[*Client]struct{}{},
		readers:  map[string]*readers{},
		prefixes: map[string]map[*Client]struct{}{}}
}

// InUse reports whether any client tracks, or readers are left to clean. It needs no lock.
func (t *Table) InUse() bool { return t.inUse.Load() > 0 }

// Sizes returns the number of tracked keys, the sum of their readers, and the number of prefixes. It cleans a step
// first: of keys that a flush has just forgotten, only those beyond cleanedMax are counted still.
func (t *Table) Sizes() (keys, items, prefixes int) {
	t.Clean()
	return len(t.readers), t.items, len(t.prefixes)
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
		t.addPrefix(c, prefix)
	}
}

// Stop ends the mode of a client. The keys that it has read are forgotten when they change, as in Redis.
func (t *Table) Stop(c *Client) {
	t.removePrefixes(c)
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
			left -= len(t.readers[key].list) / readersPerStep // the search for the client
			t.unread(c, key)
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

func (t *Table) addPrefix(c *Client, prefix string) {
	if t.prefixes[prefix] == nil {
		t.prefixes[prefix] = map[*Client]struct{}{}
		t.tree.add(prefix)
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
			t.tree.remove(prefix)
		}
	}
	c.prefixes = nil
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
				t.sendBroadcast(b)
				b, *n = broadcast{}, entryCount{index: m.Index}
				t.flushAll(at)
			}
			continue
		}
		c.prefixes = t.prefixesOf(c.Key)
		t.recent.add(c)
		if n.told <= toldMax {
			n.told += t.invalidateKey(c)
		}
		if n.pairs += len(c.prefixes); n.pairs <= broadcastMax {
			b.add(c)
		}
	}
	if n.told > toldMax {
		t.flushReaders(at)
	}
	if n.pairs > broadcastMax {
		t.flushBroadcast()
	} else {
		t.sendBroadcast(b)
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

// invalidateKey tells the readers of a key of its change, except those that wait for an answer. It returns how many
// readers it has looked at.
func (t *Table) invalidateKey(ch change) int {
	r := t.readers[ch.Key]
	if r == nil {
		return 0
	}
	inv := Invalidation{keys: []string{r.key}}
	list := r.list
	r.list = list[:0]
	for _, c := range list {
		if c.waiting || !t.tell(c, ch, &inv) {
			r.list = append(r.list, c)
		}
	}
	clear(list[len(r.list):])
	t.items -= len(list) - len(r.list)
	t.close(r)
	return len(list)
}

// invalidate tells one client of the change of a key, unless the client has read the key after it, or (NOLOOP) has
// made the change.
func (t *Table) invalidate(c *Client, ch change, inv *Invalidation) {
	if c.knows(ch.Key) && t.tell(c, ch, inv) {
		t.leave(c, ch.Key)
	}
}

// tell tells a reader of a key of its change, and drops the read; the caller removes it from the readers. It reports
// false if the client stays a reader.
func (t *Table) tell(c *Client, ch change, inv *Invalidation) bool {
	since, reads := c.keys[ch.Key]
	if reads && (!ch.at.after(since) || c.made(ch)) {
		return false
	}
	c.forget(ch.Key)
	if reads && c.On && !c.Broadcast {
		c.Conn.Invalidate(inv)
	}
	return true
}

// read remembers that a client has read a key, at a place. Of several reads it keeps the place of the first: the
// client may have cached the answer of any.
func (t *Table) read(c *Client, key string, at place) {
	if _, known := c.keys[key]; known {
		return
	}
	if _, dead := c.dead[key]; dead {
		delete(c.dead, key)
		c.put(t.readers[key].key, at)
		return
	}
	r := t.readers[key]
	if r == nil {
		t.makeRoom(1, len(key))
		r = &readers{key: strings.Clone(key)}
		t.readers[r.key] = r
		t.keyBytes += len(key)
	} else if t.items >= trackedItemsMax {
		t.makeRoom(0, 0)
		if t.readers[key] != r { // it was evicted
			t.read(c, key, at)
			return
		}
	}
	r.list = append(r.list, c)
	t.items++
	c.put(r.key, at)
}

// unread forgets that a client has read a key.
func (t *Table) unread(c *Client, key string) {
	c.forget(key)
	t.leave(c, key)
}

// leave removes a client from the readers of a key.
func (t *Table) leave(c *Client, key string) {
	r := t.readers[key]
	i := slices.Index(r.list, c)
	r.list = slices.Delete(r.list, i, i+1)
	t.items--
	t.close(r)
}

// close removes a key without readers.
func (t *Table) close(r *readers) {
	if len(r.list) == 0 {
		delete(t.readers, r.key)
		t.keyBytes -= len(r.key)
	}
}

// Shrink evicts some keys if the table exceeds its limits. It reports whether the table is within them now; if not,
// call again.
func (t *Table) Shrink() (done bool) { return t.makeRoom(0, 0) }

// makeRoom makes room for more keys: it evicts random keys and tells their readers. It does a bounded part of that,
// and reports whether there is room now.
func (t *Table) makeRoom(keys, bytes int) bool {
	keysMax := int(t.keysMax())
	for left := evictionsMax; left > 0; {
		full := keysMax > 0 && len(t.readers)+keys > keysMax || t.keyBytes+bytes > trackedBytesMax ||
			t.items >= trackedItemsMax
		if !full || len(t.readers) == 0 {
			return true
		}
		for key, r := range t.readers { // a random one
			left -= 1 + len(r.list)/readersPerStep
			t.evict(key)
			break
		}
	}
	return false
}

// evict tells all readers of a key that it may have changed.
func (t *Table) evict(key string) {
	r := t.readers[key]
	inv := Invalidation{keys: []string{key}}
	for _, c := range r.list {
		t.tell(c, change{Change: resp.Change{Kind: resp.ChangeExpired, Key: key}, at: afterAll}, &inv)
	}
	t.items -= len(r.list)
	r.list = nil
	t.close(r)
}
