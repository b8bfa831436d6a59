package model

import (
	"strconv"
	"time"

	"lockd/jepsen-lite/history"
)

// The bounds that a key's end is held to, in ns. Without a fault a key is gone
// expiryBound after its time; a lease does not run while nobody leads, and the
// answers of a disturbed cluster say nothing about its clock, so the time of faults
// and settleTime after each is added. A node that comes back after all had been
// down may be clockLag behind: that much a remaining time may grow over a fault.
const (
	expiryBound = int64(500 * time.Millisecond)
	settleTime  = int64(5 * time.Second)
	clockLag    = int64(5 * time.Second)
	pttlSlack   = int64(5 * time.Millisecond)
)

// life is what is known of one key: it is set once, and only its process looks.
type life struct {
	set  *history.Op
	ttl  int64       // ns
	gone *history.Op // the first look that did not find it
	pttl *history.Op // the last look at its remaining time
	left int64       // and what it said, ns
}

// Expiry judges keys that are set once with a time to live: set value ms = OK;
// get = value | nil; pttl = ms | -2; exists = 1 | 0.
func Expiry(h *history.History) *Verdict {
	v := &Verdict{}
	lives := map[string]*life{}
	ended := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name == "set" {
			if o.OK() {
				lives[o.Key] = &life{set: o, ttl: millis(o.In[1])}
			}
			continue
		}
		l := lives[o.Key]
		if l == nil || !o.OK() {
			continue
		}
		if o.Out[0] == "nil" || o.Name == "pttl" && o.Out[0] == "-2" || o.Name == "exists" && o.Out[0] == "0" {
			if l.gone == nil {
				ended++
				l.gone = o
			}
			if o.End < l.set.Start+l.ttl {
				v.Add("gone early", o, "%s gave it %d ms, and %.3f ms of them are left at least", l.set, l.ttl/msNs, float64(l.set.Start+l.ttl-o.End)/1e6)
			}
			continue
		}
		l.present(v, h, o)
	}
	v.Note("%d keys, %d seen to end", len(lives), ended)
	return v
}

// present judges a look that found the key.
func (l *life) present(v *Verdict, h *history.History, o *history.Op) {
	if l.gone != nil && l.gone.End < o.Start {
		v.Add("came back", o, "%s had not found it", l.gone)
	}
	late := l.set.End + l.ttl + expiryBound
	if o.Start > late {
		if extra := h.Disturbed(l.set.Start, o.Start, settleTime); o.Start > late+extra {
			v.Add("gone late", o, "%s gave it %d ms: %.3f ms too long, with %.3f ms of disturbance allowed for", l.set, l.ttl/msNs, float64(o.Start-late-extra)/1e6, float64(extra)/1e6)
		}
	}
	switch o.Name {
	case "get":
		if o.Out[0] != l.set.In[0] {
			v.Add("wrong value", o, "only %q was ever set", l.set.In[0])
		}
	case "pttl":
		l.remaining(v, h, o)
	}
}

// remaining judges what PTTL says.
func (l *life) remaining(v *Verdict, h *history.History, o *history.Op) {
	ms, err := strconv.ParseInt(o.Out[0], 10, 64)
	left := ms * msNs
	switch {
	case err != nil || left < 0:
		v.Add("wrong remaining time", o, "the key exists and has a time to live")
	case left > l.ttl:
		v.Add("remaining time grew", o, "%s gave it %d ms", l.set, l.ttl/msNs)
	case left+msNs < l.set.Start+l.ttl-o.End:
		v.Add("remaining time too short", o, "%s gave it %d ms: %d ms are left at least", l.set, l.ttl/msNs, (l.set.Start+l.ttl-o.End)/msNs)
	}
	if l.pttl != nil && left > l.left+pttlSlack {
		allowed := int64(0)
		if d := h.Disturbed(l.pttl.Start, o.End, settleTime); d > 0 {
			allowed = d + clockLag
		}
		if left > l.left+pttlSlack+allowed {
			v.Add("remaining time grew", o, "%s said %d ms", l.pttl, l.left/msNs)
		}
	}
	l.pttl, l.left = o, left
}
