package track

import (
	"slices"

	"lockd/resp"
)

// Begin notes that a request of a client is on its way. Its answer comes to Answer, in any case.
func (t *Table) Begin(c *Client) {
	t.enter(c)
	t.recent.begin()
	c.waiting, c.since = true, t.recent.next()
}

// SendEarly sends a client that waits long for an answer the changes since then of what it had
// cached before. Those of what the request itself reads follow the reply, some a second time.
func (t *Table) SendEarly(c *Client) {
	list, ok := t.recent.since(max(c.sent, c.since))
	if !c.waiting || !ok {
		return // Answer.End says so
	}
	c.sent = t.recent.next()
	b := broadcast{}
	for _, ch := range list {
		if ch.Kind == resp.ChangeAll {
			t.flush(c, ch.at)
			continue
		}
		t.invalidate(c, ch, &Invalidation{keys: []string{ch.Key}})
		b.add(ch)
	}
	c.sendBroadcast(b)
}

// Answer is an answer that has come. Its reads and the changes that were published since the
// request began are gone through together, in the order of their places: the client gets the
// invalidations that it would have got without the request.
type Answer struct {
	t     *Table
	c     *Client
	index uint64   // of the entry that the request was, or of the last one before it
	all   []change // since the request began
	rest  []change // of them, those not gone through yet
	lost  bool     // there were too many
}

// Answer begins with an answer. made are the changes of the request itself, with the entry that
// it was or came after; it is zero where that is not known.
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

// Read goes on to a read of the request, behind change pos of its entry. remember says that
// the client gets an invalidation when the key changes.
func (a *Answer) Read(key string, pos int64, remember bool) {
	a.UpTo(pos)
	if remember {
		a.t.read(a.c, key, place{a.index, pos})
	}
}

// UpTo goes on to change pos of the request's entry.
func (a *Answer) UpTo(pos int64) { a.advance(place{a.index, pos}) }

// advance sends the invalidations for the changes up to a place.
func (a *Answer) advance(to place) {
	for len(a.rest) > 0 && !a.rest[0].at.after(to) {
		ch := a.rest[0]
		a.rest = a.rest[1:]
		if ch.Kind == resp.ChangeAll {
			a.t.flush(a.c, ch.at)
		} else {
			a.t.invalidate(a.c, ch, &Invalidation{keys: []string{ch.Key}})
		}
	}
}

// End sends the invalidations for the remaining changes. known says that all reads of the request
// have come to Read. Where they are not known, or not all changes since are, any key may have
// changed. So it is where the request was not done: a client that waits for a change of a key
// which this request was to read (rueidislock does, without a timer) would wait for ever.
func (a *Answer) End(known bool) {
	a.advance(afterAll)
	if a.lost || !known && !a.c.Broadcast {
		a.t.flush(a.c, afterAll)
	}
	b := broadcast{}
	for _, ch := range a.all {
		b.add(ch)
	}
	a.c.sendBroadcast(b)
	a.t.recent.end()
}
