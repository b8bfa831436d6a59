package track

import (
	"slices"
	"strings"

	"lockd/resp"
)

// Limits of the keys that are cached, for all clients.
const (
	trackedBytesMax = 128 << 20 // bytes of the keys
	trackedItemsMax = 1 << 21   // clients of all keys together
	evictionsMax    = 128       // keys evicted at once to make room for one
	readersPerStep  = 64        // readers of a key whose scan costs as much as one more key
)

// cached has the keys that clients may have cached. Table.Clean needs to find a key's readers, and Publish those of a
// change, so it goes by key; each Client has its own keys besides.
type cached struct {
	keysMax func() int64 // 0: no limit
	readers map[string]*readers
	bytes   int // of the keys
	items   int // clients in all readers
}

// readers are the clients that may have cached a key.
type readers struct {
	key  string
	list []*Client
}

// steps returns what a scan of the readers of a key costs, in steps beside the first.
func (k *cached) steps(key string) int { return len(k.readers[key].list) / readersPerStep }

// changed tells the readers of a key of its change, except those that wait for an answer. It returns how many readers
// it has looked at.
func (k *cached) changed(ch change) int {
	r := k.readers[ch.Key]
	if r == nil {
		return 0
	}
	inv := Invalidation{keys: []string{r.key}}
	list := r.list
	r.list = list[:0]
	for _, c := range list {
		if c.waiting || !c.told(ch, &inv) {
			r.list = append(r.list, c)
		}
	}
	clear(list[len(r.list):])
	k.items -= len(list) - len(r.list)
	k.close(r)
	return len(list)
}

// changedFor tells one client of the change of a key, unless the client has read the key after it, or (NOLOOP) has
// made the change.
func (k *cached) changedFor(c *Client, ch change) {
	if c.knows(ch.Key) && c.told(ch, &Invalidation{keys: []string{ch.Key}}) {
		k.leave(c, ch.Key)
	}
}

// read remembers that a client has read a key, at a place. Of several reads it keeps the place of the first: the
// client may have cached the answer of any.
func (k *cached) read(c *Client, key string, at place) {
	if _, known := c.keys[key]; known {
		return
	}
	if _, dead := c.dead[key]; dead {
		delete(c.dead, key)
		c.put(k.readers[key].key, at)
		return
	}
	r := k.readers[key]
	if r == nil {
		k.makeRoom(1, len(key))
		r = &readers{key: strings.Clone(key)}
		k.readers[r.key] = r
		k.bytes += len(key)
	} else if k.items >= trackedItemsMax {
		k.makeRoom(0, 0)
		if k.readers[key] != r { // it was evicted
			k.read(c, key, at)
			return
		}
	}
	r.list = append(r.list, c)
	k.items++
	c.put(r.key, at)
}

// unread forgets that a client has read a key.
func (k *cached) unread(c *Client, key string) {
	c.forget(key)
	k.leave(c, key)
}

// leave removes a client from the readers of a key.
func (k *cached) leave(c *Client, key string) {
	r := k.readers[key]
	i := slices.Index(r.list, c)
	r.list = slices.Delete(r.list, i, i+1)
	k.items--
	k.close(r)
}

// close removes a key without readers.
func (k *cached) close(r *readers) {
	if len(r.list) == 0 {
		delete(k.readers, r.key)
		k.bytes -= len(r.key)
	}
}

// makeRoom makes room for more keys: it evicts random keys and tells their readers. It does a bounded part of that,
// and reports whether there is room now.
func (k *cached) makeRoom(keys, bytes int) bool {
	keysMax := int(k.keysMax())
	for left := evictionsMax; left > 0; {
		full := keysMax > 0 && len(k.readers)+keys > keysMax || k.bytes+bytes > trackedBytesMax ||
			k.items >= trackedItemsMax
		if !full || len(k.readers) == 0 {
			return true
		}
		for key := range k.readers { // a random one
			left -= 1 + k.steps(key)
			k.evict(key)
			break
		}
	}
	return false
}

// evict tells all readers of a key that it may have changed.
func (k *cached) evict(key string) {
	r := k.readers[key]
	inv := Invalidation{keys: []string{key}}
	for _, c := range r.list {
		c.told(change{Change: resp.Change{Kind: resp.ChangeExpired, Key: key}, at: afterAll}, &inv)
	}
	k.items -= len(r.list)
	r.list = nil
	k.close(r)
}
