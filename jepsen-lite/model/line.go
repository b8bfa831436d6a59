package model

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"lockd/jepsen-lite/history"
)

// lineLock is a lock with a line: enter token ms wait and try token ms = fence | nil (LOCK, with WAIT and without),
// acquire token ms = OK | nil (SET NX), renew token ms = fence | nil, release token = 1 | 0, holder = token | nil.
//
// A token that holds the lock may enter or try again. A lock whose client disconnects before its answer may be taken
// back, until a request of the token is answered. A waiting request may be displaced by another one with the same
// token, which may be an older request that arrives late.
var lineLock = &lockKind{
	kind:    "line",
	ops:     []string{"enter", "try", "acquire", "renew", "release", "holder"},
	writes:  []string{"enter", "try", "acquire", "renew", "release"},
	leasing: lineLeasing,
	step:    lineStep,
	name:    lineBroken,
}

// LineMachine is the machine of Line, for Picture.
var LineMachine = Machine{func(h *history.History) machine { return lineLock.picture(untold(h)) }}

// untold adds to a history the grants that waiting clients perhaps never heard of. During a fault a lock may be granted
// and taken back before the leader lets the node tell the client; the request then waits in line again, or its answer
// is that nothing was done. UNLOCK by its token frees such a grant, too, and the answer is that nothing came. So each
// such request may have held the lock once before its answer, like an unanswered one. (It may have held it more than
// once, but this is so rare that it is left out: each case doubles the orders to search.)
func untold(h *history.History) *history.History {
	more := *h
	more.Ops = slices.Clone(h.Ops)
	freed := releasesOf(h)
	for _, o := range h.Ops {
		if o.Name != "enter" || o.Outcome == history.Info || waits(&o) == 0 ||
			h.Disturbed(o.Start, o.End, settleTime) == 0 && !freed.left(&o) {
			continue
		}
		o.Outcome, o.Out = history.Info, nil
		more.Ops = append(more.Ops, o)
	}
	return &more
}

// releases are releases that freed a lock, or may have, by its key and their token.
type releases map[[2]string][]*history.Op

func releasesOf(h *history.History) releases {
	all := releases{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name == "release" && o.Maybe() && (!o.OK() || o.Out[0] == "1") {
			of := [2]string{o.Key, o.In[0]}
			all[of] = append(all[of], o)
		}
	}
	return all
}

// left reports whether a request in vain may have been granted the lock, and its own token freed it before the client
// was told.
func (r releases) left(o *history.Op) bool {
	return o.OK() && o.Out[0] == absent && slices.ContainsFunc(r[[2]string{o.Key, o.In[0]}], func(b *history.Op) bool {
		return b.Start < o.End && b.End > o.Start
	})
}

// lineLeasing describes the leases of lineLock. An operation that waited does not show that the lock was held before
// it.
var lineLeasing = leasing{
	sets: func(o *history.Op) bool {
		return o.Name != "release" && o.Name != "holder" && (!o.OK() || o.Out[0] != absent && o.Out[0] != displaced)
	},
	shows: func(o *history.Op) bool {
		switch o.Name {
		case "acquire", "try":
			return o.Out[0] == absent
		case "holder", "renew":
			return o.Out[0] != absent
		}
		return o.Name == "release" && o.Out[0] == "1"
	},
}

// lineStep is the step of lineLock.
func lineStep(s lease, o *history.Op, latest int64) (lease, string) {
	switch o.Name {
	case "enter", "try":
		if o.OK() && o.Out[0] == displaced {
			return s, displaced
		}
		switch s.owner {
		case "":
			s = lease{owner: o.In[0], now: s.now, tick: s.tick, gone: max(o.Start, 1)} // the node may learn of a broken connection only then
		case o.In[0]:
		default:
			return s, absent
		}
		if o.OK() {
			s.gone = 0 // for good, also if other requests of the token are not answered
		}
		return fenceStep(s.given(o, latest), o)
	case "renew":
		if s.owner != o.In[0] {
			return s, absent
		}
		s.gone = 0
		return fenceStep(s.given(o, latest), o)
	}
	return lockStep(s, o, latest)
}

// displaced is the answer to a waiter whose token waits on another connection.
const displaced = "displaced"

