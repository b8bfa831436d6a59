package lock

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// ID names a wait; the table only compares it.
type ID struct{ Session, Number uint64 }

// Waiter is a request that waits for a lock. It does not change while it is in the line.
type Waiter struct {
	Want
	ID   ID
	Lock Name
	Seq  uint64 // its place: a lower one in the same line comes first
	End  int64  // the tick after which it gives up
}

// Line has the waiters of all locks. A waiter that is passed over keeps its place.
type Line struct {
	places *btree.BTreeG[*Waiter] // by lock, then Seq; without waiters that are passed over
	owners *btree.BTreeG[*Waiter] // by owner, then Seq
	tokens map[tokenOf]*Waiter
	counts map[Name]int
}

type tokenOf struct {
	lock  Name
	token string
}

// NewLine returns an empty line.
func NewLine() Line {
	return Line{
		places: order(byPlace), owners: order(byOwner),
		tokens: map[tokenOf]*Waiter{}, counts: map[Name]int{},
	}
}

func order(less func(a, b *Waiter) bool) *btree.BTreeG[*Waiter] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func byPlace(a, b *Waiter) bool {
	return cmp.Or(
		cmp.Compare(a.Lock.Space, b.Lock.Space), strings.Compare(a.Lock.Key, b.Lock.Key), cmp.Compare(a.Seq, b.Seq),
	) < 0
}

func byOwner(a, b *Waiter) bool {
	return cmp.Or(strings.Compare(a.owner(), b.owner()), cmp.Compare(a.Seq, b.Seq)) < 0
}

// Enter adds a waiter, at its Seq. Its token has no other place in the line.
func (l *Line) Enter(w *Waiter) {
	l.places.Set(w)
	l.owners.Set(w)
	l.tokens[tokenOf{w.Lock, w.Token}] = w
	l.counts[w.Lock]++
}

// Leave removes a waiter.
func (l *Line) Leave(w *Waiter) {
	l.places.Delete(w)
	l.owners.Delete(w)
	delete(l.tokens, tokenOf{w.Lock, w.Token})
	if l.counts[w.Lock]--; l.counts[w.Lock] == 0 {
		delete(l.counts, w.Lock)
	}
}

// PassOver has a waiter of the line passed over until Resume.
func (l *Line) PassOver(w *Waiter) { l.places.Delete(w) }

// Resume gives a waiter that was passed over its place again.
func (l *Line) Resume(w *Waiter) { l.places.Set(w) }

// Present reports whether a waiter is in the line and not passed over.
func (l *Line) Present(w *Waiter) bool {
	at, ok := l.places.Get(w)
	return ok && at == w
}

// Len returns the number of waiters of all locks, including those that are passed over.
func (l *Line) Len() int { return len(l.tokens) }

// LenOf returns the number of waiters of a lock.
func (l *Line) LenOf(name Name) int { return l.counts[name] }

// First returns the first waiter in line for a lock, or nil.
func (l *Line) First(name Name) *Waiter { return l.from(name, 0) }

// Next returns the next in line behind a waiter, or nil.
func (l *Line) Next(w *Waiter) *Waiter { return l.from(w.Lock, w.Seq+1) }

func (l *Line) from(name Name, seq uint64) (found *Waiter) {
	l.places.Ascend(&Waiter{Lock: name, Seq: seq}, func(w *Waiter) bool {
		if w.Lock == name {
			found = w
		}
		return false
	})
	return found
}

// Waiter returns the waiter of a token for a lock, or nil.
func (l *Line) Waiter(name Name, token string) *Waiter { return l.tokens[tokenOf{name, token}] }

// Locks lists the locks of a space with a waiter that is not passed over, in the order of their keys.
func (l *Line) Locks(space int) (names []Name) {
	l.places.Ascend(&Waiter{Lock: Name{Space: space}}, func(w *Waiter) bool {
		if w.Lock.Space == space && (len(names) == 0 || names[len(names)-1] != w.Lock) {
			names = append(names, w.Lock)
		}
		return w.Lock.Space == space
	})
	return names
}

// Overdue lists the waiters for a lock whose time was over before now, in the order of their ends.
func (l *Line) Overdue(name Name, now int64) (over []*Waiter) {
	for w := l.First(name); w != nil; w = l.Next(w) {
		if w.End < now {
			over = append(over, w)
		}
	}
	slices.SortStableFunc(over, func(a, b *Waiter) int { return cmp.Compare(a.End, b.End) })
	return over
}
