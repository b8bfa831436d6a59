package nemesis

import (
	"reflect"
	"testing"
	"time"
)

// A seed decides the schedule: the same one gives the same faults, another one others.
func TestPlanFollowsTheSeed(t *testing.T) {
	kinds := []string{"kill", "pause", "partition", "slow"}
	a, b, c := Plan(1, time.Minute, kinds, true), Plan(1, time.Minute, kinds, true), Plan(2, time.Minute, kinds, true)
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

// No kinds, no faults.
func TestPlanOfNothing(t *testing.T) {
	if p := Plan(1, time.Minute, nil, true); len(p) > 0 {
		t.Errorf("%v", p)
	}
}