// lineBroken names the promise that an answer breaks.
func lineBroken(o *history.Op) string {
	switch {
	case (o.Name == "enter" || o.Name == "try") && o.Out[0] != absent:
		return "two holders"
	case o.Name == "enter" || o.Name == "try":
		return "refused although free"
	case o.Name == "renew":
		return "lock lost early"
	}
	return lockBroken(o)
}

// Line judges locks with a line. Beside the rules of every lock, fences grow, no later client gets the lock before a
// waiter, the lock is not free while a client waits, and no disconnected client holds it.
func Line(h *history.History) *Verdict {
	v := &Verdict{}
	lineLock.judge(v, untold(h))
	growing(v, h, firstGrants(h))
	contests(v, h)
	byKey := linesOf(h)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		l := byKey[key]
		l.inTurn(v, h)
		l.waited(v, h)
		l.atOnce(v, h)
		l.displaced(v)
		l.dead(v, h)
	}
	successions(v, h, byKey)
	return v
}

// Rules of asking, and of asking again.
var (
	ruleWaitLasts = rule("wait-lasts", "A client waits as long as it asked to, unless it is served or its token leaves.",
		"waited too short", lines, each(1, 10*time.Second)).
		judging("wait-ends unlock-ends-a-wait")
	ruleWaitEnds = lateRule("wait-ends", "A wait in vain ends two seconds after its time.",
		"waited too long", lines, each(1, 20*time.Second)).
		judging("wait-ends")
	ruleWaitLeft = lateRule("wait-left", "UNLOCK by a token that waits ends its wait at once.",
		"wait not ended", "line", quietly(1, 20*time.Second)).
		judging("unlock-ends-a-wait")
	ruleNoWait = lateRule("no-wait-in-a-whole", "LOCK with WAIT in a transaction or in a script is answered at once.",
		"waited in a whole", "line", quietly(1, 10*time.Second)).
		judging("no-wait-in-a-whole")
	rulePlaceAgain = lateRule("place-again", "A token that asks again while it waits keeps its place in line.",
		"place lost by asking again", lines, Need{Times: 1, In: 20 * time.Second, Once: true, Quiet: true}).
		judging("place-is-taken-over lock-again")
	ruleAnew = rule("lease-anew", "A holder that asks again begins its lease anew, and has the lock until that ends.",
		"lock lost early, holder refused, fence changed, two holders, refused although free, wrong remaining time",
		"line shared limit", once(1, 10*time.Second)).
		judging("lock-again each-holder-for-itself")
)

// waited judges how long clients waited in vain. UNLOCK by its token ends a wait early.
func (l *lineOf) waited(v *Verdict, h *history.History) {
	for _, o := range l.ops {
		if o.Name != "enter" || !o.OK() || o.Out[0] != absent && !isGrant(o) {
			continue
		}
		vain := o.Out[0] == absent && waits(o) > 0 && !l.mayLeave(o)
		if vain || o.End-o.Start > longWait {
			v.Stake(ruleWaitLasts, 1)
		}
		if !vain {
			continue
		}
		v.Stake(ruleWaitEnds, 1)
		switch due := dueAt(h, o.Start+waits(o)); {
		case o.End-o.Start+clockSlack < waits(o):
			v.Add("waited too short", o, "nobody of its token had released the lock, or left")
		case o.End-o.Slept > due:
			v.Add("waited too long", o, "%.3f s", sec(o.End-o.Start-waits(o)))
		}
	}
}

// InWhole is the fifth word of a try in a transaction or a script, whose WAIT is not 0.
const InWhole = "whole"

// atOnce judges waits that UNLOCK has ended, and LOCK where nobody may wait.
func (l *lineOf) atOnce(v *Verdict, h *history.History) {
	for _, o := range l.ops {
		switch {
		case !o.OK():
		case o.Name == "try" && len(o.In) > 4 && o.In[4] == InWhole && h.Disturbed(o.Start, o.End, settleTime) == 0:
			if o.Out[0] == absent {
				v.Stake(ruleNoWait, 1)
			}
			if o.End-o.Start > answerMax {
				v.Add("waited in a whole", o, "%.3f s", sec(o.End-o.Start))
			}
		case o.Name == "enter":
			l.left(v, h, o)
		}
	}
}

