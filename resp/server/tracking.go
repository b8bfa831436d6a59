package server

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// The hub's part of CLIENT TRACKING: who has read which keys, and what to tell them
// when these change. See DESIGN.md, "Tracking", for the races and why none is lost.
// Everything here is called with the hub's lock held.

// place is a place in the order of all changes: after so many changes of an entry
// of the log, which come after all of the entries before it.
type place struct {
	index uint64
	pos   int64
}

func (p place) after(q place) bool {
	return p.index > q.index || p.index == q.index && p.pos > q.pos
}

// span is a part of an entry's changes: those after from, up to to.
type span struct {
	index    uint64
	from, to int64
}

// change is a change with its place: it is number pos of its entry.
type change struct {
	resp.Change
	at place
}

// tracking is the table of all sessions that track.
type tracking struct {
	sessions  map[*session]struct{}
	readers   map[string]*readers // by key
	keyBytes  int                 // of the keys of readers
	items     int                 // sessions in all readers
	prefixes  map[string]map[*session]struct{}
	lengths   map[int]int // of the prefixes: how many have it
	recent    recent
	published uint64 // index of the last entry of which all changes have been published here for sure
}

// readers are the sessions that may have cached a key.
type readers struct {
	key  string
	list []*session
}

func newTracking() tracking {
	return tracking{sessions: map[*session]struct{}{}, readers: map[string]*readers{},
		prefixes: map[string]map[*session]struct{}{}, lengths: map[int]int{}}
}

// recent holds the last changes for as long as a request of a session that tracks is
// on its way: what the request has read is known only when its answer comes.
type recent struct {
	flights int // requests on their way
	first   uint64
	list    []change // list[0] has the number first
	bytes   int
}

func (r *recent) end() uint64 { return r.first + uint64(len(r.list)) }

func (r *recent) add(c change) {
	if r.flights == 0 {
		return
	}
	r.list = append(r.list, c)
	if r.bytes += len(c.Key); len(r.list) > recentChangesMax || r.bytes > recentBytesMax {
		r.forget(len(r.list)/2 + 1)
	}
}

func (r *recent) forget(n int) {
	for _, c := range r.list[:n] {
		r.bytes -= len(c.Key)
	}
	r.first += uint64(n)
	r.list = append([]change(nil), r.list[n:]...)
}

func (r *recent) takeOff() { r.flights++ }

func (r *recent) land() {
	if r.flights--; r.flights == 0 {
		r.first, r.bytes = r.end(), 0
		clear(r.list)
		r.list = r.list[:0]
	}
}

// since lists the changes from number n on; ok is false if some are forgotten.
func (r *recent) since(n uint64) (list []change, ok bool) {
	if n < r.first {
		return r.list, false
	}
	return r.list[n-r.first:], true
}

// invalidate tells those who track of what an entry changed. A session with a request
// on its way is told after the reply, by settle.
func (h *Hub) invalidate(m *resp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.tracking
	t.published = m.Index - 1 // more of this entry may come
	p := post{hub: h, lim: h.settings.pushLimit()}
	b := broadcast{}
	for i, one := range m.Changes {
		c := change{one, place{m.Index, int64(m.From+i) + 1}}
		t.recent.add(c)
		if c.Kind == resp.ChangeAll {
			t.send(&p, b)
			b = broadcast{}
			for s := range t.sessions {
				if !s.track.flying {
					t.flushed(&p, s, c.at)
				}
			}
			continue
		}
		t.changed(&p, c)
		t.hit(b, c)
	}
	t.send(&p, b)
}

// changed tells the readers of a key.
func (t *tracking) changed(p *post, c change) {
	r := t.readers[c.Key]
	if r == nil {
		return
	}
	inv := invalidation{keys: []string{r.key}}
	for _, s := range slices.Clone(r.list) {
		if !s.track.flying {
			t.touch(p, s, c, &inv)
		}
	}
}

// touch tells a reader of a key of its change, unless the client knows it already:
// it has read the key after the change, or (NOLOOP) made it.
func (t *tracking) touch(p *post, s *session, c change, inv *invalidation) {
	tr := &s.track
	since, reads := tr.keys[c.Key]
	if !reads || !c.at.after(since) || tr.made(c) {
		return
	}
	t.unread(s, c.Key)
	if tr.on && !tr.bcast {
		p.tell(s, inv)
	}
}

