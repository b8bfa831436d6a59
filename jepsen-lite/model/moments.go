package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Bounds on the time of the cluster, in ns.
const (
	// momentSlack bounds by how much a lease until a moment ends early, and TIME is ahead: clocks count milliseconds.
	momentSlack = int64(5 * time.Millisecond)
	// behindSlack bounds by how much the time of the cluster is behind the median of its clocks: as long as the answers
	// take by which nodes hear each other's clocks.
	behindSlack = int64(500 * time.Millisecond)
	// epochSlack bounds by how much the clock of this machine is adjusted during a run.
	epochSlack = int64(50 * time.Millisecond)
	// heardIn bounds how long nodes count with a clock as it was before it was set right, while they reach each other.
	heardIn = int64(3 * time.Second)
	// wrongLeast is the least error of a clock that puts a promise at stake: more than all slacks that matter.
	wrongLeast = int64(100 * time.Millisecond)
)

// While the time of the cluster is ahead of the median of its clocks, it goes at an eighth of its rate.
const slewNum, slewDen = 7, 8

// Moments judges the time of the cluster by the true time, which clients tell: now = us. What it can be is known from
// the marks of which clocks were off: a wrong minority changes nothing. Clients are told the time by time = us and by
// id = ms-n. take token ms = OK | nil takes a lock until a moment; holder token = token | nil looks at it; extend token
// ms = 1 | 0 has it last until another moment; drop token = 1 | 0 gives it up.
//
// The time never goes back, is never ahead of the latest median of the clocks by more than what is not worked off yet,
// and not behind the present one. A lock is held until its moment, less what the time of the cluster was ahead when the
// moment was said.
func Moments(h *history.History) *Verdict {
	v := &Verdict{}
	epoch, ok := epochOf(h)
	if !ok {
		v.undecided("the clock of this machine was set during the run, or never told")
		return v
	}
	m := &moments{History: h, v: v, epoch: epoch, wall: newWallClocks(h, epoch)}
	m.clock = newLogClock(h, func(o *history.Op) bool {
		return o.Name == "id" || o.Name == "extend" || o.Name == "drop" || o.Name == "take" && o.Out[0] == "OK"
	})
	m.judgeTimes()
	m.judgeOrder()
	m.judgeLocks()
	return v
}

// moments is a history with what is known of its clocks.
type moments struct {
	*history.History
	v     *Verdict
	epoch epoch
	wall  *wallClocks
	clock *logClock
}

// epoch bounds the true time at which the history began, in ns since 1970.
type epoch struct{ low, high int64 }

func epochOf(h *history.History) (e epoch, ok bool) {
	e = epoch{math.MinInt64, math.MaxInt64}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "now" && o.OK() {
			us := number(o.Out[0])
			e.low, e.high = max(e.low, us*1000-o.End), min(e.high, us*1000+999-o.Start)
			ok = true
		}
	}
	if e.low > e.high+epochSlack {
		return e, false
	}
	return epoch{min(e.low, e.high), max(e.low, e.high)}, ok
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// clockTold is a time of the cluster that an answer has told: at least from, and less than to, in ns since 1970.
type clockTold struct {
	op       *history.Op
	from, to int64
	logged   bool // it is that of an entry
}

func (m *moments) told() (all []clockTold) {
	for i := range m.Ops {
		switch o := &m.Ops[i]; {
		case !o.OK():
		case o.Name == "time":
			us := number(o.Out[0])
			all = append(all, clockTold{o, us * 1000, us*1000 + 1000, false})
		case o.Name == "id":
			text, _, _ := strings.Cut(o.Out[0], "-")
			ms := number(text)
			all = append(all, clockTold{o, ms * msNs, (ms + 1) * msNs, true})
		}
	}
	return all
}

