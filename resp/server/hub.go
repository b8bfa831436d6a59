package server

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/stats"
	"lockd/resp/server/track"
	"lockd/resp/server/wire"
)

// Hub distributes messages to the subscribers of this node, changes of keys to its tracking clients, losses of locks
// to their former holders, and settings to its server. The goroutine that applies the log calls Publish, so Publish
// does bounded work and never blocks: messages for subscribers go into a queue (deliveries), from which another
// goroutine appends them to the outboxes. A receiver whose outbox is too full is dropped.
type Hub struct {
	settings    settings
	tracking    *track.Table // guarded by mu, except InUse
	holders     holders      // guarded by mu, except inUse
	subscribers atomic.Int64 // subscribed sessions: Publish reads it first
	queue       *deliveries
	matching    matching
	server      atomic.Pointer[Server]

	counting sync.Mutex // taken before mu: of many questions that list much, at most one competes with the log for mu
	mu       sync.Mutex
	users    userNews
	channels topics
	shards   topics
	patterns
	members  subscribers // all sessions with subscriptions
	monitors map[*session]struct{}
	watched  atomic.Bool // there are monitors

	answering *session  // the session whose followed request is being answered, with the lock held
	delayed   []delayed // pushes to others, until the replies of answering are handed over
}

// topics maps names to the sessions subscribed to them.
type topics map[string]subscribers

// subscribers are sessions, each with the number of the last parcel published before it subscribed: it does not get
// earlier messages.
type subscribers map[*session]uint64

type pattern struct {
	number uint64 // patterns are ordered by their creation
	glob   string
	head   string // the prefix of all matching channels, by which candidates are found
	rest   string // the pattern after the head
	sum    string // hash by which nodes recognize equal patterns
	subs   subscribers

	run   uint64 // see matching
	steps int
}

