package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// logClock bounds the clock of leases, from a history. The clock runs at the speed of real time while a node leads, and
// stands still otherwise. So it did not run in halts, when no node can have led, and it ran wherever writes were
// acknowledged so closely that there was no election between them.
type logClock struct {
	halts []span // in order, none overlap
	gaps  []span // in order, none overlap
}

type span struct{ from, to int64 }

// Bounds on leadership, in ns.
const (
	// A leader without a majority gives up within the heartbeat timeout of lockd, half a second. reignMax is the
	// bound on a busy machine.
	reignMax = int64(2 * time.Second)
	// A leader that acknowledges a write has just heard from a majority, whose members vote for no other node before
	// the heartbeat timeout has passed, unless its process has ended.
	electionMin = int64(300 * time.Millisecond)
	// successionMax bounds the time after the end of a leader's process in which that end causes its replacement.
	successionMax = int64(1500 * time.Millisecond)
	// marksLate bounds the delay of the mark of the end of a process.
	marksLate = int64(100 * time.Millisecond)
)

// silentKinds are the faults that move leadership only through silence or the end of a process, as the second bound
// requires. Under other faults leadership may be handed over at any moment, as it is when a fault waits for a vote to
// be written: see silent.
var silentKinds = []string{
	"kill", "pause", "partition", "slow", "late", "clients", "load", "clock", "point", "store", "stall", "unsynced",
	"port", unnoticed,
}

// endingKinds are the faults that only end processes and start them. Under other faults, such as a paused leader or a
// hanging disk, a leader may lead for longer than reignMax.
var endingKinds = []string{"kill", "restart", "unsynced"}

func newLogClock(h *history.History, writes func(o *history.Op) bool) *logClock {
	c := &logClock{}
	for i, halt := range h.Halts {
		from := halt.Start
		if !halt.Dark {
			from = c.deposed(h, i)
		}
		if from < halt.End {
			c.halts = append(c.halts, span{from, halt.End})
		}
	}
	c.gaps = gapsOf(h, writes)
	return c
}

// deposed returns when a leader that may have survived the beginning of a halt has certainly given up.
func (c *logClock) deposed(h *history.History, i int) int64 {
	halt := h.Halts[i]
	start := halt.Start
	for ; i > 0 && h.Halts[i-1].End == start; i-- {
		if h.Halts[i-1].Dark {
			return halt.Start // all processes had ended, so no node led after it
		}
		start = h.Halts[i-1].Start
	}
	for _, f := range h.Faults {
		if f.Start < halt.End && f.End > start && !slices.Contains(endingKinds, f.Kind) {
			return halt.End
		}
	}
	return max(halt.Start, start+reignMax)
}

// gapsOf finds the times between two acknowledged writes in which there may have
// been an election: in which no write was both sent and acknowledged.
func gapsOf(h *history.History, writes func(o *history.Op) bool) []span {
	var acked []*history.Op
	for i := range h.Ops {
		if o := &h.Ops[i]; o.OK() && writes(o) {
			acked = append(acked, o)
		}
	}
	slices.SortFunc(acked, func(a, b *history.Op) int { return cmp.Compare(a.End, b.End) })
	var gaps []span
	left := leftAt(h)
	from := int64(0)
	add := func(to int64) {
		switch last := len(gaps) - 1; {
		case to-from < electionMin && !handedOver(h, from, to) && !succeeded(left, from, to):
		case last >= 0 && gaps[last].to >= from:
			gaps[last].to = max(gaps[last].to, to)
		default:
			gaps = append(gaps, span{from, to})
		}
	}
	for _, o := range acked {
		if o.Start >= from {
			add(o.End)
			from = o.Start
		}
	}
	add(max(h.End, from))
	return gaps
}

// leftAt returns the times, in order, at which a node was about to end or to be paused, or had ended.
func leftAt(h *history.History) (times []int64) {
	for _, m := range h.Marks {
		if m.Op == history.Leaves {
			times = append(times, m.Time)
		}
	}
	return times
}

// succeeded reports whether a leader may have been replaced because its process ended, at one of these times.
func succeeded(left []int64, from, to int64) bool {
	i, _ := slices.BinarySearch(left, from-successionMax)
	return i < len(left) && left[i] < to+marksLate
}

// handedOver reports whether leadership may have moved without silence.
func handedOver(h *history.History, from, to int64) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Window) bool {
		return f.Start < to && f.End+settleTime > from && !silent(f)
	})
}

// silent reports whether a fault moves leadership only through silence. A fault that strikes at a vote makes
// leadership move until there is a vote.
func silent(f history.Window) bool {
	return slices.Contains(silentKinds, f.Kind) && !strings.Contains(f.What, "vote.")
}

// ranMax returns the longest time that the clock can have run between two moments.
func (c *logClock) ranMax(from, to int64) int64 { return to - from - overlap(c.halts, from, to) }

// lostMax returns by how much the clock can have fallen behind real time between two moments.
func (c *logClock) lostMax(from, to int64) int64 { return overlap(c.gaps, from, to) }

// gapBefore returns the beginning of the gap in which a moment lies, or the moment.
func (c *logClock) gapBefore(moment int64) int64 {
	for _, g := range c.gaps {
		if g.from <= moment && moment < g.to {
			return g.from
		}
	}
	return moment
}

// overlap returns how much of a time spans cover.
func overlap(spans []span, from, to int64) int64 {
	sum := int64(0)
	for _, s := range spans {
		sum += max(min(s.to, to)-max(s.from, from), 0)
	}
	return sum
}