// left judges that a plain UNLOCK by a token that certainly waited ended its wait. In scripts it does not.
func (l *lineOf) left(v *Verdict, h *history.History, o *history.Op) {
	for _, r := range l.ops {
		if r.Name != "release" || r.In[0] != o.In[0] || !r.OK() || len(r.Out) != 1 || r.Out[0] != "0" ||
			r.Start < o.Start+settledIn || r.Start > o.End || h.Disturbed(o.Start, r.End+answerMax, settleTime) > 0 {
			continue
		}
		v.Stake(ruleWaitLeft, 1)
		if o.End > r.End+answerMax {
			v.Add("wait not ended", o, "its token had left by %s", r)
		}
		return
	}
}

// longWait is a wait that shows a bound on waits that clients did not ask for, if it is answered with the lock.
const longWait = int64(2500 * time.Millisecond)

// mayLeave reports whether a request of its own token may have ended the wait of o.
func (l *lineOf) mayLeave(o *history.Op) bool {
	return slices.ContainsFunc(l.ops, func(r *history.Op) bool {
		return r.Name == "release" && r.In[0] == o.In[0] && r.Start < o.End && r.End > o.Start
	})
}

// asksFor reports whether an operation asks for the lock.
func asksFor(o *history.Op) bool { return o.Name == "enter" || o.Name == "try" || o.Name == "acquire" }

// isGrant reports whether an operation was answered that its token holds the lock.
func isGrant(o *history.Op) bool {
	_, fenced := fenceOf(o)
	return fenced || o.Name == "acquire" && o.OK() && o.Out[0] == "OK"
}

// fenceOf returns the fence in an answer, if there is one.
func fenceOf(o *history.Op) (fence int64, ok bool) {
	if !o.OK() || o.Name != "enter" && o.Name != "try" && o.Name != "renew" {
		return 0, false
	}
	fence, err := strconv.ParseInt(o.Out[0], 10, 64)
	return fence, err == nil
}

// firstGrants returns, for each token, the first grant that it heard of, with its fence. The grant may answer an older
// request.
func firstGrants(h *history.History) (grants []grant) {
	asked, heard := map[string]int64{}, map[string]bool{}
	for i := range h.Ops { // in the order of their starts
		o := &h.Ops[i]
		if !asksFor(o) {
			continue
		}
		if _, ok := asked[o.In[0]]; !ok && o.Maybe() {
			asked[o.In[0]] = o.Start
		}
		if fence, ok := fenceOf(o); ok && !heard[o.In[0]] {
			heard[o.In[0]] = true
			since := *o
			since.Start = asked[o.In[0]]
			grants = append(grants, grant{&since, o, fence})
		}
	}
	return grants
}

// lineOf is the history of one lock.
type lineOf struct{ ops []*history.Op }

// linesOf returns the histories of the locks, by key.
func linesOf(h *history.History) map[string]*lineOf {
	byKey := map[string]*lineOf{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if !slices.Contains(lineLock.ops, o.Name) {
			continue
		}
		if byKey[o.Key] == nil {
			byKey[o.Key] = &lineOf{}
		}
		byKey[o.Key].ops = append(byKey[o.Key].ops, o)
	}
	return byKey
}

// inTurn judges what happened while a client certainly waited, without faults.
func (l *lineOf) inTurn(v *Verdict, h *history.History) {
	freed := releasesOf(h)
	for _, a := range l.ops {
		if a.Name != "enter" || !a.OK() || a.Out[0] != absent && !isGrant(a) || freed.left(a) {
			continue
		}
		in := a.Start + settledIn // by then it is in line
		if in >= a.End || h.Disturbed(a.Start, a.End, settleTime) > 0 {
			continue
		}
		l.waits(v, a, in)
		for _, b := range l.ops {
			if !b.OK() || b.Start <= in {
				continue
			}
			switch {
			case b.Name == "holder" && b.Out[0] == absent && b.End < a.End:
				v.Add("free in spite of a line", b, "the waiter is %s", a)
			case l.takes(b) && b.In[0] != a.In[0] && precedes(b, a):
				v.Add("overtaken", b, "the waiter is %s", a)
			}
		}
	}
}

