package nemesis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Errors of the wall clock.
const (
	stepMinMs   = 1000
	stepMaxMs   = 24 * 60 * 60 * 1000
	strobeMs    = 500
	strobeEvery = 100 * time.Millisecond
	driftPart   = 5 // %
)

// clock makes the wall clocks of nodes wrong: they step, each by a different time between a second and a day, swing, or
// run at another speed. The clocks are corrected when the fault stops.
func clock(f *field, fault Fault) (string, func()) {
	how, who, _ := strings.Cut(fault.Variant, " ")
	nodes := f.pick(strings.Replace(who, "one", "follower", 1), fault.Dice)
	d := dice(fault.Dice)
	set := func(stepMs int64, percent int) {
		for _, n := range nodes {
			// a node that is down starts with the right time
			_, _ = f.Target.Fault(n, fmt.Sprintf("clock %d %d", stepMs, percent))
		}
	}
	undo := func() {
		for _, n := range nodes {
			f.Target.ResetFaults(n)
		}
	}
	what := fmt.Sprintf("clock %s %v", fault.Variant, nodes)
	switch how {
	case "fast":
		set(0, driftPart)
	case "slow":
		set(0, -driftPart)
	case "strobe":
		swing := int64(strobeMs)
		stop := repeat(strobeEvery, func() {
			set(swing, 0)
			swing = -2 * strobeMs * sign(swing)
		})
		return what, func() {
			stop()
			undo()
		}
	default:
		for _, n := range nodes {
			ms := stepMs(d)
			_, _ = f.Target.Fault(n, fmt.Sprintf("clock %d 0", ms))
			what += fmt.Sprintf(" %+d ms", ms)
		}
	}
	return what, undo
}

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
