package model

import (
	"cmp"
	"slices"
	"strconv"
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
// requires. Under other faults leadership may be handed over at any moment, as it is by a leader whose disk hangs, or
// when a fault waits for a vote to be written: see silent.
var silentKinds = []string{
	"kill", "pause", "partition", "slow", "late", "clients", "load", "clock", "point", "store", "unsynced",
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
// leadership move until there is a vote, and one of late answers may have the leader hand over.
func silent(f history.Window) bool {
	return slices.Contains(silentKinds, f.Kind) && !strings.Contains(f.What, "vote.") &&
		!strings.HasSuffix(f.What, "hand-over")
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

// leasing describes the leases of a kind of lock.
type leasing struct {
	sets  func(o *history.Op) bool // reports whether o set the lease of its key to In[1] ms, or may have
	shows func(o *history.Op) bool // reports whether o shows that the lock was held before it
}

var lockLeasing = leasing{
	sets: func(o *history.Op) bool {
		return o.Name == "acquire" && (!o.OK() || o.Out[0] == "OK") || o.Name == "renew" && (!o.OK() || o.Out[0] == "1")
	},
	shows: func(o *history.Op) bool {
		switch o.Name {
		case "acquire", "holder", "fence":
			return (o.Out[0] == "nil") == (o.Name == "acquire")
		}
		return (o.Name == "renew" || o.Name == "release") && o.Out[0] == "1"
	},
}

var reentrantLeasing = leasing{
	sets: func(o *history.Op) bool {
		switch o.Name {
		case "lock":
			return !o.OK() || o.Out[0] == "nil"
		case "unlock":
			return !o.OK() || o.Out[0] == "0"
		}
		return o.Name == "renew" && (!o.OK() || o.Out[0] == "1")
	},
	shows: func(o *history.Op) bool {
		switch o.Name {
		case "lock":
			return o.Out[0] == "held"
		case "renew":
			return o.Out[0] == "1"
		}
		return (o.Name == "unlock" || o.Name == "count") && o.Out[0] != "nil"
	},
}

// overlong checks that no lock is held longer than its leases allow.
func overlong(v *Verdict, h *history.History, k *lockKind) {
	l := k.leasing
	clock := newLogClock(h, func(o *history.Op) bool { return slices.Contains(k.writes, o.Name) })
	sets, watched := map[string][]*history.Op{}, map[string]bool{} // watched: the end of the last lease was seen
	held := 0
	for i := range h.Ops { // in the order of their starts
		o := &h.Ops[i]
		if !slices.Contains(k.ops, o.Name) {
			continue
		}
		if o.OK() && l.shows(o) {
			held++
			l.judge(v, h, clock, sets[o.Key], o)
		} else if o.OK() && !watched[o.Key] && l.ended(h, sets[o.Key], o) {
			watched[o.Key] = true
			v.Stake(ruleLeaseEnds, 1)
		}
		if o.Maybe() && l.sets(o) {
			sets[o.Key] = append(sets[o.Key], o)
			watched[o.Key] = false
		}
	}
	v.Note("%d times a lock was held, each time within a lease", held)
}

// ended reports whether an operation that shows that the lock is free came when the last lease had ended. sets are the
// operations that set its lease before, or may have.
func (l leasing) ended(h *history.History, sets []*history.Op, o *history.Op) bool {
	if len(sets) == 0 {
		return false
	}
	last := sets[len(sets)-1]
	return o.Start > latest(h, last)+millis(last.In[1])
}

// judge judges an operation that shows that the lock was held. sets are the operations that set its lease before, or
// may have.
func (l leasing) judge(v *Verdict, h *history.History, clock *logClock, sets []*history.Op, o *history.Op) {
	var last *history.Op
	least := int64(0)
	for _, s := range slices.Backward(sets) { // the last one mostly lasts longest
		ms, err := strconv.ParseInt(s.In[1], 10, 64)
		until := latest(h, s) + ms*msNs + expiryBound
		if err != nil || o.Start <= until || o.Start <= until+clock.lostMax(s.Start, o.Start) {
			return
		}
		if over := o.Start - until; last == nil || over < least {
			last, least = s, over
		}
	}
	if last != nil {
		v.Stake(ruleLeaseEnds, 1)
		v.Add("lock never ends", o, "the last lease it can have had was of %s: %.3f s too long", last, sec(least))
	}
}

// latest returns when an operation was done at the latest, if it was done. An operation that was not answered is done
// at latest when a node that has received it has certainly executed it.
func latest(h *history.History, o *history.Op) int64 {
	if o.OK() {
		return o.End
	}
	return dueAt(h, o.Told)
}
