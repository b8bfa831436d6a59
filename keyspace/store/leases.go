package store

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// Lease is the end of the next lease of a key.
type Lease struct {
	Tick int64
	Of   *Entry
}

// LeaseOf returns the lease of an entry that has one.
func LeaseOf(e *Entry) Lease { return Lease{e.Ends(), e} }

func compareLeases(a, b Lease) int {
	if a.Tick != b.Tick {
		return cmp.Compare(a.Tick, b.Tick)
	}
	return strings.Compare(a.Of.Key(), b.Of.Key())
}

// LeaseOrder holds leases in the order of their ends. Most new leases come last, because locks are taken and renewed
// for about the same time. A B-tree that is filled at its end has leaves that stay half empty, so LeaseOrder is a tree
// of runs: sorted slices, which are full if they were filled at the end. Its shape depends on history, so no state and
// no reply may follow from it.
type LeaseOrder struct {
	runs  *btree.BTreeG[leaseRun]
	count int
	ticks tickSum // of all leases
}

// leaseRun has consecutive leases, up to the next run.
type leaseRun struct {
	tick   int64 // of from, and stays when that lease is removed: the ends of the leases count from it
	from   string
	leases *runLeases // never empty
}

// runLeases are the leases of a run. Each takes 12 bytes: its end is the time after the run's tick. A lease whose end
// is too late for that is in another run.
type runLeases struct {
	after []uint32 // ms after the tick of the run
	of    []*Entry
}

// runMax bounds the leases of a run: an insertion moves half of them. This number, half of it less one, and so on, fill
// what Go allocates for their entries (2 KB, less a word).
const runMax = 255

func runLess(a, b leaseRun) bool {
	if a.tick != b.tick {
		return a.tick < b.tick
	}
	return a.from < b.from
}

func newLeaseOrder() *LeaseOrder {
	return &LeaseOrder{runs: btree.NewBTreeGOptions(runLess, btree.Options{NoLocks: true})}
}

// Len returns the number of leases.
func (o *LeaseOrder) Len() int { return o.count }

// First returns the lease that ends first.
func (o *LeaseOrder) First() (l Lease, ok bool) {
	r, ok := o.runs.Min()
	if ok {
		l = r.at(0)
	}
	return l, ok
}

// Each visits the leases in their order, until visit returns false.
func (o *LeaseOrder) Each(visit func(l Lease) bool) {
	o.runs.Scan(func(r leaseRun) bool {
		for i := range r.len() {
			if !visit(r.at(i)) {
				return false
			}
		}
		return true
	})
}

// averageTick returns the mean deadline, rounded down; there must be a lease.
func (o *LeaseOrder) averageTick() int64 { return o.ticks.mean(o.count) }

// add adds a lease; none of its tick and key exists.
func (o *LeaseOrder) add(l Lease) {
	o.count++
	o.ticks.add(l.Tick)
	at, n := 0, 0
	r, ok := o.runOf(l)
	if ok {
		at, _ = r.find(l)
		n = r.len()
	}
	switch {
	case at == n && (!ok || n == runMax || !r.reaches(l.Tick)): // it comes between two runs
		if r, ok = o.beginFrom(l); !ok {
			o.runs.Set(newLeaseRun([]Lease{l}))
			return
		}
		at = 0
	case n == runMax:
		right := o.split(r)
		if at > r.len() {
			r, at = right, at-r.len()
		}
	}
	r.insert(at, l)
}

// beginFrom makes the run behind a lease begin with that lease, which is not in it yet. ok is false if there is no such
// run, or it is full, or its last lease is too late for the new tick.
func (o *LeaseOrder) beginFrom(l Lease) (r leaseRun, ok bool) {
	from := leaseRun{tick: l.Tick, from: l.Of.Key()}
	o.runs.Ascend(from, func(next leaseRun) bool {
		r, ok = next, next.len() < runMax && from.reaches(next.last().Tick)
		return false
	})
	if !ok {
		return r, false
	}
	o.runs.Delete(r)
	for i := range r.leases.after {
		r.leases.after[i] += uint32(r.tick - l.Tick)
	}
	r.tick, r.from = from.tick, from.from
	o.runs.Set(r)
	return r, true
}

// load fills an empty order with sorted leases, in full runs, as add leaves them when it fills at the end.
func (o *LeaseOrder) load(leases []Lease) {
	for i := 0; i < len(leases); {
		r, end := leaseRun{tick: leases[i].Tick}, i+1
		for end < min(i+runMax, len(leases)) && r.reaches(leases[end].Tick) {
			end++
		}
		o.runs.Load(newLeaseRun(leases[i:end]))
		i = end
	}
	for _, l := range leases {
		o.ticks.add(l.Tick)
	}
	o.count = len(leases)
}

