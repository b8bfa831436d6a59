package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Rules of owners, and of what is told about present locks.
var (
	ruleCircle = rule("deadlock-true", "-DEADLOCK names owners who wait for each other, and what for.",
		"no such deadlock", "owners", each(1, 10*time.Second)).
		judging("deadlock-is-told deadlock-of-many")
	ruleAllStuck = rule("deadlock-of-all-holders",
		"-DEADLOCK names a lock of several holders only if all of them wait, in the circle or for it.",
		"deadlock of some holders", "owners", once(1, 20*time.Second)).
		judging("deadlock-of-many")
	ruleOneThing = lateRule("owner-waits-for-itself",
		"An owner that asks by another token for what it holds is told at once that it waits for itself.",
		"waits for itself", "owners", quietly(1, 10*time.Second)).
		judging("owner-does-one-thing")
	ruleLongest = rule("longest-first", "LOCKS LIST has the locks in the order in which they were got.",
		"list out of order", "owners", each(1, 10*time.Second)).
		judging("held-longest-first")
	ruleDeadlock = lateRule("deadlock-told", "Owners who wait for each other are told so, within half a second.",
		"deadlock missed", "owners", quietly(1, 10*time.Second)).
		judging("deadlock-is-told deadlock-while-waiting")
	ruleNow = rule("present-is-true",
		"LOCKS INFO, LIST and GRAPH tell holders, owners and fences, and those who wait, as they were at one moment.",
		"wrong info, wrong list, wrong graph", "owners", each(2, 5*time.Second)).
		judging("owner-and-note")
	ruleShown = lateRule("waiters-shown", "They tell everybody who stands in line, in its order.",
		"waiter not shown, line out of order", "owners", quietly(1, 10*time.Second)).
		judging("owner-and-note")
)

// stay is a token at a lock: it holds it, or waits for it. Up to the permits in the request's mode hold a lock at once.
type stay struct {
	of         *history.Op // the request
	key, token string
	owner      string
	fence      int64 // of a holder; 0: not known
	lower      int64 // until then it may have held with a lower fence, of a grant that was taken back
	may        span  // it does so at most in this time
	must       span  // and certainly in this one; empty: never
}

// mayHaveHad reports whether a holder may have had a fence at a moment.
func (s *stay) mayHaveHad(fence string, t int64) bool {
	n, _ := strconv.ParseInt(fence, 10, 64)
	return s.fence == 0 || n == s.fence || n < s.fence && t < s.lower
}

// mayAt and mustAt report whether the token may be there at a moment, or certainly is.
func (s *stay) mayAt(t int64) bool  { return s.may.from <= t && t <= s.may.to }
func (s *stay) mustAt(t int64) bool { return s.must.from < t && t < s.must.to }

// owned are locks whose names begin alike, of which owners may hold several.
type owned struct{ holders, waiters []*stay }

// groupOf returns the beginning of the name of a lock, up to its number.
func groupOf(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i]
	}
	return key
}

// Owners judges locks of owners: enter token ms wait mode owner = fence | nil | deadlock says (LOCK WAIT OWNER), release
// token = 1 | 0. Each token is of one request. The mode is a number of permits, the same in all requests for a lock, or
// "". What is asked about them: info lock, list group, graph group = words (claim).
func Owners(h *history.History) *Verdict {
	v := &Verdict{}
	groups, all := ownedOf(h), &owned{} // all: an owner may still hold a lock of an earlier group
	for _, g := range groups {
		all.holders, all.waiters = append(all.holders, g.holders...), append(all.waiters, g.waiters...)
	}
	for i := range h.Ops {
		o := &h.Ops[i]
		g := groups[groupOf(o.Key)]
		switch {
		case !o.OK() || g == nil:
		case o.Name == "enter" && o.Out[0] == "deadlock":
			all.deadlock(v, o, h.Disturbed(o.Start, o.End, settleTime) == 0)
		case o.Name == "info" || o.Name == "list" || o.Name == "graph":
			g.told(v, o)
		}
	}
	slices.SortFunc(all.waiters, func(a, b *stay) int { return cmp.Compare(a.of.Line, b.of.Line) })
	all.circles(v)
	return v
}

