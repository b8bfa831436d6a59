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
