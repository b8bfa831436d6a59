package server

import (
	"math"
	"slices"
	"strings"

	"lockd/resp"
)

// tracker is what a session has agreed to be told of. The session's goroutine changes
// it, with the hub's lock held but for caching; the hub reads it and changes keys,
// own, told and broken.
type tracker struct {
	on       bool
	bcast    bool
	optin    bool
	optout   bool
	noloop   bool
	broken   bool  // the connection to tell is gone
	caching  bool  // CLIENT CACHING was the last command
	redirect int64 // id of the connection to tell; 0: this one
	prefixes map[string]struct{}

	keys   map[string]place // what the client may have cached, and where it read it
	own    []span           // NOLOOP: changes of its own, until they are published here
	flying bool             // a request is on its way: nothing is told before its reply
	from   uint64           // number of the first change since
	seen   uint64           // index of the last entry that an answer was of, or came after
	told   uint64           // changes before this one have been told all the same: see relieve
}

// afterAll is later than every change.
var afterAll = place{index: math.MaxUint64, pos: math.MaxInt64}

// made reports whether the session itself has made a change and does not want to be
// told. That a lease has ended, or all was flushed, it is told in any case, as in
// Redis.
func (tr *tracker) made(c change) bool {
	if !tr.noloop || c.Kind != resp.ChangeKey {
		return false
	}
	return slices.ContainsFunc(tr.own, func(o span) bool { return o.index == c.at.index && o.from < c.at.pos && c.at.pos <= o.to })
}

// wants reports whether what the next command reads is to be remembered.
func (tr *tracker) wants(caching bool) bool {
	return tr.on && !tr.bcast && (!tr.optin || caching) && (!tr.optout || !caching)
}

// flight is a request of a session that tracks, on its way to the backend and back.
type flight struct {
	cmds    []resp.Cmd
	of      []*command
	tracked []bool // commands whose reads are to be remembered
	aborted bool   // a transaction that was not run: it has read nothing

	trace *resp.Trace // nil: not known
}

// followRun begins the flight of the run that has gathered.
func (s *session) followRun(req *resp.Request) *flight {
	if !s.track.on {
		return nil
	}
	f := s.takeOff(req, s.runOf)
	if f != nil {
		for i := range s.runOf {
			f.tracked = append(f.tracked, s.track.wants(s.runFirst && i == 0))
		}
	}
	return f
}

// followTransaction begins the flight of a transaction's data commands. Which of
// their reads are to be remembered is decided while its array is composed.
func (s *session) followTransaction(tx *transaction, req *resp.Request) *flight {
	follow := s.track.on
	var of []*command
	for _, q := range tx.cmds {
		if q.of.act == nil {
			of = append(of, q.of)
		} else {
			follow = follow || q.of.act.tracks
		}
	}
	if !follow {
		return nil
	}
	return s.takeOff(req, of)
}

// takeOff begins the flight of a request; nil if nobody needs to follow it.
func (s *session) takeOff(req *resp.Request, of []*command) *flight {
	const data = resp.ReadOnly | resp.Write | resp.MayReplicate
	if !slices.ContainsFunc(of, func(c *command) bool { return c.spec.Flags&data != 0 }) {
		return nil
	}
	f := &flight{cmds: req.Cmds, of: of, tracked: make([]bool, 0, len(of))}
	req.Trace = true
	h := s.srv.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.enter(h, s)
	h.tracking.recent.takeOff()
	s.track.flying, s.track.from = true, h.tracking.recent.end()
	return f
}

// arrive takes the answer of the backend. Of a run it may answer some first commands only:
// the others are run by themselves.
func (f *flight) arrive(res resp.Result) {
	f.aborted = res.Aborted
	n := min(len(f.cmds), max(1, len(res.Replies)))
	f.cmds, f.of = f.cmds[:n], f.of[:n]
	if res.Trace != nil && len(res.Trace.Marks) == n {
		f.trace = res.Trace
	}
}

// remembers reports whether what command i reads is to be remembered. Of a transaction
// that was not run it is never said.
func (f *flight) remembers(i int) bool { return i < len(f.tracked) && f.tracked[i] }

// settle ends a flight: it appends the replies of its commands (or finds them
// appended, where reply is nil), remembers what was read, and tells the client what
// has changed since. All of it is one step for who publishes, so that no change can
// come between a reply and the memory of it.
func (s *session) settle(f *flight, reply func(i int)) {
	h := s.srv.hub
	h.mu.Lock()
	p := post{hub: h, lim: h.settings.pushLimit(), self: s}
	g := landing{t: &h.tracking, s: s, p: &p}
	g.begin(f)
	for i := range f.cmds {
		if reply != nil {
			reply(i)
		}
		g.command(f, i)
	}
	g.end(f)
	s.handOver()
	p.sendLater()
	h.mu.Unlock()
	s.waitForRoom()
}

