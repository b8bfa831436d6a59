package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Several clients may hold a lock of this file at once. enter and try have one more word, the mode: "shared", beside
// other shared holders, or a number of permits, beside holders who ask with the same number. Such a request may be
// refused as "limit n": the lock is held with n permits. The holder of a lock of several is "many". All other words are
// those of lineLock, and key = remaining ms, fence of the key.

// Shared judges locks with a line that several clients may hold. For each token alone the lock behaves like any other
// lock. Beside that, no client holds it beside another one in a different mode, nor beside more than its permits allow;
// and the rules of the line hold.
func Shared(h *history.History) *Verdict {
	v := &Verdict{}
	all := untold(h)
	own := ownHistories(all)
	tokenLock.judge(v, own)
	growing(v, h, firstGrants(h))
	contests(v, h)
	t := tokenLock.clock(&Verdict{}, own)
	clock := newLogClock(h, func(o *history.Op) bool { return slices.Contains(lineLock.writes, o.Name) })
	of, ofAll := linesOf(h), linesOf(all)
	keyLooks := map[string][]*history.Op{}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "key" && o.OK() {
			keyLooks[o.Key] = append(keyLooks[o.Key], o)
		}
	}
	most := 0
	for _, key := range slices.Sorted(maps.Keys(of)) {
		l := of[key]
		c := newSharedLock(h, ofAll[key], t, clock)
		most = max(most, c.exclusion(v))
		c.looks(v)
		c.looksAtKey(v, keyLooks[key])
		c.refusals(v)
		c.wakeUps(v)
		l.inTurn(v, h)
		l.waited(v, h)
		l.displaced(v)
		l.dead(v, h)
	}
	successions(v, h, of)
	v.Note("up to %d clients certainly held a lock at once", most)
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

// ownHistories returns a history with a lock for each token, of the operations that tell something about the token. The
// remaining time and the holder are about the key, so they are left out.
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

// tokenOf returns the token that an operation is about, or "".
func tokenOf(o *history.Op) string {
	switch {
	case len(o.In) > 0:
		return o.In[0]
	case o.Name == "holder" && o.OK() && o.Out[0] != absent && o.Out[0] != several:
		return o.Out[0]
	}
	return ""
}

// several is the holder of a lock of several clients.
const several = "many"

// modeOf returns the mode in which an operation asks for a lock; "": exclusive.
func modeOf(o *history.Op) string {
	if len(o.In) < 4 {
		return ""
	}
	return o.In[3]
}

// limitOf returns the number of permits that a refusal tells.
func limitOf(o *history.Op) (n string, ok bool) {
	if !o.OK() {
		return "", false
	}
	return strings.CutPrefix(o.Out[0], "limit ")
}

// goTogether reports whether two modes may hold a lock at once, if permits are left.
func goTogether(a, b string) bool { return a == b && a != "" }

// permits returns how many may hold a lock at once; 0: unlimited.
func permits(mode string) int {
	n, _ := strconv.Atoi(mode)
	return n
}

// tokenHistory records what one token did with one lock, as far as it was done or may have been.
type tokenHistory struct {
	token, mode string
	sets        []*history.Op // the operations that gave it a lease, in the order of their starts
	releases    []*history.Op
	heldAs      []*holding
}

// holding is the time between a grant that the client heard of and the end of its lease, or its release.
type holding struct {
	of    *tokenHistory
	fence int64       // 0: not known
	first *history.Op // the first answered operation that shows it
	last  *history.Op // the last requested operation that shows it
	free  int64       // it was not released before
	until int64       // by real time the lease did not end before
	ends  int64       // by the log clock the lease did not end before
}

// sharedLock is one lock with all operations on it.
type sharedLock struct {
	h      *history.History
	ops    []*history.Op
	ticks  *ticks
	clock  *logClock
	tokens []*tokenHistory          // in the order of their starts
	of     map[string]*tokenHistory // by token
}

