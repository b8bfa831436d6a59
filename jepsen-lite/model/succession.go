package model

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// In a succession two clients wait at different nodes for something that a third client has and gives away, and no other
// client asks for it: a lock, or elements of a list (probe.go). The first waiter hangs up, or the marks of the history
// tell that its node was dead, silent or well when the third client gave. That decides which waiter must get it:
//
//	the first hung up, or its node was dead or silent for long   the second, in time
//	its node was silent only for a short while before            the first keeps its place
//	anything else                                                not judged

// Bounds of a succession, in ns.
const (
	// settledIn bounds the time until a request is in line, while a majority serves.
	settledIn = int64(500 * time.Millisecond)
	// contactMax bounds the time until the other nodes know that a node is silent.
	contactMax = int64(1500 * time.Millisecond)
	// deliveryMax bounds the time until a living client must have what was given away.
	deliveryMax = answerMax
	// placeMax is a silence of a node in which its clients certainly keep their places in line: less than the lease of
	// its session less the time between two renewals.
	placeMax = int64(4 * time.Second)
	// staleMax bounds the age of an answer to a waiter, as far as a client can tell.
	staleMax = answerMax
)

// judgedKinds are the faults under which successions are judged: they leave links and disks alone, and marks tell what
// they do to nodes.
var judgedKinds = []string{absentKind, "kill", "pause", "restart", "transfer"}

// absentKind is the fault that is made for the promises about silent nodes.
const absentKind = "absent"

// absentKilled is the half of these faults in which all who wait at the node are gone. A paused node is mostly back before
// that shows.
const absentKilled = absentKind + ": kill"

// succession is one succession, as far as the history tells.
type succession struct {
	h             *history.History
	first, second *history.Op // the waiters
	again         *history.Op // the first one's request with its token, which it repeats at another node; nil: it does not
	tried         int64       // when the third client first gave away, or tried to
	given         *history.Op // when it certainly did; nil: never
	got           func(o *history.Op) bool
	before        func(b, a *history.Op) bool // b, which got something, was served before a
}

// due returns when the second waiter must have what was given away, if the first one had no claim since a moment.
func (w *succession) due(since int64) int64 {
	return max(w.given.End, since, w.second.Start+settledIn) + deliveryMax
}

// lives reports whether a node served all the time, beside a serving majority, over whole links.
func lives(h *history.History, node string, from, to int64) bool {
	return slices.ContainsFunc(h.Quorums, func(q history.Quorum) bool {
		return !q.Slow && q.Start <= from && q.End >= to
	}) && well(h, node, from, to)
}

// well reports whether a node served all the time, and all its links were whole.
func well(h *history.History, node string, from, to int64) bool {
	bad := map[[2]string]bool{}
	for _, m := range h.Marks {
		switch {
		case m.Time >= to:
			return len(bad) == 0
		case m.Time > from && len(bad) > 0:
			return false
		case (m.Op == history.Leaves || m.Op == history.Serves) && m.Node == node:
			setOrDelete(bad, [2]string{}, m.Op == history.Leaves)
		case m.Op == history.Link && (m.Node == node || m.Key == node):
			setOrDelete(bad, [2]string{m.Node, m.Key}, !slices.Equal(m.Value, []string{history.LinkWhole}))
		}
	}
	return len(bad) == 0
}

func setOrDelete[K comparable](set map[K]bool, key K, there bool) {
	if there {
		set[key] = true
	} else {
		delete(set, key)
	}
}

// silence is a time in which a node did not serve.
type silence struct {
	from, to int64 // Forever, if the node was not seen to serve again
	dead     bool  // its process ended
}

// silentFrom returns the first silence of a node that began in a time.
func silentFrom(h *history.History, node string, from, to int64) (s silence, ok bool) {
	for _, m := range h.Marks {
		switch {
		case m.Node != node:
		case !ok && m.Op == history.Leaves && m.Time >= from && m.Time < to:
			s, ok = silence{from: m.Time, to: history.Forever}, true
		case ok && m.Op == history.Down && m.Time < s.to:
			s.dead = true
		case ok && m.Op == history.Serves && s.to == history.Forever:
			s.to = m.Time
		}
	}
	return s, ok
}

