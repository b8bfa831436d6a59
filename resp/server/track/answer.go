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

// TellEarly tells a client that waits long for an answer what has changed meanwhile of what it
// had cached before. Changes of what the request itself reads it hears behind the reply, once
// more if need be.
func (t *Table) TellEarly(c *Client) {
	list, ok := t.recent.since(max(c.told, c.since))
	if !c.waiting || !ok {
		return // Answer.End says so
	}
	c.told = t.recent.next()
	b := broadcast{}
	for _, ch := range list {
		if ch.Kind == resp.ChangeAll {
			t.tellAll(c, ch.at)
			continue
		}
		t.tellReader(c, ch, &Invalidation{keys: []string{ch.Key}})
		t.gather(b, ch)
	}
	c.tellBroadcast(b)
}

// Answer is an answer that has come. Its reads and the changes that were published since the
// request began are gone through together, in the order of their places; the client is told of
// changes as if it had been told all along.
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
// the client is to be told when the key changes.
func (a *Answer) Read(key string, pos int64, remember bool) {
	a.UpTo(pos)
	if remember {
		a.t.read(a.c, key, place{a.index, pos})
	}
}

// UpTo tells the client of the changes up to number pos of the request's entry.
func (a *Answer) UpTo(pos int64) { a.tellUpTo(place{a.index, pos}) }

func (a *Answer) tellUpTo(to place) {
	for len(a.rest) > 0 && !a.rest[0].at.after(to) {
		ch := a.rest[0]
		a.rest = a.rest[1:]
		if ch.Kind == resp.ChangeAll {
			a.t.tellAll(a.c, ch.at)
		} else {
			a.t.tellReader(a.c, ch, &Invalidation{keys: []string{ch.Key}})
		}
	}
}

// End tells the client of the remaining changes. known says that all reads of the request have
// come to Read. Where they are not known, or not all changes since are, the client is told that
// any key may have changed. So it is where the request was not done: a client that waits for a
// change of a key which this request was to read (rueidislock does, without a timer) would wait
// for ever.
func (a *Answer) End(known bool) {
	a.tellUpTo(afterAll)
	if a.lost || !known && !a.c.Broadcast {
		a.t.tellAll(a.c, afterAll)
	}
	b := broadcast{}
	for _, ch := range a.all {
		if ch.Kind != resp.ChangeAll {
			a.t.gather(b, ch)
		}
	}
	a.c.tellBroadcast(b)
	a.t.recent.end()
}
