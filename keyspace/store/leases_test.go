package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/value"
)

// leaseAt is a lease of a key.
func leaseAt(tick int64, key string) Lease {
	return LeaseOf(NewEntry(key, nil, value.Value{}, Deadline{Tick: tick}, nil, NoLock))
}

// Whatever comes and goes, in whatever order, the leases are those of a sorted slice.
func TestLeaseOrderIsThatOfASlice(t *testing.T) {
	for name, tick := range map[string]func(i int, random *rand.Rand) int64{
		"random": func(_ int, random *rand.Rand) int64 { return random.Int64N(1 << 30) },
		"far":    func(_ int, random *rand.Rand) int64 { return random.Int64N(1 << 40) }, // from each other
		"far below": func(i int, _ *rand.Rand) int64 { // behind some that are near
			if i%50 == 0 {
				return 0
			}
			return 1<<40 - int64(i)
		},
		"edge": func(_ int, random *rand.Rand) int64 {
			return random.Int64N(3)<<32 + random.Int64N(3) - 1
		},
		"ascending":  func(i int, _ *rand.Rand) int64 { return int64(i / 3) },
		"descending": func(i int, _ *rand.Rand) int64 { return int64(-i) },
		"equal":      func(int, *rand.Rand) int64 { return 7 },
		"extreme": func(_ int, random *rand.Rand) int64 {
			return []int64{math.MinInt64, -1, 0, math.MaxInt64 - 1}[random.IntN(4)]
		},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			o, want := newLeaseOrder(), []Lease(nil)
			for i := range 20_000 {
				growing := i%10_000 < 5000
				if l := leaseAt(tick(i, random), strconv.Itoa(random.IntN(1<<30))); len(want) == 0 || random.IntN(10) < 2 != growing {
					at, _ := slices.BinarySearchFunc(want, l, compareLeases)
					want = slices.Insert(want, at, l)
					o.add(l)
				} else {
					at := random.IntN(len(want))
					if random.IntN(3) == 0 {
						at = 0 // as the sweep does
					}
					o.remove(want[at])
					want = slices.Delete(want, at, at+1)
				}
				if i%5000 == 2500 { // an image is restored
					ticks := o.ticks
					o = newLeaseOrder()
					o.load(want)
					if o.ticks != ticks {
						t.Fatal("the ticks of the leases have another sum")
					}
				}
				if i%500 == 0 || len(want) < 3 {
					checkLeases(t, o, want)
				}
			}
			checkLeases(t, o, want)
		})
	}
}

// get finds the lease of the same tick and key.
func (o *LeaseOrder) get(l Lease) (Lease, bool) {
	if r, ok := o.runOf(l); ok {
		if i, found := r.find(l); found {
			return r.at(i), true
		}
	}
	return Lease{}, false
}

func checkLeases(t *testing.T, o *LeaseOrder, want []Lease) {
	t.Helper()
	var got []Lease
	o.Each(func(l Lease) bool {
		got = append(got, l)
		return true
	})
	if !slices.Equal(got, want) || o.Len() != len(want) {
		t.Fatalf("%d leases, %d in order, want %d", o.Len(), len(got), len(want))
	}
	first, ok := o.First()
	if ok != (len(want) > 0) || ok && first != want[0] {
		t.Fatalf("the first of %d is %v", len(want), first)
	}
	for _, l := range want {
		if found, ok := o.get(l); !ok || found != l {
			t.Fatalf("the lease of %q is not found", l.Of.Key())
		}
	}
	if _, ok := o.get(leaseAt(8, "absent")); ok {
		t.Fatal("a lease is found that is not there")
	}
	runs := 0
	o.runs.Scan(func(r leaseRun) bool {
		runs++
		if n := r.len(); n == 0 || n > runMax || len(r.leases.after) != n || compareLeases(r.at(0), leaseAt(r.tick, r.from)) < 0 {
			t.Fatalf("a run from %d %q has %d leases", r.tick, r.from, n)
		}
		return true
	})
	spans := map[int64]bool{}
	for _, l := range want {
		spans[l.Tick>>32] = true
	}
	if most := 2 + len(want)/8 + 2*len(spans); runs > most {
		t.Fatalf("%d leases are in %d runs", len(want), runs)
	}
}

// Leases that come in their order, as those of locks do, take no more than their own
// memory, before and after most of them have gone.
func TestLeasesAreDense(t *testing.T) {
	o, all := newLeaseOrder(), []Lease(nil)
	for i := range 100 * runMax {
		all = append(all, leaseAt(int64(i), "lock"))
		o.add(all[i])
	}
	if places := leasePlaces(o); places > len(all) {
		t.Errorf("%d leases have %d places", len(all), places)
	}
	for i, l := range all {
		if i%100 != 0 {
			o.remove(l)
		}
	}
	if places := leasePlaces(o); places > 8*o.Len() {
		t.Errorf("the last %d leases have %d places", o.Len(), places)
	}
}

func leasePlaces(o *LeaseOrder) (n int) {
	o.runs.Scan(func(r leaseRun) bool {
		n += max(cap(r.leases.of), cap(r.leases.after))
		return true
	})
	return n
}

