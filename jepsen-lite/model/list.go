package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockd/jepsen-lite/history"
)

// queue is a short list: rpush value = length; lpush value = length; lpop = value | nil; llen = length; range = all
// values. Its state is the values, with a comma after each.
var queue = machine{
	rule:  ruleList,
	kind:  "not linearizable",
	init:  "",
	reads: func(o *history.Op) bool { return o.Name == "llen" || o.Name == "range" },
	step:  queueStep,
}

// ListMachine is the machine of List's short lists, for Picture.
var ListMachine = always(queue)

// queueStep is the step of queue.
func queueStep(state any, o *history.Op, _ int64) []any {
	now := state.(string)
	next, out := now, []string{}
	switch o.Name {
	case "rpush":
		next = now + o.In[0] + ","
		out = append(out, strconv.Itoa(strings.Count(next, ",")))
	case "lpush":
		next = o.In[0] + "," + now
		out = append(out, strconv.Itoa(strings.Count(next, ",")))
	case "lpop":
		first, rest, found := strings.Cut(now, ",")
		if !found {
			first = absent
		}
		next, out = rest, append(out, first)
	case "llen":
		out = append(out, strconv.Itoa(strings.Count(now, ",")))
	case "range":
		if now != "" {
			out = strings.Split(strings.TrimSuffix(now, ","), ",")
		}
	}
	if o.OK() && !slices.Equal(o.Out, out) {
		return nil
	}
	return []any{next}
}

// List judges lists of unique values. Short ones are linearizable (queue). Long ones only grow at their end: append
// value = length; all = the values. All reads of a long list are prefixes of one order; it has every acknowledged value
// once, in the order of the times of the appends.
func List(h *history.History) *Verdict {
	short := &history.History{Faults: h.Faults, End: h.End}
	appends := map[string]changes{}
	answers := map[string][]*history.Op{} // appends and reads
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "append" && o.Name != "all" {
			short.Ops = append(short.Ops, *o)
			continue
		}
		if appends[o.Key] == nil {
			appends[o.Key] = changes{}
		}
		if o.Name == "append" {
			appends[o.Key][o.In[0]] = o
		}
		if o.OK() {
			answers[o.Key] = append(answers[o.Key], o)
		}
	}
	v, s := &Verdict{}, newStakes()
	defer s.count(v)
	linearizable(v, short, queue)
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		oneList(v, s, appends[key], answers[key])
	}
	v.Note("%d lists that grow", len(answers))
	return v
}

// oneList judges a long list; answers are in the order of their starts.
func oneList(v *Verdict, s stakes, appends changes, answers []*history.Op) {
	var longest *history.Op // the longest read
	var before []*history.Op
	for _, o := range answers {
		if o.Name == "all" {
			oneRead(v, s, appends, before, o)
			before = append(before, o)
			if longest == nil || len(o.Out) > len(longest.Out) {
				longest = o
			}
		}
	}
	if longest == nil {
		return
	}
	v.Stake(rulePrefix, len(before)-1)
	for _, o := range before {
		if !slices.Equal(o.Out, longest.Out[:len(o.Out)]) {
			v.Add("order differs", brief(o), "%s is not how %s begins", last(o.Out), brief(longest))
		}
	}
	for _, o := range answers {
		if o.Name != "append" {
			continue
		}
		n, err := strconv.Atoi(o.Out[0])
		if err != nil || n < 1 || n <= len(longest.Out) && longest.Out[n-1] != o.In[0] {
			v.Add("wrong place", o, "%s has something else there", brief(longest))
		}
	}
	inTime(v, appends, longest)
}

// oneRead judges a read by itself, and by those that began before it.
func oneRead(v *Verdict, s stakes, appends changes, before []*history.Op, o *history.Op) {
	seen := map[string]int64{}
	for _, value := range o.Out {
		seen[value]++
	}
	appends.check(v, s, brief(o), seen)
	for _, b := range before {
		if b.End < o.Start && len(b.Out) > len(o.Out) {
			v.Add("went back", brief(o), "%s had seen %d values, this one %d", brief(b), len(b.Out), len(o.Out))
			return
		}
	}
}

// inTime checks that no value stands before one that was acknowledged before it was sent.
func inTime(v *Verdict, appends changes, longest *history.Op) {
	var first *history.Op // of the values after it, the one that was acknowledged first
	for _, value := range slices.Backward(longest.Out) {
		o := appends[value]
		if o == nil {
			continue
		}
		if first != nil && first.End < o.Start {
			v.Add("order differs", o, "it stands before that of %s in %s", first, brief(longest))
		}
		if first == nil || o.End < first.End {
			first = o
		}
	}
}

// brief is a read without its values, of which there are hundreds.
func brief(o *history.Op) *history.Op {
	short := *o
	short.Out = []string{"... " + last(o.Out)}
	return &short
}

// last returns the last value.
func last(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return values[len(values)-1]
}
