package keyspace

import (
	"strings"
)

var listKind = &kind{name: "list", encodings: []string{"listpack", "quicklist"}, image: 3, read: readList}

// The forms of a list. They are only what Redis would call it: it is a sequence in
// both.
const (
	listSmall = iota
	listLarge
)

// listOverheadBytes is what a list costs beside its elements: see entry.size.
const listOverheadBytes = 96

// list is a list value.
type list struct {
	owner uint64 // the generation that may change it in place
	items sequence
	large bool // it has been too long for a listpack, and is not yet short enough again
}

// listLimits say up to where a list is a listpack.
type listLimits struct{ elements, bytes int64 }

// listPackBytesMax is the limit in bytes where the setting is one in elements.
const listPackBytesMax = 8 << 10

// What a listpack takes beside the bytes of its elements. It is nearly so: where an
// element is a number Redis packs it tighter.
const (
	listPackHeaderBytes  = 7
	listPackElementBytes = 2
)

func newList(owner uint64) *list { return &list{owner: owner, items: newSequence()} }

// resize chooses the form, as Redis 7.2 does: a list that grows beyond the limits
// becomes large, one that shrinks to the half of them becomes small again.
func (l *list) resize(limits listLimits, shrunk bool) {
	switch {
	case !l.large && !shrunk:
		l.large = !l.fits(limits)
	case l.large && shrunk:
		l.large = !l.fits(listLimits{limits.elements / 2, limits.bytes / 2})
	}
}

func (l *list) fits(limits listLimits) bool {
	n := int64(l.len())
	packed := listPackHeaderBytes + l.items.bytes() - n*(elementOverheadBytes-listPackElementBytes)
	return n <= limits.elements && packed <= limits.bytes
}

func (l *list) kind() *kind { return listKind }

func (l *list) form() int {
	if l.large {
		return listLarge
	}
	return listSmall
}

func (l *list) len() int { return l.items.len() }

func (l *list) size() int64 { return listOverheadBytes + l.items.bytes() }

func (l *list) own(generation uint64) aggregate {
	if l.owner == generation {
		return l
	}
	return l.copyFor(generation)
}

func (l *list) clone() aggregate { return l.copyFor(l.owner) }

func (l *list) copyFor(owner uint64) *list {
	return &list{owner: owner, items: l.items.copy(), large: l.large}
}

// listEnd is one of the ends of a list.
type listEnd int

const (
	leftEnd listEnd = iota
	rightEnd
)

// push adds an element at an end. Only inside ctx.editList.
func (l *list) push(end listEnd, s string) {
	at := 0
	if end == rightEnd {
		at = l.len()
	}
	l.items.insert(at, strings.Clone(s))
}

// remove takes out the elements at positions, which are given from the last to the
// first. Neighbours go together. Only inside ctx.editList.
func (l *list) remove(positions []int) {
	for len(positions) > 0 {
		n := 1
		for n < len(positions) && positions[n] == positions[n-1]-1 {
			n++
		}
		l.items.cut(positions[n-1], positions[0]+1)
		positions = positions[n:]
	}
}

// end is the range of the n elements at an end, of all where there are fewer.
func (l *list) end(end listEnd, n int64) (from, to int) {
	to = int(min(n, int64(l.len())))
	if end == rightEnd {
		return l.len() - to, l.len()
	}
	return 0, to
}

// span is the range of positions that two indexes of a command mean, the last one
// included; a negative one counts from the end. An empty one begins where it ends.
func (l *list) span(first, last int64) (from, to int) {
	n := int64(l.len())
	if first < 0 {
		first = max(first+n, 0)
	}
	if last < 0 {
		last += n
	}
	last = min(last, n-1)
	if first > last {
		return 0, 0
	}
	return int(first), int(last) + 1
}

// index is the position that an index of a command means, or false.
func (l *list) index(i int64) (at int, ok bool) {
	n := int64(l.len())
	if i < 0 {
		i += n
	}
	return int(i), i >= 0 && i < n
}

func (l *list) write(w *imageWriter) {
	l.items.ascend(0, func(s string) bool {
		w.text(s)
		return w.err == nil
	})
}

func readList(r *imageReader, n uint64, form int, generation uint64) aggregate {
	l := newList(generation)
	l.large = form == listLarge
	for ; n > 0 && r.err == nil; n-- {
		l.items.insert(l.len(), r.text())
	}
	return l
}

// get is the element at a position, 0 <= i < len.
func (l *list) get(i int) string { return l.items.get(i) }

// set replaces the element at i, 0 <= i < len, by s, which it keeps: the caller has cloned it. Only
// inside ctx.editList, as what follows.
func (l *list) set(i int, s string) { l.items.set(i, s) }

// insert puts s, which the caller has cloned, before the element at i, or at the end where i is len.
func (l *list) insert(i int, s string) { l.items.insert(i, s) }

// cut removes the elements from i up to j, without the one at j.
func (l *list) cut(i, j int) { l.items.cut(i, j) }

// ascend visits the elements from i on until visit returns false.
func (l *list) ascend(i int, visit func(s string) bool) { l.items.ascend(i, visit) }

// descend visits the elements from i down to the first until visit returns false.
func (l *list) descend(i int, visit func(s string) bool) { l.items.descend(i, visit) }
