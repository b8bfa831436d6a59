package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"lockd/jepsen-lite/history"
)

// grant is one acquisition, with the fence that its holder read while it certainly held the lock.
type grant struct {
	acquire, read *history.Op
	fence         int64
}

// tenure is the time for which a token certainly holds its lock.
type tenure struct {
	acquire *history.Op
	until   int64
}

// fences checks that fences grow from grant to grant, over all locks, and that a resource which checks fences refuses
// exactly the late holders.
func fences(v *Verdict, h *history.History) {
	held := tenures(h)
	var grants []grant
	writes := map[string][]*history.Op{} // key -> writes to the resource
	for i := range h.Ops {
		o := &h.Ops[i]
		if !o.OK() || len(o.In) == 0 {
			continue
		}
		t := held[o.In[0]]
		surely := t != nil && o.End <= t.until
		switch {
		case o.Name == "fence" && o.Out[0] != "nil" && surely:
			f, _ := strconv.ParseInt(o.Out[0], 10, 64)
			grants = append(grants, grant{t.acquire, o, f})
		case o.Name == "write":
			if o.Out[0] == "refused" && surely {
				v.Add("holder fenced off", o, "its lease, taken in %s, had not ended", t.acquire)
			}
			writes[o.Key] = append(writes[o.Key], o)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(writes)) {
		for _, o := range writes[key] {
			guarded(v, writes[key], o)
		}
	}
	growing(v, h, grants)
	if len(grants) > 0 {
		v.Note("%d grants with their fences", len(grants))
	}
	unfenced(v, h, held)
}

// tenures returns the tenures of a history, by token.
func tenures(h *history.History) map[string]*tenure {
	held := map[string]*tenure{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name == "acquire" && o.OK() && o.Out[0] == "OK" {
			held[o.In[0]] = &tenure{o, o.Start + millis(o.In[1])}
		}
		switch {
		case len(o.In) == 0 || held[o.In[0]] == nil || !o.Maybe():
		case o.Name == "release":
			held[o.In[0]].until = min(held[o.In[0]].until, o.Start)
		case o.Name == "renew": // it may shorten the lease
			held[o.In[0]].until = min(held[o.In[0]].until, o.Start+millis(o.In[1]))
		}
	}
	return held
}

// guarded judges one write to the resource that checks fences: it accepts no smaller fence after a greater one, and
// refuses none without a reason.
func guarded(v *Verdict, writes []*history.Op, o *history.Op) {
	greater, counted := false, false
	for _, w := range writes {
		if w.Out[0] != "accepted" || millis(w.In[1]) <= millis(o.In[1]) {
			continue
		}
		greater = greater || w.Start < o.End
		if w.End < o.Start && !counted {
			counted = true
			v.Stake(ruleResource, 1)
		}
		if o.Out[0] == "accepted" && w.End < o.Start {
			v.Add("older fence accepted", o, "%s had shown a greater one", w)
			return
		}
	}
	if o.Out[0] == "refused" && !greater {
		v.Add("refused for nothing", o, "nobody had shown a greater fence")
	}
}

// unfenced counts writes of late holders while another holder certainly had the lock. Fences prevent them; without
// fences no lock service can.
func unfenced(v *Verdict, h *history.History, held map[string]*tenure) {
	byKey := map[string][]*tenure{}
	for _, t := range held {
		byKey[t.acquire.Key] = append(byKey[t.acquire.Key], t)
	}
	all, late, refused := 0, 0, 0
	for i := range h.Ops {
		switch o := &h.Ops[i]; {
		case o.Name == "write" && o.OK() && o.Out[0] == "refused":
			refused++
		case o.Name == "unfenced":
			all++
			if slices.ContainsFunc(byKey[o.Key], func(t *tenure) bool {
				return t.acquire.In[0] != o.In[0] && t.acquire.End < o.Start && o.End < t.until
			}) {
				late++
			}
		}
	}
	if all == 0 {
		return
	}
	v.Note("%d writes of late holders came while another one held the lock, and a resource without fences took them; "+
		"the fenced one refused %d",
		late, refused)
}

// growing checks that a grant that completed before another one was requested has the smaller fence.
func growing(v *Verdict, h *history.History, grants []grant) {
	byStart := slices.Clone(grants)
	slices.SortFunc(byStart, func(a, b grant) int { return cmp.Compare(a.acquire.Start, b.acquire.Start) })
	byEnd := slices.Clone(grants)
	slices.SortFunc(byEnd, func(a, b grant) int { return cmp.Compare(a.acquire.End, b.acquire.End) })
	var top grant
	seen := map[int64]*history.Op{}
	next := 0
	for _, g := range byStart {
		for ; next < len(byEnd) && byEnd[next].acquire.End < g.acquire.Start; next++ {
			if byEnd[next].fence > top.fence {
				top = byEnd[next]
			}
		}
		if top.fence > 0 {
			v.Stake(ruleFence, 1)
			v.Stake(ruleFenceOver, begunIn(h, top.acquire.End, g.acquire.Start))
		}
		if g.fence <= top.fence {
			v.Add("fence not greater", g.read, "fence %d of %s, but %d was given before to %s", g.fence, g.acquire,
				top.fence, top.acquire)
		}
		if other := seen[g.fence]; other != nil && other != g.acquire {
			v.Add("fence not greater", g.read, "fence %d was given to %s too", g.fence, other)
		}
		seen[g.fence] = g.acquire
	}
}
