package server

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// trackingRows are subcommands of CLIENT.
func trackingRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "client|tracking", Arity: -3, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Enable or disable server assisted client side caching support",
			Syntax:  "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"},
			Run: action{run: clientTracking, hubLocked: true, tracks: true}},
		{Spec: resp.Spec{Name: "client|caching", Arity: 3, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Instruct the server about tracking or not keys in the next request", Syntax: "<YES | NO>"}, Run: action{run: clientCaching}},
		{Spec: resp.Spec{Name: "client|getredir", Arity: 2, Flags: ofClient, Group: "connection", Since: "6.0.0",
			Summary: "Get tracking notifications redirection client ID if any"}, Run: action{run: clientGetRedir}},
		{Spec: resp.Spec{Name: "client|trackinginfo", Arity: 2, Flags: ofClient, Group: "connection", Since: "6.2.0",
			Summary: "Return information about server assisted client side caching for the current connection"},
			Run: action{run: clientTrackingInfo, hubLocked: true}},
	}
}

// clientTracking runs under the hub's lock.
func clientTracking(s *session, args resp.Args) resp.Reply {
	next, prefixes, fail := s.trackingOptions(args[3:])
	if fail.IsErr() {
		return fail
	}
	switch {
	case resp.Is(args[2], "OFF"):
		s.untrack()
		return resp.OK()
	case !resp.Is(args[2], "ON"):
		return resp.Err(resp.ErrSyntax)
	}
	if why := s.track.refuses(&next, prefixes); why != "" {
		return resp.Err(why)
	}
	s.startPushing()
	tr, t := &s.track, &s.srv.hub.tracking
	t.enter(s.srv.hub, s)
	tr.on, tr.broken, tr.redirect = true, false, next.redirect
	tr.bcast, tr.optin, tr.optout, tr.noloop = next.bcast, next.optin, next.optout, next.noloop
	if tr.bcast && len(prefixes) == 0 {
		prefixes = []string{""}
	}
	for _, prefix := range prefixes {
		t.follow(s, prefix)
	}
	s.showTracking()
	return resp.OK()
}

// trackingOptions reads the options of CLIENT TRACKING.
func (s *session) trackingOptions(words []string) (next tracker, prefixes []string, fail resp.Reply) {
	for ; len(words) > 0; words = words[1:] {
		hasValue := len(words) > 1
		switch word := words[0]; {
		case resp.Is(word, "BCAST"):
			next.bcast = true
		case resp.Is(word, "OPTIN"):
			next.optin = true
		case resp.Is(word, "OPTOUT"):
			next.optout = true
		case resp.Is(word, "NOLOOP"):
			next.noloop = true
		case resp.Is(word, "PREFIX") && hasValue:
			prefixes = append(prefixes, strings.Clone(words[1]))
			words = words[1:]
		case resp.Is(word, "REDIRECT") && hasValue:
			if next.redirect != 0 {
				return next, nil, resp.Err("ERR A client can only redirect to a single other client")
			}
			id, ok := resp.ParseInt(words[1])
			if !ok {
				return next, nil, resp.Err(resp.ErrNotInteger)
			}
			if s.srv.session(id) == nil {
				return next, nil, resp.Err("ERR The client ID you want redirect to does not exist")
			}
			next.redirect = id
			words = words[1:]
		default:
			return next, nil, resp.Err(resp.ErrSyntax)
		}
	}
	return next, prefixes, resp.Reply{}
}

// refuses says why options do not go together, or not with what is agreed already,
// in the order in which Redis asks.
func (tr *tracker) refuses(next *tracker, prefixes []string) (why string) {
	const before = " mode before disabling tracking for this client, and then re-enabling it with a different mode."
	switch {
	case !next.bcast && len(prefixes) > 0:
		return "ERR PREFIX option requires BCAST mode to be enabled"
	case tr.on && tr.bcast != next.bcast:
		return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	case next.bcast && (next.optin || next.optout):
		return "ERR OPTIN and OPTOUT are not compatible with BCAST"
	case next.optin && next.optout:
		return "ERR You can't specify both OPTIN mode and OPTOUT mode"
	case tr.optin && next.optout || tr.optout && next.optin:
		return "ERR You can't switch OPTIN/OPTOUT" + before
	}
	return tr.overlap(prefixes)
}

