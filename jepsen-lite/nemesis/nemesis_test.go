package nemesis

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/target"
)

// A seed decides the schedule: the same seed gives the same faults, another one gives others.
func TestPlanFollowsTheSeed(t *testing.T) {
	kinds := []string{"kill", "pause", "partition", "slow"}
	a, b, c := Plan(1, time.Minute, kinds, true, nil), Plan(1, time.Minute, kinds, true, nil), Plan(2, time.Minute, kinds, true, nil)
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed, two schedules")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("two seeds, one schedule")
	}
	var sum time.Duration
	for _, s := range a {
		sum += s.After + s.For
		seen := map[string]bool{}
		for _, f := range s.Faults {
			if seen[f.Kind] || Find(f.Kind) == nil {
				t.Errorf("step %+v", s)
			}
			seen[f.Kind] = true
		}
	}
	if sum < time.Minute {
		t.Errorf("a minute's schedule ends after %s", sum)
	}
}

// Most steps of a mixed plan spare a majority. A plan of single faults spares none.
func TestPlanSparesAMajority(t *testing.T) {
	kinds := []string{"kill", "pause", "partition", "slow"}
	wide := func(plan []Step) (n int) {
		for _, s := range plan {
			if s.Wide {
				n++
			}
		}
		return n
	}
	mixed, single := Plan(1, time.Hour, kinds, true, nil), Plan(1, time.Hour, kinds, false, nil)
	if n := wide(mixed); n == 0 || n > len(mixed)/5 {
		t.Errorf("%d of %d mixed steps are wide", n, len(mixed))
	}
	if n := wide(single); n != len(single) {
		t.Errorf("%d of %d single steps are wide", n, len(single))
	}
}

// A scenario has a step to itself.
func TestScenarioIsAlone(t *testing.T) {
	seen := 0
	for _, s := range Plan(1, time.Hour, []string{"kill", "pause", "scenario", "slow"}, true, nil) {
		for _, f := range s.Faults {
			if f.Kind == "scenario" {
				seen++
				if len(s.Faults) > 1 {
					t.Errorf("step %+v", s)
				}
			}
		}
	}
	for _, v := range Find("scenario").Variants {
		if scenarios[v] == nil {
			t.Errorf("there is no scenario %s", v)
		}
	}
	if seen == 0 || len(scenarios) != len(Find("scenario").Variants) {
		t.Errorf("%d scenarios played, %d known", seen, len(scenarios))
	}
}

// Find with one variant returns a row with that variant alone, and a plan of it has no other. Unknown variants have no
// row.
func TestFindVariant(t *testing.T) {
	for name, want := range map[string][]string{
		"scenario:save-twice": {"save twice"}, "slow:half-open": {"half-open"}, "kill": Find("kill").Variants,
		"kill:nobody": nil, "nothing:leader": nil, "kill:": nil,
	} {
		k := Find(name)
		if (k == nil) != (want == nil) || k != nil && !slices.Equal(k.Variants, want) {
			t.Errorf("%s: %+v", name, k)
		}
	}
	for _, s := range Plan(1, time.Minute, []string{"kill:all"}, false, nil) {
		if f := s.Faults[0]; f.Kind != "kill" || f.Variant != "all" {
			t.Errorf("step %+v", s)
		}
	}
}

// Every kind of message is lost, held and doubled, but answers are not doubled.
func TestCatches(t *testing.T) {
	for _, kind := range Find("frame").Variants {
		seen := map[target.CatchAct]bool{}
		for seed := range uint64(50) {
			c := catchOf(kind, "n1", dice(seed))
			seen[c.Act] = true
			if c.Kind != kind || c.Node != "n1" || c.Answer && c.Act == target.Double || (c.Hold > 0) != (c.Act == target.Hold) {
				t.Errorf("%+v", c)
			}
		}
		if len(seen) != 3 {
			t.Errorf("%s: %v", kind, seen)
		}
	}
}