// ownedOf finds who holds locks, and who waits for them, by groups of locks.
func ownedOf(h *history.History) map[string]*owned {
	clock := newLogClock(h, func(o *history.Op) bool { return o.Name == "enter" || o.Name == "release" })
	releases := map[string][]*history.Op{} // by token
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "release" && o.Maybe() {
			releases[o.In[0]] = append(releases[o.In[0]], o)
		}
	}
	groups := map[string]*owned{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "enter" {
			continue
		}
		g := groups[groupOf(o.Key)]
		if g == nil {
			g = &owned{}
			groups[groupOf(o.Key)] = g
		}
		g.holders = append(g.holders, holderOf(h, clock, o, releases[o.In[0]]))
		g.waiters = append(g.waiters, waiterOf(h, o))
	}
	for _, g := range groups {
		for _, w := range g.waiters {
			g.settle(h, w)
		}
	}
	return groups
}

// holderOf returns when the token of a request can have held the lock.
func holderOf(h *history.History, clock *logClock, o *history.Op, releases []*history.Op) *stay {
	s := &stay{of: o, key: o.Key, token: o.In[0], owner: o.In[4]}
	switch {
	case o.Outcome == history.Fail: // it may have waited, and what it was given is taken back behind the answer
		s.may = span{o.Start, dueAt(h, o.End)}
		return s
	case o.OK() && !isGrant(o):
		s.may = span{o.Start, o.End} // it was granted, and taken back since the client was not told
		return s
	}
	done := latest(h, o)
	if !o.OK() {
		done = max(done, o.Start+waits(o)+lapseMax)
	}
	lease := done + millis(o.In[1]) + expiryBound
	s.may = span{o.Start, lease}
	for more := int64(1); more > 0; s.may.to += more {
		more = lease + clock.lostMax(o.Start, s.may.to) - s.may.to
	}
	for _, r := range releases {
		if r.OK() && r.Start >= done {
			s.may.to = min(s.may.to, r.End)
		}
	}
	if fence, ok := fenceOf(o); ok {
		s.fence, s.must = fence, span{o.End, o.Start + millis(o.In[1])}
		if mayGoBack(h, o) {
			s.lower = o.End
		}
		for _, r := range releases {
			s.must.to = min(s.must.to, r.Start)
		}
	}
	return s
}

// mayGoBack reports whether a request may have been granted before its answer, so that the grant was taken back and the
// request waited on: its node could not tell its client in time. Without a fault near it a node can.
func mayGoBack(h *history.History, o *history.Op) bool {
	return waits(o) > 0 && h.Disturbed(o.Start, o.Told, settleTime) > 0
}

// lapseMax bounds how long a client that is gone can stay in line: until its node notices, or its session is over.
const lapseMax = int64(15 * time.Second)

// waiterOf returns when the token of a request can have waited.
func waiterOf(h *history.History, o *history.Op) *stay {
	s := &stay{of: o, key: o.Key, token: o.In[0], owner: o.In[4], may: span{o.Start, o.End}}
	switch o.Outcome {
	case history.Fail:
		s.may.to = dueAt(h, o.End)
	case history.Info:
		s.may.to = max(latest(h, o), o.Start+waits(o)) + lapseMax
	}
	return s
}

// settle finds when a token certainly waited, if there was no fault: until its time was over, or as long as another one
// certainly held the lock that it got then, and that only one can hold.
func (g *owned) settle(h *history.History, w *stay) {
	o := w.of
	if !o.OK() || h.Disturbed(o.Start, o.End, settleTime) > 0 {
		return
	}
	w.must.from = o.Start + settledIn
	if fence, ok := fenceOf(o); ok && permits(modeOf(o)) == 0 {
		for _, s := range g.holders {
			if s.key == w.key && s.must.from < o.End && s.fence < fence {
				w.must.to = max(w.must.to, min(s.must.to, o.End))
			}
		}
	} else if !ok && o.Out[0] == absent {
		w.must.to = min(o.Start+waits(o), o.End)
	}
}

