package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"lockd/jepsen-lite/history"
)

// Bounds on the log clock, in ns. It counts whole milliseconds.
const (
	clockGrain = msNs
	clockSlack = int64(30 * time.Millisecond) // what it may lose where the history does not tell who led
)

// Leases judges leases by the log clock, and the log clock by real time. Scripts tell the log clock beside what they
// see of a key: grant value ms, observe and glance = 1 | 0 (the key exists), PTTL, value | nil, log clock in ms. grant
// and observe write, so their log clock is that of their entry; glance only reads. reign = term | nil tells that the
// asked node leads, and in which term.
//
// By its log clock a lease is judged exactly, whatever is broken. Other looks (get, pttl, exists) and grants (set)
// happen between two values of the log clock, which the scripts before and after them bound.
func Leases(h *history.History) *Verdict {
	v := &Verdict{}
	ticks := newTicks(h, leaseWrites...)
	ticks.judge(v)
	leases := map[string]*granted{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if !o.OK() {
			continue
		}
		if o.Name == "grant" || o.Name == "set" {
			from, to := ticks.during(o)
			leases[o.Key] = &granted{grant: o, ends: deadlineAfter(from, to, millis(o.In[1]))}
		}
		if l := leases[o.Key]; l != nil {
			l.look(v, ticks, o)
		}
	}
	return v
}

// clockReading is a value of the log clock that a script told.
type clockReading struct {
	op     *history.Op
	tick   int64 // ns
	logged bool  // the value is that of an entry; else a leader computed it for a read
	term   string
}

// ticks are the values of the log clock in a history. The running maxima below bound the clock at other moments.
type ticks struct {
	seen  []*clockReading       // in the order of their starts
	of    map[int]*clockReading // by the line of the operation
	led   int
	clock *logClock

	reached runningMax            // by end: log clock of entries
	behind  runningMax            // by end: by how much a value was behind the longest that the clock can have run
	later   runningMax            // by start, in reverse: by how much a value was ahead of that
	kept    runningMax            // by end of entries: by how much a value was ahead of the time in which the clock must run
	reigns  map[string]runningMax // by term, by end: by how much a value was ahead of real time
}

// newTicks collects the log clock from all results of four words. writes name the operations that go through the log,
// which proves a leader.
func newTicks(h *history.History, writes ...string) *ticks {
	t := &ticks{of: map[int]*clockReading{}, reigns: map[string]runningMax{}}
	t.clock = newLogClock(h, func(o *history.Op) bool { return slices.Contains(writes, o.Name) })
	for i := range h.Ops {
		o := &h.Ops[i]
		if !o.OK() || len(o.Out) != 4 {
			continue
		}
		s := &clockReading{op: o, tick: millis(o.Out[3]), logged: slices.Contains(writes, o.Name)}
		t.seen, t.of[o.Line] = append(t.seen, s), s
	}
	t.findReigns(h)
	terms := map[string][]maxPoint{}
	var reached, behind, later, kept []maxPoint
	for _, s := range t.seen {
		o := s.op
		behind = append(behind, maxPoint{o.End, t.ran(o.Start) - s.tick, o})
		later = append(later, maxPoint{-o.Start, s.tick - t.ran(o.End), o})
		if s.logged {
			reached = append(reached, maxPoint{o.End, s.tick, o})
			kept = append(kept, maxPoint{o.End, s.tick - t.mustRun(o.End), o})
		}
		if s.term != "" {
			t.led++
			terms[s.term] = append(terms[s.term], maxPoint{o.End, s.tick - o.End, o})
		}
	}
	t.reached, t.behind, t.later, t.kept = newRunningMax(reached), newRunningMax(behind), newRunningMax(later), newRunningMax(kept)
	for term, points := range terms {
		t.reigns[term] = newRunningMax(points)
	}
	return t
}

// leaseWrites are the writes of a history of leases.
var leaseWrites = []string{"set", "beat", "grant", "observe"}

