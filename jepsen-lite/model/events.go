package model

import (
	"maps"
	"slices"

	"lockd/jepsen-lite/history"
)

// leased is a key that one worker sets once, and may renew and delete.
type leased struct {
	set   *history.Op
	until []*history.Op // the operations from one of which the lease counts
	must  bool          // it certainly ends by itself
	never bool          // it certainly does not
	high  int64         // it ends before, if a node leads all the time
}

// Events judges the messages about ended leases: set ms = OK; renew ms = 1 | 0; del = 1 | 0. Each key is used by one
// worker. The end of a key is published once, not before its time, to all who subscribed in time and stay connected, in
// one order for all. The end by DEL is not published.
func Events(h *history.History) *Verdict {
	v := &Verdict{}
	clock := newLogClock(h, func(*history.Op) bool { return false }) // only its halts count
	keys := leasesOf(h)
	subs := subscriptionsOf(v, h)
	told := 0
	for _, e := range subs {
		told += len(e.heard)
		v.Stake(ruleEndEarly, len(e.heard))
		for key, o := range e.heard {
			keys[key].event(v, clock, o)
		}
		for _, k := range keys {
			k.untold(v, h, e)
			if k.never && e.from < k.set.Start && e.until > k.set.Told {
				v.Stake(ruleNoEnd, 1)
			}
		}
		skipped(v, keys, e)
	}
	orders(v, subs)
	holes(v, ruleNoEndMissed, subs, func(key string) *history.Op {
		if k := keys[key]; k != nil {
			return k.set
		}
		return nil
	})
	v.Note("%d subscriptions, %d keys, %d messages about ended leases", len(subs), len(keys), told)
	return v
}

// leasesOf collects the keys of a history.
func leasesOf(h *history.History) map[string]*leased {
	keys := map[string]*leased{}
	for i := range h.Ops {
		o := &h.Ops[i]
		k := keys[o.Key]
		switch {
		case o.Name == "set":
			k = &leased{set: o, until: []*history.Op{o}, must: o.OK(), never: o.Outcome == history.Fail}
			if o.OK() {
				k.high = o.End + millis(o.In[0])
			}
			keys[o.Key] = k
		case k != nil && o.Name == "renew":
			k.renew(o)
		case k != nil && o.Name == "del":
			k.never = k.never || o.OK() && o.Out[0] == "1"
			k.must = k.must && o.Outcome != history.Info && !k.never
		}
	}
	return keys
}

// renew restarts the lease. If the outcome of the renewal is unknown, it may have happened at any moment before the end
// of the key.
func (k *leased) renew(o *history.Op) {
	ttl := millis(o.In[0])
	switch {
	case o.OK() && o.Out[0] == "1":
		k.until, k.high = []*history.Op{o}, o.End+ttl
	case o.Outcome == history.Info:
		k.until, k.high = append(k.until, o), k.high+ttl
	}
}

// event judges one message.
func (k *leased) event(v *Verdict, clock *logClock, o *history.Op) {
	switch {
	case k == nil || k.set.Start > o.End:
		v.Add("never set", o, "nobody had set that key")
		return
	case k.never:
		v.Add("told of no end", o, "%s was refused, or the key was deleted", k.set)
		return
	}
	left := int64(1) << 62
	for _, from := range k.until {
		left = min(left, millis(from.In[0])-clock.ranMax(from.Start, o.End))
	}
	if left > 0 {
		v.Add("told early", o, "its time counts from %s: %.3f ms are left at least", k.until[len(k.until)-1],
			float64(left)/1e6)
	}
}

// untold judges whether a subscription got the message in time.
func (k *leased) untold(v *Verdict, h *history.History, e *subscription) {
	if !k.must || e.from > k.set.Start {
		return
	}
	due, heard := dueAt(h, k.high), e.heard[k.set.Key]
	if heard != nil || e.listened(h, due) {
		v.Stake(ruleEndTold, 1)
	}
	switch {
	case heard == nil && e.listened(h, due):
		v.Add("not told", k.set, "process %d listened since %s, was not cut off, and was not told of the key's end",
			e.process, e.start)
	case heard != nil && heard.Start > due:
		v.Add("told late", heard, "its time counts from %s: %.3f s late", k.until[len(k.until)-1],
			float64(heard.Start-k.high)/1e9)
	}
}

// skipped checks that a subscription which heard of one end also heard of the earlier ends: of shorter leases that were
// given before the other one was requested. It needs no bound on time.
func skipped(v *Verdict, keys map[string]*leased, e *subscription) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		if !k.must || len(k.until) != 1 || e.from > k.set.Start || e.heard[name] != nil {
			continue
		}
		for _, other := range e.order {
			o := keys[other]
			if o != nil && len(o.until) == 1 && o.until[0].Start > k.until[0].End &&
				millis(o.until[0].In[0]) > millis(k.until[0].In[0]) {
				v.Add("missed", e.heard[other], "the lease of %s had ended before, and process %d was not told of it",
					k.until[0], e.process)
				break
			}
		}
	}
}