// flushed tells a session that any key may have changed.
func (t *tracking) flushed(p *post, s *session, at place) {
	for key, since := range s.track.keys {
		if at.after(since) {
			t.unread(s, key)
		}
	}
	if s.track.on {
		p.tell(s, &invalidation{})
	}
}

// missed tells all sessions that changes may have passed this node by.
func (t *tracking) missed(p *post) {
	all := change{resp.Change{Kind: resp.ChangeAll}, afterAll}
	t.recent.add(all)
	for s := range t.sessions {
		if !s.track.flying {
			t.flushed(p, s, all.at)
		}
	}
}

// read notes that a session has read a key, at a place. It keeps the place of the
// first of several reads: what the client has cached may be the answer of any.
func (t *tracking) read(p *post, s *session, key string, at place) {
	if _, known := s.track.keys[key]; known {
		return
	}
	r := t.readers[key]
	if r == nil {
		t.makeRoom(p, 1, len(key))
		r = &readers{key: strings.Clone(key)}
		t.readers[r.key] = r
		t.keyBytes += len(key)
	}
	r.list = append(r.list, s)
	t.items++
	if s.track.keys == nil {
		s.track.keys = map[string]place{}
	}
	s.track.keys[r.key] = at
}

// unread forgets that a session has read a key.
func (t *tracking) unread(s *session, key string) {
	delete(s.track.keys, key)
	r := t.readers[key]
	i := slices.Index(r.list, s)
	r.list = slices.Delete(r.list, i, i+1)
	t.items--
	if len(r.list) == 0 {
		delete(t.readers, key)
		t.keyBytes -= len(key)
	}
}

// makeRoom keeps the table within tracking-table-max-keys, and its names within
// trackedBytesMax, when a key comes, or none (0): it invalidates keys that it happens
// upon. It reports whether there is room now.
func (t *tracking) makeRoom(p *post, keys, bytes int) bool {
	keysMax := int(p.hub.settings.trackedKeysMax.Load())
	for range evictionsMax {
		full := keysMax > 0 && len(t.readers)+keys > keysMax || t.keyBytes+bytes > trackedBytesMax
		if !full || len(t.readers) == 0 {
			return true
		}
		for key, r := range t.readers { // begins anywhere
			inv := invalidation{keys: []string{key}}
			for _, s := range slices.Clone(r.list) {
				t.touch(p, s, change{resp.Change{Kind: resp.ChangeExpired, Key: key}, afterAll}, &inv)
			}
			break
		}
	}
	return false
}

// trim makes room where the setting has become smaller. It lets go of the lock in
// between: others wait for it.
func (h *Hub) trim() {
	for range trimsMax {
		h.mu.Lock()
		done := h.tracking.makeRoom(&post{hub: h, lim: h.settings.pushLimit()}, 0, 0)
		h.mu.Unlock()
		if done {
			return
		}
	}
}

// follow and unfollow keep the prefixes of a session (BCAST).
func (t *tracking) follow(s *session, prefix string) {
	if t.prefixes[prefix] == nil {
		t.prefixes[prefix] = map[*session]struct{}{}
		t.lengths[len(prefix)]++
	}
	t.prefixes[prefix][s] = struct{}{}
	if s.track.prefixes == nil {
		s.track.prefixes = map[string]struct{}{}
	}
	s.track.prefixes[prefix] = struct{}{}
}

func (t *tracking) unfollow(s *session) {
	for prefix := range s.track.prefixes {
		subs := t.prefixes[prefix]
		if delete(subs, s); len(subs) == 0 {
			delete(t.prefixes, prefix)
			if t.lengths[len(prefix)]--; t.lengths[len(prefix)] == 0 {
				delete(t.lengths, len(prefix))
			}
		}
	}
	s.track.prefixes = nil
}

// broadcast gathers changes by the prefixes that they match.
type broadcast map[string][]change

// hit adds a change. A key is looked up once for each length that prefixes have.
func (t *tracking) hit(b broadcast, c change) {
	for n := range t.lengths {
		if n > len(c.Key) {
			continue
		}
		if prefix := c.Key[:n]; t.prefixes[prefix] != nil {
			b[prefix] = append(b[prefix], c)
		}
	}
}

