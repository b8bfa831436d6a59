package track

import (
	"slices"

	"lockd/resp"
)

// Begin records that a request of a client is on its way. Answer must follow in any case.
func (t *Table) Begin(c *Client) {
	t.enter(c)
	t.recent.begin()
	c.waiting, c.since = true, t.recent.next()
}

// SendEarly sends a client that waits long for an answer the changes, since the request began, of keys cached before.
// Changes of keys that the request reads follow the reply, some of them a second time.
func (t *Table) SendEarly(c *Client) {
	list, ok := t.recent.since(max(c.sent, c.since))
	if !c.waiting {
		return
	}
	if c.sent = t.recent.next(); !ok {
		t.flush(c, afterAll)
		return
	}
	for _, ch := range list {
		if ch.Kind == resp.ChangeAll {
			t.flush(c, ch.at)
		} else {
			t.cached.changedFor(c, ch)
		}
	}
	c.sendBroadcast(list)
}

// Answer is the processing of one answer. It merges the reads of the request and the changes published since the
// request began, in the order of their places: the client gets the invalidations that it would have got without the
// request in between.
type Answer struct {
	t     *Table
	c     *Client
	index uint64   // of the request's entry, or of the last entry before it
	all   []change // since the request began
	rest  []change // the part of all not handled yet
	lost  bool     // all is not known: there were too many changes
}

// Answer begins to process an answer. made are the changes of the request itself, and the entry that it was or
// followed; zero if unknown.
func (t *Table) Answer(c *Client, made Span) Answer {
	list, ok := t.recent.since(c.since)
	c.waiting, c.seen = false, max(c.seen, made.Index)
	c.own = slices.DeleteFunc(c.own, func(own Span) bool {
		return own.Index <= t.published && (len(list) == 0 || own.Index < list[0].at.index)
	})
	if c.NoLoop && made.To > made.From {
		c.own = append(c.own, made)
	}
	return Answer{t: t, c: c, index: made.Index, all: list, rest: list, lost: !ok}
}

// Read handles a read of the request, after change pos of its entry. remember: invalidate the key when it changes.
func (a *Answer) Read(key string, pos int64, remember bool) {
	a.UpTo(pos)
	if remember && !a.lost {
		a.t.cached.read(a.c, key, place{a.index, pos})
	}
}

// UpTo handles changes up to change pos of the request's entry.
func (a *Answer) UpTo(pos int64) { a.advance(place{a.index, pos}) }

// advance sends the invalidations for the changes up to a place.
func (a *Answer) advance(to place) {
	for len(a.rest) > 0 && !a.rest[0].at.after(to) {
		ch := a.rest[0]
		a.rest = a.rest[1:]
		if ch.Kind == resp.ChangeAll {
			a.t.flush(a.c, ch.at)
		} else {
			a.t.cached.changedFor(a.c, ch)
		}
	}
}

// End sends the invalidations for the remaining changes. known: all reads of the request were passed to Read. If they
// were not, or changes are missing, the client is told that any key may have changed. This includes requests that
// were not executed: a client that waits for a change of a key which the request was to read (rueidislock does,
// without a timer) would otherwise wait for ever.
func (a *Answer) End(known bool) {
	a.advance(afterAll)
	if a.lost || !known && !a.c.Broadcast {
		a.t.flush(a.c, afterAll)
	}
	a.c.sendBroadcast(a.all)
	a.t.recent.end()
}
