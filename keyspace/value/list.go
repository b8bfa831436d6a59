package value

import (
	"strings"
)

// ListKind is the Kind of lists.
var ListKind = &Kind{Name: "list", Encodings: []string{"listpack", "quicklist"}, Image: 3, read: readList}

// The forms of a list. They are only names for OBJECT ENCODING: a list is a sequence in both.
const (
	listSmall = iota
	listLarge
)

// listOverheadBytes is the memory that a list counts for besides its elements; see Aggregate.Size.
const listOverheadBytes = 96

// List is a list value.
type List struct {
	owner uint64 // the generation that may change it in place
	items sequence
	large bool // it has been too long for a listpack, and is not yet short enough again
}

// ListLimits say up to where a list is a listpack.
type ListLimits struct{ Elements, Bytes int64 }

// ListPackBytesMax is the limit in bytes if the setting limits elements.
const ListPackBytesMax = 8 << 10

// The bytes of a listpack besides those of its elements, approximately: Redis packs numbers tighter.
const (
	listPackHeaderBytes  = 7
	listPackElementBytes = 2
)

// NewList makes an empty list that the generation owner may change.
func NewList(owner uint64) *List { return &List{owner: owner, items: newSequence()} }

// Resize chooses the form, as Redis 7.2 does: a list that grows beyond the limits
// becomes large, one that shrinks to the half of them becomes small again.
func (l *List) Resize(limits ListLimits, shrunk bool) {
	switch {
	case !l.large && !shrunk:
		l.large = !l.fits(limits)
	case l.large && shrunk:
		l.large = !l.fits(ListLimits{limits.Elements / 2, limits.Bytes / 2})
	}
}

func (l *List) fits(limits ListLimits) bool {
	n := int64(l.Len())
	packed := listPackHeaderBytes + l.items.bytes() - n*(elementOverheadBytes-listPackElementBytes)
	return n <= limits.Elements && packed <= limits.Bytes
}

// Kind returns ListKind.
func (l *List) Kind() *Kind { return ListKind }

// Form returns listSmall or listLarge.
func (l *List) Form() int {
	if l.large {
		return listLarge
	}
	return listSmall
}

// Len returns the number of elements.
func (l *List) Len() int { return l.items.len() }

// Size implements Aggregate.Size, in bytes.
func (l *List) Size() int64 { return listOverheadBytes + l.items.bytes() }

// Own implements Aggregate.Own. A copy costs nothing.
func (l *List) Own(generation uint64) Aggregate {
	if l.owner == generation {
		return l
	}
	return l.copyFor(generation)
}

// Clone implements Aggregate.Clone.
func (l *List) Clone() Aggregate { return l.copyFor(l.owner) }

func (l *List) copyFor(owner uint64) *List {
	return &List{owner: owner, items: l.items.copy(), large: l.large}
}

// ListEnd is one of the ends of a list.
type ListEnd int

// The ends.
const (
	LeftEnd ListEnd = iota
	RightEnd
)

// Push adds an element at an end. The caller must own it.
func (l *List) Push(end ListEnd, s string) {
	at := 0
	if end == RightEnd {
		at = l.Len()
	}
	l.items.insert(at, strings.Clone(s))
}

// Remove removes the elements at positions, which are sorted from the last to the first. It cuts neighbours together.
// The caller must own it.
func (l *List) Remove(positions []int) {
	for len(positions) > 0 {
		n := 1
		for n < len(positions) && positions[n] == positions[n-1]-1 {
			n++
		}
		l.items.cut(positions[n-1], positions[0]+1)
		positions = positions[n:]
	}
}

// End returns the range of the n elements at an end, or of all if there are fewer.
func (l *List) End(end ListEnd, n int64) (from, to int) {
	to = int(min(n, int64(l.Len())))
	if end == RightEnd {
		return l.Len() - to, l.Len()
	}
	return 0, to
}

// Span returns the range of positions from one index of a command to another, which is included. A negative index
// counts from the end. An empty range begins where it ends.
func (l *List) Span(first, last int64) (from, to int) {
	n := int64(l.Len())
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

// Index returns the position of an index of a command; ok is false if there is none.
func (l *List) Index(i int64) (at int, ok bool) {
	n := int64(l.Len())
	if i < 0 {
		i += n
	}
	return int(i), i >= 0 && i < n
}

// Write writes the elements.
func (l *List) Write(w *Writer) {
	l.items.ascend(0, func(s string) bool {
		w.Text(s)
		return w.err == nil
	})
}

func readList(r *Reader, n uint64, form int, generation uint64) Aggregate {
	l := NewList(generation)
	l.large = form == listLarge
	for ; n > 0 && r.err == nil; n-- {
		l.items.insert(l.Len(), r.Text())
	}
	return l
}

// Get returns the element at a position, 0 <= i < len.
func (l *List) Get(i int) string { return l.items.get(i) }

// Set replaces the element at i, 0 <= i < len, by s. It keeps s, so the caller clones it. Only
// where the caller owns it, as Insert and Cut.
func (l *List) Set(i int, s string) { l.items.set(i, s) }

// Insert inserts s, which the caller has cloned, before the element at i, or at the end if i is len.
func (l *List) Insert(i int, s string) { l.items.insert(i, s) }

// Cut removes the elements from i up to j, without the one at j.
func (l *List) Cut(i, j int) { l.items.cut(i, j) }

// Ascend visits the elements from i on until visit returns false.
func (l *List) Ascend(i int, visit func(s string) bool) { l.items.ascend(i, visit) }

// Descend visits the elements from i down to the first until visit returns false.
func (l *List) Descend(i int, visit func(s string) bool) { l.items.descend(i, visit) }