func newPattern(glob string) *pattern {
	head := glob
	if i := strings.IndexAny(glob, `*?[\`); i >= 0 {
		head = glob[:i]
	}
	head = head[:min(len(head), patternHeadMax)]
	sum := sha256.Sum256([]byte(glob))
	return &pattern{
		glob: glob, head: head, rest: glob[len(head):], sum: string(sum[:patternSumBytes]), subs: subscribers{},
	}
}

// patterns are the patterns of all clients.
type patterns struct {
	byGlob map[string]*pattern
	byHead map[string][]*pattern   // each in the order of numbers
	lens   [patternHeadMax + 1]int // number of heads of each length
	last   uint64
}

func (l *patterns) add(p *pattern) {
	l.last++
	p.number = l.last
	l.byGlob[p.glob] = p
	if len(l.byHead[p.head]) == 0 {
		l.lens[len(p.head)]++
	}
	l.byHead[p.head] = append(l.byHead[p.head], p)
}

func (l *patterns) remove(p *pattern) {
	delete(l.byGlob, p.glob)
	list := l.byHead[p.head]
	at, _ := slices.BinarySearchFunc(list, p, comparePatterns)
	if list = slices.Delete(list, at, at+1); len(list) > 0 {
		l.byHead[p.head] = list
		return
	}
	delete(l.byHead, p.head)
	l.lens[len(p.head)]--
}

func comparePatterns(p, q *pattern) int { return cmp.Compare(p.number, q.number) }

// candidates returns the patterns whose heads are prefixes of the channel, in any order: match sorts them, without
// the hub's lock.
func (l *patterns) candidates(channel string) (list []*pattern) {
	for n := range min(len(l.lens), len(channel)+1) {
		if l.lens[n] == 0 {
			continue
		}
		list = append(list, l.byHead[channel[:n]]...)
	}
	return list
}

// NewHub returns a hub. It accepts settings and messages before it has a server.
func NewHub() *Hub {
	h := &Hub{channels: topics{}, shards: topics{}, members: subscribers{}, monitors: map[*session]struct{}{},
		patterns: patterns{byGlob: map[string]*pattern{}, byHead: map[string][]*pattern{}},
		holders:  newHolders(), users: userNews{rules: map[string]string{}}}
	h.queue = newDeliveries(h.handOut)
	h.settings.setDefaults()
	h.tracking = track.NewTable(h.settings.trackedKeysMax.Load)
	return h
}

// Listening reports whether there are subscribers, or clients that track keys.
func (h *Hub) Listening() bool { return h.subscribers.Load() > 0 || h.tracking.InUse() }

// DropSubscribers closes every subscribed connection, because it may have missed messages: its client then subscribes
// and reads again. Tracking clients are told that any key may have changed; the leases of all holders of locks are
// checked.
func (h *Hub) DropSubscribers(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Missed()
	h.holders.checkAll()
	h.queue.skip()
	h.dropMembers(h.queue.last()+1, stats.DropUnsure, why)
}

// dropMembers drops the sessions that subscribed before the parcel of this number was added. mu is held.
func (h *Hub) dropMembers(number uint64, reason stats.DropReason, why string) {
	for s, since := range h.members {
		if since < number {
			h.drop(s, reason, why)
		}
	}
}

// drop closes a session that cannot get all its messages. The session then leaves the hub by itself, and logs why. mu
// is held.
func (h *Hub) drop(s *session, reason stats.DropReason, why string) {
	if s.dropped {
		return
	}
	s.dropped, s.droppedWhy = true, why
	s.srv.stats.SubscribersDropped.Add(reason)
	s.kill()
}

// whyDropped returns why a session was dropped, "" if it was not.
func (h *Hub) whyDropped(s *session) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.droppedWhy
}

// publishChanges sends invalidations for the changes of an entry.
func (h *Hub) publishChanges(m *resp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Publish(m)
}

// delayed is a push that waits until the session being answered has its replies.
type delayed struct {
	to   *session
	form []byte
}

// push sends a push to a session. The session being answered gets it after its replies so far; others get theirs when
// those replies are handed over. mu is held.
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

// send sends a push to a session: after the messages on their way to it, if it subscribes. mu is held.
func (h *Hub) send(to *session, form []byte, lim wire.PushLimit) {
	_, subscribes := h.members[to]
	if (subscribes || to.underway.Load() > 0) && h.joins(parcel{to: to, form: form, bytes: len(form)}) {
		return
	}
	h.sendNow(to, form, lim)
}

// sendNow appends a push to the outbox of a session, and drops the session if its outbox is full. mu is held.
func (h *Hub) sendNow(to *session, form []byte, lim wire.PushLimit) {
	if !to.dropped && !to.out.Push(form, lim) {
		h.drop(to, stats.DropSlow, "its output buffer is full")
	}
}

// holdPushes delays later pushes to a session until the reply to its blocking command: the hold takes its place after
// the messages on their way, if the session subscribes. The goroutine that applies calls it, without the lock.
func (h *Hub) holdPushes(to *session, subscribes bool) {
	if !subscribes || !h.joins(parcel{to: to, turn: turnHold}) {
		to.out.Hold()
	}
}

// resumePushes ends a hold, with the reply or, if form is empty, without. It is called without the lock, by any
// goroutine.
func (h *Hub) resumePushes(to *session, form []byte, subscribes bool) {
	if !subscribes || !h.joins(parcel{to: to, turn: turnResume, form: form, bytes: len(form)}) {
		to.out.Resume(form)
	}
}

// joins adds a parcel for one session if others are on their way, and reports whether it did.
func (h *Hub) joins(p parcel) bool {
	p.to.underway.Add(1)
	if h.queue.join(p) {
		return true
	}
	p.to.underway.Add(-1)
	return false
}

// settle waits until the outbox of a session that subscribes has all messages published before: the next reply
// follows them.
func (s *session) settle() {
	if s.subscribed() || s.underway.Load() > 0 {
		s.srv.hub.queue.wait()
	}
}

// endAnswer sends the delayed pushes. mu is held.
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

// errListed answers a question for more names than are listed.
const errListed = "ERR the names of the channels take more than 16 MiB: ask with a pattern that fewer of them match"

// errPatternWork answers a pattern that takes too long to match.
const errPatternWork = "ERR the pattern takes too much work to match"

// The methods below are called with mu held, by the session they are about.

func (t topics) add(name string, s *session, since uint64) {
	subs := t[name]
	if subs == nil {
		subs = subscribers{}
		t[name] = subs
	}
	subs[s] = since
}

func (t topics) remove(name string, s *session) {
	subs := t[name]
	delete(subs, s)
	if len(subs) == 0 {
		delete(t, name)
	}
}

// names lists the channels that match. It calls pause now and then, during which the topics may change: the result
// has every channel with subscribers throughout, and some of those with subscribers part of the time.
func (t topics) names(matching string, left *int, pause func()) resp.Reply {
	size, next := 0, *left-listedAtOnce
	var names []string
	for name := range t {
		*left-- // the cost of looking at a name
		if resp.Glob(matching, name, left) {
			names = append(names, name)
			size += len(name)
		}
		switch {
		case *left < 0:
			return resp.Err(errPatternWork)
		case size > listedBytesMax:
			return resp.Err(errListed)
		case *left < next:
			next = *left - listedAtOnce
			pause()
		}
	}
	return resp.Bulks(names...)
}

// counts returns the number of subscribers of each name.
func (t topics) counts(names resp.Args) resp.Reply {
	counts := make([]resp.Reply, len(names))
	for i, name := range names {
		counts[i] = resp.Int(int64(len(t[name])))
	}
	return resp.Array(counts...)
}

func (h *Hub) addPattern(text string, s *session) bool {
	p := h.byGlob[text]
	if p == nil {
		if len(h.byGlob) >= patternsMax {
			return false
		}
		p = newPattern(text)
		h.patterns.add(p)
	}
	p.subs[s] = h.queue.last()
	return true
}

func (h *Hub) removePattern(text string, s *session) {
	if p := h.byGlob[text]; p != nil {
		if delete(p.subs, s); len(p.subs) == 0 {
			h.patterns.remove(p)
		}
	}
}

// enter and leave keep count of the subscribed sessions.
func (h *Hub) enter(s *session) {
	if _, in := h.members[s]; !in {
		h.members[s] = h.queue.last()
		h.subscribers.Add(1)
	}
}

func (h *Hub) leave(s *session) {
	if _, in := h.members[s]; in {
		delete(h.members, s)
		h.subscribers.Add(-1)
	}
}