// remove removes a lease, if it exists.
func (o *LeaseOrder) remove(l Lease) {
	r, ok := o.runOf(l)
	if !ok {
		return
	}
	at, ok := r.find(l)
	if !ok {
		return
	}
	o.count--
	o.ticks.sub(l.Tick)
	r.leases.after = slices.Delete(r.leases.after, at, at+1)
	r.leases.of = slices.Delete(r.leases.of, at, at+1)
	switch n := r.len(); {
	case n == 0:
		o.runs.Delete(r)
	case n <= cap(r.leases.of)/4:
		o.shrink(r)
	}
}

// runOf returns the run to which a lease belongs; false if the lease comes before all runs.
func (o *LeaseOrder) runOf(l Lease) (found leaseRun, ok bool) {
	o.runs.Descend(leaseRun{tick: l.Tick, from: l.Of.Key()}, func(r leaseRun) bool {
		found, ok = r, true
		return false
	})
	return found, ok
}

// split leaves a run its first half, and returns a new run with the second.
func (o *LeaseOrder) split(r leaseRun) (right leaseRun) {
	half, n := r.len()/2, r.len()
	first := r.at(half)
	right = leaseRun{first.Tick, first.Of.Key(), r.part(half, n, first.Tick, n-half)}
	*r.leases = *r.part(0, half, r.tick, half)
	o.runs.Set(right)
	return right
}

// shrink frees memory of a run that has lost most of its leases, and joins it with the run before if that is small,
// too: otherwise few leases could occupy many runs.
func (o *LeaseOrder) shrink(r leaseRun) {
	n := r.len()
	if before, ok := o.before(r); ok && before.len()+n <= runMax/2 && before.reaches(r.last().Tick) {
		more := r.part(0, n, before.tick, n)
		before.leases.after = append(before.leases.after, more.after...)
		before.leases.of = append(before.leases.of, more.of...)
		o.runs.Delete(r)
		return
	}
	*r.leases = *r.part(0, n, r.tick, cap(r.leases.of)/2)
}

func (o *LeaseOrder) before(r leaseRun) (found leaseRun, ok bool) {
	o.runs.Descend(r, func(p leaseRun) bool {
		found, ok = p, p.leases != r.leases
		return !ok
	})
	return found, ok
}

// newLeaseRun makes a run of leases, all of which the first one reaches.
func newLeaseRun(leases []Lease) leaseRun {
	r := leaseRun{leases[0].Tick, leases[0].Of.Key(), newRunLeases(len(leases))}
	for _, l := range leases {
		r.leases.after = append(r.leases.after, uint32(l.Tick-r.tick))
		r.leases.of = append(r.leases.of, l.Of)
	}
	return r
}

func newRunLeases(places int) *runLeases {
	return &runLeases{make([]uint32, 0, places), make([]*Entry, 0, places)}
}

// part returns a copy of a part of a run, with ends that count from a tick, and room for a number of places.
func (r leaseRun) part(from, until int, tick int64, places int) *runLeases {
	p := newRunLeases(places)
	for _, after := range r.leases.after[from:until] {
		p.after = append(p.after, after+uint32(r.tick-tick))
	}
	p.of = append(p.of, r.leases.of[from:until]...)
	return p
}

func (r leaseRun) len() int { return len(r.leases.of) }

func (r leaseRun) at(i int) Lease { return Lease{r.tick + int64(r.leases.after[i]), r.leases.of[i]} }

func (r leaseRun) last() Lease { return r.at(r.len() - 1) }

// reaches reports whether a run can have a lease of a tick, which is not before its first.
func (r leaseRun) reaches(tick int64) bool { return uint64(tick-r.tick) <= math.MaxUint32 }

func (r leaseRun) find(l Lease) (at int, found bool) {
	return sort.Find(r.len(), func(i int) int { return compareLeases(l, r.at(i)) })
}

// insert inserts a lease. It doubles the room of a full run, because append would take more.
func (r leaseRun) insert(at int, l Lease) {
	if n := r.len(); n == cap(r.leases.of) {
		*r.leases = *r.part(0, n, r.tick, min(2*n+1, runMax))
	}
	r.leases.after = slices.Insert(r.leases.after, at, uint32(l.Tick-r.tick))
	r.leases.of = slices.Insert(r.leases.of, at, l.Of)
}

// tickSum is a sum of ticks, each raised by 1<<63, so that it has no sign. It cannot overflow.
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

// mean returns the mean of n ticks, n > 0.
func (s *tickSum) mean(n int) int64 {
	q, _ := bits.Div64(s.high, s.low, uint64(n))
	return int64(q ^ 1<<63)
}
