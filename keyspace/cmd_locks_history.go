package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

// What has become of a lock: LOCKS HISTORY.

func cmdLocksHistory(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	o, err := c.parseLocks(args[3:], "CURSOR", "FROM", "TO", "COUNT")
	if err != nil {
		return resp.Fail(err)
	}
	found := foundEvents{o: &o}
	if err := c.historyOf(key, found.add); err != nil {
		return resp.Fail(err)
	}
	events := found.events[max(0, len(found.events)-o.count):]
	list, size := make([]resp.Reply, len(events)), int64(0)
	for i := range events {
		if err := c.m.pay(holderWork); err != nil {
			return resp.Fail(err)
		}
		list[i] = describeEvent(&events[i], c.m.settings.showTokens).reply()
		if size += list[i].Size(); size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	f := replyFields{}
	if o.paged {
		f = f.add("cursor", cursorReply(found.next))
	}
	return f.time("known-since", c.m.events.knownSinceMs()).add("events", resp.Array(list...)).reply()
}

// foundEvents are those that LOCKS HISTORY answers: the newest, or from a cursor on the oldest.
type foundEvents struct {
	o      *locksOptions
	events []lockEvent // those at the end
	next   uint64      // the number of the first one behind them, with which the next piece begins; 0: none
}

func (f *foundEvents) add(e *lockEvent) {
	switch {
	case e.wallMs < f.o.fromMs || e.wallMs > f.o.toMs || e.number < f.o.cursor || f.next != 0:
		return
	case f.o.paged && len(f.events) == f.o.count:
		f.next = e.number
		return
	}
	if f.events = append(f.events, *e); len(f.events) > 2*f.o.count {
		f.events = slices.Delete(f.events, 0, len(f.events)-f.o.count)
	}
}

// historyOf visits the events of a key in their order, of those about whole databases the ones that ended
// a lock of its.
func (c *ctx) historyOf(key string, visit func(e *lockEvent)) error {
	held := map[lockGrant]bool{}
	c.m.spend(value.HashWork * int64(len(key)))
	return c.eachEvent(eventHash(key), func(e *lockEvent) {
		switch {
		case e.db != c.db || e.key != key && e.key != "":
			return
		case e.kind == eventGranted:
			held[e.grant()] = true
		case e.kind == eventFlushed || e.kind == eventSwapped:
			if len(held) == 0 {
				return
			}
			clear(held)
		case e.kind.ends():
			delete(held, e.grant())
		}
		visit(e)
	})
}

// eachEvent is eventLog.each, with its work.
func (c *ctx) eachEvent(hash uint32, visit func(e *lockEvent)) error {
	if err := c.m.pay(c.m.events.work(hash)); err != nil {
		return err
	}
	c.m.events.each(hash, func(e *lockEvent) {
		c.m.spend(2 * value.FarWork)
		visit(e)
	})
	return nil
}

// describeEvent are the fields of an event; its token is shown whole or not.
func describeEvent(e *lockEvent, whole bool) replyFields {
	f := newFields().time("time", e.wallMs).add("tick", resp.Int(e.tick)).add("event", resp.Bulk(eventNames[e.kind]))
	if e.key == "" {
		f = f.command(e.command(), e.client)
		if e.kind == eventSwapped {
			f = f.add("db", resp.Int(int64(e.otherDB)))
		}
		return f
	}
	f = f.text("token", shownToken(e.token, whole)).text("owner", e.owner).add("mode", resp.Bulk(modeOf(e.permits)))
	if e.fence != 0 {
		f = f.add("fence", resp.Int(int64(e.fence)))
	}
	f = f.command(e.command(), e.client)
	switch {
	case e.kind == eventGranted:
		f = f.add("waited-ms", resp.Int(e.waitedMs)).add("lease-ms", resp.Int(e.leaseMs)).text("note", e.note)
	case e.kind.ends():
		f = f.add("held-ms", resp.Int(e.heldMs)).add("lease-ms", resp.Int(e.leaseMs)).
			add("renewals", resp.Int(int64(e.renewals))).time("last-renewal", e.renewedMs)
	default:
		f = f.add("waited-ms", resp.Int(e.waitedMs))
	}
	if e.reason != "" {
		f = f.text("reason", e.reason)
	}
	return f
}

// command is who did it, in the words of people.
func (e *lockEvent) command() string {
	name := strings.ToUpper(strings.ReplaceAll(e.by, "|", " "))
	if e.script {
		name += " in a script"
	}
	return name
}