// overlap finds two prefixes of which one begins with the other, or too many.
func (tr *tracker) overlap(prefixes []string) (why string) {
	const must = "Prefixes for a single client must not overlap."
	have := slices.Sorted(maps.Keys(tr.prefixes))
	for i, p := range prefixes {
		if len(p) > prefixBytesMax {
			return "ERR prefix is too long"
		}
		for _, old := range have {
			if strings.HasPrefix(p, old) || strings.HasPrefix(old, p) {
				return "ERR Prefix '" + p + "' overlaps with an existing prefix '" + old + "'. " + must
			}
		}
		for _, other := range prefixes[i+1:] {
			if strings.HasPrefix(p, other) || strings.HasPrefix(other, p) {
				return "ERR Prefix '" + p + "' overlaps with another provided prefix '" + other + "'. " + must
			}
		}
	}
	if len(have)+len(prefixes) > prefixesMax {
		return "ERR too many prefixes"
	}
	return ""
}

// untrack ends tracking. What the client has read is forgotten when it changes, as in
// Redis. The hub's lock is held.
func (s *session) untrack() {
	s.srv.hub.tracking.unfollow(s)
	tr := &s.track
	tr.on, tr.bcast, tr.optin, tr.optout, tr.noloop, tr.broken, tr.caching = false, false, false, false, false, false, false
	tr.redirect, tr.own = 0, nil
	s.showTracking()
}

// The bits of session.trackFlags.
const (
	flagTracks uint32 = 1 << iota
	flagBroken
	flagBroadcast
)

// showTracking puts the state where CLIENT LIST of other sessions sees it.
func (s *session) showTracking() {
	flags, redirect := uint32(0), int64(-1)
	if s.track.on {
		flags, redirect = flagTracks, s.track.redirect
	}
	if s.track.broken {
		flags |= flagBroken
	}
	if s.track.bcast {
		flags |= flagBroadcast
	}
	s.trackFlags.Store(flags)
	s.redirect.Store(redirect)
}

func clientCaching(s *session, args resp.Args) resp.Reply {
	tr := &s.track
	switch yes, no := resp.Is(args[2], "YES"), resp.Is(args[2], "NO"); {
	case !tr.on:
		return resp.Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case !yes && !no:
		return resp.Err(resp.ErrSyntax)
	case yes && !tr.optin:
		return resp.Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case no && !tr.optout:
		return resp.Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	tr.caching = true
	return resp.OK()
}

func clientGetRedir(s *session, _ resp.Args) resp.Reply { return resp.Int(s.redirect.Load()) }

// clientTrackingInfo runs under the hub's lock.
func clientTrackingInfo(s *session, _ resp.Args) resp.Reply {
	tr := &s.track
	flags := []string{"off"}
	if tr.on {
		flags[0] = "on"
	}
	for _, f := range []struct {
		set  bool
		name string
	}{
		{tr.bcast, "bcast"}, {tr.optin, "optin"}, {tr.optin && tr.caching, "caching-yes"}, {tr.optout, "optout"},
		{tr.optout && tr.caching, "caching-no"}, {tr.noloop, "noloop"}, {tr.broken, "broken_redirect"},
	} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	return resp.Map(
		resp.Bulk("flags"), resp.Set(resp.Bulks(flags...).Elems...),
		resp.Bulk("redirect"), resp.Int(s.redirect.Load()),
		resp.Bulk("prefixes"), resp.Bulks(slices.Sorted(maps.Keys(tr.prefixes))...),
	)
}