// send tells the followers of each prefix: one message for each, as in Redis.
func (t *tracking) send(p *post, b broadcast) {
	for _, prefix := range slices.Sorted(maps.Keys(b)) {
		inv := invalidation{keys: names(b[prefix], nil)}
		for s := range t.prefixes[prefix] {
			switch {
			case s.track.flying:
			case s.track.noloop:
				t.sendTo(p, s, b[prefix])
			default:
				p.tell(s, &inv)
			}
		}
	}
}

// sendTo tells one follower of a prefix.
func (t *tracking) sendTo(p *post, s *session, list []change) {
	if keys := names(list, &s.track); len(keys) > 0 {
		p.tell(s, &invalidation{keys: keys})
	}
}

// sendMine tells one session of what matches its prefixes.
func (t *tracking) sendMine(p *post, s *session, b broadcast) {
	for _, prefix := range slices.Sorted(maps.Keys(b)) {
		if _, mine := s.track.prefixes[prefix]; mine {
			t.sendTo(p, s, b[prefix])
		}
	}
}

// names lists the keys of changes, sorted, each once, without those of tr's own.
func names(list []change, tr *tracker) []string {
	keys := make([]string, 0, len(list))
	for _, c := range list {
		if tr == nil || !tr.made(c) {
			keys = append(keys, c.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// enter makes a session one that is told.
func (t *tracking) enter(h *Hub, s *session) {
	if _, in := t.sessions[s]; !in {
		t.sessions[s] = struct{}{}
		h.trackers.Add(1)
	}
}

// leave forgets a session that ends.
func (t *tracking) leave(h *Hub, s *session) {
	if _, in := t.sessions[s]; !in {
		return
	}
	for key := range s.track.keys {
		t.unread(s, key)
	}
	t.unfollow(s)
	delete(t.sessions, s)
	h.trackers.Add(-1)
}

// invalidation is what clients are told: keys, or none for "any key". It is encoded
// once for each form.
type invalidation struct {
	keys []string
	push []byte // RESP3
	msg  []byte // RESP2: a message of the channel of invalidations
}

// invalidationChannel is where a RESP2 client hears of the keys of another connection.
const invalidationChannel = "__redis__:invalidate"

func (inv *invalidation) form(proto int) []byte {
	form, head := &inv.push, []resp.Reply{resp.Bulk("invalidate")}
	if proto < 3 {
		form, head = &inv.msg, []resp.Reply{resp.Bulk("message"), resp.Bulk(invalidationChannel)}
	}
	if *form == nil {
		keys := resp.Nil()
		if inv.keys != nil {
			keys = resp.Bulks(inv.keys...)
		}
		*form = resp.Push(append(head, keys)...).AppendTo(nil, proto)
	}
	return *form
}

// post delivers pushes. To the session that settles they are appended behind its
// replies; other sessions get theirs once those replies are handed over.
type post struct {
	hub   *Hub
	lim   wire.PushLimit
	self  *session
	later []letter
}

type letter struct {
	to   *session
	form []byte
}

// tell tells a session that tracks, on the connection it has chosen for that.
func (p *post) tell(s *session, inv *invalidation) {
	to, redirected := s, s.track.redirect != 0
	if redirected {
		if to = s.srv.session(s.track.redirect); to == nil || to.out.Ends() {
			p.broken(s)
			return
		}
	}
	switch proto := int(to.proto.Load()); {
	case proto >= 3, redirected && to.subs.count() > 0:
		p.push(to, inv.form(proto))
	}
	// A RESP2 client that is in no Pub/Sub mode cannot be told anything.
}

// broken tells a session that the connection it has chosen is gone.
func (p *post) broken(s *session) {
	s.track.broken = true
	s.showTracking()
	if s.proto.Load() >= 3 {
		p.push(s, resp.Push(resp.Bulk("tracking-redir-broken"), resp.Int(s.track.redirect)).AppendTo(nil, 3))
	}
}

func (p *post) push(to *session, form []byte) {
	switch {
	case to.dropped:
	case to == p.self:
		to.pending = append(to.pending, form...)
	case p.self != nil:
		p.later = append(p.later, letter{to, form})
	case !to.out.Push(form, p.lim):
		p.hub.drop(to, "its output buffer is full")
	}
}

// sendLater delivers what had to wait for the replies of the session that settles.
func (p *post) sendLater() {
	p.self = nil
	for _, l := range p.later {
		p.push(l.to, l.form)
	}
}
