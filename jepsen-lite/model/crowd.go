package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockd/jepsen-lite/history"
)

// A lock with a line may be for several at once. Then enter and try have one word more, how they would
// hold it: "shared", with others who do, or a number, with as many in all, who say the same number. They
// may be refused as "limit n" then: it is held with n permits. A holder is many where they are several.
// What else there is has the words of lineLock.

// Crowd judges locks that several may hold, with a line. What holds of every lock holds of each token
// by itself; beside that, nobody holds one beside somebody whom it is not for, nor more than it is for;
// and what holds of a line holds of this one.
func Crowd(h *history.History) *Verdict {
	v := &Verdict{}
	all := untold(h)
	own := ownHistories(all)
	tokenLock.judge(v, own)
	growing(v, firstGrants(h))
	t := tokenLock.clock(&Verdict{}, own)
	clock := newLogClock(h, func(o *history.Op) bool { return slices.Contains(lineLock.writes, o.Name) })
	of, ofAll := linesOf(h), linesOf(all)
	waited, most := 0, 0
	for _, key := range slices.Sorted(maps.Keys(of)) {
		l := of[key]
		c := newCrowd(h, ofAll[key], t, clock)
		most = max(most, c.exclusion(v))
		c.looks(v)
		c.refusals(v)
		c.wakeUps(v)
		waited += l.inTurn(v, h)
		l.displaced(v)
		l.dead(v, h)
	}
	successions(v, h, of)
	v.Note("%d times somebody certainly stood in line, and was not disturbed; up to %d certainly held a lock at once",
		waited, most)
	return v
}

// tokenLock models a lock with a line for one token: the token holds it, or is refused.
var tokenLock = &lockKind{
	kind:   "lock of a token",
	ops:    lineLock.ops,
	writes: lineLock.writes,
	leasing: leasing{
		sets:  lineLeasing.sets,
		shows: func(o *history.Op) bool { return !asksFor(o) && lineLeasing.shows(o) },
	},
	step: func(s lease, o *history.Op, latest int64) (lease, string) {
		if asksFor(o) && o.OK() && o.Out[0] == absent && s.owner == "" {
			return s, absent // others hold it
		}
		return lineStep(s, o, latest)
	},
	name: func(o *history.Op) string {
		switch {
		case asksFor(o) && o.Out[0] == absent:
			return "holder refused"
		case asksFor(o):
			return "fence changed"
		case o.Name == "renew" && o.Out[0] != absent:
			return "lock held by the wrong one"
		}
		return lineBroken(o)
	},
}

// ownHistories is a history with a lock for each token, of the operations that tell something of it.
// What is left of a lease, and who has it, is told of the key, not of the token.
func ownHistories(h *history.History) *history.History {
	own := *h
	own.Ops = nil
	for _, o := range h.Ops {
		if !slices.Contains(lineLock.ops, o.Name) {
			own.Ops = append(own.Ops, o)
			continue
		}
		token := tokenOf(&o)
		if token == "" {
			continue
		}
		o.Key += " " + token
		if o.OK() {
			o.Out = slices.Clone(o.Out)
			if o.Out[0] != displaced && asksFor(&o) && !isGrant(&o) {
				o.Out[0] = absent
			}
			if len(o.Out) == 4 {
				o.Out[leftWord], o.Out[whoWord] = "", ""
			}
		}
		own.Ops = append(own.Ops, o)
	}
	return &own
}

// tokenOf is the token that an operation is about, or "".
func tokenOf(o *history.Op) string {
	switch {
	case len(o.In) > 0:
		return o.In[0]
	case o.Name == "holder" && o.OK() && o.Out[0] != absent && o.Out[0] != several:
		return o.Out[0]
	}
	return ""
}

// several is the holder of a lock that is no string.
const several = "many"

// modeOf returns the mode in which an operation asks for a lock; "": exclusive.
func modeOf(o *history.Op) string {
	if len(o.In) < 4 {
		return ""
	}
	return o.In[3]
}

// limitOf returns the number of permits of the lock that an operation was told, if it was.
func limitOf(o *history.Op) (n string, ok bool) {
	if !o.OK() {
		return "", false
	}
	return strings.CutPrefix(o.Out[0], "limit ")
}

