package value

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// ZsetKind is the Kind of sorted sets.
var ZsetKind = &Kind{Name: "zset", Encodings: []string{"listpack", "skiplist"}, Image: 8, read: readZset}

// The forms of a sorted set.
const (
	zsetSmall = iota
	zsetLarge
)

// What a sorted set counts for besides its members; see Aggregate.Size.
const (
	zsetOverheadBytes   = 96
	ScoredOverheadBytes = 96
)

// Zset is a sorted set. A small sorted set is a sorted list, as in Redis's listpack; a larger one becomes two trees and
// stays so. A rank is a place in the order, from 0.
type Zset struct {
	owner  uint64 // the generation that may change it in place
	limits ZsetLimits
	small  scoredList // while large is nil
	large  *zsetTrees
	bytes  int64 // of members and their overhead
}

// zsetTrees has the same members twice: in order, and by name.
type zsetTrees struct {
	order  *btree.BTreeG[Scored]
	scores tree[float64]
}

// scoredList is a list of members in order.
type scoredList []Scored

// index returns the place of a member, or -1.
func (l scoredList) index(member string) int {
	for i := range l {
		if l[i].Member == member {
			return i
		}
	}
	return -1
}

// trees makes trees of the list.
func (l scoredList) trees() *zsetTrees {
	t := &zsetTrees{
		order:  btree.NewBTreeGOptions(scoredLess, btree.Options{NoLocks: true}),
		scores: newTree[float64](),
	}
	for _, m := range l {
		t.order.Load(m)
		t.scores.set(m.Member, m.Score)
	}
	return t
}

// ZsetLimits bound the small form of a sorted set: the settings zset-max-listpack-entries and zset-max-listpack-value.
type ZsetLimits struct{ Entries, ValueBytes int64 }

// NewZset makes an empty sorted set that the generation owner may change.
func NewZset(owner uint64) *Zset { return &Zset{owner: owner} }

// NewZsetOf makes a sorted set of members that are in order and alias nothing.
func NewZsetOf(owner uint64, limits ZsetLimits, members []Scored) *Zset {
	z := &Zset{owner: owner, limits: limits}
	for _, m := range members {
		z.Add(m)
	}
	return z
}

// Kind returns ZsetKind.
func (z *Zset) Kind() *Kind { return ZsetKind }

// Form returns zsetSmall or zsetLarge.
func (z *Zset) Form() int {
	if z.large != nil {
		return zsetLarge
	}
	return zsetSmall
}

// IsTree reports whether it has outgrown the small form: Scan then goes in steps.
func (z *Zset) IsTree() bool { return z.large != nil }

// Limit sets up to where it keeps a small form. The caller sets it before each change.
func (z *Zset) Limit(limits ZsetLimits) { z.limits = limits }

// Own implements Aggregate.Own. A copy of a small form costs its elements, of any other nothing.
func (z *Zset) Own(generation uint64) Aggregate {
	if z.owner == generation {
		return z
	}
	return z.copyFor(generation)
}

// Clone implements Aggregate.Clone.
func (z *Zset) Clone() Aggregate { return z.copyFor(z.owner) }

func (z *Zset) copyFor(owner uint64) *Zset {
	c := &Zset{owner: owner, bytes: z.bytes}
	if z.large != nil {
		c.large = &zsetTrees{z.large.order.Copy(), z.large.scores.copy()}
		return c
	}
	c.small = append(make([]Scored, 0, len(z.small)+1), z.small...)
	return c
}

// Size implements Aggregate.Size, in bytes.
func (z *Zset) Size() int64 { return zsetOverheadBytes + z.bytes }

// Len returns the number of members.
func (z *Zset) Len() int {
	if z.large != nil {
		return z.large.order.Len()
	}
	return len(z.small)
}

// Get finds the score of a member.
func (z *Zset) Get(member string) (score float64, had bool) {
	if z.large != nil {
		return z.large.scores.get(member)
	}
	if i := z.small.index(member); i >= 0 {
		return z.small[i].Score, true
	}
	return 0, false
}

// At returns the member of a rank, 0 <= rank < len.
func (z *Zset) At(rank int) Scored {
	if z.large != nil {
		m, _ := z.large.order.GetAt(rank)
		return m
	}
	return z.small[rank]
}

// Search returns the first rank whose member fits, or len if none does. The members that do not fit must come before
// those that do.
func (z *Zset) Search(fits func(m Scored) bool) int {
	n := z.Len()
	switch { // most ranges begin or end with the set itself
	case n == 0 || fits(z.At(0)):
		return 0
	case !fits(z.At(n - 1)):
		return n
	}
	return sort.Search(n, func(rank int) bool { return fits(z.At(rank)) })
}

// Rank finds the place of a member.
func (z *Zset) Rank(member string) (rank int, score float64, had bool) {
	if score, had = z.Get(member); !had {
		return 0, 0, false
	}
	rank = z.Search(func(m Scored) bool { return !scoredLess(m, Scored{score, member}) })
	return rank, score, true
}

