package model

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"lockd/jepsen-lite/history"
)

// changes are operations by name, each of which is done once or never.
type changes map[string]*history.Op

// stakes counts the changes that the answers of a history show: those that were acknowledged, or had an unknown
// outcome, before one of the answers was requested; and those that an answer shows.
type stakes struct{ acked, unknown, shown map[*history.Op]bool }

func newStakes() stakes {
	return stakes{map[*history.Op]bool{}, map[*history.Op]bool{}, map[*history.Op]bool{}}
}

// count tells a verdict what was at stake.
func (s stakes) count(v *Verdict) {
	v.Stake(ruleKept, len(s.acked))
	v.Stake(ruleOnce, len(s.shown))
	v.Stake(ruleUnknown, len(s.unknown))
}

// check judges an answer that shows how often each change was made.
func (c changes) check(v *Verdict, s stakes, o *history.Op, seen map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		by := c[name]
		if seen[name] > 0 {
			s.shown[by] = true
		}
		switch {
		case seen[name] == 0:
		case by == nil || by.Start > o.End:
			v.Add("never sent", o, "nobody had sent %q", name)
		case by.Outcome == history.Fail:
			v.Add("failed but done", o, "%s", by)
		case seen[name] > 1:
			v.Add("done twice", o, "%s was done %d times", by, seen[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		by := c[name]
		switch {
		case by.Outcome == history.Info && by.Told < o.Start:
			s.unknown[by] = true
		case by.OK() && (by.End < o.Start || by == o):
			s.acked[by] = true
			if seen[name] == 0 {
				v.Add("update lost", o, "%s is missing", by)
			}
		}
	}
}

// A mark adds a power of four. So each mark has a digit in the sum, which tells whether it was added, and whether it
// was added again.
const (
	markBits  = 2
	MarksMax  = 62 / markBits // in one sum
	markDigit = 1<<markBits - 1
)

// Mark returns the value that mark number n adds.
func Mark(n int64) string { return strconv.FormatInt(1<<(markBits*n), 10) }

// marks judges sums of marks: mark number = sum; sum = sum. Each answer shows which marks were added before it. Of two
// answers one shows all marks of the other, and the later one does not show fewer.
func marks(v *Verdict, h *history.History) {
	keys := map[string]changes{}
	sums := map[string][]*history.Op{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "mark" && o.Name != "sum" {
			continue
		}
		if keys[o.Key] == nil {
			keys[o.Key] = changes{}
		}
		if o.Name == "mark" {
			keys[o.Key][o.In[0]] = o
		}
		if o.OK() {
			sums[o.Key] = append(sums[o.Key], o)
		}
	}
	total, s := 0, newStakes()
	defer s.count(v)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, o := range sums[key] {
			keys[key].check(v, s, o, digits(o))
		}
		v.Stake(ruleSums, max(len(sums[key])-1, 0))
		inOneOrder(v, sums[key])
		total += len(keys[key])
	}
	v.Note("%d additions with a digit of their own", total)
}

// value returns the sum in an answer.
func value(o *history.Op) int64 {
	n, _ := strconv.ParseInt(o.Out[0], 10, 64) // 0 for nil: nothing was added yet
	return n
}

// digits returns how often each mark is in a sum.
func digits(o *history.Op) map[string]int64 {
	seen := map[string]int64{}
	for n, sum := 0, value(o); sum > 0; n, sum = n+1, sum>>markBits {
		seen[strconv.Itoa(n)] = sum & markDigit
	}
	return seen
}

// inOneOrder checks that the answers can be ordered so that marks are only added, and that this is the order of their
// times.
func inOneOrder(v *Verdict, sums []*history.Op) {
	slices.SortStableFunc(sums, func(a, b *history.Op) int {
		return cmp.Or(
			cmp.Compare(bits.OnesCount64(uint64(value(a))), bits.OnesCount64(uint64(value(b)))),
			cmp.Compare(a.Start, b.Start),
		)
	})
	for i := 1; i < len(sums); i++ {
		if a, b := sums[i-1], sums[i]; value(a)&^value(b) != 0 {
			v.Add("order differs", b, "%s saw something that this one did not, and the other way round", a)
		}
	}
	var more, least *history.Op // the first to end: of the answers with more marks, and of these and those with as many
	for i := len(sums) - 1; i >= 0; i-- {
		o := sums[i]
		if i+1 < len(sums) && value(sums[i+1]) != value(o) {
			more = least
		}
		if more != nil && more.End < o.Start {
			v.Add("went back", o, "%s had seen more", more)
		}
		if least == nil || o.End < least.End {
			least = o
		}
	}
}

// stopped begins the answer to a script that met a limit.
const stopped = "error ERR Script stopped"

// Scripts judges scripts that write and then exceed a limit: poison key = answer; left key = the written value | nil. A
// script that was stopped is undone, and another one is not. Whether nodes die or differ is checked at the nodes.
func Scripts(h *history.History) *Verdict {
	v := &Verdict{}
	sent := map[string]*history.Op{}
	stops := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		p := sent[o.Key]
		switch {
		case o.Name == "poison":
			sent[o.Key] = o
			if o.OK() && strings.HasPrefix(o.Out[0], stopped) {
				stops++
			}
		case o.Name == "left" && o.OK() && p != nil:
			undone(v, p, o)
		}
	}
	v.Note("%d scripts that ask for too much, %d stopped at a limit", len(sent), stops)
	return v
}

// undone judges what a script p left.
func undone(v *Verdict, p, left *history.Op) {
	there := left.Out[0] != "nil"
	switch {
	case p.Outcome == history.Info:
	case p.Outcome == history.Fail:
		v.Stake(ruleScript, 1)
		if there {
			v.Add("failed but done", left, "%s", p)
		}
	case strings.HasPrefix(p.Out[0], stopped):
		v.Stake(ruleUndone, 1)
		if there {
			v.Add("not undone", left, "%s left this behind", p)
		}
	case !strings.HasPrefix(p.Out[0], "error "):
		v.Stake(ruleScript, 1)
		if !there {
			v.Add("acknowledged write lost", left, "%s wrote it", p)
		}
	}
}