// lastSilence returns the last silence of a node that began in a time, or the one in which its process ended. lapsed
// reports that an earlier one was so long that clients of the node may have lost their places.
func lastSilence(h *history.History, node string, from, to int64) (s silence, lapsed, ok bool) {
	for {
		next, more := silentFrom(h, node, from, to)
		if !more {
			return s, lapsed, ok
		}
		lapsed = lapsed || ok && s.to-s.from >= placeMax
		s, ok = next, true
		if s.dead {
			return s, lapsed, true
		}
		from = s.from + 1
	}
}

// only reports whether all faults near a time are of judgedKinds.
func only(h *history.History, from, to int64) bool {
	return !slices.ContainsFunc(h.Faults, func(f history.Window) bool {
		near := f.Start < to && f.End+settledIn > from
		return near && (!slices.Contains(judgedKinds, f.Kind) || strings.Contains(f.What, "flutter"))
	})
}

// judge judges one succession.
func (w *succession) judge(v *Verdict) {
	if w.first == nil || w.second == nil || w.given == nil ||
		!lives(w.h, w.first.Node, w.first.Start, w.first.Start+settledIn) {
		return // the first waiter may not have been in line
	}
	if w.again != nil {
		w.inPlaceAgain(v)
		return
	}
	switch gone, lapsed, ok := lastSilence(w.h, w.first.Node, w.first.Start+settledIn, w.given.End); {
	case w.first.Error == Gone:
		w.served(v, ruleHungUp, w.first.Told)
	case !ok:
		w.inPlaceOverFaults(v)
	case gone.from >= w.tried: // the first waiter may have got it before the silence
	case gone.dead || gone.to > w.due(gone.from+contactMax):
		w.served(v, ruleGhost, gone.from+contactMax)
	case !lapsed && gone.to+contactMax < w.tried && gone.to-gone.from < placeMax:
		w.inPlace(v, rulePlace)
	}
}

// served judges that the second waiter got what was given away, in time, after the first one had gone.
func (w *succession) served(v *Verdict, rule *Rule, gone int64) {
	due := w.due(gone)
	has := w.got(w.second) && w.second.End <= due
	until := due
	if has { // later events do not count: the history may have ended
		until = max(w.given.End, w.second.End)
	}
	if !w.second.OK() && w.second.Told < due || !only(w.h, w.first.Start, until) ||
		w.second.Start+waits(w.second) < due || !lives(w.h, w.second.Node, w.given.Start, until) {
		return
	}
	v.Stake(rule, 1)
	if !has {
		v.Add(rule.Kinds[0], w.second, "%s gave it away, and the waiter in front is gone: %s", w.given, w.first)
	}
}

// inPlaceOverFaults judges that a waiter whose node served all the time was not overtaken, if there were faults while it
// waited: the leader may have changed, and the new one knows the line, too. There was none when the third client gave,
// since a grant whose client is not told in time may be taken back.
func (w *succession) inPlaceOverFaults(v *Verdict) {
	in, until := w.second.Start+settledIn, max(w.given.End, min(w.first.End, w.second.End))
	calm := w.tried - contactMax
	if w.first.Node == w.second.Node || w.second.Start < w.first.Start+settledIn || in > calm ||
		w.h.Disturbed(w.first.Start, in, 0) > 0 || w.h.Disturbed(in, calm, 0) == 0 || w.h.Disturbed(calm, until, 0) > 0 ||
		!well(w.h, w.first.Node, w.first.Start, until) || !lives(w.h, w.first.Node, calm, until) {
		return
	}
	w.inPlace(v, rulePlaceOver)
}

// inPlaceAgain judges that a waiter which has asked again, at another node, has the place that it had, if there was no
// fault.
func (w *succession) inPlaceAgain(v *Verdict) {
	until := max(w.given.End, min(w.again.Told, w.second.Told))
	if w.second.Start < w.first.Start+settledIn || w.again.Start < w.second.Start+settledIn ||
		w.tried < w.again.Start+settledIn || w.h.Disturbed(w.first.Start, until, settleTime) > 0 ||
		!w.again.OK() || w.again.Start+waits(w.again) < w.given.End+settledIn {
		return
	}
	v.Stake(rulePlaceAgain, 1)
	if w.got(w.second) && w.before(w.second, w.again) {
		v.Add("place lost by asking again", w.second, "%s came before it, and took over the place of %s", w.again, w.first)
	}
}