// visit visits the members of the ranks from <= rank < to in their order, until visit
// returns false.
func (z *Zset) visit(from, to int, visit func(m Scored) bool) {
	if from >= to {
		return
	}
	if z.large == nil {
		for _, m := range z.small[from:to] {
			if !visit(m) {
				return
			}
		}
		return
	}
	left := to - from
	z.large.order.Ascend(z.At(from), func(m Scored) bool {
		left--
		return visit(m) && left > 0
	})
}

// Each visits all members in their order until visit returns false.
func (z *Zset) Each(visit func(m Scored) bool) { z.visit(0, z.Len(), visit) }

// Members lists the members of the ranks from <= rank < to in their order.
func (z *Zset) Members(from, to int) []Scored {
	list := make([]Scored, 0, max(0, to-from))
	z.visit(from, to, func(m Scored) bool {
		list = append(list, m)
		return true
	})
	return list
}

// Set gives a member a score; it is cloned. The caller must own it.
func (z *Zset) Set(member string, score float64) {
	if m, had := z.take(member); had {
		m.Score = score
		z.put(m)
		return
	}
	z.Add(Scored{score, strings.Clone(member)})
}

// Add adds a member that is not there.
func (z *Zset) Add(m Scored) {
	if z.large == nil && (int64(z.Len()) >= z.limits.Entries || int64(len(m.Member)) > z.limits.ValueBytes) {
		z.large, z.small = z.small.trees(), nil
	}
	z.bytes += memberBytes(m.Member)
	z.put(m)
}

func memberBytes(member string) int64 { return ScoredOverheadBytes + int64(len(member)) }

// BytesOf returns the bytes of members, with an overhead for each.
func BytesOf(members []Scored, overheadBytes int64) int64 {
	n := overheadBytes * int64(len(members))
	for _, m := range members {
		n += int64(len(m.Member))
	}
	return n
}

// put puts a member in its place. -0 becomes 0, as in Redis's listpack, so that a score does not show the form.
func (z *Zset) put(m Scored) {
	if m.Score == 0 {
		m.Score = 0
	}
	if z.large != nil {
		z.large.order.Set(m)
		z.large.scores.set(m.Member, m.Score)
		return
	}
	at, _ := slices.BinarySearchFunc(z.small, m, CompareScored)
	z.small = slices.Insert(z.small, at, m)
}

// take removes a member from the order, before put or del.
func (z *Zset) take(member string) (m Scored, had bool) {
	if z.large != nil {
		score, had := z.large.scores.get(member)
		if had {
			m, had = z.large.order.Delete(Scored{score, member})
		}
		return m, had
	}
	at := z.small.index(member)
	if at < 0 {
		return Scored{}, false
	}
	m = z.small[at]
	z.small = slices.Delete(z.small, at, at+1)
	return m, true
}

// Delete removes a member and reports whether it was there. The caller must own it.
func (z *Zset) Delete(member string) bool {
	m, had := z.take(member)
	if !had {
		return false
	}
	z.bytes -= memberBytes(m.Member)
	if z.large != nil {
		z.large.scores.del(member)
	}
	return true
}

// Scan does a step of ZSCAN; see tree.scan. It visits all of a small sorted set.
func (z *Zset) Scan(cursor uint64, count int, visit func(member string, score float64)) (next uint64) {
	if z.large != nil {
		return z.large.scores.scan(cursor, count, visit)
	}
	for _, m := range z.small {
		visit(m.Member, m.Score)
	}
	return 0
}

// FindWork returns the work of looking for a member by its name.
func (z *Zset) FindWork(member string) int64 {
	if z.large != nil {
		return TreeWork(z.Len()) + HashWork*int64(len(member))
	}
	return smallWork(len(z.small), z.bytes, member)
}

// Write writes the members, each with the bits of its score.
func (z *Zset) Write(w *Writer) {
	z.Each(func(m Scored) bool {
		w.Text(m.Member)
		w.U64(math.Float64bits(m.Score))
		return w.err == nil
	})
}

func readZset(r *Reader, n uint64, form int, generation uint64) Aggregate {
	z := NewZset(generation)
	if form == zsetLarge {
		z.large = z.small.trees()
	} else if n > SmallMax {
		r.Fail("a small sorted set of many members")
	}
	var last Scored
	for ; n > 0 && r.err == nil; n-- {
		m := Scored{Member: r.Text(), Score: math.Float64frombits(r.U64())}
		_, had := z.Get(m.Member)
		if had || math.IsNaN(m.Score) || z.Len() > 0 && !scoredLess(last, m) {
			r.Fail("members of a sorted set are not in order")
		}
		if r.err == nil {
			z.bytes += memberBytes(m.Member)
			z.put(m)
		}
		last = m
	}
	return z
}

// Has reports whether a member is there.
func (z *Zset) Has(member string) bool {
	_, had := z.Get(member)
	return had
}