// find returns the stays of an owner at a lock, which may be there at a moment.
func find(stays []*stay, key, owner string, t int64) bool {
	return slices.ContainsFunc(stays, func(s *stay) bool { return s.key == key && s.owner == owner && s.mayAt(t) })
}

// moments returns the moments of a request at which something can have changed.
func (g *owned) moments(o *history.Op) []int64 {
	all := []int64{o.Start, o.End}
	for _, s := range slices.Concat(g.holders, g.waiters) {
		for _, t := range []int64{s.may.from, s.may.to, s.must.from, s.must.to} {
			if o.Start < t && t < o.End {
				all = append(all, t)
			}
		}
	}
	return all
}

// deadlock judges what a request was told about a deadlock.
func (g *owned) deadlock(v *Verdict, o *history.Op, calm bool) {
	v.Stake(ruleCircle, 1)
	says := circleOf(o)
	var held []int64 // the moments at which what it says can have been so
	for _, t := range g.moments(o) {
		if g.isCircle(o, says, t) {
			held = append(held, t)
		}
	}
	if len(held) == 0 {
		v.Add("no such deadlock", o, "at no moment of the request these owners can have waited for each other")
		return
	}
	if calm {
		v.Stake(ruleDeadlock, 1)
	}
	if calm && len(says) == 1 {
		v.Stake(ruleOneThing, 1)
	}
	more, free := false, 0
	for _, t := range held {
		several, waits := g.othersWait(o, says, t)
		if more = more || several; !waits {
			free++
		}
	}
	if more {
		v.Stake(ruleAllStuck, 1)
	}
	if free == len(held) {
		v.Add("deadlock of some holders", o, "another one holds one of the locks, and waits for none")
	}
}

// claimed is a lock and who is said to hold it.
type claimed struct{ key, owner string }

// circleOf returns the circle that a request was told of, from the lock that it asks for to one that its owner holds:
// each owner waits for the lock behind it, the last one for the first lock. nil: it makes no sense.
func circleOf(o *history.Op) (circle []claimed) {
	says, through, _ := strings.Cut(o.Out[1], ", held by ")
	w := strings.Fields(says)
	if len(w) != 7 || w[0] != o.In[4] || w[6] != o.Key {
		return nil
	}
	self, holds, key := w[0], w[2], o.Key
	for other := range strings.SplitSeq(through, ", held by ") {
		if other == "" {
			break
		}
		by, waits, ok := strings.Cut(other, ", which waits for ")
		if !ok {
			return nil
		}
		circle, key = append(circle, claimed{key, by}), waits
	}
	if key != holds {
		return nil
	}
	return append(circle, claimed{holds, self})
}

// isCircle reports whether a circle can have been one at a moment: a holds x and waits for y, held by b, which waits for
// x.
func (g *owned) isCircle(o *history.Op, circle []claimed, t int64) bool {
	for i, c := range circle {
		if !find(g.holders, c.key, c.owner, t) {
			return false
		}
		if i+1 < len(circle) && !find(g.waiters, circle[i+1].key, c.owner, t) {
			return false
		}
	}
	return len(circle) > 0
}

// othersWait reports whether others than the owners of a circle certainly hold some of its locks at a moment, and whether
// all of them may wait then.
func (g *owned) othersWait(o *history.Op, circle []claimed, t int64) (several, all bool) {
	all = true
	for _, c := range circle {
		for _, s := range certainAt(g.holders, t, func(s *stay) bool { return s.key == c.key && s.owner != c.owner }) {
			several = true
			all = all && (s.owner == o.In[4] ||
				slices.ContainsFunc(g.waiters, func(w *stay) bool { return w.owner == s.owner && w.mayAt(t) }))
		}
	}
	return several, all
}