// goTogether reports whether two may hold a lock at once, if there is room.
func goTogether(a, b string) bool { return a == b && a != "" }

// permits returns how many may hold a lock at once; 0: unlimited.
func permits(mode string) int {
	n, _ := strconv.Atoi(mode)
	return n
}

// stay is the history of one token with one lock: operations that were done or may have been.
type stay struct {
	token, mode string
	sets        []*history.Op // that gave it a lease, in the order of their starts
	releases    []*history.Op
	heldAs      []*holding
}

// holding is the time between a grant and the end of its lease or its release, of which the client heard.
type holding struct {
	of    *stay
	fence int64       // 0: it is not known
	first *history.Op // that shows it, the first that was answered
	last  *history.Op // and the last that was asked for
	free  int64       // it was released no earlier
	until int64       // its lease did not end earlier by real time
	ends  int64       // nor by the log clock
}

// crowd is one lock with all operations on it.
type crowd struct {
	h     *history.History
	ops   []*history.Op
	ticks *ticks
	clock *logClock
	stays []*stay          // in the order of their starts
	of    map[string]*stay // by token
}

func newCrowd(h *history.History, l *lineOf, t *ticks, clock *logClock) *crowd {
	c := &crowd{h: h, ops: l.ops, ticks: t, clock: clock, of: map[string]*stay{}}
	for _, o := range l.ops {
		if len(o.In) == 0 || !o.Maybe() {
			continue
		}
		s := c.of[o.In[0]]
		if s == nil {
			s = &stay{token: o.In[0]}
			c.of[s.token] = s
			c.stays = append(c.stays, s)
		}
		if asksFor(o) {
			s.mode = modeOf(o)
		}
		switch {
		case o.Name == "release":
			s.releases = append(s.releases, o)
		case lineLeasing.sets(o) && (!o.OK() || isGrant(o)):
			s.sets = append(s.sets, o)
		}
	}
	for _, s := range c.stays {
		c.hold(s)
	}
	return c
}

// hold finds the holdings of a token.
func (c *crowd) hold(s *stay) {
	for _, o := range s.sets {
		if !o.OK() {
			continue
		}
		fence, _ := fenceOf(o)
		i := slices.IndexFunc(s.heldAs, func(g *holding) bool { return g.fence == fence })
		if i < 0 {
			s.heldAs = append(s.heldAs, &holding{of: s, fence: fence, first: o, last: o})
			continue
		}
		g := s.heldAs[i]
		if g.last = o; o.End < g.first.End {
			g.first = o
		}
	}
	for _, g := range s.heldAs {
		c.bound(g)
	}
}

// bound finds how long g certainly lasted: what was done before its last sight is no matter.
func (c *crowd) bound(g *holding) {
	g.free, g.until, g.ends = math.MaxInt64, math.MaxInt64, math.MaxInt64
	seen, _ := c.ticks.during(g.last)
	for _, x := range g.of.sets {
		if x.End < g.last.Start {
			continue
		}
		from, _ := c.ticks.during(x)
		g.until = min(g.until, max(x.Start, g.last.Start)+millis(x.In[1]))
		g.ends = min(g.ends, max(from, seen)+millis(x.In[1]))
	}
	for _, r := range g.of.releases {
		if r.End >= g.last.Start {
			g.free = min(g.free, max(r.Start, g.last.Start))
		}
	}
}

// before reports whether g was certainly granted before another one.
func (g *holding) before(other *holding) bool {
	if g.fence > 0 && other.fence > 0 {
		return g.fence < other.fence
	}
	return g.first.End < other.first.Start
}

// lasted reports whether g was certainly held when another grant was made: by real time, or only by the log clock.
func (c *crowd) lasted(g, other *holding) (timed, logged bool) {
	_, to := c.ticks.during(other.first)
	still := other.first.End < g.free
	return still && other.first.End < g.until, still && to <= g.ends
}

// exclusion finds who was granted the lock while it was not for him. It returns how many certainly held
// it at once.
func (c *crowd) exclusion(v *Verdict) (most int) {
	var all []*holding
	for _, s := range c.stays {
		all = append(all, s.heldAs...)
	}
	for _, g := range all {
		most = max(most, c.excluded(v, all, g))
	}
	return most
}

