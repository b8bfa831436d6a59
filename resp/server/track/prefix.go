package track

import (
	"slices"
	"strings"
)

// prefixTree has prefixes by what they begin with. To find those that a key has takes no more steps than the longest of
// them has bytes, whatever they are: a look-up for each length that there is takes ten times as long.
type prefixTree struct {
	edge string // what the prefixes in it have, behind those of the trees that it is in
	ends bool   // a prefix ends behind the edge
	kids []*prefixTree

	firsts []byte // with which the edges of the kids begin
}

// kid is the place of the tree whose edge begins with a byte among those in this one, which are in the order of these.
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

// add adds a prefix, or what is left of it behind the edge.
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

// remove removes a prefix that is there.
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

// each visits the prefixes that a key has, from the shortest.
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
