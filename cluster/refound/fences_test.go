package refound

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockd/cluster/clock"
)

// A machine's clock with its known error.
func sureOf(ms, errMs int64) reading { return reading{ms: ms, errMs: errMs} }

var errUnsure = errors.New("the clock of this machine is not synchronized")

// Fences of a new cluster begin above those of any cluster with the same past, also of one made earlier from the same
// data by a machine whose clock was ahead.
func TestFencesOfNewCluster(t *testing.T) {
	const day, minute = 24 * 60 * 60 * 1000, 60 * 1000
	made := past{last: 1000, ms: FenceEpoch + 330*day}
	refused := func(what, want string, p past, now reading, above *uint64) string {
		t.Helper()
		fence, err := fenceAbove(p, now, above)
		if err == nil || !errors.Is(err, ErrFenceAbove) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v, want %q", what, fence, err, want)
			return ""
		}
		return err.Error()
	}
	begins := func(what string, p past, now reading, above *uint64) uint64 {
		t.Helper()
		fence, err := fenceAbove(p, now, above)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return fence
	}
	// Clocks of which their systems know how wrong they are: what a restore ended before, another one is above.
	for _, off := range [][2]int64{{0, 0}, {500, -500}, {1000, -1000}, {-1000, 1000}, {3000, -4}} {
		first := begins("first", made, sureOf(made.ms+30*minute+off[0], max(off[0], -off[0])), nil)
		ended := made.ms + 30*minute + 2*max(off[0], -off[0]) // it waits as long, and gives a fence each quarter of a µs then
		given := first + (25*minute)*fencesPerMs
		second := begins("second", made, sureOf(ended+25*minute+off[1], max(off[1], -off[1])), nil)
		if second < given {
			t.Errorf("clocks off by %v ms: %d after %d", off, second, given)
		}
	}
	// A clock with an unknown error demands the number.
	for _, after := range []int64{-9 * minute, 0, 25 * minute, 30 * minute, 400 * day} {
		refused("unsure", "--fence-above", made, reading{ms: made.ms + after, unsure: errUnsure}, nil)
	}
	said := refused("unsure", "is not synchronized; give --fence-above N: if no cluster was made of these data before, --fence-above 116792524800000;",
		made, reading{ms: made.ms + 30*minute, unsure: errUnsure}, nil)
	first := begins("as it was told", made, reading{ms: made.ms + 30*minute, unsure: errUnsure}, new(uint64(116792524800000)))
	if !strings.Contains(said, "the number that the last restore or recovery of them printed") || first <= 116792524800000 {
		t.Errorf("%d, %s", first, said)
	}
	second := begins("with the number of the first", made, reading{ms: made.ms + 25*minute, unsure: errUnsure}, &first)
	if second < first+FenceLeap {
		t.Errorf("%d after %d", second, first)
	}
	// Data ahead of a clock that is right as far as the system knows.
	refused("behind the data", "and the data are from 2026-11-27T00:00:00Z", made, sureOf(made.ms-minute, 10), nil)
	refused("fences ahead of the time", "have fences up to", past{last: first + 1, ms: made.ms}, sureOf(made.ms+day, 10), nil)
	if again := begins("ahead, with the number", past{last: first + 1, ms: made.ms}, sureOf(made.ms+day, 10), new(first+1)); again < first+FenceLeap {
		t.Errorf("%d", again)
	}
	// The leader's clock was ten years ahead when the backup was made.
	ahead := past{last: 1000, ms: made.ms + 3650*day}
	refused("ahead", "--fence-above 1000;", ahead, sureOf(made.ms, 10), nil)
	if got := begins("ahead, with a number", ahead, sureOf(made.ms, 10), new(uint64(1000))); got < fenceByTime(made.ms) || got > fenceByTime(made.ms+day) {
		t.Errorf("%d", got)
	}
	// Impossible numbers.
	refused("below the data", "--fence-above 999 is too low: the data have fences up to 1000", made, sureOf(made.ms+day, 10), new(uint64(999)))
	refused("beyond a double", "more than a double holds", made, sureOf(made.ms+day, 10), new(uint64(FenceAboveMax+1)))
	refused("beyond a double by time", "does the clock of this machine", made, sureOf(5_000_000_000_000, 10), nil)
	refused("before all fences", "--fence-above", past{last: 1000}, sureOf(FenceEpoch-1000, 10), nil)
	if got := begins("the highest", made, sureOf(made.ms+day, 10), new(uint64(FenceAboveMax))); got >= fenceMax {
		t.Errorf("%d", got)
	}
	far := readWall(clock.NewSystem(), func() (time.Duration, error) { return wallErrorMax + 1, nil })
	if far.unsure == nil {
		t.Error("a clock that may be off by more is taken for sure")
	}
}