// judgeTimes compares what was told with the true time.
func (m *moments) judgeTimes() {
	for _, t := range m.told() {
		o := t.op
		ahead, behind := m.wall.during(o.Start, o.End)
		if by := t.from - m.epoch.high - o.End; by > ahead+momentSlack {
			m.v.Add("time ahead", o, "it is ahead of the true time by %.3f ms, and %.3f ms are explained by the clocks that "+
				"were wrong", float64(by)/1e6, float64(ahead)/1e6)
		}
		if by := m.epoch.low + o.Start - t.to; by > behind+behindSlack {
			m.v.Add("time behind", o, "it is behind the true time by %.3f ms, and %.3f ms are explained by the clocks that "+
				"were wrong", float64(by)/1e6, float64(behind)/1e6)
		}
		m.v.Stake(ruleTime, 1)
		m.v.Stake(ruleTimeBehind, 1)
		if m.wall.wrong(o.Start, o.End) {
			m.v.Stake(ruleWrongClock, 1)
		}
	}
}

// judgeOrder judges that the time never goes back. What only reads were shown may be forgotten where a process starts
// between two of them.
func (m *moments) judgeOrder() {
	var starts []int64
	for _, e := range m.Marks {
		if e.Op == history.Up {
			starts = append(starts, e.Time)
		}
	}
	era := func(at int64) int { return len(starts) - len(from(starts, at)) }
	all := m.told()
	var logged []maxPoint
	shown := map[int][]maxPoint{} // by era
	for _, t := range all {
		p := maxPoint{t.op.End, t.from, t.op}
		if e := era(t.op.Start); !t.logged && era(t.op.End) == e {
			shown[e] = append(shown[e], p)
		} else if t.logged {
			logged = append(logged, p)
		}
	}
	inLog, inReads := newRunningMax(logged), map[int]runningMax{}
	for e, points := range shown {
		inReads[e] = newRunningMax(points)
	}
	for _, t := range all {
		least, by := inLog.before(t.op.Start)
		if e := era(t.op.Start); era(t.op.End) == e {
			if read, of := inReads[e].before(t.op.Start); of != nil && read > least {
				least, by = read, of
			}
		}
		if by == nil {
			continue
		}
		if m.wall.wrong(by.Start, t.op.End) {
			m.v.Stake(ruleTimeForward, 1)
		}
		if t.to <= least {
			m.v.Add("time went back", t.op, "%s had told a time that is %.3f ms later", by, float64(least-t.from)/1e6)
		}
	}
}

// from returns the times of an ordered list that are later than at.
func from(times []int64, at int64) []int64 {
	i, _ := slices.BinarySearch(times, at)
	return times[i:]
}

// heldUntil tells what is known of a lock that a token has taken until a moment.
type heldUntil struct {
	take *history.Op
	to   int64 // the token certainly has the lock until then, by the time of the history
	over int64 // and not later than this, less what the log clock has lost
}

// bounds returns the two bounds for a moment that an operation has said.
func (m *moments) bounds(o *history.Op) (to, over int64) {
	at := millis(o.In[1])
	ahead, behind := m.wall.during(o.Start, o.End)
	return at - m.epoch.high - ahead - momentSlack, at - m.epoch.low + behind + behindSlack
}

// judgeLocks judges that locks are held until their moments, and not much longer, and that nobody else gets them.
func (m *moments) judgeLocks() {
	byToken, byKey := map[string]*heldUntil{}, map[string][]*heldUntil{}
	for i := range m.Ops {
		o := &m.Ops[i]
		if o.Name == "take" && o.OK() && o.Out[0] == "OK" {
			to, over := m.bounds(o)
			u := &heldUntil{take: o, to: to, over: over}
			byToken[o.In[0]] = u
			byKey[o.Key] = append(byKey[o.Key], u)
		} else if len(o.In) > 0 && byToken[o.In[0]] != nil {
			m.follow(byToken[o.In[0]], o)
		}
	}
	for _, all := range byKey {
		m.judgeRivals(all)
	}
}