func newSharedLock(h *history.History, l *lineOf, t *ticks, clock *logClock) *sharedLock {
	c := &sharedLock{h: h, ops: l.ops, ticks: t, clock: clock, of: map[string]*tokenHistory{}}
	for _, o := range l.ops {
		if len(o.In) == 0 || !o.Maybe() {
			continue
		}
		s := c.of[o.In[0]]
		if s == nil {
			s = &tokenHistory{token: o.In[0]}
			c.of[s.token] = s
			c.tokens = append(c.tokens, s)
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
	for _, s := range c.tokens {
		c.findHoldings(s)
	}
	return c
}

// findHoldings finds the holdings of a token.
func (c *sharedLock) findHoldings(s *tokenHistory) {
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

// bound finds how long g certainly lasted, which only operations after its last one change.
func (c *sharedLock) bound(g *holding) {
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

// before reports whether g was certainly granted before another holding.
func (g *holding) before(other *holding) bool {
	if g.fence > 0 && other.fence > 0 {
		return g.fence < other.fence
	}
	return g.first.End < other.first.Start
}

// lasted reports whether g was certainly held when another grant was made: by real time, or only by the log clock.
func (c *sharedLock) lasted(g, other *holding) (timed, logged bool) {
	_, to := c.ticks.during(other.first)
	still := other.first.End < g.free
	return still && other.first.End < g.until, still && to <= g.ends
}

// exclusion reports grants of a lock that other clients still held. It returns how many clients certainly held it at
// once.
func (c *sharedLock) exclusion(v *Verdict) (most int) {
	var all []*holding
	for _, s := range c.tokens {
		all = append(all, s.heldAs...)
	}
	for _, g := range all {
		most = max(most, c.excluded(v, all, g))
	}
	return most
}

// excluded judges one grant by the grants before it. It returns how many clients certainly held the lock then.
func (c *sharedLock) excluded(v *Verdict, all []*holding, g *holding) (together int) {
	var by, byLog []*holding // the others that held it: by real time, and by the log clock alone
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

// ruleKeyOfMany is at stake when two clients certainly hold the lock.
var ruleKeyOfMany = rule("key-while-held",
	"A lock's key is there while anybody holds it: no lease has more left than PTTL says, no holder has a lower fence.",
	"wrong key", "shared limit", once(1, 20*time.Second)).
	judging("key-of-many each-holder-for-itself")

// looksAtKey judges answers about the key, its remaining time and its fence, while the lock was certainly held.
func (c *sharedLock) looksAtKey(v *Verdict, looks []*history.Op) {
	for _, o := range looks {
		left, gone := strconv.ParseInt(o.Out[0], 10, 64)
		fence, free := strconv.ParseInt(o.Out[1], 10, 64)
		held, wrong := 0, (*holding)(nil)
		for _, s := range c.tokens {
			for _, g := range s.heldAs {
				if g.first.End >= o.Start || o.End >= min(g.free, g.until) {
					continue
				}
				held++
				if gone != nil || free != nil || (left+1)*msNs < g.of.until(o)-o.End || g.fence > 0 && fence > g.fence {
					wrong = g
				}
			}
		}
		if held > 1 {
			v.Stake(ruleKeyOfMany, 1)
		}
		if wrong != nil {
			v.Add("wrong key", o, "%s held it, with fence %d, for %.3f s more at least", wrong.of.token, wrong.fence,
				sec(wrong.of.until(o)-o.End))
		}
	}
}

// until returns how long the lease that a token had at the time of a look lasts at least.
func (s *tokenHistory) until(look *history.Op) int64 {
	until := int64(math.MaxInt64)
	for _, x := range s.sets {
		if x.Start < look.End && !(x.OK() && s.renewed(x, look.Start)) {
			until = min(until, x.Start+millis(x.In[1]))
		}
	}
	return until
}

// looks judges answers about the holder while the lock was certainly held.
func (c *sharedLock) looks(v *Verdict) {
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
func (c *sharedLock) denied(o *history.Op) *holding {
	for _, s := range c.tokens {
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

// refusals judges refusals: another client must have held the lock, or may have.
func (c *sharedLock) refusals(v *Verdict) {
	for _, o := range c.ops {
		if !asksFor(o) || !o.OK() || isGrant(o) || o.Out[0] == displaced {
			continue
		}
		in := c.refusedIn(o)
		if _, named := limitOf(o); named {
			v.Stake(ruleLimit, 1)
		}
		v.Stake(ruleLongFree, 1)
		switch own := c.of[o.In[0]]; {
		case own != nil && c.mayHold(own, o, in, true): // tokenLock judges that
		case !c.mayBeHeld(o, in, true):
			v.Add("refused although free", o, "nobody can have held it then")
		case !c.mayBeHeld(o, in, false):
			v.Add("refused although long free", o, "every client that can have held it had lost it")
		}
	}
}

// refusedIn returns the time within which the lock was held when o was refused: at the end of its wait, or at any time
// if the token left the line or the limit was another one.
func (c *sharedLock) refusedIn(o *history.Op) span {
	left := slices.ContainsFunc(c.ops, func(r *history.Op) bool {
		return r.Name == "release" && r.In[0] == o.In[0] && r.Start < o.End && r.End > o.Start
	})
	if _, named := limitOf(o); left || named {
		return span{o.Start, o.End}
	}
	return span{max(o.Start, min(o.Start+waits(o)-clockSlack, o.End)), o.End}
}

// mayBeHeld reports whether clients can have held the lock in a time so that o was refused. Unless ever is set,
// operations of unknown outcome hold it no longer than real time allows.
func (c *sharedLock) mayBeHeld(o *history.Op, in span, ever bool) bool {
	beside, mode := 0, modeOf(o)
	said, named := limitOf(o)
	for _, s := range c.tokens {
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
	return mode != "" && slices.ContainsFunc(c.ops, func(w *history.Op) bool { // a waiter in front
		return w.Name == "enter" && !goTogether(modeOf(w), mode) && w.Start < in.to && (w.Told > in.from || !w.OK() && ever)
	})
}

// mayHold reports whether a token can have held the lock in a time at the end of which o was answered.
func (c *sharedLock) mayHold(s *tokenHistory, o *history.Op, in span, ever bool) bool {
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
func (s *tokenHistory) renewed(x *history.Op, at int64) bool {
	return slices.ContainsFunc(s.sets, func(y *history.Op) bool { return y.OK() && y.Start > x.End && y.End < at })
}

// isOver reports whether the lease that x gave was over by the log clock when o was answered.
func (c *sharedLock) isOver(x, o *history.Op) bool {
	from, to := c.ticks.during(x)
	return deadlineAfter(from, to, millis(x.In[1])).isOver(c.ticks.passed(o))
}

// released returns when a token that got the lock by x, if at all, had certainly released it.
func (c *sharedLock) released(s *tokenHistory, x *history.Op) int64 {
	end := int64(math.MaxInt64)
	for _, r := range s.releases {
		if r.OK() && r.Start > latest(c.h, x) {
			end = min(end, r.End)
		}
	}
	return end
}

// holds returns the time in which a token can have held the lock by x. In quiet times an answer comes soon, and a
// client that disconnects before it has the lock no longer.
func (c *sharedLock) holds(s *tokenHistory, x *history.Op) span {
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

// wakeUps reports waiters for a free lock that did not get it.
func (c *sharedLock) wakeUps(v *Verdict) {
	for _, o := range c.ops {
		if o.Name != "enter" || !o.OK() || o.Out[0] == displaced {
			continue
		}
		for _, free := range outside(c.busy(o), span{o.Start, o.End}) {
			v.Stake(ruleMoves, 1)
			if dueAt(c.h, free.from) < free.to {
				v.Add("free in spite of a line", o, "no client can have held it, or waited in front, from %.3f s to %.3f s",
					sec(free.from), sec(free.to))
				break
			}
		}
	}
}

// busy returns the times in which the lock may not have been free for o, by their starts.
func (c *sharedLock) busy(o *history.Op) (spans []span) {
	mode, beside := modeOf(o), []span(nil)
	for _, s := range c.tokens {
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
	spans = append(spans, overlapping(beside, permits(mode))...)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// overlapping returns the times in which at least n spans are.
func overlapping(spans []span, n int) (full []span) {
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