// waits counts what a client puts at stake that waits certainly from a moment on: another one asks, or looks.
func (l *lineOf) waits(v *Verdict, a *history.Op, in int64) {
	later := func(b *history.Op) bool { return b.OK() && b.Start > in && b.Start < a.End }
	if slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		return later(b) && asksFor(b) && b.In[0] != a.In[0]
	}) {
		v.Stake(ruleTurn, 1)
	}
	if slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		return later(b) && b.Name == "holder" && b.End < a.End
	}) {
		v.Stake(ruleMoves, 1)
	}
}

// displaced judges answers that a token waits on another connection.
func (l *lineOf) displaced(v *Verdict) {
	for _, o := range l.ops {
		if !o.OK() || o.Out[0] != displaced {
			continue
		}
		v.Stake(ruleDisplaced, 1)
		if !slices.ContainsFunc(l.ops, func(b *history.Op) bool {
			return b != o && b.Name == "enter" && b.In[0] == o.In[0] && b.Start < o.End && b.End > o.Start
		}) {
			v.Add("displaced by nobody", o, "no other request had its token")
		}
	}
}

// precedes reports whether grant b certainly came before grant a, or before the end of a's wait in vain.
func precedes(b, a *history.Op) bool {
	fence, ok := fenceOf(a)
	if !ok {
		return b.End < min(a.End, a.Start+waits(a))
	}
	other, ok := fenceOf(b)
	return ok && other < fence || !ok && b.End < a.End
}

// takes reports whether an operation was the first grant to its token.
func (l *lineOf) takes(o *history.Op) bool {
	if !asksFor(o) || !isGrant(o) {
		return false
	}
	return !slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		return b != o && len(b.In) > 0 && b.In[0] == o.In[0] && b.Start < o.Start
	})
}

// hangUpTime bounds the time in which a node learns, without a fault, that a client has disconnected.
const hangUpTime = int64(500 * time.Millisecond)

// dead reports disconnected holders: their clients have never heard of a grant, or have released it since, and have
// asked for nothing for long. A grant before the node could know of the disconnection counts as answered, and ends by
// its lease; only a later grant is wrong.
func (l *lineOf) dead(v *Verdict, h *history.History) {
	tokens := map[string]*asked{}
	for _, o := range l.ops { // in the order of their starts
		if len(o.In) == 0 {
			continue
		}
		t := tokens[o.In[0]]
		if t == nil {
			t = &asked{first: o}
			tokens[o.In[0]] = t
		}
		t.last, t.told = o, max(t.told, o.Told)
		switch {
		case o.Name == "release" && o.OK():
			t.granted = false
		case isGrant(o), o.Name == "acquire":
			t.granted = true // SET NX of a disconnected client ends by its lease
		case asksFor(o) && !o.OK():
			t.unheard = max(t.unheard, o.Told)
		}
	}
	for _, o := range l.ops {
		if o.Name != "holder" || !o.OK() {
			continue
		}
		for _, t := range tokens {
			if t.unheard > 0 && t.isOver(h, o) {
				v.Stake(ruleDead, 1)
				break
			}
		}
		if t := tokens[o.Out[0]]; t != nil && t.isOver(h, o) &&
			(t.unheard == 0 || l.withoutIt(o, t.unheard+hangUpTime)) {
			v.Add("held by the dead", o, "its client has disconnected: %s", t.last)
		}
	}
}

// asked records what a token's clients asked for, and heard.
type asked struct {
	first, last *history.Op // by their starts
	told        int64       // the latest answer, or end of a request without one
	granted     bool        // heard of, and not released since
	unheard     int64       // when its client gave up its last unanswered request
}

// isOver reports whether a token had nothing more to ask for and nothing to hold, long before a look and without a
// fault.
func (t *asked) isOver(h *history.History, look *history.Op) bool {
	return !t.granted && look.Start > dueAt(h, t.told) && h.Disturbed(t.first.Start, look.End, settleTime) == 0
}

// withoutIt reports whether the holder that o saw was seen without the lock since a moment and before o.
func (l *lineOf) withoutIt(o *history.Op, since int64) bool {
	token := o.Out[0]
	return slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		if !b.OK() || b.Start <= since || b.End >= o.Start {
			return false
		}
		return b.Name == "holder" && b.Out[0] != token && b.Out[0] != several ||
			b.Name == "release" && b.In[0] == token && b.Out[0] == "0"
	})
}
