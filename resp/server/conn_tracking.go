package server

import (
	"strings"

	"lockd/resp"
	"lockd/resp/server/track"
)

// trackingRows are subcommands of CLIENT.
func trackingRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "client|tracking", Arity: -3, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Enable or disable server assisted client side caching support",
			Syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] " +
				"[NOLOOP]"},
			Run: action{run: clientTracking, hubLocked: true, tracks: true}},
		{Spec: resp.Spec{Name: "client|caching", Arity: 3, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Instruct the server about tracking or not keys in the next request", Syntax: "<YES | NO>"},
			Run: action{run: clientCaching}},
		{Spec: resp.Spec{Name: "client|getredir", Arity: 2, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Get tracking notifications redirection client ID if any"}, Run: action{run: clientGetRedir}},
		{Spec: resp.Spec{Name: "client|trackinginfo", Arity: 2, Flags: ofClient, Group: "connection", Since: "6.2.0",
			Summary: "Return information about server assisted client side caching for the current connection"},
			Run: action{run: clientTrackingInfo, hubLocked: true}},
	}
}

// clientTracking runs under the hub's lock.
func clientTracking(s *session, args resp.Args) resp.Reply {
	next, prefixes, err := trackingOptions(s.registry, args[3:])
	switch {
	case err != nil:
		return resp.Fail(err)
	case resp.Is(args[2], "OFF"):
		s.srv.hub.untrack(s.client)
		return resp.OK()
	case !resp.Is(args[2], "ON"):
		return resp.Err(resp.ErrSyntax)
	}
	have, more := s.track.PrefixCount(), len(prefixes)
	s.charge(have*workPerPrefix + more*(have+more))
	if err := s.track.Check(&next, prefixes); err != nil {
		return resp.Fail(err)
	}
	kept := 0
	for _, prefix := range prefixes {
		kept += len(prefix) + memoryPerPrefix
	}
	if err := s.Reserve(kept); err != nil {
		return resp.Fail(err)
	}
	s.prefixBytes += kept
	s.startPushing()
	s.srv.hub.tracking.Start(&s.track, next, prefixes)
	s.showTracking()
	return resp.OK()
}

// trackingOptions reads the options of CLIENT TRACKING.
func trackingOptions(clients *registry, words []string) (next track.Mode, prefixes []string, err error) {
	for ; len(words) > 0; words = words[1:] {
		hasValue := len(words) > 1
		switch word := words[0]; {
		case resp.Is(word, "BCAST"):
			next.Broadcast = true
		case resp.Is(word, "OPTIN"):
			next.OptIn = true
		case resp.Is(word, "OPTOUT"):
			next.OptOut = true
		case resp.Is(word, "NOLOOP"):
			next.NoLoop = true
		case resp.Is(word, "PREFIX") && hasValue:
			prefixes = append(prefixes, strings.Clone(words[1]))
			words = words[1:]
		case resp.Is(word, "REDIRECT") && hasValue:
			if next.Redirect != 0 {
				return next, nil, resp.Error("ERR A client can only redirect to a single other client")
			}
			id, ok := resp.ParseInt(words[1])
			if !ok {
				return next, nil, resp.Error(resp.ErrNotInteger)
			}
			if clients.get(id) == nil {
				return next, nil, resp.Error("ERR The client ID you want redirect to does not exist")
			}
			next.Redirect = id
			words = words[1:]
		default:
			return next, nil, resp.Error(resp.ErrSyntax)
		}
	}
	return next, prefixes, nil
}

// untrack ends tracking. The hub's lock is held.
func (h *Hub) untrack(c *client) {
	h.tracking.Stop(&c.track)
	c.releasePrefixes()
	c.showTracking()
}

func (c *client) releasePrefixes() {
	c.Release(c.prefixBytes)
	c.prefixBytes = 0
}

func clientCaching(s *session, args resp.Args) resp.Reply {
	tr := &s.track
	switch yes, no := resp.Is(args[2], "YES"), resp.Is(args[2], "NO"); {
	case !tr.On:
		return resp.Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or " +
			"OPTOUT mode enabled")
	case !yes && !no:
		return resp.Err(resp.ErrSyntax)
	case yes && !tr.OptIn:
		return resp.Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case no && !tr.OptOut:
		return resp.Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	tr.Caching = true
	return resp.OK()
}

func clientGetRedir(s *session, _ resp.Args) resp.Reply { return resp.Int(s.redirect.Load()) }

// clientTrackingInfo runs under the hub's lock.
func clientTrackingInfo(s *session, _ resp.Args) resp.Reply {
	tr := &s.track
	flags := []string{"off"}
	if tr.On {
		flags[0] = "on"
	}
	for _, f := range []struct {
		set  bool
		name string
	}{
		{tr.Broadcast, "bcast"}, {tr.OptIn, "optin"}, {tr.OptIn && tr.Caching, "caching-yes"}, {tr.OptOut, "optout"},
		{tr.OptOut && tr.Caching, "caching-no"}, {tr.NoLoop, "noloop"}, {tr.Broken, "broken_redirect"},
	} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	return resp.Map(
		resp.Bulk("flags"), resp.Set(resp.Bulks(flags...).Elems...),
		resp.Bulk("redirect"), resp.Int(s.redirect.Load()),
		resp.Bulk("prefixes"), resp.Bulks(tr.Prefixes()...),
	)
}

// Invalidate sends an invalidation to the connection that the client has chosen for invalidations. The hub's lock is
// held.
func (c *client) Invalidate(inv *track.Invalidation) {
	to, redirected := c, c.track.Redirect != 0
	if redirected {
		if to = c.registry.get(c.track.Redirect); to == nil || to.out.Ends() {
			c.redirectBroke()
			return
		}
	}
	switch proto := int(to.proto.Load()); {
	case proto >= 3, redirected && to.sub.Subscribes():
		to.sub.Push(inv.Form(proto))
	}
	// A RESP2 client outside of Pub/Sub cannot receive pushes.
}

// redirectBroke tells a client that its connection for invalidations has closed. The hub's lock is held.
func (c *client) redirectBroke() {
	c.track.Broken = true
	c.showTracking()
	if c.proto.Load() >= 3 {
		word := resp.Bulk("tracking-redir-broken")
		c.sub.Push(resp.Push(word, resp.Int(c.track.Redirect)).AppendTo(nil, 3))
	}
}

// sendEarly sends a session that has long waited for an answer the invalidations that may precede it.
func (h *Hub) sendEarly(s *client) {
	h.broker.Lock()
	defer h.broker.Unlock()
	h.tracking.SendEarly(&s.track)
}

// shrinkTracking shrinks the table of tracked keys after its limit was lowered, and removes clients that no longer
// cache a key. It releases the lock between two steps.
func (h *Hub) shrinkTracking() {
	for range shrinksMax {
		h.broker.Lock()
		done := h.tracking.Clean() && h.tracking.Shrink()
		h.broker.Unlock()
		if done {
			return
		}
	}
}

// forget removes a client that leaves.
func (h *Hub) forget(c *client) {
	h.broker.Lock()
	defer h.broker.Unlock()
	h.tracking.Forget(&c.track)
	c.releasePrefixes()
	h.holders.Forget(&c.locks)
	h.monitors.remove(c)
}

// showTracking copies the mode into the status, for CLIENT LIST. The hub's lock is held.
func (c *client) showTracking() {
	flags, redirect := uint32(0), int64(-1)
	if c.track.On {
		flags, redirect = flagTracks, c.track.Redirect
	}
	if c.track.Broken {
		flags |= flagBroken
	}
	if c.track.Broadcast {
		flags |= flagBroadcast
	}
	c.trackFlags.Store(flags)
	c.redirect.Store(redirect)
}

// followRun follows the gathered run; nil if the session does not track.
func followRun(s *session, req *resp.Request) *track.Request {
	if !s.track.On {
		return nil
	}
	f := s.srv.hub.follow(s.client, req)
	if f != nil {
		for i := range s.run.of {
			f.Tracked = append(f.Tracked, s.track.Wants(s.run.caching && i == 0))
		}
	}
	return f
}

// follow begins to follow a request; nil if none of its commands accesses data.
func (h *Hub) follow(c *client, req *resp.Request) *track.Request {
	if !track.Accesses(req.Cmds) {
		return nil
	}
	h.broker.Lock()
	defer h.broker.Unlock()
	return h.tracking.Follow(&c.track, req)
}

// answerFollowed answers a followed request: reply appends the reply of a command. It holds the broker's lock
// throughout, so that no change is published in between.
func answerFollowed(s *session, f *track.Request, reply func(i int)) {
	h := s.srv.hub
	h.broker.Lock()
	h.broker.BeginAnswer(&s.sub, &s.pending)
	f.Answer(h.tracking, &s.track, reply)
	s.handOver()
	h.broker.EndAnswer()
	h.broker.Unlock()
	s.waitForRoom()
}

// endCaching ends the effect of CLIENT CACHING, which lasts for one command. As in Redis a transaction counts as one
// command, and commands of CLIENT do not count.
func endCaching(s *session, c *command) {
	if s.track.Caching && !s.tx.open && (c == nil || !strings.HasPrefix(c.spec.Name, "client|")) {
		s.track.Caching = false
	}
}