// circles reports owners that certainly wait for each other.
func (g *owned) circles(v *Verdict) {
	certain := slices.DeleteFunc(slices.Clone(g.waiters), func(s *stay) bool { return s.must.to <= s.must.from })
	for _, w := range certain {
		for _, other := range certain {
			t := other.must.from + 1
			if !w.mustAt(t) || !g.isStuck(w, t) {
				continue
			}
			kind := "deadlock missed"
			if slices.ContainsFunc(g.holders, func(s *stay) bool {
				return s.key == w.key && s.owner == w.owner && s.mustAt(t) && permits(modeOf(s.of)) == 0
			}) {
				kind = "waits for itself"
			}
			v.Add(kind, w.of, "its owner waits for itself, through others or not, at %.3f s", sec(t))
			break
		}
	}
}

// isStuck reports whether a waiter certainly waits for its own owner at a moment: all who hold the lock that it waits
// for wait, so do all who hold what they wait for, and so on; and it holds one of these locks.
func (g *owned) isStuck(w *stay, t int64) bool {
	locks, holds := []string{w.key}, false
	for i := 0; i < len(locks); i++ {
		held := certainAt(g.holders, t, func(s *stay) bool { return s.key == locks[i] && s.token != w.token })
		if len(held) == 0 || len(held) < permits(modeOf(held[0].of)) {
			return false // somebody else may hold it, or nobody
		}
		for _, s := range held {
			if s.owner == w.owner {
				holds = true
				continue
			}
			next := certainAt(g.waiters, t, func(x *stay) bool { return x.owner == s.owner })
			if len(next) == 0 {
				return false
			}
			if !slices.Contains(locks, next[0].key) {
				locks = append(locks, next[0].key)
			}
		}
	}
	return holds
}

// told judges an answer about who holds locks and who waits for them. Its words are held key token owner fence, waits
// key token owner, waiters key n, and edge key token owner token owner, of the waiter and of the holder.
func (g *owned) told(v *Verdict, o *history.Op) {
	about := func(s *stay) bool { return o.Name != "info" || s.key == o.Key }
	right, shown, certain, inLine := false, false, false, false
	for _, t := range g.moments(o) {
		holders := certainAt(g.holders, t, about)
		waiters := certainAt(g.waiters, t, about)
		certain, inLine = certain || len(holders) > 0, inLine || len(waiters) > 0
		silent := func(s *stay) bool { return !hears(o, "held", s) }
		if !g.canBe(o, t) || o.Name != "graph" && slices.ContainsFunc(holders, silent) {
			continue
		}
		right = true
		shown = shown || g.shows(o, holders, waiters)
	}
	if certain {
		v.Stake(ruleNow, 1)
	}
	if inLine {
		v.Stake(ruleShown, 1)
	}
	g.inOrder(v, o)
	g.longestFirst(v, o)
	wrong := "wrong " + o.Name
	switch {
	case !right:
		v.Add(wrong, o, "at no moment of the request this can have been so")
	case !shown:
		v.Add("waiter not shown", o, "somebody certainly stood in line all the time")
	}
}

// certainAt returns the stays that are certain at a moment.
func certainAt(stays []*stay, t int64, about func(s *stay) bool) (certain []*stay) {
	for _, s := range stays {
		if s.mustAt(t) && about(s) {
			certain = append(certain, s)
		}
	}
	return certain
}

// hears reports whether an answer has a word about a stay.
func hears(o *history.Op, kind string, s *stay) bool {
	return slices.ContainsFunc(o.Out, func(word string) bool {
		w := strings.Split(word, "|")
		return w[0] == kind && w[1] == s.key && w[2] == s.token
	})
}

