package keyspace

import (
	"slices"

	"lockd/keyspace/history"
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
		list[i] = events[i].Describe(c.m.settings.showTokens).Reply()
		if size += list[i].Size(); size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	f := history.Fields{}
	if o.paged {
		f = f.Add("cursor", cursorReply(found.next))
	}
	return f.Time("known-since", c.m.events.KnownSinceMs()).Add("events", resp.Array(list...)).Reply()
}

// foundEvents are those that LOCKS HISTORY answers: the newest, or from a cursor on the oldest.
type foundEvents struct {
	o      *locksOptions
	events []history.Event // those at the end
	next   uint64          // the number of the first one behind them, with which the next piece begins; 0: none
}

func (f *foundEvents) add(e *history.Event) {
	switch {
	case e.WallMs < f.o.fromMs || e.WallMs > f.o.toMs || e.Number < f.o.cursor || f.next != 0:
		return
	case f.o.paged && len(f.events) == f.o.count:
		f.next = e.Number
		return
	}
	if f.events = append(f.events, *e); len(f.events) > 2*f.o.count {
		f.events = slices.Delete(f.events, 0, len(f.events)-f.o.count)
	}
}

// historyOf visits the events of a key in their order, of those about whole databases the ones that ended
// a lock of its.
func (c *ctx) historyOf(key string, visit func(e *history.Event)) error {
	held := map[history.Grant]bool{}
	c.m.spend(value.HashWork * int64(len(key)))
	return c.eachEvent(history.Hash(key), func(e *history.Event) {
		switch {
		case e.DB != c.db || e.Key != key && e.Key != "":
			return
		case e.Kind == history.Granted:
			held[e.Grant()] = true
		case e.Kind == history.Flushed || e.Kind == history.Swapped:
			if len(held) == 0 {
				return
			}
			clear(held)
		case e.Kind.Ends():
			delete(held, e.Grant())
		}
		visit(e)
	})
}

// eachEvent is history.Log.each, with its work.
func (c *ctx) eachEvent(hash uint32, visit func(e *history.Event)) error {
	if err := c.m.pay(c.m.events.Work(hash)); err != nil {
		return err
	}
	c.m.events.Each(hash, func(e *history.Event) {
		c.m.spend(2 * value.FarWork)
		visit(e)
	})
	return nil
}
