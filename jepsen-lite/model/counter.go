package model

import (
	"cmp"
	"slices"
	"strconv"

	"lockd/jepsen-lite/history"
)

// Counter judges counters that only grow, by one: add = the new value; read = the value. No acknowledged addition is
// lost, and none is done twice. As many additions as there are unknown outcomes could hide a second execution, so there
// are also marks, each with a digit of its own: mark number = the new value; sum = the value.
func Counter(h *history.History) *Verdict {
	v := &Verdict{}
	for _, c := range countersOf(h, 0, 1) {
		c.check(v)
	}
	marks(v, h)
	return v
}

// stockStart is the number of pieces in a new stock.
const stockStart = 1_000_000

// StockStart returns the number of pieces in a new stock.
func StockStart() string { return strconv.Itoa(stockStart) }

// Stock judges stocks that shrink by one: take buyer = pieces that are left, and pieces of the buyer; read = pieces
// that are left; sold = buyers and their pieces, in several keys.
func Stock(h *history.History) *Verdict {
	v := &Verdict{}
	for _, c := range countersOf(h, stockStart, -1) {
		c.check(v)
	}
	takes, s := map[string]changes{}, newStakes()
	defer s.count(v)
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "take" {
			continue
		}
		buyer, list := o.In[0], o.In[1]
		if takes[list] == nil {
			takes[list] = changes{}
		}
		takes[list][buyer] = o
		if o.OK() && o.Out[1] != "1" {
			v.Add("done twice", o, "its buyer has %s pieces now, and asked for one", o.Out[1])
		}
	}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "sold" || !o.OK() {
			continue
		}
		short := *o
		short.Out = []string{"..."}
		takes[o.Key].check(v, s, &short, timesOf(o.Out))
	}
	return v
}

// tally is one counter, with the number of changes that each operation saw.
type tally struct {
	changes []*history.Op // done or perhaps done
	seen    []reading
}

// reading is a number that an operation saw.
type reading struct {
	op     *history.Op
	count  int64
	change bool // the operation is change number count
}

// tallied are the operations that change or show a number.
var tallied = []string{"add", "take", "read"}

// countersOf collects the counters of a history.
func countersOf(h *history.History, start, step int64) map[string]*tally {
	all := map[string]*tally{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Outcome == history.Fail || !slices.Contains(tallied, o.Name) {
			continue
		}
		c := all[o.Key]
		if c == nil {
			c = &tally{}
			all[o.Key] = c
		}
		change := o.Name != "read"
		if change {
			c.changes = append(c.changes, o)
		}
		if !o.OK() {
			continue
		}
		value := start
		if o.Out[0] != "nil" {
			value, _ = strconv.ParseInt(o.Out[0], 10, 64)
		}
		c.seen = append(c.seen, reading{o, (value - start) / step, change})
	}
	return all
}

// check compares each reading with the number of changes that were acknowledged before it began, with the number that
// were sent before it ended, and with earlier readings.
func (c *tally) check(v *Verdict) {
	var acked, sent []int64
	for _, o := range c.changes {
		sent = append(sent, o.Start)
		if o.OK() {
			acked = append(acked, o.End)
		}
	}
	slices.Sort(acked)
	slices.Sort(sent)
	by := map[int64]*history.Op{}
	byEnd := slices.Clone(c.seen)
	slices.SortFunc(byEnd, func(a, b reading) int { return cmp.Compare(a.op.End, b.op.End) })
	slices.SortFunc(c.seen, func(a, b reading) int { return cmp.Compare(a.op.Start, b.op.Start) })
	next, top, kept := 0, reading{}, 0
	for _, s := range c.seen {
		least, _ := slices.BinarySearch(acked, s.op.Start)
		most, _ := slices.BinarySearch(sent, s.op.End)
		if kept = max(kept, least); !s.change && least > 0 {
			v.Stake(ruleRead, 1)
		}
		if s.change {
			least++
			if other := by[s.count]; other != nil {
				v.Add("update lost", s.op, "%s had the same result", other)
			}
			by[s.count] = s.op
		}
		for ; next < len(byEnd) && byEnd[next].op.End < s.op.Start; next++ {
			if byEnd[next].count > top.count {
				top = byEnd[next]
			}
		}
		switch {
		case s.count < int64(least):
			v.Add(
				c.missing(s, int64(least)),
				s.op,
				"it saw %d changes; %d were acknowledged before it, or are its own",
				s.count,
				least,
			)
		case s.count > int64(most):
			v.Add("done twice", s.op, "it saw %d changes; only %d had been sent", s.count, most)
		case top.op != nil && s.count < top.count:
			v.Add("went back", s.op, "%s had seen %d changes, this one saw %d", top.op, top.count, s.count)
		}
	}
	v.Stake(ruleKept, kept)
	v.Stake(ruleOnce, kept)
}

// missing names an answer that shows too few changes: others saw them later, or nobody saw them again.
func (c *tally) missing(s reading, least int64) string {
	if !s.change &&
		slices.ContainsFunc(c.seen, func(l reading) bool { return l.op.Start > s.op.End && l.count >= least }) {
		return "stale read"
	}
	return "update lost"
}