// excluded judges one grant by those before it. It returns with how many it certainly held the lock.
func (c *crowd) excluded(v *Verdict, all []*holding, g *holding) (together int) {
	var by, byLog []*holding // who held it still, by real time, and by the log clock alone
	for _, other := range all {
		if other.of == g.of || !other.before(g) {
			continue
		}
		timed, logged := c.lasted(other, g)
		switch alone := !goTogether(other.of.mode, g.of.mode); {
		case timed && alone:
			v.Add("two holders", g.first, "%s held it still", other.last)
			return 0
		case logged && alone:
			v.Add("ended early", g.first, "by the log clock the lease of %s had not ended", other.last)
			return 0
		case timed:
			by = append(by, other)
		case logged:
			byLog = append(byLog, other)
		}
	}
	switch n := permits(g.of.mode); {
	case n == 0 || len(by)+len(byLog) < n:
	case len(by) >= n:
		v.Add("too many holders", g.first, "%d others held it still, one of them by %s", len(by), by[0].last)
	default:
		v.Add("ended early", g.first, "by the log clock the lease of %s had not ended", byLog[0].last)
	}
	return 1 + len(by) + len(byLog)
}

// looks judges answers about the holder while the lock was certainly held.
func (c *crowd) looks(v *Verdict) {
	for _, o := range c.ops {
		if o.Name != "holder" || !o.OK() {
			continue
		}
		switch g := c.denied(o); {
		case g == nil:
		case o.Out[0] == absent:
			v.Add("lock lost early", o, "%s held it still", g.last)
		default:
			v.Add("lock held by the wrong one", o, "%s held it still", g.last)
		}
	}
}

// denied returns a certain holder that an answer contradicts, or nil.
func (c *crowd) denied(o *history.Op) *holding {
	for _, s := range c.stays {
		if told := o.Out[0]; s.mode == "" && told == s.token || s.mode != "" && told == several {
			continue
		}
		for _, g := range s.heldAs {
			if g.first.End < o.Start && o.End < min(g.free, g.until) {
				return g
			}
		}
	}
	return nil
}

// refusals judges refusals: the lock must have been held, or may have been.
func (c *crowd) refusals(v *Verdict) {
	for _, o := range c.ops {
		if !asksFor(o) || !o.OK() || isGrant(o) || o.Out[0] == displaced {
			continue
		}
		in := c.refusedIn(o)
		switch own := c.of[o.In[0]]; {
		case own != nil && c.mayHold(own, o, in, true): // that is its token's affair
		case !c.mayBeHeld(o, in, true):
			v.Add("refused although free", o, "nobody can have held it then")
		case !c.mayBeHeld(o, in, false):
			v.Add("refused although long free", o, "whoever can have held it was gone")
		}
	}
}

// refusedIn is the time in which the lock was held when o was refused: who waited was refused when his
// time was over, unless his token has left the line, or another LIMIT was found at any time before.
func (c *crowd) refusedIn(o *history.Op) span {
	left := slices.ContainsFunc(c.ops, func(r *history.Op) bool {
		return r.Name == "release" && r.In[0] == o.In[0] && r.Start < o.End && r.End > o.Start
	})
	if _, named := limitOf(o); left || named {
		return span{o.Start, o.End}
	}
	return span{max(o.Start, min(o.Start+waits(o)-clockSlack, o.End)), o.End}
}

// mayBeHeld reports whether somebody can have held the lock in a time so that o was refused. What is
// known of the real time of an outcome that is unknown counts unless ever.
func (c *crowd) mayBeHeld(o *history.Op, in span, ever bool) bool {
	beside, mode := 0, modeOf(o)
	said, named := limitOf(o)
	for _, s := range c.stays {
		if s.token == o.In[0] || !c.mayHold(s, o, in, ever) {
			continue
		}
		switch {
		case named:
			if s.mode == said {
				return true
			}
		case !goTogether(s.mode, mode):
			return true
		default:
			beside++
		}
	}
	if named {
		return false
	}
	if n := permits(mode); n > 0 && beside >= n {
		return true
	}
	return mode != "" && slices.ContainsFunc(c.ops, func(w *history.Op) bool { // who stands before it
		return w.Name == "enter" && !goTogether(modeOf(w), mode) && w.Start < in.to && (w.Told > in.from || !w.OK() && ever)
	})
}