// canBe reports whether everything that was answered can have been so at a moment.
func (g *owned) canBe(o *history.Op, t int64) bool {
	is := func(stays []*stay, key, token, owner, fence string) bool {
		return slices.ContainsFunc(stays, func(s *stay) bool {
			return s.key == key && s.token == token && s.owner == owner && s.mayAt(t) &&
				(fence == "" || s.mayHaveHad(fence, t))
		})
	}
	for _, word := range o.Out {
		w, ok := strings.Split(word, "|"), false
		switch w[0] {
		case "held":
			ok = is(g.holders, w[1], w[2], w[3], w[4])
		case "waits":
			ok = is(g.waiters, w[1], w[2], w[3], "")
		case "waiters":
			n, _ := strconv.Atoi(w[2])
			ok = n <= count(g.waiters, func(s *stay) bool { return s.key == w[1] && s.mayAt(t) })
		case "edge":
			ok = is(g.waiters, w[1], w[2], w[3], "") && is(g.holders, w[1], w[4], w[5], "")
		}
		if !ok {
			return false
		}
	}
	return true
}

// count returns how many stays are as asked.
func count(stays []*stay, is func(s *stay) bool) (n int) {
	for _, s := range stays {
		if is(s) {
			n++
		}
	}
	return n
}

// shows reports whether an answer tells of all who certainly wait: by name, by their number, or for whom.
func (g *owned) shows(o *history.Op, holders, waiters []*stay) bool {
	for _, w := range waiters {
		shown := true
		switch o.Name {
		case "info":
			shown = hears(o, "waits", w)
		case "list":
			n := count(waiters, func(s *stay) bool { return s.key == w.key })
			shown = !slices.ContainsFunc(o.Out, func(word string) bool {
				rest, ok := strings.CutPrefix(word, "waiters|"+w.key+"|")
				told, _ := strconv.Atoi(rest)
				return ok && told < n
			})
		case "graph":
			shown = !slices.ContainsFunc(holders, func(s *stay) bool {
				return s.key == w.key && s.token != w.token && !hears(o, "edge", w)
			})
		}
		if !shown {
			return false
		}
	}
	return true
}

// inOrder judges the order of a line that LOCKS INFO tells, as far as there was no fault.
func (g *owned) inOrder(v *Verdict, o *history.Op) {
	var before *stay // of those that are told: the one that asked last
	for _, word := range o.Out {
		w := strings.Split(word, "|")
		i := slices.IndexFunc(g.waiters, func(s *stay) bool {
			return w[0] == "waits" && s.key == w[1] && s.token == w[2] && s.must.from > 0
		})
		if i < 0 {
			continue
		}
		at := g.waiters[i]
		if before != nil && at.must.from < before.of.Start {
			v.Add("line out of order", o, "%s comes behind %s", at.of, before.of)
		}
		if before == nil || at.of.Start > before.of.Start {
			before = at
		}
	}
}

// longestFirst judges the order of the locks in an answer of LOCKS LIST, as far as it is certain which one was got first.
func (g *owned) longestFirst(v *Verdict, o *history.Op) {
	if o.Name != "list" {
		return
	}
	var keys []string
	got := map[string]span{} // by lock: when the first of the holders that are told got it
	for _, word := range o.Out {
		w := strings.Split(word, "|")
		i := slices.IndexFunc(g.holders, func(s *stay) bool { return w[0] == "held" && s.key == w[1] && s.token == w[2] })
		if i < 0 {
			continue
		}
		of := g.holders[i].of
		since, known := got[w[1]]
		if !known {
			keys, since = append(keys, w[1]), span{of.Start, of.End}
		}
		got[w[1]] = span{min(since.from, of.Start), min(since.to, of.End)}
	}
	for i, key := range keys[min(1, len(keys)):] {
		before, this := got[keys[i]], got[key]
		if before.to+clockGrain < this.from {
			v.Stake(ruleLongest, 1)
		}
		if this.to+clockGrain < before.from {
			v.Stake(ruleLongest, 1)
			v.Add("list out of order", o, "%s was got before %s", key, keys[i])
		}
	}
}
