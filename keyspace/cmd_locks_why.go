package keyspace

import (
	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What has become of a token's lock, in a sentence: LOCKS WHY.

func cmdLocksWhy(c *ctx, args resp.Args) resp.Reply {
	key, token := args[2], args[3]
	if err := checkToken(token); err != nil {
		return resp.Fail(err)
	}
	if said, err := c.sayNow(key, token); said != "" || err != nil {
		return bulkOrFail(said, err)
	}
	var s history.Story
	err := c.historyOf(key, func(e *history.Event) { s.Follow(e, token) })
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(s.Say(key, token, c.m.settings.showTokens, c.m.events.KnownSinceMs()))
}

func bulkOrFail(s string, err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(s)
}

// sayNow says whether a token holds a lock, or stands in its line; "" if neither.
func (c *ctx) sayNow(key, token string) (string, error) {
	if e := c.lookup(key); e != nil {
		for _, h := range c.holdersOf(e) {
			if history.FitsToken(h.Token, token) && h.LeaseMs != 0 {
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
		if history.FitsToken(w.lock.token, token) {
			return c.m.shownToken(w.lock.token) + " has waited for " + key + " for " + itoa(w.waitedMs(c.now())) +
				" ms, behind " + itoa(before) + " others in line, and waits " + itoa(w.left(c.now())) + " ms more.", nil
		}
		before++
	}
	return "", nil
}

func (c *ctx) sayHeld(key string, h *value.Holder) string {
	said := c.m.shownToken(h.Token) + " holds " + key + " since " + arg.FormatTime(h.SinceMs) + " (fence " +
		itoa(int64(h.Fence)) + "), " + history.SayRenewals(uint64(h.Renewals), renewedMs(h))
	if h.Tick == value.NoLeaseTick {
		return said + "; it has no lease now."
	}
	return said + "; its lease of " + itoa(h.LeaseMs) + " ms has " + itoa(max(0, h.Tick-c.now())) + " ms left."
}