// findReigns finds the values that a node told while it led: it said so before and after, in one term.
func (t *ticks) findReigns(h *history.History) {
	type reign struct {
		of    *history.Op
		seen  []*clockReading
		known bool
	}
	last := map[int]reign{} // by process
	for i := range h.Ops {
		o := &h.Ops[i]
		r := last[o.Process]
		switch {
		case o.Name == "reign":
			if o.OK() && r.known && r.of.Node == o.Node && r.of.Out[0] == o.Out[0] {
				for _, s := range r.seen {
					s.term = o.Out[0]
				}
			}
			last[o.Process] = reign{of: o, known: o.OK() && o.Out[0] != "nil"}
		case t.of[o.Line] != nil && r.known && r.of.Node == o.Node:
			r.seen = append(r.seen, t.of[o.Line])
			last[o.Process] = r
		}
	}
}

// ran returns the longest time that the log clock can have run until a moment.
func (t *ticks) ran(at int64) int64 { return t.clock.ranMax(0, at) }

// mustRun returns the time until a moment in which a node certainly led.
func (t *ticks) mustRun(at int64) int64 { return at - t.clock.lostMax(0, at) }

// judge judges the log clock by the clients' real time, which is that of the nodes, as all run on one machine. The log
// clock is sound if it neither goes back nor runs faster. Then it also bounds the values that nobody saw.
func (t *ticks) judge(v *Verdict) (sound bool) {
	sound = true
	for _, s := range t.seen {
		o := s.op
		most, by := t.reached.before(o.Start)
		if by != nil {
			v.Stake(ruleForward, 1)
		}
		if s.tick < most {
			v.Add("log clock went back", o, "%s had seen it at %s", by, clockMs(most))
			sound = false
		}
		if most, by = t.most(o); by != nil {
			v.Stake(ruleFast, 1)
		}
		if s.tick > most {
			v.Add("log clock fast", o, "since %s it ran %.3f ms longer than there was time", by,
				float64(s.tick-most)/1e6)
			sound = false
		}
		least, by := t.reigns[s.term].before(o.Start)
		if by != nil {
			v.Stake(ruleSlow, 1)
		}
		if lost := least + o.Start - s.tick - clockGrain; by != nil && lost > 0 {
			v.Add("log clock slow", o, "since %s it lost %.3f ms, and one node led throughout, in term %s", by,
				float64(lost)/1e6, s.term)
			continue
		}
		least, by = t.kept.before(o.Start)
		if by != nil {
			v.Stake(ruleLoses, 1)
		}
		if lost := least + t.mustRun(o.Start) - s.tick; by != nil && lost > clockSlack {
			v.Add("log clock lost time", o, "since %s it lost %.3f ms of the time in which a node led", by,
				float64(lost)/1e6)
		}
	}
	v.Note("the log clock was seen %d times, %d of them at a node that led throughout", len(t.seen), t.led)
	return sound
}

// most returns an upper bound of the log clock at the end of o, from earlier observations.
func (t *ticks) most(o *history.Op) (most int64, by *history.Op) {
	behind, by := t.behind.before(o.Start)
	if by == nil {
		return math.MaxInt64 / 2, nil
	}
	return t.ran(o.End) - behind + clockGrain, by
}

// during returns the two values of the log clock between which o was done.
func (t *ticks) during(o *history.Op) (from, to int64) {
	if s := t.of[o.Line]; s != nil && o.OK() {
		return s.tick, s.tick
	}
	from, _ = t.reached.before(o.Start)
	if ahead, by := t.later.before(-o.End); by != nil {
		from = max(from, ahead+t.ran(o.Start)-clockGrain)
	}
	to, _ = t.most(o)
	return from, to
}

// passed returns a lower bound of the log clock of the state that o saw.
func (t *ticks) passed(o *history.Op) int64 {
	if s := t.of[o.Line]; s != nil && o.OK() && s.logged {
		return s.tick
	}
	passed, _ := t.reached.before(o.Start)
	return passed
}

// deadline bounds the end of a lease: the last value of the log clock at which its key exists.
type deadline struct{ from, to int64 }

// deadlineAfter returns the deadline of a lease that was given between two values.
func deadlineAfter(from, to, lease int64) deadline { return deadline{from + lease, to + lease} }

