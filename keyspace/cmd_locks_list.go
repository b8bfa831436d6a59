package keyspace

import (
	"cmp"
	"slices"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Who holds locks now, and who waits for them: LOCKS LIST and LOCKS INFO.

// heldLock is a lock that is held, and since when by the log clock.
type heldLock struct {
	e     *entry
	since int64
}

func cmdLocksList(c *ctx, args resp.Args) resp.Reply {
	o, err := c.parseLocks(args[2:], "CURSOR", "MATCH", "COUNT", "HELD", "WAITED")
	if err != nil {
		return resp.Fail(err)
	}
	if o.paged {
		return c.scanLocks(&o)
	}
	if err := c.m.pay(keyWork * int64(c.m.dbs[c.db].keys.len())); err != nil {
		return resp.Fail(err)
	}
	var found []heldLock
	bytes := int64(0)
	c.m.dbs[c.db].keys.each(func(e *entry) bool {
		if l, ok := c.wantsLock(&o, e); ok {
			found = append(found, l)
			bytes += int64(len(e.key()))
		}
		return !c.m.tired() && !o.exceeded()
	})
	if err := c.m.pay(value.SortWork(len(found), bytes)); err != nil {
		return resp.Fail(err)
	}
	slices.SortFunc(found, func(a, b heldLock) int {
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.e.key(), b.e.key()))
	})
	return c.listLocks(&o, found[:min(len(found), o.count)])
}

// scanLocks answers a piece of the list as SCAN does: COUNT keys are looked at, in the order of cursors. In
// that of the list each piece would have to look at all keys.
func (c *ctx) scanLocks(o *locksOptions) resp.Reply {
	keys := c.m.dbs[c.db].keys
	o.count = min(o.count, max(keys.len(), 1))
	if err := c.m.pay(keyWork*int64(o.count) + value.TreeWork(keys.len())); err != nil {
		return resp.Fail(err)
	}
	var found []heldLock
	next := keys.scan(o.cursor, o.count, func(e *entry) {
		if l, ok := c.wantsLock(o, e); ok {
			found = append(found, l)
		}
	})
	list := c.listLocks(o, found)
	if list.IsErr() {
		return list
	}
	return resp.Array(cursorReply(next), list)
}

// exceeded reports whether MATCH asks for too much.
func (o *locksOptions) exceeded() bool { return o.match != nil && o.match.Exceeded() }

// wantsLock reports whether an entry is a lock that LOCKS LIST is asked for.
func (c *ctx) wantsLock(o *locksOptions, e *entry) (l heldLock, ok bool) {
	if !e.isLocked() || c.m.expired(e) {
		return l, false
	}
	l = heldLock{e, maxInt}
	for _, h := range c.holdersOf(e) {
		if h.LeaseMs != 0 {
			l.since = min(l.since, h.SinceTick)
		}
	}
	if o.match != nil {
		before := o.match.Work()
		ok = o.match.Matches(e.key())
		c.m.spend(o.match.Work() - before)
	}
	ok = o.match == nil || ok
	ok = ok && (!o.waited || c.m.blocked.lines[lineKey{c.db, e.key()}] > 0)
	return l, ok && l.since != maxInt && c.now()-l.since >= o.heldMs
}

