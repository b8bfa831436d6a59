package model

import (
	"slices"
	"strconv"

	"lockd/jepsen-lite/history"
)

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
