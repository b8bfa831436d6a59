package model

import (
	"slices"
	"strconv"
	"time"

	"lockd/jepsen-lite/history"
)

// Bounds on the end of a key, in ns. A key is gone expiryBound after its time. While a fault lasts, and for settleTime
// after it, the answers of a cluster may be late.
const (
	expiryBound = int64(500 * time.Millisecond)
	settleTime  = int64(5 * time.Second)
	pttlSlack   = int64(5 * time.Millisecond)
)

// life is the known state of one key, which is set once and read by its own process only.
type life struct {
	set  *history.Op
	ttl  int64       // ns
	gone *history.Op // the first look that did not find the key
	pttl *history.Op // the last look at the remaining time
	left int64       // its answer, in ns
}

// Expiry judges by real time keys that are set once with a time to live: set value ms = OK; grant value ms; get = value
// | nil; pttl = ms | -2; exists = 1 | 0. Operations "beat" are other writes, which show that a node leads. Leases
// judges what scripts see.
//
// A key's time stands still while no node can lead (logClock.ranMax), so the key must exist that long. It runs while a
// node leads (logClock.lostMax), so afterwards the key must be gone, and until then its remaining time shrinks like
// real time.
func Expiry(h *history.History) *Verdict {
	v := &Verdict{}
	clock := newLogClock(h, func(o *history.Op) bool { return slices.Contains(leaseWrites, o.Name) })
	lives := map[string]*life{}
	ended := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		if (o.Name == "set" || o.Name == "grant") && o.OK() {
			lives[o.Key] = &life{set: o, ttl: millis(o.In[1])}
		}
		l := lives[o.Key]
		if l == nil || l.set == o || !o.OK() || o.Name == "observe" || o.Name == "glance" {
			continue
		}
		l.stakes(v, h, clock, o)
		if o.Out[0] == "nil" || o.Name == "pttl" && o.Out[0] == "-2" || o.Name == "exists" && o.Out[0] == "0" {
			if l.gone == nil {
				ended++
				l.gone = o
			}
			if left := l.leftMin(clock, o); left > 0 {
				v.Add("gone early", o, "%s gave it %d ms, and %.3f ms of them are left at least", l.set, l.ttl/msNs,
					float64(left)/1e6)
			}
			continue
		}
		l.present(v, clock, o)
	}
	v.Note("%d keys, %d seen to end", len(lives), ended)
	return v
}

// stakes counts what a look at the key puts at stake.
func (l *life) stakes(v *Verdict, h *history.History, clock *logClock, o *history.Op) {
	lives, over := l.leftMin(clock, o) > 0, o.Start > l.set.End+l.ttl
	if lives {
		v.Stake(ruleNotGone, 1)
	}
	if over {
		v.Stake(ruleGone, 1)
	}
	if l.gone != nil && l.gone.End < o.Start || l.pttl != nil && o.Name == "pttl" {
		v.Stake(ruleStaysGone, 1)
	}
	if (lives || over) && begunIn(h, l.set.End, o.Start) > 0 {
		v.Stake(ruleOverFaults, 1)
	}
}

// begunIn returns how many faults began in a time.
func begunIn(h *history.History, from, to int64) (faults int) {
	for _, f := range h.Faults {
		if from < f.Start && f.Start < to {
			faults++
		}
	}
	return faults
}

// leftMin returns a lower bound of the key's remaining time at the end of o.
func (l *life) leftMin(clock *logClock, o *history.Op) int64 {
	return l.ttl - clock.ranMax(l.set.Start, o.End)
}

// leftMax returns an upper bound of the key's remaining time at the start of o; it is negative after the key's time.
func (l *life) leftMax(clock *logClock, o *history.Op) int64 {
	return l.set.End + l.ttl + clock.lostMax(l.set.Start, o.Start) - o.Start
}

// present judges a look that found the key.
func (l *life) present(v *Verdict, clock *logClock, o *history.Op) {
	if l.gone != nil && l.gone.End < o.Start {
		v.Add("came back", o, "%s had not found it", l.gone)
	}
	if late := -l.leftMax(clock, o) - expiryBound; late > 0 {
		v.Add("gone late", o, "%s gave it %d ms: %.3f ms too long, although there were writes meanwhile", l.set,
			l.ttl/msNs, float64(late)/1e6)
	}
	switch o.Name {
	case "get":
		if o.Out[0] != l.set.In[0] {
			v.Add("wrong value", o, "only %q was ever set", l.set.In[0])
		}
	case "pttl":
		l.remaining(v, clock, o)
	}
}

// remaining judges what PTTL says.
func (l *life) remaining(v *Verdict, clock *logClock, o *history.Op) {
	ms, err := strconv.ParseInt(o.Out[0], 10, 64)
	left := ms * msNs
	most := max(l.leftMax(clock, o), 0) + expiryBound
	switch {
	case err != nil || left < 0:
		v.Add("wrong remaining time", o, "the key exists and has a time to live")
	case left > l.ttl:
		v.Add("remaining time grew", o, "%s gave it %d ms", l.set, l.ttl/msNs)
	case left > most:
		v.Add("remaining time too long", o, "%s gave it %d ms: %d ms may be left at most", l.set, l.ttl/msNs, most/msNs)
	case left+msNs < l.leftMin(clock, o):
		v.Add("remaining time too short", o, "%s gave it %d ms: %d ms are left at least", l.set, l.ttl/msNs,
			l.leftMin(clock, o)/msNs)
	}
	if l.pttl != nil {
		allowed := clock.lostMax(clock.gapBefore(l.pttl.Start), o.End) + pttlSlack
		if left > l.left+allowed {
			v.Add("remaining time grew", o, "%s said %d ms, and a change of the leader may have added %d ms at most",
				l.pttl, l.left/msNs, allowed/msNs)
		}
	}
	l.pttl, l.left = o, left
}