// The mean deadline is exact, also where the sum of all does not fit 64 bits.
func TestAverageTick(t *testing.T) {
	o := newLeaseOrder()
	for _, step := range []struct{ tick, want int64 }{
		{10, 10}, {21, 15}, {math.MaxInt64 - 1, (math.MaxInt64 - 1 + 31) / 3},
	} {
		o.add(leaseAt(step.tick, "key"))
		if got := o.averageTick(); got != step.want {
			t.Errorf("with %d: %d, want %d", step.tick, got, step.want)
		}
	}
	o.remove(leaseAt(math.MaxInt64-1, "key"))
	o.add(leaseAt(math.MinInt64, "key"))
	o.remove(leaseAt(10, "key"))
	o.add(leaseAt(math.MinInt64, "other"))
	if got, want := o.averageTick(), int64(math.MinInt64/3*2+7-1); got < want-2 || got > want+2 {
		t.Errorf("%d, want about %d", got, want)
	}
	o.remove(leaseAt(math.MinInt64, "key"))
	o.remove(leaseAt(math.MinInt64, "other"))
	if got := o.averageTick(); got != 21 {
		t.Errorf("%d is left, want 21", got)
	}
}

// A run keeps the key of the entry that it began with, and no other string: what a command has sent is not held by it.
func TestRunsKeepKeysOfEntries(t *testing.T) {
	o, keys := newLeaseOrder(), map[*byte]bool{}
	for i := range 10 * runMax {
		l := leaseAt(int64((i*7919+500)%1000), "key"+strconv.Itoa(i)) // some come before all others
		keys[unsafe.StringData(l.Of.Key())] = true
		o.add(l)
	}
	o.runs.Scan(func(r leaseRun) bool {
		if !keys[unsafe.StringData(r.from)] {
			t.Errorf("a run from %q keeps another string", r.from)
		}
		return true
	})
}

// shape lists the runs of an order: of each its leases, and the room that it has for them.
func shape(o *LeaseOrder) string {
	var runs []string
	o.runs.Scan(func(r leaseRun) bool {
		runs = append(runs, fmt.Sprintf("%d/%d", r.len(), max(cap(r.leases.of), cap(r.leases.after))))
		return true
	})
	return strings.Join(runs, " ")
}

// ascending has n leases, a second from each other.
func ascending(n int) (all []Lease) {
	for i := range n {
		all = append(all, leaseAt(int64(i+1)*1000, "lock"))
	}
	return all
}

// A full run is divided into halves by a lease that comes into it, wherever that is, and the half without the lease has
// no more room than it needs. A lease before or behind it begins another run.
func TestFullRunsAreDivided(t *testing.T) {
	for at := range runMax + 1 {
		o, all := newLeaseOrder(), ascending(runMax)
		o.load(all)
		l := leaseAt(int64(at)*1000+500, "lock")
		o.add(l)
		all = slices.Insert(all, at, l)
		checkLeases(t, o, all)
		want := "128/255 128/128"
		switch {
		case at == 0:
			want = "1/1 255/255"
		case at == runMax:
			want = "255/255 1/1"
		case at > runMax/2:
			want = "127/127 129/255"
		}
		if have := shape(o); have != want {
			t.Errorf("a lease in place %d: %s, not %s", at, have, want)
		}
	}
}

// A run has room for its leases in sizes that fill what Go allocates. It grows to the next size when it is full, and goes
// back by one when it is a quarter full.
func TestRoomOfRuns(t *testing.T) {
	o, all := newLeaseOrder(), ascending(runMax)
	grown := map[int]int{1: 1, 2: 3, 3: 3, 4: 7, 8: 15, 16: 31, 31: 31, 32: 63, 63: 63, 64: 127, 127: 127, 128: 255, 255: 255}
	for i, l := range all {
		o.add(l)
		if want := fmt.Sprintf("%d/%d", i+1, grown[i+1]); grown[i+1] > 0 && shape(o) != want {
			t.Errorf("a run that grows: %s, not %s", shape(o), want)
		}
	}
	shrunk := map[int]int{64: 255, 63: 127, 32: 127, 31: 63, 16: 63, 15: 31, 8: 31, 7: 15, 4: 15, 3: 7, 2: 7, 1: 3}
	for n := runMax - 1; n > 0; n-- {
		o.remove(all[n])
		if want := fmt.Sprintf("%d/%d", n, shrunk[n]); shrunk[n] > 0 && shape(o) != want {
			t.Errorf("a run that shrinks: %s, not %s", shape(o), want)
		}
	}
}

// A run that is a quarter full is joined with the one before if both together fill no more than half a run.
func TestRunsJoin(t *testing.T) {
	for before, want := range map[int]string{runMax/2 - 63: "127/255", runMax/2 - 63 + 1: "65/255 63/127"} {
		o, all := newLeaseOrder(), ascending(2*runMax)
		o.load(all)
		for _, l := range slices.Concat(all[before:runMax], all[runMax+63:]) {
			o.remove(l)
		}
		if have := shape(o); have != want {
			t.Errorf("%d before 63: %s, not %s", before, have, want)
		}
		checkLeases(t, o, slices.Concat(all[:before], all[runMax:runMax+63]))
	}
}

// A run takes leases up to 2^32-1 milliseconds behind its first.
func TestRunsReach(t *testing.T) {
	for behind, want := range map[int64]string{math.MaxUint32: "2/3", math.MaxUint32 + 1: "1/1 1/1"} {
		o, all := newLeaseOrder(), []Lease{leaseAt(-5, "lock"), leaseAt(behind-5, "lock")}
		for _, l := range all {
			o.add(l)
		}
		if have := shape(o); have != want {
			t.Errorf("%d behind the first: %s, not %s", behind, have, want)
		}
		checkLeases(t, o, all)
	}
}
