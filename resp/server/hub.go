package server

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/track"
	"lockd/resp/server/wire"
)

// Hub hands messages to the subscribers of this node, changes of keys to its clients that track,
// losses of locks to those that held them, and settings to its server. The goroutine that applies the
// log calls Publish, so Publish does bounded work and waits for nobody: it appends a message to the
// outboxes of its receivers, and drops a receiver that has too much waiting.
type Hub struct {
	settings    settings
	tracking    *track.Table // guarded by mu, but for InUse
	holders     holders      // likewise
	subscribers atomic.Int64 // subscribed sessions: Publish reads it first

	mu       sync.Mutex
	users    userNews
	channels topics
	shards   topics
	patterns []*pattern          // in the order in which they came
	byGlob   map[string]*pattern // the same by text
	members  map[*session]struct{}
	monitors map[*session]struct{}
	watched  atomic.Bool // there are monitors

	answering *session  // the session whose followed request is being answered, with the lock held
	delayed   []delayed // pushes to others, until the replies of that session are handed over
}

// topics are the sessions subscribed to each name.
type topics map[string]map[*session]struct{}

type pattern struct {
	glob string
	head string // what every matching channel begins with: it rules most patterns out
	rest string // of the pattern, behind the head
	subs map[*session]struct{}
}

func newPattern(glob string) *pattern {
	head := glob
	if i := strings.IndexAny(glob, `*?[\`); i >= 0 {
		head = glob[:i]
	}
	head = head[:min(len(head), patternHeadMax)]
	return &pattern{glob: glob, head: head, rest: glob[len(head):], subs: map[*session]struct{}{}}
}

// NewHub makes a hub. It may receive settings and messages before there is a
// server to serve it.
func NewHub() *Hub {
	h := &Hub{channels: topics{}, shards: topics{}, byGlob: map[string]*pattern{}, members: map[*session]struct{}{},
		monitors: map[*session]struct{}{}, holders: newHolders(), users: userNews{rules: map[string]string{}}}
	h.settings.setDefaults()
	h.tracking = track.NewTable(h.settings.trackedKeysMax.Load)
	return h
}

// Publish delivers messages, in order; what has become of locks to their holders behind all else.
func (h *Hub) Publish(msgs []resp.Message) {
	anybody, locks := h.subscribers.Load() > 0, false
	for i := range msgs {
		m := &msgs[i]
		locks = locks || m.Form != nil
		switch {
		case m.Kind == resp.MessageConfig:
			h.settings.apply(m.Channel, m.Payload)
		case m.Kind == resp.MessageUser || m.Kind == resp.MessageUsers:
			h.publishUsers(m)
		case m.Kind == resp.MessageChanges:
			if h.tracking.InUse() {
				h.publishChanges(m)
			}
		case anybody && m.Kind != resp.MessageHeld:
			h.deliver(m)
		}
	}
	if locks && h.holders.inUse.Load() > 0 {
		h.publishLocks(msgs)
	}
}

// Listening reports whether there are subscribers, or clients that track keys.
func (h *Hub) Listening() bool { return h.subscribers.Load() > 0 || h.tracking.InUse() }

// DropSubscribers closes every subscribed connection, because it may have missed messages: its
// client then subscribes again, and reads again. Clients that track are told that any key may have
// changed; the leases of all holders of locks are checked.
func (h *Hub) DropSubscribers(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Missed()
	h.holders.checkAll()
	for s := range h.members {
		h.drop(s, why)
	}
}

// drop closes a session that cannot have all its messages. Later the session leaves the hub by
// itself, and logs why. mu is held.
func (h *Hub) drop(s *session, why string) {
	if s.dropped {
		return
	}
	s.dropped, s.droppedWhy = true, why
	s.srv.stats.SubscribersDropped.Add(1)
	s.kill()
}

// whyDropped is why a session was dropped, "" if it was not.
func (h *Hub) whyDropped(s *session) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.droppedWhy
}

// publishChanges sends invalidations for what an entry has changed.
func (h *Hub) publishChanges(m *resp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Publish(m)
}

func (h *Hub) deliver(m *resp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := delivery{hub: h, lim: h.settings.pushLimit()}
	if m.Kind == resp.MessageShard {
		d.to(h.shards[m.Channel], "smessage", m.Channel, m.Payload)
		return
	}
	if m.Kind == resp.MessageLock {
		m = &resp.Message{Kind: m.Kind, Channel: m.Form.Channel(m.Event), Event: m.Event, Form: m.Form}
	}
	if subs := h.channels[m.Channel]; len(subs) > 0 {
		d.to(subs, "message", m.Channel, payload(m))
	}
	h.match(m.Channel, func(p *pattern, inTime bool) {
		if inTime {
			d.to(p.subs, "pmessage", p.glob, m.Channel, payload(m))
		} else {
			d.refuse(p)
		}
	})
}

// payload is that of a message. What has become of a lock is put into words by its first receiver.
func payload(m *resp.Message) string {
	if m.Form != nil {
		m.Payload, m.Form = m.Form.Payload(m.Event), nil
	}
	return m.Payload
}

// match calls found with each pattern that matches a channel, and with each that takes too long to
// match: inTime is false for those. It takes a millisecond at most.
func (h *Hub) match(channel string, found func(p *pattern, inTime bool)) {
	left := globStepsPerMessageMax
	for _, p := range h.patterns {
		left -= globStepsPerPattern
		name, ok := strings.CutPrefix(channel, p.head)
		if !ok {
			continue
		}
		steps := min(left, globStepsMax)
		before := steps
		match := resp.Glob(p.rest, name, &steps)
		left -= before - max(steps, 0)
		if match || steps < 0 {
			found(p, steps >= 0)
		}
	}
}

// delivery sends one message to sessions.
type delivery struct {
	hub *Hub
	lim wire.PushLimit
}

// to sends the words to sessions. It encodes them once for each protocol.
func (d *delivery) to(subs map[*session]struct{}, words ...string) {
	if len(subs) == 0 {
		return
	}
	var forms [2][]byte
	for s := range subs {
		if s.dropped {
			continue
		}
		proto := int(s.proto.Load())
		form := &forms[proto-2]
		if *form == nil {
			*form = pushOf(words...).AppendTo(nil, proto)
		}
		d.hub.send(s, *form, d.lim)
	}
}

// refuse drops the subscribers of a pattern that takes too long to match. They may have missed
// this message, and a client must never miss one without noticing.
func (d *delivery) refuse(p *pattern) {
	for s := range p.subs {
		d.hub.drop(s, "a pattern takes too long to match")
	}
}

// delayed is a push that waits until the session that is being answered has its replies.
type delayed struct {
	to   *session
	form []byte
}

// push sends a push to a session. The session that is being answered gets it behind its replies so
// far; others get theirs when those replies are handed over. mu is held.
func (h *Hub) push(to *session, form []byte) {
	switch {
	case to.dropped:
	case to == h.answering:
		to.pending = append(to.pending, form...)
	case h.answering != nil:
		h.delayed = append(h.delayed, delayed{to, form})
	default:
		h.send(to, form, h.settings.pushLimit())
	}
}

// send appends a push to the outbox of a session, and drops the session if too much waits there.
// mu is held.
func (h *Hub) send(to *session, form []byte, lim wire.PushLimit) {
	if !to.dropped && !to.out.Push(form, lim) {
		h.drop(to, "its output buffer is full")
	}
}

// endAnswer sends the pushes that had to wait. mu is held.
func (h *Hub) endAnswer() {
	h.answering = nil
	for _, d := range h.delayed {
		h.push(d.to, d.form)
	}
	h.delayed = nil
}

func pushOf(words ...string) resp.Reply {
	r := resp.Bulks(words...)
	r.Kind = resp.KindPush
	return r
}

// receivers counts the subscribers that a message to the channel reaches, as
// PUBLISH answers.
func (h *Hub) receivers(channel string, shard bool) int64 {
	if h.subscribers.Load() == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard {
		return int64(len(h.shards[channel]))
	}
	n := len(h.channels[channel])
	h.match(channel, func(p *pattern, inTime bool) {
		if inTime {
			n += len(p.subs)
		}
	})
	return int64(n)
}

// errPatternWork answers a pattern that takes too long to match.
const errPatternWork = "ERR the pattern takes too much work to match"

// The methods below are called with mu held, by the session they are about.

func (t topics) add(name string, s *session) {
	subs := t[name]
	if subs == nil {
		subs = map[*session]struct{}{}
		t[name] = subs
	}
	subs[s] = struct{}{}
}

func (t topics) remove(name string, s *session) {
	subs := t[name]
	delete(subs, s)
	if len(subs) == 0 {
		delete(t, name)
	}
}

// names lists the channels that match, sorted. ok is false if that takes too long.
func (t topics) names(matching string) (names []string, ok bool) {
	left := globStepsPerListMax
	for name := range t {
		if resp.Glob(matching, name, &left) {
			names = append(names, name)
		}
		if left < 0 {
			return nil, false
		}
	}
	slices.Sort(names)
	return names, true
}

func (h *Hub) addPattern(text string, s *session) bool {
	p := h.byGlob[text]
	if p == nil {
		if len(h.patterns) >= patternsMax {
			return false
		}
		p = newPattern(text)
		h.byGlob[text] = p
		h.patterns = append(h.patterns, p)
	}
	p.subs[s] = struct{}{}
	return true
}

// removePattern leaves the pattern in the list, even if nobody subscribes to it now. After one or
// more calls sweepPatterns has to be called once.
func (h *Hub) removePattern(text string, s *session) {
	p := h.byGlob[text]
	if p == nil {
		return
	}
	if delete(p.subs, s); len(p.subs) == 0 {
		delete(h.byGlob, text)
	}
}

func (h *Hub) sweepPatterns() {
	if len(h.patterns) > len(h.byGlob) {
		h.patterns = slices.DeleteFunc(h.patterns, func(p *pattern) bool { return len(p.subs) == 0 })
	}
}

// enter and leave keep count of the subscribed sessions.
func (h *Hub) enter(s *session) {
	if _, in := h.members[s]; !in {
		h.members[s] = struct{}{}
		h.subscribers.Add(1)
	}
}

func (h *Hub) leave(s *session) {
	if _, in := h.members[s]; in {
		delete(h.members, s)
		h.subscribers.Add(-1)
	}
}
