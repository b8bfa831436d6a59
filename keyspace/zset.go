package keyspace

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

var zsetKind = &kind{name: "zset", encodings: []string{"listpack", "skiplist"}, image: 8, read: readZset}

// The forms of a sorted set.
const (
	zsetSmall = iota
	zsetLarge
)

// What a sorted set costs beside its members: see entry.size.
const (
	zsetOverheadBytes   = 96
	scoredOverheadBytes = 96
)

// scored is a member with its score, which is never NaN.
type scored struct {
	score  float64
	member string
}

// scoredLess is the order of a sorted set.
func scoredLess(a, b scored) bool {
	if a.score != b.score {
		return a.score < b.score
	}
	return a.member < b.member
}

func compareScored(a, b scored) int {
	switch {
	case scoredLess(a, b):
		return -1
	case scoredLess(b, a):
		return 1
	}
	return 0
}

// zset is a sorted set. A small one is a list in order, as Redis's listpack is; a
// larger one becomes two trees and stays so. A rank is a place in the order, from 0.
type zset struct {
	owner  uint64 // the generation that may change it in place
	limits zsetLimits
	small  []scored // while large is nil
	large  *zsetTrees
	bytes  int64 // of members and their overhead
}

// zsetTrees hold the same members twice: in order, and by name.
type zsetTrees struct {
	order  *btree.BTreeG[scored]
	scores tree[float64]
}

// zsetLimits say up to where a sorted set stays small: the settings
// zset-max-listpack-entries and zset-max-listpack-value.
type zsetLimits struct{ entries, valueBytes int64 }

func newZset(owner uint64) *zset { return &zset{owner: owner} }

// newZsetOf makes a sorted set of members that are in order and alias nothing.
func newZsetOf(owner uint64, limits zsetLimits, members []scored) *zset {
	z := &zset{owner: owner, limits: limits}
	for _, m := range members {
		z.add(m)
	}
	return z
}

func (z *zset) kind() *kind { return zsetKind }

func (z *zset) form() int {
	if z.large != nil {
		return zsetLarge
	}
	return zsetSmall
}

// isTree reports whether it has outgrown the small form: scan then goes in steps.
func (z *zset) isTree() bool { return z.large != nil }

// limit says how large the small form may become from now on. Whoever changes an aggregate sets it
// first.
func (z *zset) limit(limits zsetLimits) { z.limits = limits }

func (z *zset) own(generation uint64) aggregate {
	if z.owner == generation {
		return z
	}
	return z.copyFor(generation)
}

func (z *zset) clone() aggregate { return z.copyFor(z.owner) }

func (z *zset) copyFor(owner uint64) *zset {
	c := &zset{owner: owner, bytes: z.bytes}
	if z.large != nil {
		c.large = &zsetTrees{z.large.order.Copy(), z.large.scores.copy()}
		return c
	}
	c.small = append(make([]scored, 0, len(z.small)+1), z.small...)
	return c
}

func (z *zset) size() int64 { return zsetOverheadBytes + z.bytes }

func (z *zset) len() int {
	if z.large != nil {
		return z.large.order.Len()
	}
	return len(z.small)
}

func (z *zset) get(member string) (score float64, had bool) {
	if z.large != nil {
		return z.large.scores.get(member)
	}
	if i := z.index(member); i >= 0 {
		return z.small[i].score, true
	}
	return 0, false
}

func (z *zset) index(member string) int {
	for i := range z.small {
		if z.small[i].member == member {
			return i
		}
	}
	return -1
}

// at returns the member of a rank, 0 <= rank < len.
func (z *zset) at(rank int) scored {
	if z.large != nil {
		m, _ := z.large.order.GetAt(rank)
		return m
	}
	return z.small[rank]
}

// search finds the first rank whose member fits, len where none does. Those that do
// not fit come before all that do.
func (z *zset) search(fits func(m scored) bool) int {
	n := z.len()
	switch { // most ranges begin or end with the set itself
	case n == 0 || fits(z.at(0)):
		return 0
	case !fits(z.at(n - 1)):
		return n
	}
	return sort.Search(n, func(rank int) bool { return fits(z.at(rank)) })
}

// rank finds the place of a member.
func (z *zset) rank(member string) (rank int, score float64, had bool) {
	if score, had = z.get(member); !had {
		return 0, 0, false
	}
	rank = z.search(func(m scored) bool { return !scoredLess(m, scored{score, member}) })
	return rank, score, true
}

// visit visits the members of the ranks from <= rank < to in their order, until visit
// returns false.
func (z *zset) visit(from, to int, visit func(m scored) bool) {
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
	z.large.order.Ascend(z.at(from), func(m scored) bool {
		left--
		return visit(m) && left > 0
	})
}

// each visits all members in their order until visit returns false.
func (z *zset) each(visit func(m scored) bool) { z.visit(0, z.len(), visit) }

// members lists those of the ranks from <= rank < to in their order.
func (z *zset) members(from, to int) []scored {
	list := make([]scored, 0, max(0, to-from))
	z.visit(from, to, func(m scored) bool {
		list = append(list, m)
		return true
	})
	return list
}

