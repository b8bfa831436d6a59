package model

import (
	"maps"
	"slices"

	"lockd/jepsen-lite/history"
)

// leased is a key that one worker sets once, and may renew and delete.
type leased struct {
	set   *history.Op
	until []*history.Op // set and renew: the key's time counts from one of these
	must  bool          // it ends by itself, for sure
	never bool          // it certainly does not
	high  int64         // it ends before, if somebody leads all the time
}

// Events judges the messages that tell of ended leases: set ms = OK; renew ms = 1 |
// 0; del = 1 | 0; keys are used by one worker each. A key that ends tells so, once,
// not before its time, to all who listened in time and are not cut off, in one order
// for all. One that is deleted does not.
func Events(h *history.History) *Verdict {
	v := &Verdict{}
	clock := newLogClock(h, func(*history.Op) bool { return false }) // only for when it cannot run
	keys := leasesOf(h)
	ears := earsOf(v, h)
	told := 0
	for _, e := range ears {
		told += len(e.heard)
		for key, o := range e.heard {
			keys[key].event(v, clock, o)
		}
		for _, k := range keys {
			k.untold(v, h, e)
		}
		skipped(v, keys, e)
	}
	orders(v, ears)
	holes(v, ears, func(key string) *history.Op {
		if k := keys[key]; k != nil {
			return k.set
		}
		return nil
	})
	v.Note("%d subscriptions, %d keys, %d times told of an end", len(ears), len(keys), told)
	return v
}

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

// renew counts the key's time anew; if nobody knows whether it was renewed, it may
// have been at any moment before the key ended.
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

// untold judges that an ear was told of the end, and in time.
func (k *leased) untold(v *Verdict, h *history.History, e *ear) {
	if !k.must || e.from > k.set.Start {
		return
	}
	due := dueAt(h, k.high)
	switch heard := e.heard[k.set.Key]; {
	case heard == nil && e.listened(h, due):
		v.Add("not told", k.set, "process %d listened since %s, was not cut off, and was not told of the key's end",
			e.process, e.start)
	case heard != nil && heard.Start > due:
		v.Add("told late", heard, "its time counts from %s: %.3f s late", k.until[len(k.until)-1],
			float64(heard.Start-k.high)/1e9)
	}
}

// skipped checks that an ear which was told of an end was told of those that came before
// it: of a lease that was shorter, and given before the other one was asked for. It
// holds without any bound on time.
func skipped(v *Verdict, keys map[string]*leased, e *ear) {
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
