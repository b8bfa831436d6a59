package server

import (
	"lockd/resp"
	"lockd/resp/server/track"
)

// What the sessions and the hub do for CLIENT TRACKING: package track says who is to be told of
// what, and here it is delivered. How a request is followed stands in flight.go, the commands in
// conn_tracking.go. Unless something else is said, the hub's lock is held.

// Tell tells a session that tracks, on the connection that it has chosen for that.
func (s *session) Tell(inv *track.Invalidation) {
	to, redirected := s, s.track.Redirect != 0
	if redirected {
		if to = s.srv.session(s.track.Redirect); to == nil || to.out.Ends() {
			s.redirectBroke()
			return
		}
	}
	switch proto := int(to.proto.Load()); {
	case proto >= 3, redirected && to.subs.count() > 0:
		s.srv.hub.push(to, inv.Form(proto))
	}
	// A RESP2 client that is in no Pub/Sub mode cannot be told anything.
}

// redirectBroke tells a session that the connection it has chosen is gone.
func (s *session) redirectBroke() {
	s.track.Broken = true
	s.showTracking()
	if s.proto.Load() >= 3 {
		word := resp.Bulk("tracking-redir-broken")
		s.srv.hub.push(s, resp.Push(word, resp.Int(s.track.Redirect)).AppendTo(nil, 3))
	}
}

// delayed is a push that waits until the session that answers has handed over its replies.
type delayed struct {
	to   *session
	form []byte
}

// push sends a push to a session. To the one that is answering it is appended behind its
// replies; others get theirs when those replies are handed over.
func (h *Hub) push(to *session, form []byte) {
	switch {
	case to.dropped:
	case to == h.answering:
		to.pending = append(to.pending, form...)
	case h.answering != nil:
		h.delayed = append(h.delayed, delayed{to, form})
	case !to.out.Push(form, h.settings.pushLimit()):
		h.drop(to, "its output buffer is full")
	}
}

// endAnswer sends what had to wait for the replies of the session that answers.
func (h *Hub) endAnswer() {
	h.answering = nil
	for _, d := range h.delayed {
		h.push(d.to, d.form)
	}
	h.delayed = nil
}

// tellEarly tells a session that waits long for an answer what it can be told before.
func (h *Hub) tellEarly(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.TellEarly(&s.track)
}

// shrinkTracking makes the table smaller where the setting has become so. It lets go of the
// lock in between: others wait for it.
func (h *Hub) shrinkTracking() {
	for range shrinksMax {
		h.mu.Lock()
		done := h.tracking.Shrink()
		h.mu.Unlock()
		if done {
			return
		}
	}
}

// forget lets go of a session that ends.
func (h *Hub) forget(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Forget(&s.track)
	h.unmonitor(s)
}

// showTracking puts the mode where CLIENT LIST of other sessions sees it.
func (s *session) showTracking() {
	flags, redirect := uint32(0), int64(-1)
	if s.track.On {
		flags, redirect = flagTracks, s.track.Redirect
	}
	if s.track.Broken {
		flags |= flagBroken
	}
	if s.track.Broadcast {
		flags |= flagBroadcast
	}
	s.trackFlags.Store(flags)
	s.redirect.Store(redirect)
}
