package track

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// Limits of the prefixes of a client.
const (
	prefixBytesMax = 512     // bytes of one
	prefixesMax    = 1 << 10 // their number
)

// Conn sends a client its invalidations.
type Conn interface {
	// Invalidate is called with the table's lock held, and must not block.
	Invalidate(*Invalidation)
}

// Mode is the mode of CLIENT TRACKING.
type Mode struct {
	On        bool
	Broadcast bool  // all keys with its prefixes, instead of the keys that it reads
	OptIn     bool  // only keys read after CLIENT CACHING YES
	OptOut    bool  // all keys but those read after CLIENT CACHING NO
	NoLoop    bool  // without the client's own changes
	Redirect  int64 // id of the connection that gets them; 0: this one
	Broken    bool  // that connection has closed
}

// Client is a connection that may track. Its goroutine reads Mode without the table's lock, and changes it with the
// lock.
type Client struct {
	Mode
	Conn    Conn // set before the client is used
	Caching bool // CLIENT CACHING was the last command; only the client's own goroutine uses it

	prefixes []string         // of BCAST, sorted
	keys     map[string]place // keys that the client may have cached, with the place of the read
	newest   place            // the latest place in keys, or later
	dead     map[string]place // keys no longer cached, with the client still among the readers: for Table.Clean
	own      []Span           // of NOLOOP: its own changes, until they are published here
	waiting  bool             // for the answer of a request: invalidations wait for it
	since    uint64           // number of the first change since the request began
	sent     uint64           // changes before this one were sent early: see SendEarly
	seen     uint64           // see Seen
}

// knows reports whether the client is among the readers of a key.
func (c *Client) knows(key string) bool {
	_, reads := c.keys[key]
	_, dead := c.dead[key]
	return reads || dead
}

func (c *Client) put(key string, at place) {
	if c.keys == nil {
		c.keys = map[string]place{}
	}
	c.keys[key] = at
	if at.after(c.newest) {
		c.newest = at
	}
}

func (c *Client) forget(key string) {
	delete(c.keys, key)
	delete(c.dead, key)
}

// told tells a reader of a key of its change, and drops the read; the caller removes it from the readers. It reports
// false if the client stays a reader.
func (c *Client) told(ch change, inv *Invalidation) bool {
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

// flush forgets the client's reads before a place, usually all at once.
func (c *Client) flush(at place) {
	gone, stay := c.keys, map[string]place(nil)
	if !at.after(c.newest) {
		stay = map[string]place{}
		for key, since := range gone {
			if !at.after(since) {
				stay[key] = since
			}
		}
		for key := range stay {
			delete(gone, key)
		}
	}
	c.keys = stay
	if len(c.dead) < len(gone) {
		gone, c.dead = c.dead, gone
	}
	maps.Copy(c.dead, gone)
}

// Seen returns the index of the last entry of the log that the client's answers may have shown it. The client's own
// goroutine needs no lock for it.
func (c *Client) Seen() uint64 { return c.seen }

// Prefixes lists the prefixes of BCAST, sorted.
func (c *Client) Prefixes() []string { return slices.Clone(c.prefixes) }

// eachPrefix visits the client's prefixes of a key: the empty one, and one more at most, as Check refuses others that
// overlap. That one is the last that is not after the key.
func (c *Client) eachPrefix(key string, visit func(prefix string)) {
	if len(c.prefixes) > 0 && c.prefixes[0] == "" {
		visit("")
	}
	at, found := slices.BinarySearch(c.prefixes, key)
	if !found {
		at--
	}
	if at >= 0 && c.prefixes[at] != "" && strings.HasPrefix(key, c.prefixes[at]) {
		visit(c.prefixes[at])
	}
}

// PrefixCount returns the number of prefixes of BCAST.
func (c *Client) PrefixCount() int { return len(c.prefixes) }

// Wants reports whether to remember the reads of a command. caching: CLIENT CACHING came just before it.
func (c *Client) Wants(caching bool) bool {
	return c.On && !c.Broadcast && (!c.OptIn || caching) && (!c.OptOut || !caching)
}

// made reports whether a change is the client's own, and unwanted. Expirations and flushes are always wanted, as in
// Redis.
func (c *Client) made(ch change) bool {
	if !c.NoLoop || ch.Kind != resp.ChangeKey {
		return false
	}
	return slices.ContainsFunc(c.own, func(own Span) bool { return own.has(ch.at) })
}

// madeIn reports whether any changes of an entry are the client's own, and unwanted.
func (c *Client) madeIn(index uint64) bool {
	return c.NoLoop && slices.ContainsFunc(c.own, func(own Span) bool { return own.Index == index })
}

// Check returns why a mode cannot start: its options conflict with each other, or with the present mode. It checks in
// Redis's order.
func (c *Client) Check(next *Mode, prefixes []string) error {
	const before = " before disabling tracking for this client, and then re-enabling it with a different mode."
	switch {
	case !next.Broadcast && len(prefixes) > 0:
		return resp.Error("ERR PREFIX option requires BCAST mode to be enabled")
	case c.On && c.Broadcast != next.Broadcast:
		return resp.Error("ERR You can't switch BCAST mode on/off" + before)
	case next.Broadcast && (next.OptIn || next.OptOut):
		return resp.Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case next.OptIn && next.OptOut:
		return resp.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case c.OptIn && next.OptOut || c.OptOut && next.OptIn:
		return resp.Error("ERR You can't switch OPTIN/OPTOUT mode" + before)
	}
	return c.checkPrefixes(prefixes)
}

// checkPrefixes refuses too many prefixes, and two of which one begins with the other. It compares each with each, so
// it checks their number first.
func (c *Client) checkPrefixes(prefixes []string) error {
	const must = "Prefixes for a single client must not overlap."
	if len(c.prefixes)+len(prefixes) > prefixesMax {
		return resp.Error("ERR too many prefixes")
	}
	have := c.Prefixes()
	for i, p := range prefixes {
		if len(p) > prefixBytesMax {
			return resp.Error("ERR prefix is too long")
		}
		for _, old := range have {
			if overlap(p, old) {
				return resp.Error("ERR Prefix '" + p + "' overlaps with an existing prefix '" + old + "'. " + must)
			}
		}
		for _, other := range prefixes[i+1:] {
			if overlap(p, other) {
				return resp.Error("ERR Prefix '" + p + "' overlaps with another provided prefix '" + other + "'. " + must)
			}
		}
	}
	return nil
}

func overlap(p, q string) bool { return strings.HasPrefix(p, q) || strings.HasPrefix(q, p) }