// inPlace judges that the first waiter got what was given away before the second one.
func (w *succession) inPlace(v *Verdict, rule *Rule) {
	if !w.first.OK() || w.first.Start+waits(w.first) < w.given.End+settledIn ||
		!only(w.h, w.first.Start, w.given.End+settledIn) {
		return
	}
	v.Stake(rule, 1)
	if w.got(w.second) && w.before(w.second, w.first) {
		v.Add("place lost", w.second, "%s came before it, and kept its place in line", w.first)
	}
}

// SuccessionKey is in the names of locks of successions. One client has the lock, or all its permits but one by other
// tokens. Two clients wait for it by enter, in the order of their starts, and the first client releases it.
const SuccessionKey = "succession"

// successions judges the locks of successions: a released lock goes to a living client, in time, and a client that
// keeps its place gets it. It also judges that no answer of any lock is older than staleMax.
func successions(v *Verdict, h *history.History, byKey map[string]*lineOf) {
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		l := byKey[key]
		if strings.Contains(key, SuccessionKey) {
			l.succession(h).judge(v)
		}
		l.stale(v, h)
	}
}

// succession finds the roles of the clients.
func (l *lineOf) succession(h *history.History) *succession {
	w := &succession{h: h, got: isGrant, before: precedes}
	for _, o := range l.ops {
		switch {
		case o.Name == "enter" && w.first == nil:
			w.first = o
		case o.Name == "enter" && o.In[0] == w.first.In[0]:
			w.again = o
		case o.Name == "enter" && w.second == nil:
			w.second = o
		case o.Name == "release" && o.In[0] == l.ops[0].In[0]:
			if w.tried == 0 {
				w.tried = o.Start
			}
			if o.OK() && w.given == nil {
				w.given = o
			}
		}
	}
	return w
}

// stale reports answers to waiters that arrived when the token had lost the lock again, more than staleMax ago.
// That is at stake after a silence of their node.
func (l *lineOf) stale(v *Verdict, h *history.History) {
	for _, o := range l.ops {
		fence, granted := fenceOf(o)
		if o.Name != "enter" || !granted || o.Slept > 0 || !only(h, o.Start, o.End) {
			continue
		}
		if gone, ok := silentFrom(h, o.Node, o.Start, o.End); ok && !gone.dead {
			v.Stake(ruleStale, 1)
		}
		switch by := l.evidence(o, fence); {
		case by == nil:
		case by.In[0] == o.In[0]:
			v.Add("granted too late", o, "its lease was over so soon after that: %s", by)
		default:
			v.Add("granted too late", o, "%s had got it after that one, and knew", by)
		}
	}
}

// evidence returns an operation that shows that the grant o was answered at least staleMax after its token had lost the
// lock: a greater fence was granted and heard of before, or the token did not hold the lock although its lease could
// not have ended yet. nil: there is none.
func (l *lineOf) evidence(o *history.Op, fence int64) *history.Op {
	for _, b := range l.ops {
		other, granted := fenceOf(b)
		if granted && b.In[0] != o.In[0] && other > fence && !goTogether(modeOf(o), modeOf(b)) &&
			b.End+staleMax < o.End && b.Name != "renew" {
			return b
		}
	}
	for _, b := range l.ops { // in the order of their starts
		if len(b.In) == 0 || b.In[0] != o.In[0] || b.Start < o.End {
			continue
		}
		lost := b.OK() && (b.Name == "renew" && b.Out[0] == absent || b.Name == "release" && b.Out[0] == "0")
		age := millis(o.In[1]) - (b.End - o.End) // at least
		if lost && age > staleMax && age < o.End-o.Start && l.alone(o) {
			return b
		}
		return nil
	}
	return nil
}

// alone reports whether no other request of o's token was made until o was answered. Another one could have changed the
// lease.
func (l *lineOf) alone(o *history.Op) bool {
	return !slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		return b != o && len(b.In) > 0 && b.In[0] == o.In[0] && b.Start < o.End
	})
}
