package server

import (
	"lockd/resp"
	"lockd/resp/server/track"
)

// Package track says which client is to be told of what; this file tells it. followed.go follows the
// requests of clients that track, conn_tracking.go has their commands.

// Tell tells a session that tracks of changes, on the connection that it has chosen for that. The
// hub's lock is held.
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

// redirectBroke tells a session that the connection it has chosen is gone. The hub's lock is held.
func (s *session) redirectBroke() {
	s.track.Broken = true
	s.showTracking()
	if s.proto.Load() >= 3 {
		word := resp.Bulk("tracking-redir-broken")
		s.srv.hub.push(s, resp.Push(word, resp.Int(s.track.Redirect)).AppendTo(nil, 3))
	}
}

// tellEarly tells a session that has waited long for an answer what it need not wait for.
func (h *Hub) tellEarly(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.TellEarly(&s.track)
}

// shrinkTracking makes the table of tracked keys smaller when its limit was lowered. Between two
// steps it lets go of the lock, for which others wait.
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

// showTracking copies the mode into the status, for CLIENT LIST. The hub's lock is held.
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