// landing goes once more through the changes that were published while a request was
// on its way, beside what the request has read.
type landing struct {
	t    *tracking
	s    *session
	p    *post
	all  []change
	rest []change // not looked at yet
	lost bool     // there were too many
	read int      // of the trace's reads: how many have been looked at
}

func (g *landing) begin(f *flight) {
	tr := &g.s.track
	list, ok := g.t.recent.since(tr.from)
	g.all, g.rest, g.lost = list, list, !ok
	tr.flying = false
	tr.own = slices.DeleteFunc(tr.own, func(o span) bool {
		return o.index <= g.t.published && (len(list) == 0 || o.index < list[0].at.index)
	})
	if f.trace == nil {
		return
	}
	tr.seen = max(tr.seen, f.trace.Index)
	if marks := f.trace.Marks; tr.noloop && marks[len(marks)-1] > f.trace.From {
		tr.own = append(tr.own, span{f.trace.Index, f.trace.From, marks[len(marks)-1]})
	}
}

// command remembers what command i of the request has read.
func (g *landing) command(f *flight, i int) {
	if f.trace == nil {
		return
	}
	reads := f.trace.Reads
	for ; g.read < len(reads) && reads[g.read].Cmd == i; g.read++ {
		g.remember(f, i, reads[g.read].Key, reads[g.read].At)
	}
	spec, mark := f.of[i].spec, f.trace.Marks[i]
	if spec.ReadsKeys() {
		keys, _ := spec.Keys.Of(f.cmds[i].Args)
		for _, key := range keys {
			g.remember(f, i, key, mark)
		}
	}
	g.catchUp(place{f.trace.Index, mark})
}

// remember remembers a read, if it is to be, after the changes that came before it.
func (g *landing) remember(f *flight, i int, key string, pos int64) {
	at := place{f.trace.Index, pos}
	g.catchUp(at)
	if f.remembers(i) {
		g.t.read(g.p, g.s, key, at)
	}
}

// catchUp tells the client of the changes up to a place.
func (g *landing) catchUp(to place) {
	for len(g.rest) > 0 && !g.rest[0].at.after(to) {
		c := g.rest[0]
		g.rest = g.rest[1:]
		if c.Kind == resp.ChangeAll {
			g.t.flushed(g.p, g.s, c.at)
		} else {
			g.t.touch(g.p, g.s, c, &invalidation{keys: []string{c.Key}})
		}
	}
}

// end catches up with the rest. Where it is not known what was read, or not all
// changes since are, the client is told that any key may have changed. That also goes
// where the request was not done, or nobody knows: who waits for a change of a key
// that this request was to read (rueidislock does, without a timer) would wait for ever.
func (g *landing) end(f *flight) {
	g.catchUp(afterAll)
	if g.lost || f.trace == nil && !f.aborted && !g.s.track.bcast {
		g.t.flushed(g.p, g.s, afterAll)
	}
	b := broadcast{}
	for _, c := range g.all {
		if c.Kind != resp.ChangeAll {
			g.t.hit(b, c)
		}
	}
	g.t.sendMine(g.p, g.s, b)
	g.t.recent.land()
}

// relieve tells a client that waits long for its reply what has changed meanwhile of
// what it had cached before. Changes of what the request itself reads it hears, once
// more if need be, behind the reply.
func (h *Hub) relieve(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, tr := &h.tracking, &s.track
	list, ok := t.recent.since(max(tr.told, tr.from))
	if !tr.flying || !ok {
		return // settle says so
	}
	tr.told = t.recent.end()
	p := post{hub: h, lim: h.settings.pushLimit()}
	b := broadcast{}
	for _, c := range list {
		if c.Kind == resp.ChangeAll {
			t.flushed(&p, s, c.at)
			continue
		}
		t.touch(&p, s, c, &invalidation{keys: []string{c.Key}})
		t.hit(b, c)
	}
	t.sendMine(&p, s, b)
}

// endCaching ends what CLIENT CACHING asked for, after the one command it was for: a
// transaction counts as one, and other commands of CLIENT do not count, as in Redis.
func (s *session) endCaching(c *command) {
	if s.track.caching && s.tx == nil && (c == nil || !strings.HasPrefix(c.spec.Name, "client|")) {
		s.track.caching = false
	}
}

// forget lets go of a session that ends.
func (h *Hub) forget(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.leave(h, s)
	h.unmonitor(s)
}