func (c *ctx) listLocks(o *locksOptions, locks []heldLock) resp.Reply {
	if o.exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	grants := newGrants()
	for _, l := range locks {
		holders := c.holdersOf(l.e)
		if err := c.m.pay(grantWork * int64(len(holders))); err != nil {
			return resp.Fail(err)
		}
		grants.want(l.e.key(), holders)
	}
	if err := c.findGrants(grants); err != nil {
		return resp.Fail(err)
	}
	list, size := []resp.Reply{}, int64(0)
	for _, l := range locks {
		r, err := c.describeLock(l.e, grants)
		if err != nil {
			return resp.Fail(err)
		}
		waiters := c.m.blocked.lines[lineKey{c.db, l.e.key()}]
		r = append(history.Fields{}.Add("key", resp.Bulk(l.e.key())), r...)
		list = append(list, r.Add("waiters", resp.Int(int64(waiters))).Reply())
		if size += list[len(list)-1].Size(); size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	return resp.Array(list...)
}

// cmdLocksInfo answers nil for what is no lock and has no line.
func cmdLocksInfo(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	line, err := c.describeLine(key)
	if err != nil {
		return resp.Fail(err)
	}
	e := c.lookup(key)
	if (e == nil || !e.isLocked()) && len(line) == 0 {
		return resp.Nil()
	}
	grants, f := newGrants(), history.Fields{}
	if e != nil {
		grants.want(key, c.holdersOf(e))
		if err := c.findGrants(grants); err != nil {
			return resp.Fail(err)
		}
		if f, err = c.describeLock(e, grants); err != nil {
			return resp.Fail(err)
		}
	}
	return f.Add("line", resp.Array(line...)).Time("known-since", c.m.events.KnownSinceMs()).Reply()
}

// describeLine lists who waits for a lock, in their order.
func (c *ctx) describeLine(key string) (line []resp.Reply, err error) {
	if err := c.m.pay(holderWork * int64(c.m.blocked.lines[lineKey{c.db, key}])); err != nil {
		return nil, err
	}
	k := lineKey{c.db, key}.ready()
	for w := c.m.blocked.next(k, 0); w != nil; w = c.m.blocked.next(k, w.seq) {
		line = append(line, history.NewFields().Text("token", c.m.shownToken(w.lock.token)).
			Text("owner", c.m.shownOwner(w.lock.owner, w.lock.token)).Command("", w.client).
			Add("mode", resp.Bulk(history.ModeOf(w.lock.eventPermits()))).
			Add("waited-ms", resp.Int(w.waitedMs(c.now()))).Add("left-ms", resp.Int(w.left(c.now()))).
			Text("note", w.lock.note).Reply())
	}
	return line, nil
}

// describeLock are the fields of LOCKS INFO and LIST.
func (c *ctx) describeLock(e *entry, grants lockGrants) (f history.Fields, err error) {
	mode, permits := "exclusive", int64(1)
	if l := e.lock(); l != nil {
		mode, permits = l.Kind().Encodings[l.Form()], int64(l.Permits())
	} else if l := e.hashLock(); l != nil && l.shared() {
		mode, permits = history.ModeOf(history.SharedPermits), 0
	}
	var holders []resp.Reply
	for _, h := range c.holdersOf(e) {
		if err := c.m.pay(holderWork); err != nil {
			return nil, err
		}
		holders = append(holders, c.describeHolder(e, h, grants.found[grantOf(h)]))
	}
	return f.Add("mode", resp.Bulk(mode)).Add("permits", resp.Int(permits)).Add("holders", resp.Array(holders...)), nil
}

func (c *ctx) describeHolder(e *entry, h *value.Holder, grant *history.Event) resp.Reply {
	left := int64(ttlNever)
	if h.Tick != value.NoLeaseTick {
		left = max(0, h.Tick-c.now())
	}
	f := history.NewFields().Text("token", c.m.shownToken(h.Token)).Text("owner", c.m.shownOwner(h.Owner, h.Token))
	if grant != nil {
		f = f.Command(grant.Command(), grant.Client)
	}
	f = f.Add("fence", resp.Int(int64(c.fenceOf(e, h)))).Add("lease-left-ms", resp.Int(left))
	if h.LeaseMs != 0 {
		f = f.Time("since", h.SinceMs).Add("held-ms", resp.Int(c.now()-h.SinceTick)).Add("lease-ms", resp.Int(h.LeaseMs)).
			Add("renewals", resp.Int(int64(h.Renewals))).Time("last-renewal", renewedMs(h))
	}
	return f.Text("note", h.Note).Reply()
}

// holdersOf lists who holds a lock; whose lease is over does not.
func (c *ctx) holdersOf(e *entry) (holders []*value.Holder) {
	if l := e.hashLock(); l != nil {
		c.m.spend(value.FarWork * int64(len(l.holders)))
		for i := range l.holders {
			h := l.holder(&l.holders[i])
			holders = append(holders, &h)
		}
		return holders
	}
	if e.mark() == isLock {
		h := heldBy(e)
		return []*value.Holder{&h}
	}
	l := e.lock()
	if l == nil {
		return nil
	}
	c.m.spend(3 * l.SeekWork())
	holders = make([]*value.Holder, 0, l.Len())
	l.Each(func(h *value.Holder) bool {
		if c.m.tick <= h.Tick {
			holders = append(holders, h)
		}
		return true
	})
	return holders
}

// fenceOf is the fence that is told of a holder.
func (c *ctx) fenceOf(e *entry, h *value.Holder) uint64 {
	return max(h.Fence, e.fence, c.m.dbs[c.db].floor)
}

// lockGrants are the grants of holders of some keys.
type lockGrants struct {
	found map[history.Grant]*history.Event // nil: not found, or not yet
	keys  map[uint32]bool                  // the hashes of their names
}

func newGrants() lockGrants {
	return lockGrants{found: map[history.Grant]*history.Event{}, keys: map[uint32]bool{}}
}

func grantOf(h *value.Holder) history.Grant { return history.Grant{Fence: h.Fence, Token: h.Token} }

func (g lockGrants) want(key string, holders []*value.Holder) {
	g.keys[history.Hash(key)] = true
	for _, h := range holders {
		g.found[grantOf(h)] = nil
	}
}

// findGrants looks for the grants among the events of the keys.
func (c *ctx) findGrants(g lockGrants) error {
	if err := c.m.pay(c.m.events.Work(0)); err != nil {
		return err
	}
	c.m.events.EachOf(func(hash uint32) bool { return g.keys[hash] }, func(e *history.Event) {
		c.m.spend(2 * value.FarWork)
		if _, wanted := g.found[e.Grant()]; wanted && e.Kind == history.Granted {
			g.found[e.Grant()] = e.Copy()
		}
	})
	return nil
}
