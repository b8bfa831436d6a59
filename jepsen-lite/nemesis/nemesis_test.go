package nemesis

import (
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"lockd/jepsen-lite/target"
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

// In a ring everybody sees a majority, and nobody sees all.
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

// The wall clock steps by a second to a day, in both directions, and by every order
// of magnitude between.
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

// Every point of the server has a way that leads there.
func TestSpotsAreAllPoints(t *testing.T) {
	var names []string
	for _, s := range spots {
		names = append(names, s.name)
	}
	if !slices.Equal(names, target.Points) {
		t.Errorf("spots %q, points %q", names, target.Points)
	}
}

// One bit is flipped, in the part of the file that is used.
func TestFlipBit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.wal")
	before := append([]byte("used"), make([]byte, 1000)...)
	for seed := range uint64(50) {
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
		offset, err := flipBit(file, dice(seed))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		flipped := 0
		for i := range after {
			flipped += bits.OnesCount8(after[i] ^ before[i])
		}
		if len(after) != len(before) || flipped != 1 || offset > 3 || after[offset] == before[offset] {
			t.Fatalf("%d bits, offset %d: %q", flipped, offset, after[:10])
		}
	}
}

// The newest snapshot is that of the highest term, index and time, as numbers; what
// was not finished is none.
func TestSnapshotsByAge(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2-9-5", "2-10-4", "10-1-1", "11-7-7.tmp", "12-8-8"} {
		path := filepath.Join(dir, "snapshots", name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"state.bin", "meta.json"} {
			if name == "12-8-8" && file == "meta.json" {
				continue // it was being removed
			}
			if err := os.WriteFile(filepath.Join(path, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	for _, path := range snapshots(dir) {
		names = append(names, filepath.Base(path))
	}
	if want := []string{"2-9-5", "2-10-4", "10-1-1"}; !slices.Equal(names, want) {
		t.Errorf("snapshots %q, want %q", names, want)
	}
}