// set gives a member a score; it is cloned. Only inside ctx.editZset.
func (z *zset) set(member string, score float64) {
	if m, had := z.take(member); had {
		m.score = score
		z.put(m)
		return
	}
	z.add(scored{score, strings.Clone(member)})
}

// add adds a member that is not there.
func (z *zset) add(m scored) {
	if int64(z.len()) >= z.limits.entries || int64(len(m.member)) > z.limits.valueBytes {
		z.enlarge()
	}
	z.bytes += memberBytes(m.member)
	z.put(m)
}

func memberBytes(member string) int64 { return scoredOverheadBytes + int64(len(member)) }

// bytesOf counts members with what each takes beside its own bytes.
func bytesOf(members []scored, overheadBytes int64) int64 {
	n := overheadBytes * int64(len(members))
	for _, m := range members {
		n += int64(len(m.member))
	}
	return n
}

// put gives a member its place in the order. -0 becomes 0, as in Redis's listpack, so
// that a score does not tell the form.
func (z *zset) put(m scored) {
	if m.score == 0 {
		m.score = 0
	}
	if z.large != nil {
		z.large.order.Set(m)
		z.large.scores.set(m.member, m.score)
		return
	}
	at, _ := slices.BinarySearchFunc(z.small, m, compareScored)
	z.small = slices.Insert(z.small, at, m)
}

// take takes a member out of the order, for put or del.
func (z *zset) take(member string) (m scored, had bool) {
	if z.large != nil {
		score, had := z.large.scores.get(member)
		if had {
			m, had = z.large.order.Delete(scored{score, member})
		}
		return m, had
	}
	at := z.index(member)
	if at < 0 {
		return scored{}, false
	}
	m = z.small[at]
	z.small = slices.Delete(z.small, at, at+1)
	return m, true
}

// del removes a member and reports whether it was there. Only inside ctx.editZset.
func (z *zset) del(member string) bool {
	m, had := z.take(member)
	if !had {
		return false
	}
	z.bytes -= memberBytes(m.member)
	if z.large != nil {
		z.large.scores.del(member)
	}
	return true
}

func (z *zset) enlarge() {
	if z.large != nil {
		return
	}
	t := &zsetTrees{
		order:  btree.NewBTreeGOptions(scoredLess, btree.Options{NoLocks: true}),
		scores: newTree[float64](),
	}
	for _, m := range z.small {
		t.order.Load(m)
		t.scores.set(m.member, m.score)
	}
	z.large, z.small = t, nil
}

// scan is ZSCAN's step: see tree.scan. A small sorted set is visited whole.
func (z *zset) scan(cursor uint64, count int, visit func(member string, score float64)) (next uint64) {
	if z.large != nil {
		return z.large.scores.scan(cursor, count, visit)
	}
	for _, m := range z.small {
		visit(m.member, m.score)
	}
	return 0
}

// findWork is the work of looking for a member by its name.
func (z *zset) findWork(member string) int64 {
	if z.large != nil {
		return treeWork(z.len()) + hashWork*int64(len(member))
	}
	return smallWork(len(z.small), z.bytes, member)
}

// editWork is the work of adding a member, of removing one, or of finding its rank: also
// in the order of the scores, where the members of one score are compared.
func (z *zset) editWork(member string) int64 {
	depth := bits.Len(uint(z.len()))
	if z.large == nil {
		return z.findWork(member) + int64(depth*len(member))
	}
	return z.findWork(member) + 2*treeWork(z.len()) + int64(depth*len(member))
}

// growWork is growWork for members.
func (z *zset) growWork(members []scored) int64 {
	n := len(members)
	each := 3*treeWork(n) + visitWork
	return max(z.editAll(members), int64(n)*each+(hashWork+int64(bits.Len(uint(n))))*bytesOf(members, 0))
}

// editAll is the work of adding members to z, or of removing them.
func (z *zset) editAll(members []scored) (work int64) {
	for _, m := range members {
		work += z.editWork(m.member)
	}
	return work
}

func (z *zset) write(w *imageWriter) {
	z.each(func(m scored) bool {
		w.text(m.member)
		w.u64(math.Float64bits(m.score))
		return w.err == nil
	})
}

func readZset(r *imageReader, n uint64, form int, generation uint64) aggregate {
	z := newZset(generation)
	if form == zsetLarge {
		z.enlarge()
	} else if n > smallMax {
		r.fail("a small sorted set of many members")
	}
	var last scored
	for ; n > 0 && r.err == nil; n-- {
		m := scored{member: r.text(), score: math.Float64frombits(r.u64())}
		_, had := z.get(m.member)
		if had || math.IsNaN(m.score) || z.len() > 0 && !scoredLess(last, m) {
			r.fail("members of a sorted set are not in order")
		}
		if r.err == nil {
			z.bytes += memberBytes(m.member)
			z.put(m)
		}
		last = m
	}
	return z
}

func (z *zset) has(member string) bool {
	_, had := z.get(member)
	return had
}

// rangeWork is the work of finding the ends of a range.
func (z *zset) rangeWork(low, high string) int64 { return 2 * (z.editWork(low) + z.editWork(high)) }