// Links heal first, then paused nodes continue, points are disarmed, and nodes start; a joining node finds all others.
// Faults of one turn stop in the order of the plan.
func TestStopOrder(t *testing.T) {
	var faults []Fault
	for _, kind := range []string{"member", "kill", "point", "pause", "slow", "restart", "partition"} {
		faults = append(faults, Fault{Kind: kind})
	}
	var on []active
	for _, fault := range faults {
		on = append(on, active{turn: Find(fault.Kind).StopTurn, what: fault.Kind})
	}
	sortByTurn(on)
	var got []string
	for _, a := range on {
		got = append(got, a.what)
	}
	if want := []string{"slow", "partition", "pause", "point", "kill", "restart", "member"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// The faults of a step harm at most a minority together, and a fault that is over makes room for others. Without a
// limit they get all the nodes that they want.
func TestHarmLimit(t *testing.T) {
	take := func(l *harmLimit, want string, wanted ...string) {
		t.Helper()
		if got := strings.Join(l.take(wanted), " "); got != want {
			t.Errorf("of %v: %q, want %q", wanted, got, want)
		}
	}
	take(newHarmLimit(2), "n1 n2", "n1", "n2") // a majority of two are both, so there is no limit
	three := newHarmLimit(3)
	done := ""
	three.briefly("n2", func() {
		done += "n2 "
		three.briefly("n2", func() { done += "twice " })
		three.briefly("n1", func() { done += "n1 " })
		take(three, "n2", "n1")
		take(three, "n2", "n3", "n2", "n1")
	})
	three.briefly("n1", func() { done += "n1 " })
	take(three, "n2", "n3")
	if done != "n2 twice " {
		t.Errorf("done: %s", done)
	}
	three = newHarmLimit(3)
	three.briefly("n1", func() {})
	take(three, "n2", "n2", "n3")
	take(newHarmLimit(5), "n4 n2", "n4", "n2", "n1")
}

// roles is a target with nodes and a leader, and nothing else.
type roles struct {
	target.Target
	nodes  []string
	leader string
}

func (r roles) Nodes() []string { return r.nodes }
func (r roles) Leader() string  { return r.leader }

// Pick chooses the nodes that its word names, for every leader and every seed.
func TestPick(t *testing.T) {
	for _, nodes := range [][]string{{"n1"}, {"n1", "n2"}, {"n1", "n2", "n3"}, {"n1", "n2", "n3", "n4", "n5"}} {
		few := max(1, (len(nodes)-1)/2)
		f := choice{cluster: roles{nodes: nodes, leader: "n1"}}
		for dice := range uint64(20) {
			for which, want := range map[string]struct {
				count  int
				leader bool // is among them
			}{"leader": {1, true}, "follower": {1, false}, "few": {few, true}, "others": {few, false}, "all": {len(nodes), true}} {
				got := f.pick(which, dice)
				slices.Sort(got)
				alone := len(nodes) == 1
				if len(slices.Compact(got)) != want.count || slices.Contains(got, "n1") != (want.leader || alone) {
					t.Errorf("%s of %v: %v", which, nodes, got)
				}
			}
			if got := (choice{cluster: roles{nodes: nodes}}).pick("leader", dice); len(got) != 1 {
				t.Errorf("nobody leads: %v", got)
			}
		}
	}
}

// A plan without kinds has no faults.
func TestPlanOfNothing(t *testing.T) {
	if p := Plan(1, time.Minute, nil, true, nil); len(p) > 0 {
		t.Errorf("%v", p)
	}
}

// In a ring each node sees a majority, and no node sees all.
func TestRing(t *testing.T) {
	for _, n := range []int{4, 5, 7, 9} {
		for i := range n {
			seen := 0
			for j := range n {
				if neighbours(n, i, j) != neighbours(n, j, i) {
					t.Errorf("%d nodes: %d and %d", n, i, j)
				}
				if neighbours(n, i, j) {
					seen++
				}
			}
			if seen <= n/2 || seen == n {
				t.Errorf("%d nodes: node %d sees %d", n, i, seen)
			}
		}
	}
}

// The wall clock steps by a second to a day, forwards and backwards, and by every order of magnitude between.
func TestClockSteps(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(200) {
		ms := stepMs(dice(seed))
		if max(ms, -ms) < stepMinMs || max(ms, -ms) > stepMaxMs {
			t.Errorf("a step of %d ms", ms)
		}
		order := len(strconv.FormatInt(max(ms, -ms), 10))
		if ms < 0 {
			order = -order
		}
		seen[order] = true
	}
	if len(seen) != 10 { // 4 to 8 digits, forwards and backwards
		t.Errorf("steps of %v digits", slices.Sorted(maps.Keys(seen)))
	}
}

// Every fault point of the server has a row.
func TestSpotsAreAllPoints(t *testing.T) {
	var names []string
	for _, s := range spots {
		names = append(names, s.name)
	}
	if !slices.Equal(names, target.Points) {
		t.Errorf("spots %q, points %q", names, target.Points)
	}
}

// Every variant of install has its function, and every function has a variant.
func TestInstallVariants(t *testing.T) {
	variants := Find("install").Variants
	for _, v := range variants {
		if installLinks[v] == nil {
			t.Errorf("there is no way %q", v)
		}
	}
	if len(variants) != len(installLinks) {
		t.Errorf("%d variants, %d ways", len(variants), len(installLinks))
	}
}

// A disk hangs at every kind of write and for every duration. The hang of a snapshot is short.
func TestStalls(t *testing.T) {
	seen := map[string]map[time.Duration]bool{}
	for seed := range uint64(300) {
		s := stallOf(dice(seed))
		if seen[s.Point] == nil {
			seen[s.Point] = map[time.Duration]bool{}
		}
		seen[s.Point][s.Stall] = true
		if s.Act != target.ActStall || s.Point == target.SnapshotWrite && s.Stall > snapshotHang {
			t.Errorf("%+v", s)
		}
	}
	for _, point := range stallable {
		if len(seen[point]) != len(hangs) {
			t.Errorf("%s hangs for %v", point, seen[point])
		}
	}
}
