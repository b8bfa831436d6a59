package keyspace

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What has become of a token's lock, in a sentence: LOCKS WHY.

// story is what has become of a token's lock: its last grant, its last wait or loss, and who came next.
type story struct {
	grant, end, next *lockEvent
}

func cmdLocksWhy(c *ctx, args resp.Args) resp.Reply {
	key, token := args[2], args[3]
	if err := checkToken(token); err != nil {
		return resp.Fail(err)
	}
	if said, err := c.sayNow(key, token); said != "" || err != nil {
		return bulkOrFail(said, err)
	}
	var s story
	err := c.historyOf(key, func(e *lockEvent) { s.follow(e, token) })
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(c.sayPast(key, token, &s))
}

func bulkOrFail(s string, err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(s)
}

// fitsToken reports whether a token is the one that was asked for: also by as much as is shown of one.
func fitsToken(token, asked string) bool {
	return token == asked || len(asked) >= tokenShown && strings.HasPrefix(token, strings.TrimSuffix(asked, "..."))
}

func (s *story) follow(e *lockEvent, token string) {
	switch fits := fitsToken(e.token, token); {
	case e.key == "":
		if s.grant != nil && s.end == nil {
			s.end = e.copy()
		}
	case fits && e.kind == eventGranted:
		*s = story{grant: e.copy()}
	case fits && e.kind.ends():
		s.end, s.next = e.copy(), nil
	case fits:
		*s = story{end: e.copy()}
	case e.kind == eventGranted && s.end != nil && s.next == nil:
		s.next = e.copy()
	}
}

// sayNow says whether a token holds a lock, or stands in its line; "" if neither.
func (c *ctx) sayNow(key, token string) (string, error) {
	if e := c.lookup(key); e != nil {
		for _, h := range c.holdersOf(e) {
			if fitsToken(h.Token, token) && h.LeaseMs != 0 {
				return c.sayHeld(key, h), nil
			}
		}
	}
	k := lineKey{c.db, key}
	if err := c.m.pay(holderWork * int64(c.m.blocked.lines[k])); err != nil {
		return "", err
	}
	before := int64(0)
	for w := c.m.blocked.next(k.ready(), 0); w != nil; w = c.m.blocked.next(k.ready(), w.seq) {
		if fitsToken(w.lock.token, token) {
			return c.m.shownToken(w.lock.token) + " has waited for " + key + " for " + itoa(w.waitedMs(c.now())) +
				" ms, behind " + itoa(before) + " others in line, and waits " + itoa(w.left(c.now())) + " ms more.", nil
		}
		before++
	}
	return "", nil
}

func (c *ctx) sayHeld(key string, h *value.Holder) string {
	said := c.m.shownToken(h.Token) + " holds " + key + " since " + arg.FormatTime(h.SinceMs) + " (fence " +
		itoa(int64(h.Fence)) + "), " + sayRenewals(uint64(h.Renewals), renewedMs(h))
	if h.Tick == value.NoLeaseTick {
		return said + "; it has no lease now."
	}
	return said + "; its lease of " + itoa(h.LeaseMs) + " ms has " + itoa(max(0, h.Tick-c.now())) + " ms left."
}

func sayRenewals(renewals uint64, lastMs int64) string {
	switch {
	case renewals == 0:
		return "never renewed"
	case renewals == 1 && lastMs != 0:
		return "renewed once, at " + arg.FormatTime(lastMs)
	case lastMs == 0:
		return "renewed " + itoa(int64(renewals)) + " times"
	}
	return "renewed " + itoa(int64(renewals)) + " times, last at " + arg.FormatTime(lastMs)
}

// sayPast says what has become of a token's lock, or of its wait.
func (c *ctx) sayPast(key, token string, s *story) string {
	if s.end == nil && s.grant == nil {
		return "Nothing is known of " + c.m.shownToken(token) + " and " + key + ": what is known begins at " +
			arg.FormatTime(c.m.events.knownSinceMs()) + "."
	}
	var said strings.Builder
	if g := s.grant; g != nil {
		said.WriteString(c.m.shownToken(g.token) + " got " + key + " at " + arg.FormatTime(g.wallMs) +
			" (fence " + itoa(int64(g.fence)) + ")")
		if g.waitedMs > 0 {
			said.WriteString(" after waiting " + itoa(g.waitedMs) + " ms")
		}
	} else if s.end.kind.ends() {
		said.WriteString(c.m.shownToken(s.end.token) + " had " + key + " (fence " + itoa(int64(s.end.fence)) + ")")
	} else {
		said.WriteString(c.m.shownToken(s.end.token) + " waited " + itoa(s.end.waitedMs) + " ms for " + key)
	}
	if s.end != nil {
		said.WriteString(sayEnd(s.end))
		if s.next != nil {
			said.WriteString(" Next was " + c.m.shownToken(s.next.token) + " at " + arg.FormatTime(s.next.wallMs) +
				" (fence " + itoa(int64(s.next.fence)) + ").")
		} else if s.end.kind.ends() {
			said.WriteString(" Nobody has got it since.")
		}
		return said.String()
	}
	return said.String() + "."
}

// sayEnd says how a lock, or a wait, has ended.
func sayEnd(e *lockEvent) string {
	at := " at " + arg.FormatTime(e.wallMs)
	who := e.command() + sayClient(e.client)
	held := ", after " + itoa(e.heldMs) + " ms, " + sayRenewals(e.renewals, e.renewedMs) + "."
	switch e.kind {
	case eventReleased:
		return " and released it" + at + " by " + who + held
	case eventExpired:
		return " and lost it" + at + ": its lease of " + itoa(e.leaseMs) + " ms was over" + held
	case eventDeleted:
		return " and lost it" + at + ": deleted by " + who + held
	case eventOverwritten:
		return " and lost it" + at + ": overwritten by " + who + held
	case eventForced:
		return " and lost it" + at + ": ended by " + who + ", because: " + e.reason + held
	case eventMoved:
		return " and lost it" + at + ": the key was given another name by " + who + held
	case eventFlushed:
		return " and lost it" + at + ": all keys were deleted by " + who + "."
	case eventSwapped:
		return " and lost it" + at + ": its database was exchanged with " + itoa(int64(e.otherDB)) + " by " + who + "."
	case eventGaveUp:
		return " in vain: its time was over" + at + "."
	case eventLeft:
		return " in vain: UNLOCK ended the wait" + at + "."
	case eventReplaced:
		return " on one connection; another one took its place" + at + "."
	case eventRefused:
		return " in vain: the answer" + at + " was " + e.reason + "."
	}
	return " in vain: its client, or its node, was gone" + at + "."
}

// sayClient says who sent a command, where that is known.
func sayClient(s resp.Sender) string {
	if s == "" {
		return ""
	}
	c := s.Client()
	said := " of client " + itoa(int64(c.ID))
	if c.Name != "" {
		said += " (" + c.Name + ")"
	}
	return said + " from " + c.Addr + " at node " + c.Node
}