// follow judges one operation of the holder, the next one.
func (m *moments) follow(u *heldUntil, o *history.Op) {
	switch {
	case o.Outcome == history.Fail:
	case o.Name == "holder" && o.OK():
		m.look(u, o, o.Out[0] == o.In[0])
	case o.Name == "extend" && o.OK():
		m.look(u, o, o.Out[0] == "1")
		if o.Out[0] == "1" {
			u.to, u.over = m.bounds(o)
		}
	case o.Name == "drop" && o.OK():
		m.look(u, o, o.Out[0] == "1")
		u.to = min(u.to, o.Start)
	case o.Name == "extend", o.Name == "drop": // it may be done at any time
		u.to, u.over = min(u.to, o.Start), history.Forever
	}
}

// look judges whether the token was seen to hold the lock.
func (m *moments) look(u *heldUntil, o *history.Op, held bool) {
	late := o.Start - u.over - m.clock.lostMax(u.take.Start, o.Start) - expiryBound
	if late > 0 {
		m.v.Stake(ruleMomentEnds, 1)
		if held {
			m.v.Add("gone late", o, "%s: it was to end at its moment, %.3f ms before", u.take, float64(late)/1e6)
		}
	}
	if o.End > u.to {
		return
	}
	m.v.Stake(ruleMoment, 1)
	if m.wall.wrong(u.take.Start, o.End) {
		m.v.Stake(ruleMomentWrong, 1)
	}
	if !held {
		m.v.Add("gone early", o, "%s: there are %.3f ms left at least until its moment", u.take, float64(u.to-o.End)/1e6)
	}
}

// judgeRivals judges that nobody took a lock that a token certainly held.
func (m *moments) judgeRivals(all []*heldUntil) {
	slices.SortFunc(all, func(a, b *heldUntil) int { return cmp.Compare(a.take.End, b.take.End) })
	var held []*heldUntil
	for _, u := range all {
		held = slices.DeleteFunc(held, func(h *heldUntil) bool { return h.to < u.take.End })
		for _, h := range held {
			if h.take.End <= u.take.Start {
				m.v.Add("two holders", u.take, "%s has it for %.3f ms more at least", h.take, float64(h.to-u.take.End)/1e6)
			}
		}
		held = append(held, u)
	}
}

// wallClocks bounds how far the time of the cluster can be off, from the marks of which clocks were.
type wallClocks struct {
	off       []offClock
	stretches []stretch // in order
}

// offClock is a time in which the clock of a node may have been off.
type offClock struct {
	node      string
	from, to  int64
	heard     int64 // until then others may count with it as it was
	low, high int64 // it may have been ahead by so much, in ns
	percent   int64 // it may have drifted
}

// stretch begins at a moment, and lasts until the next one begins.
type stretch struct {
	from   int64
	lead   int64 // by so much the time of the cluster may be ahead at the beginning
	ahead  int64 // and by so much the median of the clocks
	behind int64 // or behind
}

func newWallClocks(h *history.History, e epoch) *wallClocks {
	w := &wallClocks{}
	nodes := map[string]bool{}
	open := map[string]*offClock{}
	end := func(node string, at int64) {
		o := open[node]
		drift := o.percent * (at - o.from) / 100
		o.to, o.heard, o.low, o.high = at, heardBy(h, at), o.low-drift, o.high+drift
		w.off = append(w.off, *o)
		delete(open, node)
	}
	for _, m := range h.Marks {
		if m.Op == history.Up || m.Op == history.Serves || m.Op == history.Clock {
			nodes[m.Node] = true
		}
		if m.Op != history.Clock || len(m.Value) != 3 {
			continue
		}
		low, high, percent := millis(m.Value[0]), millis(m.Value[1]), number(m.Value[2])
		o, is := open[m.Node], low != 0 || high != 0 || percent != 0
		switch {
		case is && o != nil:
			o.low, o.high, o.percent = min(o.low, low), max(o.high, high), max(o.percent, percent)
		case is:
			open[m.Node] = &offClock{node: m.Node, from: m.Time, low: low, high: high, percent: percent}
		case o != nil:
			end(m.Node, m.Time)
		}
	}
	for node := range open {
		end(node, h.End)
	}
	w.lay(len(nodes), others(h), leadAt(h, e))
	return w
}

