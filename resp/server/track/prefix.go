package track

import (
	"slices"
	"strings"
)

// prefixes has the prefixes of the clients in mode BCAST.
type prefixes struct {
	followers map[string]map[*Client]struct{} // by prefix
	tree      prefixTree
}

func (p *prefixes) add(c *Client, prefix string) {
	if p.followers[prefix] == nil {
		p.followers[prefix] = map[*Client]struct{}{}
		p.tree.add(prefix)
	}
	p.followers[prefix][c] = struct{}{}
	if at, found := slices.BinarySearch(c.prefixes, prefix); !found {
		c.prefixes = slices.Insert(c.prefixes, at, prefix)
	}
}

// remove removes a client from all its prefixes.
func (p *prefixes) remove(c *Client) {
	for _, prefix := range c.prefixes {
		followers := p.followers[prefix]
		if delete(followers, c); len(followers) == 0 {
			delete(p.followers, prefix)
			p.tree.remove(prefix)
		}
	}
	c.prefixes = nil
}

// of returns the prefixes of a key.
func (p *prefixes) of(key string) (list []string) {
	if len(p.followers) > 0 {
		p.tree.each(key, func(prefix string) { list = append(list, prefix) })
	}
	return list
}

// send sends the clients of each prefix one message for it, as in Redis. A client of NOLOOP with changes in the entry
// gets one of its own, without these. Clients that wait for an answer get theirs with that.
func (p *prefixes) send(b broadcast, n *entryCount) {
	lost := map[*Client]struct{}{}
	b.each(func(prefix string, list []change) {
		inv := Invalidation{keys: names(list, nil)}
		for c := range p.followers[prefix] {
			switch {
			case c.waiting:
			case !c.madeIn(n.index):
				c.Conn.Invalidate(&inv)
			default:
				if n.own += len(list); n.own <= ownMax {
					c.sendKeys(names(list, c))
				} else {
					lost[c] = struct{}{}
				}
			}
		}
	})
	for c := range lost {
		c.Conn.Invalidate(&Invalidation{})
	}
}

// prefixTree is a radix tree of prefixes. Finding the prefixes of a key takes at most as many steps as the longest of
// them has bytes; a look-up in a map for each length takes far longer.
type prefixTree struct {
	edge string // bytes that all prefixes below have in common, after those of the parents' edges
	ends bool   // a prefix ends after the edge
	kids []*prefixTree

	firsts []byte // first bytes of the kids' edges, in order
}

// kid returns the index of the kid whose edge begins with a byte, or the index at which to insert it.
func (n *prefixTree) kid(first byte) (at int, found bool) {
	end := len(n.firsts)
	for at < end {
		if mid := (at + end) / 2; n.firsts[mid] < first {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return at, at < len(n.firsts) && n.firsts[at] == first
}

// add adds a prefix, less the bytes of the parents' edges.
func (n *prefixTree) add(rest string) {
	if rest == "" {
		n.ends = true
		return
	}
	at, found := n.kid(rest[0])
	if !found {
		n.kids = slices.Insert(n.kids, at, &prefixTree{edge: rest, ends: true})
		n.firsts = slices.Insert(n.firsts, at, rest[0])
		return
	}
	k := n.kids[at]
	common := 1
	for common < min(len(rest), len(k.edge)) && rest[common] == k.edge[common] {
		common++
	}
	if common < len(k.edge) {
		n.kids[at] = &prefixTree{edge: k.edge[:common], kids: []*prefixTree{k}, firsts: []byte{k.edge[common]}}
		k.edge = k.edge[common:]
	}
	n.kids[at].add(rest[common:])
}

// remove removes a prefix that is in the tree.
func (n *prefixTree) remove(rest string) {
	if rest == "" {
		n.ends = false
		return
	}
	at, _ := n.kid(rest[0])
	k := n.kids[at]
	k.remove(rest[len(k.edge):])
	switch {
	case k.ends || len(k.kids) > 1:
	case len(k.kids) == 1:
		k.kids[0].edge = k.edge + k.kids[0].edge
		n.kids[at] = k.kids[0]
	default:
		n.kids, n.firsts = slices.Delete(n.kids, at, at+1), slices.Delete(n.firsts, at, at+1)
	}
}

// each visits the prefixes of a key, the shortest first.
func (n *prefixTree) each(key string, visit func(prefix string)) {
	for at := 0; ; {
		if n.ends {
			visit(key[:at])
		}
		if at == len(key) {
			return
		}
		i, found := n.kid(key[at])
		if !found || !strings.HasPrefix(key[at:], n.kids[i].edge) {
			return
		}
		n = n.kids[i]
		at += len(n.edge)
	}
}
