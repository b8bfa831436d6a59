package model

import (
	"strconv"

	"lockd/jepsen-lite/history"
)

// Waiters judges locks whose losers wait. acquire token ms = OK | nil left owner has a token of its own for each try,
// and tells how long the lock may still be held, and by which token. release token = 1 | 0 publishes. wait left owner =
// woken | timeout | cut | left is a wait of a process that subscribed before the try. The promises of Lock hold, too.
//
// No waiter sleeps longer than the lease that it was told, nor through a release; and the told lease is what is left of
// the owner's.
func Waiters(h *history.History) *Verdict {
	v := Lock(h)
	clock := newLogClock(h, func(o *history.Op) bool { return o.Name == "acquire" || o.Name == "release" })
	owners := map[string]*history.Op{}
	releases := map[string][]*history.Op{}
	waits := map[string]int{}
	for i := range h.Ops {
		o := &h.Ops[i]
		switch {
		case o.Name == "acquire":
			owners[o.In[0]] = o
		case o.Name == "release" && o.OK() && o.Out[0] == "1":
			releases[o.Key] = append(releases[o.Key], o)
		}
	}
	for i := range h.Ops {
		switch o := &h.Ops[i]; {
		case !o.OK():
		case o.Name == "acquire" && o.Out[0] == "nil":
			toldRight(v, clock, o, owners[o.Out[2]])
		case o.Name == "wait":
			waits[o.Out[0]]++
			slept(v, h, o, releases[o.Key])
		}
	}
	v.Note("%d waits were ended by a release, %d by their time, %d by a broken connection",
		waits["woken"], waits["timeout"], waits["cut"])
	return v
}

// toldRight judges the lease that a try was told.
func toldRight(v *Verdict, clock *logClock, o, owner *history.Op) {
	v.Stake(ruleToldLong, 1)
	v.Stake(ruleToldLease, 1)
	told, err := strconv.ParseInt(o.Out[1], 10, 64)
	told *= msNs
	switch {
	case err != nil || told < 0:
		v.Add("told nonsense", o, "the lock is held, and has a lease")
		return
	case owner == nil || owner.Start > o.End || owner.Outcome == history.Fail:
		v.Add("lock held by the wrong one", o, "%s never tried to take it", o.Out[2])
		return
	}
	lease := millis(owner.In[1])
	most := lease
	if owner.OK() {
		most = min(most, owner.End+lease+clock.lostMax(owner.Start, o.Start)-o.Start)
	}
	if told > max(most, 0)+expiryBound {
		v.Add("told too long", o, "%d ms are left at most of the lease taken in %s", max(most, 0)/msNs, owner)
	}
	if least := lease - clock.ranMax(owner.Start, o.End); owner.OK() && told+msNs < least {
		v.Add("told too short", o, "%d ms are left at least of the lease taken in %s", least/msNs, owner)
	}
}

// slept judges one wait.
func slept(v *Verdict, h *history.History, o *history.Op, releases []*history.Op) {
	v.Stake(ruleSleep, 1)
	if told := millis(o.In[0]); o.End > o.Start+told+wakeBound {
		v.Add("overslept", o, "it was told %s ms", o.In[0])
	}
	for _, r := range releases { // in the order of their starts
		if r.Start <= o.Start {
			continue
		}
		if r.Start < o.End {
			v.Stake(ruleWoken, 1)
		}
		if o.End > dueAt(h, r.End) {
			v.Add("not woken", o, "it slept through %s", r)
		}
		return
	}
}
