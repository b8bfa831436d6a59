package keyspace

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// lease is when the next lease of a key ends, in the order in which leases do.
type lease struct {
	tick int64
	of   *entry
}

func leaseOf(e *entry) lease { return lease{e.ends(), e} }

func compareLeases(a, b lease) int {
	if a.tick != b.tick {
		return cmp.Compare(a.tick, b.tick)
	}
	return strings.Compare(a.of.key(), b.of.key())
}

// leaseOrder holds leases in their order. Most come after all that are there: locks are
// taken, and renewed, for about the same time. A B-tree that is filled at its end has
// leaves that are half empty for ever, so this is one of runs: sorted slices, full where
// they were filled at the end. Its shape depends on history, so nothing that is state,
// or a reply, may follow from it.
type leaseOrder struct {
	runs  *btree.BTreeG[leaseRun]
	count int
	ticks tickSum // of all leases
}

// leaseRun has the leases from one on, up to the next run.
type leaseRun struct {
	tick   int64 // of from, so that a search compares within the tree's nodes
	from   string
	leases *[]lease // never empty
}

// runMax is how many leases a run has at most: an insertion moves half of them. So many,
// and half of so many less one, and so on, fill what Go allocates for them (4 KB, less a
// word).
const runMax = 255

func runLess(a, b leaseRun) bool {
	if a.tick != b.tick {
		return a.tick < b.tick
	}
	return a.from < b.from
}

func newLeaseOrder() *leaseOrder {
	return &leaseOrder{runs: btree.NewBTreeGOptions(runLess, btree.Options{NoLocks: true})}
}

func (o *leaseOrder) len() int { return o.count }

// first is the lease that ends first.
func (o *leaseOrder) first() (l lease, ok bool) {
	r, ok := o.runs.Min()
	if ok {
		l = (*r.leases)[0]
	}
	return l, ok
}

// averageTick is the mean deadline, rounded down; there must be a lease.
func (o *leaseOrder) averageTick() int64 { return o.ticks.mean(o.count) }

// add puts a lease in its place; no other one of its tick and key is there.
func (o *leaseOrder) add(l lease) {
	o.count++
	o.ticks.add(l.tick)
	r, ok := o.runOf(l)
	if !ok { // before all others
		if r, ok = o.runs.Delete(o.firstRun()); !ok {
			o.runs.Set(newLeaseRun([]lease{l}))
			return
		}
		r.tick, r.from = l.tick, l.of.key()
		o.runs.Set(r)
	}
	at, _ := r.find(l)
	switch n := len(*r.leases); {
	case n < runMax:
	case at == n:
		o.runs.Set(newLeaseRun([]lease{l}))
		return
	default:
		right := o.split(r)
		if at > len(*r.leases) {
			r, at = right, at-len(*r.leases)
		}
	}
	r.insert(at, l)
}

// load fills an empty order with leases that are in order: full runs, as add leaves them where it fills at the end.
func (o *leaseOrder) load(leases []lease) {
	for run := range slices.Chunk(leases, runMax) {
		o.runs.Load(newLeaseRun(slices.Clone(run)))
	}
	for _, l := range leases {
		o.ticks.add(l.tick)
	}
	o.count = len(leases)
}

// remove takes a lease away, if it is there.
func (o *leaseOrder) remove(l lease) {
	r, ok := o.runOf(l)
	if !ok {
		return
	}
	at, ok := r.find(l)
	if !ok {
		return
	}
	o.count--
	o.ticks.sub(l.tick)
	*r.leases = slices.Delete(*r.leases, at, at+1)
	switch n := len(*r.leases); {
	case n == 0:
		o.runs.Delete(r)
	case n <= cap(*r.leases)/4:
		o.shrink(r)
	}
}

// runOf is the run in which a lease is, or would be put; false if it comes before all.
func (o *leaseOrder) runOf(l lease) (found leaseRun, ok bool) {
	o.runs.Descend(leaseRun{tick: l.tick, from: l.of.key()}, func(r leaseRun) bool {
		found, ok = r, true
		return false
	})
	return found, ok
}

func (o *leaseOrder) firstRun() leaseRun {
	r, _ := o.runs.Min()
	return r
}

// split leaves a run its first half, and returns a new one with the other.
func (o *leaseOrder) split(r leaseRun) (right leaseRun) {
	all := *r.leases
	right = newLeaseRun(slices.Clone(all[len(all)/2:]))
	*r.leases = slices.Clone(all[:len(all)/2])
	o.runs.Set(right)
	return right
}

// shrink gives back the memory of a run that has lost most of its leases, and joins it
// with the one before if that is small, too: or else few leases could hold many runs.
func (o *leaseOrder) shrink(r leaseRun) {
	if before, ok := o.before(r); ok && len(*before.leases)+len(*r.leases) <= runMax/2 {
		*before.leases = append(*before.leases, *r.leases...)
		o.runs.Delete(r)
		return
	}
	*r.leases = append(make([]lease, 0, cap(*r.leases)/2), *r.leases...)
}

func (o *leaseOrder) before(r leaseRun) (found leaseRun, ok bool) {
	o.runs.Descend(r, func(p leaseRun) bool {
		found, ok = p, p.leases != r.leases
		return !ok
	})
	return found, ok
}

func newLeaseRun(leases []lease) leaseRun {
	return leaseRun{leases[0].tick, leases[0].of.key(), &leases}
}

func (r leaseRun) find(l lease) (at int, found bool) {
	return slices.BinarySearchFunc(*r.leases, l, compareLeases)
}

// insert has the places of a run double, because append would take more for it.
func (r leaseRun) insert(at int, l lease) {
	all := *r.leases
	if n := len(all); n == cap(all) {
		all = append(make([]lease, 0, min(2*n+1, runMax)), all...)
	}
	*r.leases = slices.Insert(all, at, l)
}

// tickSum is a sum of ticks, each moved up by 1<<63: it has no sign, and cannot overflow.
type tickSum struct{ high, low uint64 }

func (s *tickSum) add(tick int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(tick)^1<<63, 0)
	s.high += carry
}

func (s *tickSum) sub(tick int64) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(tick)^1<<63, 0)
	s.high -= borrow
}

// mean is that of n ticks, n > 0.
func (s *tickSum) mean(n int) int64 {
	q, _ := bits.Div64(s.high, s.low, uint64(n))
	return int64(q ^ 1<<63)
}
