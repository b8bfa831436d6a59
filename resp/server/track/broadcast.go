package track

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// broadcast groups changes by the prefixes of their keys.
type broadcast map[string][]change

// add adds a change under prefixes of its key.
func (b broadcast) add(ch change, prefixes ...string) {
	for _, prefix := range prefixes {
		b[prefix] = append(b[prefix], ch)
	}
}

// sendBroadcast sends the client those of the changes that are under its own prefixes.
func (c *Client) sendBroadcast(list []change) {
	if !c.Broadcast {
		return
	}
	b := broadcast{}
	for _, ch := range list {
		if ch.Kind != resp.ChangeAll {
			c.eachPrefix(ch.Key, func(prefix string) { b.add(ch, prefix) })
		}
	}
	b.each(func(_ string, list []change) { c.sendKeys(names(list, c)) })
}

// each visits the prefixes, sorted, with their changes in the order of the keys.
func (b broadcast) each(visit func(prefix string, list []change)) {
	for _, prefix := range slices.Sorted(maps.Keys(b)) {
		list := b[prefix]
		slices.SortFunc(list, func(x, y change) int { return strings.Compare(x.Key, y.Key) })
		visit(prefix, list)
	}
}

func (c *Client) sendKeys(keys []string) {
	if len(keys) > 0 {
		c.Conn.Invalidate(&Invalidation{keys: keys})
	}
}

// names lists the keys of changes, which are in the order of the keys, each once, without the changes that by made
// itself.
func names(list []change, by *Client) []string {
	keys := make([]string, 0, len(list))
	for _, ch := range list {
		if by == nil || !by.made(ch) {
			keys = append(keys, ch.Key)
		}
	}
	return slices.Compact(keys)
}

// Invalidation tells that keys have changed, or that any key may have. It is encoded once for each protocol.
type Invalidation struct {
	keys []string // nil: any key
	push []byte   // RESP3
	msg  []byte   // RESP2
}

// channel carries the invalidations of a RESP2 client to its other connection.
const channel = "__redis__:invalidate"

// Form returns the invalidation encoded: a push in RESP3, a message of a channel in RESP2.
func (inv *Invalidation) Form(proto int) []byte {
	form, head := &inv.push, []resp.Reply{resp.Bulk("invalidate")}
	if proto < 3 {
		form, head = &inv.msg, []resp.Reply{resp.Bulk("message"), resp.Bulk(channel)}
	}
	if *form == nil {
		keys := resp.Nil()
		if inv.keys != nil {
			keys = resp.Bulks(inv.keys...)
		}
		*form = resp.Push(append(head, keys)...).AppendTo(nil, proto)
	}
	return *form
}
