package track

import (
	"slices"
	"strings"
)

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
