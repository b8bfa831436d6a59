package model

import (
	"maps"
	"slices"
	"strings"

	"lockd/jepsen-lite/history"
)

// VigilKey is in the names of locks for which three clients ask alone. The first one has it, or all its permits but one
// by other tokens; two wait for it by enter, in the order in which they came; and the first one releases it.
const VigilKey = "vigil"

// vigils judges the locks of vigils: what is released goes to a client that is there, in time, and who keeps his place
// has it. And no answer of any lock is older than the bound.
func vigils(v *Verdict, h *history.History, byKey map[string]*lineOf) {
	var all stakes
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		l := byKey[key]
		if strings.Contains(key, VigilKey) {
			all.add(l.vigil(h).judge(v))
		}
		all.stale += l.stale(v, h)
	}
	all.tell(v, h, "locks that were released", true)
}

// vigil finds who was who.
func (l *lineOf) vigil(h *history.History) *watch {
	w := &watch{h: h, got: isGrant, before: precedes}
	for _, o := range l.ops {
		switch {
		case o.Name == "enter" && w.first == nil:
			w.first = o
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

// stale looks for answers to those who waited that came when the lock was theirs no longer, for longer than an answer
// takes. It returns how many of them were given after a silence of their node.
func (l *lineOf) stale(v *Verdict, h *history.History) (silences int) {
	for _, o := range l.ops {
		fence, granted := fenceOf(o)
		if o.Name != "enter" || !granted || o.Slept > 0 || !only(h, o.Start, o.End) {
			continue
		}
		if gone, ok := silentFrom(h, o.Node, o.Start, o.End); ok && !gone.dead {
			silences++
		}
		switch by := l.evidence(o, fence); {
		case by == nil:
		case by.In[0] == o.In[0]:
			v.Add("granted too late", o, "its lease was over so soon after that: %s", by)
		default:
			v.Add("granted too late", o, "%s had got it after that one, and knew", by)
		}
	}
	return silences
}

// evidence is what shows that o, which was granted a lock, was told so when it had it no longer, for staleMax and
// longer: a greater fence was granted and heard of before, or the token did not hold it before it can have ended.
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

// alone reports whether nothing else was asked for with the token of o until it was answered, by which its lease may be
// another one.
func (l *lineOf) alone(o *history.Op) bool {
	return !slices.ContainsFunc(l.ops, func(b *history.Op) bool {
		return b != o && len(b.In) > 0 && b.In[0] == o.In[0] && b.Start < o.End
	})
}
