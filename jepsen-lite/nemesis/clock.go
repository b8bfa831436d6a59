package nemesis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Errors of the wall clock.
const (
	stepMinMs   = 1000
	stepMaxMs   = 24 * 60 * 60 * 1000
	strobeMs    = 500
	strobeEvery = 100 * time.Millisecond
	driftPart   = 5 // %
	// leadMaxMs bounds by how much a majority of the clocks steps forward. The time of the cluster follows a majority, and
	// goes slower until it is right again: after a step of hours no single clock would matter for the rest of the run.
	leadMaxMs = 5000
)

// clock makes the wall clocks of nodes wrong: they step, each by a different time between a second and a day, swing, or
// run at another speed. The clocks are corrected when the fault stops.
func clock(f *field, fault Fault) (string, func()) {
	how, who, _ := strings.Cut(fault.Variant, " ")
	nodes := f.pick(strings.Replace(who, "one", "follower", 1), fault.Dice)
	d := dice(fault.Dice)
	silent := map[string]bool{}
	set := func(stepMs, percent int64) {
		for _, n := range nodes {
			if silent[n] { // another step might come before the one that got no answer, or instead of it
				continue
			}
			f.markClock(n, -swing(stepMs), swing(stepMs), swing(percent))
			// a node that is down starts with the right time
			_, err := f.Target.Fault(n, fmt.Sprintf("clock %d %d", stepMs, percent))
			silent[n] = err != nil
		}
	}
	undo := func() {
		for _, n := range nodes {
			f.Target.ResetFaults(n)
			f.markClock(n, 0, 0, 0)
		}
	}
	what := fmt.Sprintf("clock %s %v", fault.Variant, nodes)
	switch how {
	case "fast":
		set(0, driftPart)
	case "slow":
		set(0, -driftPart)
	case "strobe":
		step := int64(strobeMs)
		stop := repeat(strobeEvery, func() {
			set(step, 0)
			step = -2 * strobeMs * sign(step)
		})
		return what, func() {
			stop()
			undo()
		}
	default:
		minority := (len(f.Target.Nodes()) - 1) / 2
		for i, n := range nodes {
			ms := stepMs(d)
			if i >= minority {
				ms = min(ms, leadMaxMs)
			}
			f.markClock(n, min(ms, 0), max(ms, 0), 0)
			_, _ = f.Target.Fault(n, fmt.Sprintf("clock %d 0", ms))
			what += fmt.Sprintf(" %+d ms", ms)
		}
	}
	return what, undo
}

// markClock records by how many milliseconds, at least and at most, the clock of a node may be ahead from now on, and
// by how many percent it may drift.
func (f *field) markClock(node string, lowMs, highMs, percent int64) {
	if f.history == nil {
		return
	}
	f.history.Record(history.Event{
		Process: history.Nemesis, Type: history.Info, Op: history.Clock, Node: node,
		Value: []string{strconv.FormatInt(lowMs, 10), strconv.FormatInt(highMs, 10), strconv.FormatInt(percent, 10)},
	})
}

// swing bounds how far a clock set by steps of n may be off, either way: its process may have started between two
// of them, with the right time.
func swing(n int64) int64 { return max(n, -n) }

// stepMs draws a step. Between a second and ten it lies as often as between an hour and ten.
func stepMs(d *rand.Rand) int64 {
	ms := int64(stepMinMs * math.Pow(stepMaxMs/stepMinMs, d.Float64()))
	if d.IntN(2) == 0 {
		return -ms
	}
	return ms
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}
