package keyspace

import (
	"cmp"
	"slices"

	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// cmdLocksGraph answers the edges of the graph of waits: from each who stands in line for a lock to each who
// holds it. There is none to those before it in line, who wait for the same holders.
func cmdLocksGraph(c *ctx, args resp.Args) resp.Reply {
	o, err := c.parseLocks(args[2:], "COUNT")
	if err != nil {
		return resp.Fail(err)
	}
	waiting, err := c.allInLine()
	if err != nil {
		return resp.Fail(err)
	}
	edges, size, more := []resp.Reply{}, int64(0), 0
	held := map[string][]*value.Holder{} // of the keys that were looked at
	for _, w := range waiting {
		key := w.keys[0]
		holders, looked := held[key]
		if !looked {
			holders = c.holdersBefore(key)
			held[key] = holders
		}
		n := min(len(holders), o.count-len(edges))
		more += len(holders) - n
		if err := c.m.pay(holderWork*int64(n) + value.HashWork*int64(len(key))); err != nil {
			return resp.Fail(err)
		}
		for _, h := range holders[:n] {
			edges = append(edges, c.describeEdge(w, h))
			size += edges[len(edges)-1].Size()
		}
		if size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	return history.Fields{}.Add("edges", resp.Array(edges...)).Add("more", resp.Int(int64(more))).Reply()
}

// allInLine lists who stands in line for the locks of the database, the longest wait first.
func (c *ctx) allInLine() (waiting []*waiter, err error) {
	all := c.m.blocked.waiters
	if err := c.m.pay(value.FarWork*int64(all.Len()) + value.SortWork(all.Len(), 0)); err != nil {
		return nil, err
	}
	all.Scan(func(w *waiter) bool {
		if w.kind == lockLine && w.db == c.db {
			waiting = append(waiting, w)
		}
		return true
	})
	slices.SortFunc(waiting, func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	return waiting, nil
}

// holdersBefore lists who holds a lock that others wait for. It may be a string of which nothing is noted: its
// holder is the token that it is, unless that is too long to be one.
func (c *ctx) holdersBefore(key string) []*value.Holder {
	e := c.lookup(key)
	switch {
	case e == nil:
		return nil
	case e.mark() == isLock || e.agg() != nil:
		return c.holdersOf(e)
	}
	h := &value.Holder{}
	if len(e.str()) <= lockTokenBytesMax {
		h.Token = e.str()
	}
	if t := e.tag(); t != nil {
		h.Owner = t.owner
	}
	return []*value.Holder{h}
}

func (c *ctx) describeEdge(w *waiter, h *value.Holder) resp.Reply {
	waited := w.waitedMs(c.now())
	return history.NewFields().Text("waiter", c.m.shownOwner(w.lock.owner, w.lock.token)).
		Text("waiter-token", c.m.shownToken(w.lock.token)).Add("key", resp.Bulk(w.keys[0])).
		Text("holder", c.m.shownOwner(h.Owner, h.Token)).Text("holder-token", c.m.shownToken(h.Token)).
		Time("since", c.wallMs()-waited).Add("waited-ms", resp.Int(waited)).Reply()
}