// mayBeOver reports whether the lease may have ended at a log clock of at most latest.
func (d deadline) mayBeOver(latest int64) bool { return latest > d.from }

// isOver reports whether the lease has ended at a log clock of at least passed.
func (d deadline) isOver(passed int64) bool { return passed > d.to }

// narrowed returns the deadline after PTTL has told the remaining time, at a log clock between from and to. told is the
// deadline by PTTL alone. ok is false if they contradict each other.
func (d deadline) narrowed(left string, from, to int64) (narrow, told deadline, ok bool) {
	ms, err := strconv.ParseInt(left, 10, 64)
	if err != nil || ms < 0 {
		return d, d, false // the key exists, so it has a time to live
	}
	told = deadlineAfter(from, to, ms*msNs)
	if ms == 0 {
		told.from = min(told.from, d.from) // the lease may be over, and no entry has removed the key yet
	}
	narrow = deadline{max(d.from, told.from), min(d.to, told.to)}
	return narrow, told, narrow.from <= narrow.to
}

// granted is the known state of the lease of one key.
type granted struct {
	grant *history.Op
	ends  deadline
}

// look judges what an operation saw of the key.
func (l *granted) look(v *Verdict, t *ticks, o *history.Op) {
	there, value, left := "", l.grant.In[0], ""
	switch o.Name {
	case "get":
		there, value = "1", o.Out[0]
		if value == "nil" {
			there = "0"
		}
	case "pttl":
		there, left = "1", o.Out[0]
		if left == "-2" {
			there = "0"
		}
	case "exists":
		there = o.Out[0]
	case "grant", "observe", "glance":
		there, left, value = o.Out[0], o.Out[1], o.Out[2]
		if (there == "0") != (left == "-2") || (there == "0") != (value == "nil") {
			v.Add("half a key", o, "one script saw it there, and not there")
			return
		}
	default:
		return
	}
	from, to := t.during(o)
	if !l.ends.mayBeOver(to) {
		v.Stake(ruleLives, 1)
	}
	if l.ends.isOver(t.passed(o)) {
		v.Stake(ruleEnds, 1)
	}
	switch {
	case there == "0":
		if !l.ends.mayBeOver(to) {
			v.Add("ended early", o, "%s gave it until %s of the log clock, which was %s at most", l.grant,
				clockMs(l.ends.from), clockMs(to))
		}
		return
	case value != l.grant.In[0]:
		v.Add("wrong value", o, "only %q was ever set", l.grant.In[0])
	case l.ends.isOver(t.passed(o)):
		v.Add("ended late", o, "%s gave it until %s of the log clock, which was %s at least", l.grant,
			clockMs(l.ends.to), clockMs(t.passed(o)))
	}
	if left == "" {
		return
	}
	v.Stake(ruleLeft, 1)
	narrow, told, ok := l.ends.narrowed(left, from, to)
	if !ok {
		v.Add("wrong remaining time", o, "%s gave it until %s to %s of the log clock: this says until %s to %s",
			l.grant, clockMs(l.ends.from), clockMs(l.ends.to), clockMs(told.from), clockMs(told.to))
		return
	}
	l.ends = narrow // it tells the deadline more precisely
}

func clockMs(tick int64) string { return strconv.FormatFloat(float64(tick)/1e6, 'f', -1, 64) + " ms" }

// runningMax is the greatest of the values so far, by time.
type runningMax []maxPoint

type maxPoint struct {
	at, most int64
	op       *history.Op
}

func newRunningMax(points []maxPoint) runningMax {
	slices.SortStableFunc(points, func(a, b maxPoint) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(points); i++ {
		if points[i].most < points[i-1].most {
			points[i].most, points[i].op = points[i-1].most, points[i-1].op
		}
	}
	return points
}

// before returns the greatest value before a time, and its operation; without one, a very small value.
func (c runningMax) before(at int64) (most int64, op *history.Op) {
	i, _ := slices.BinarySearchFunc(c, at, func(p maxPoint, at int64) int { return cmp.Compare(p.at, at) })
	if i == 0 {
		return math.MinInt64 / 2, nil
	}
	return c[i-1].most, c[i-1].op
}