// heardBy returns by when the others have certainly heard of a clock that was set right at a moment: faults that are
// not of clocks may keep them from it.
func heardBy(h *history.History, at int64) int64 {
	rest := history.History{}
	for _, f := range h.Faults {
		if f.Kind != "clock" {
			rest.Faults = append(rest.Faults, f)
		}
	}
	for by := at + heardIn; ; {
		next := at + heardIn + rest.Disturbed(at, by, settleTime)
		if next <= by {
			return by
		}
		by = next
	}
}

// others returns when the first fault began that is not of clocks. From then on a leader may not have heard all clocks.
func others(h *history.History) int64 {
	first := history.Forever
	for _, f := range h.Faults {
		if f.Kind != "clock" {
			first = min(first, f.Start)
		}
	}
	return first
}

// leadAt returns by how much the time of the cluster was ahead before any clock was wrong: clocks may have been before
// the history began.
func leadAt(h *history.History, e epoch) int64 {
	i := slices.IndexFunc(h.Ops, func(o history.Op) bool { return o.Name == "time" && o.OK() })
	if i < 0 || slices.ContainsFunc(h.Marks, func(m history.Event) bool {
		return m.Op == history.Clock && m.Time < h.Ops[i].End
	}) {
		return 0
	}
	return max(0, number(h.Ops[i].Out[0])*1000+1000-e.low-h.Ops[i].Start)
}

// lay makes the stretches for some nodes.
func (w *wallClocks) lay(nodes int, others, lead int64) {
	cuts := []int64{0}
	for _, o := range w.off {
		cuts = append(cuts, o.from, o.heard)
	}
	if others < history.Forever {
		cuts = append(cuts, others)
	}
	slices.Sort(cuts)
	for _, at := range slices.Compact(cuts) {
		highs, lows := map[string]int64{}, map[string]int64{}
		for _, o := range w.off {
			if o.from <= at && at < o.heard {
				highs[o.node], lows[o.node] = max(highs[o.node], o.high), min(lows[o.node], o.low)
			}
		}
		s := stretch{from: at, lead: lead}
		s.ahead, s.behind = max(0, rank(highs, nodes, nodes/2)), max(0, -rank(lows, nodes, nodes/2))
		if at >= others { // a majority may be all that were heard, with the wrong ones among them, and by slow answers
			s.ahead, s.behind = max(0, rank(highs, nodes, (nodes/2+1)/2)), history.Forever/2
		}
		if n := len(w.stretches); n > 0 {
			s.lead = w.stretches[n-1].leadAt(at)
		}
		s.lead = max(s.lead, s.ahead)
		w.stretches = append(w.stretches, s)
	}
}

// rank returns the error in some place, counted from the greatest, among those of all nodes.
func rank(errors map[string]int64, nodes, place int) int64 {
	all := make([]int64, 0, nodes)
	for _, e := range errors {
		all = append(all, e)
	}
	for len(all) < nodes {
		all = append(all, 0)
	}
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(b, a) })
	if place >= len(all) {
		return 0
	}
	return all[place]
}

// leadAt returns by how much the time of the cluster may be ahead at a moment of the stretch.
func (s *stretch) leadAt(at int64) int64 { return max(s.ahead, s.lead-(at-s.from)/slewDen*slewNum) }

// during returns by how much the time of the cluster may be ahead or behind at any moment of a time.
func (w *wallClocks) during(from, to int64) (ahead, behind int64) {
	i, found := slices.BinarySearchFunc(w.stretches, from, func(s stretch, at int64) int { return cmp.Compare(s.from, at) })
	if !found {
		i--
	}
	for ; i < len(w.stretches) && w.stretches[i].from <= to; i++ {
		s := &w.stretches[i]
		ahead, behind = max(ahead, s.leadAt(max(from, s.from))), max(behind, s.behind)
	}
	return ahead, behind
}

// wrong reports whether the clock of a node was off by wrongLeast or more at some moment of a time.
func (w *wallClocks) wrong(from, to int64) bool {
	return slices.ContainsFunc(w.off, func(o offClock) bool {
		return o.from < to && o.to > from && max(o.high, -o.low) >= wrongLeast
	})
}