// mayHold reports whether a token can have held the lock in a time at the end of which o was answered.
func (c *crowd) mayHold(s *stay, o *history.Op, in span, ever bool) bool {
	return slices.ContainsFunc(s.sets, func(x *history.Op) bool {
		switch {
		case x.Start >= in.to:
			return false
		case x.OK() && (c.isOver(x, o) || c.released(s, x) < in.from || s.renewed(x, in.from)):
			return false
		}
		return ever || c.holds(s, x).to >= in.from
	})
}

// renewed reports whether the lease of grant x had certainly been renewed at a moment.
func (s *stay) renewed(x *history.Op, at int64) bool {
	return slices.ContainsFunc(s.sets, func(y *history.Op) bool { return y.OK() && y.Start > x.End && y.End < at })
}

// isOver reports whether the lease that x gave was over by the log clock when o was answered.
func (c *crowd) isOver(x, o *history.Op) bool {
	from, to := c.ticks.during(x)
	return deadlineAfter(from, to, millis(x.In[1])).isOver(c.ticks.passed(o))
}

// released returns when a token that got the lock by x, if at all, had certainly released it.
func (c *crowd) released(s *stay, x *history.Op) int64 {
	end := int64(math.MaxInt64)
	for _, r := range s.releases {
		if r.OK() && r.Start > latest(c.h, x) {
			end = min(end, r.End)
		}
	}
	return end
}

// holds is the time in which a token can have held the lock by x: at quiet times an answer comes soon,
// and who is gone before it comes has the lock no longer.
func (c *crowd) holds(s *stay, x *history.Op) span {
	from, lease := x.Start, latest(c.h, x)+millis(x.In[1])+expiryBound
	to := lease
	for more := int64(1); more > 0; to += more {
		more = lease + c.clock.lostMax(x.Start, to) - to
	}
	quiet := c.h.Disturbed(x.Start, latest(c.h, x), settleTime) == 0
	switch {
	case quiet && x.OK():
		from = max(from, x.End-answerMax)
	case quiet && x.Name == "enter" && len(s.heldAs) == 0:
		to = min(to, latest(c.h, x))
	}
	return span{from, min(to, c.released(s, x))}
}

// wakeUps finds waiters for a free lock that were not given it.
func (c *crowd) wakeUps(v *Verdict) {
	for _, o := range c.ops {
		if o.Name != "enter" || !o.OK() || o.Out[0] == displaced {
			continue
		}
		for _, free := range outside(c.busy(o), span{o.Start, o.End}) {
			if dueAt(c.h, free.from) < free.to {
				v.Add("free in spite of a line", o, "nobody can have held it, or stood before it, from %.3f s to %.3f s",
					sec(free.from), sec(free.to))
				break
			}
		}
	}
}

// busy are the times, in the order of their starts, in which the lock may not have been free for o.
func (c *crowd) busy(o *history.Op) (spans []span) {
	mode, beside := modeOf(o), []span(nil)
	for _, s := range c.stays {
		if s.token == o.In[0] {
			continue
		}
		for _, x := range s.sets {
			switch {
			case x.Start >= o.End:
			case !goTogether(s.mode, mode):
				spans = append(spans, c.holds(s, x))
			case permits(mode) > 0:
				beside = append(beside, c.holds(s, x))
			}
		}
	}
	for _, w := range c.ops {
		if mode != "" && w.Name == "enter" && !goTogether(modeOf(w), mode) {
			spans = append(spans, span{w.Start, latest(c.h, w)})
		}
	}
	spans = append(spans, crowded(beside, permits(mode))...)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// crowded are the times in which at least n of these are.
func crowded(spans []span, n int) (full []span) {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step)) })
	depth := 0
	for i, e := range edges {
		if depth += e.step; depth >= n && i+1 < len(edges) {
			full = append(full, span{e.at, edges[i+1].at})
		}
	}
	return full
}
