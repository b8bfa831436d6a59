package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lockd/jepsen-lite/history"
)

// Queue judges queues of unique values for which clients wait: push value = length; pop = value | nil; move = value |
// nil; left = the values that are there at the end, and the moved ones with ">" before them. Each value is given out
// once. No acknowledged value is lost, but to clients that may not know what they got. Values come in the order of
// their pushes, and no client waits in vain while a value is there.
func Queue(h *history.History) *Verdict {
	v := &Verdict{}
	queues := map[string]*waitedFor{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if !slices.Contains(queueOps, o.Name) {
			continue
		}
		if queues[o.Key] == nil {
			queues[o.Key] = &waitedFor{pushes: map[string]*history.Op{}, takes: map[string]*history.Op{}}
		}
		queues[o.Key].add(v, o)
	}
	given, lost := 0, 0
	for _, key := range slices.Sorted(maps.Keys(queues)) {
		q := queues[key]
		q.judge(v, h)
		given, lost = given+len(q.takes), lost+len(q.lost)
		v.Stake(ruleGiven, len(q.takes))
	}
	v.Note("%d values were given out, and %d to clients that do not know it", given, lost)
	return v
}

// queueOps are the operations on queues.
var queueOps = []string{"push", "pop", "move", "left"}

// waitedFor is one queue.
type waitedFor struct {
	pushes map[string]*history.Op
	takes  map[string]*history.Op // value -> the operation that got it
	empty  []*history.Op          // operations that got nothing
	doubts []*history.Op          // pops whose results are unknown
	asked  []*history.Op          // all that waited
	left   *history.Op            // the last reading
	lost   []string
}

func (q *waitedFor) add(v *Verdict, o *history.Op) {
	if o.Name == "pop" || o.Name == "move" {
		q.asked = append(q.asked, o)
	}
	switch {
	case o.Name == "push":
		q.pushes[o.In[0]] = o
	case o.Name == "pop" && o.Outcome == history.Info:
		q.doubts = append(q.doubts, o)
	case !o.OK():
	case o.Name == "left":
		q.left = o
	case o.Out[0] == absent:
		q.empty = append(q.empty, o)
	case q.takes[o.Out[0]] != nil:
		v.Add("given out twice", o, "%s had been given it", q.takes[o.Out[0]])
	default:
		q.takes[o.Out[0]] = o
	}
}

func (q *waitedFor) judge(v *Verdict, h *history.History) {
	for _, value := range slices.Sorted(maps.Keys(q.takes)) {
		push, by := q.pushes[value], q.takes[value]
		switch {
		case push == nil || push.Start > by.End:
			v.Add("never pushed", by, "nobody had sent %q", value)
		case push.Outcome == history.Fail:
			v.Add("failed but done", by, "%s", push)
		}
	}
	if q.left != nil {
		q.judgeLeft(v, h)
	}
	q.inOrder(v, h)
	q.inVain(v, h)
}

// judgeLeft compares the values that are left with those that were pushed and given out.
func (q *waitedFor) judgeLeft(v *Verdict, h *history.History) {
	there := map[string]bool{}
	for _, word := range q.left.Out {
		value, moved := strings.CutPrefix(word, ">")
		by := q.takes[value]
		if there[value] || by != nil && !(moved && by.Name == "move") {
			v.Add("given out twice", brief(q.left), "%s is there, and %s", word, by)
		}
		there[value] = true
	}
	for _, value := range slices.Sorted(maps.Keys(q.pushes)) {
		push, by := q.pushes[value], q.takes[value]
		if by != nil && by.Name == "move" && !there[value] {
			v.Add("lost", by, "what it moved is not there")
		}
		if push.OK() && push.End < q.left.Start {
			v.Stake(ruleElement, 1)
			if by == nil && !there[value] {
				q.lost = append(q.lost, value)
			}
		}
	}
	q.accountFor(v, h)
}

// accountFor checks that each lost value can have been given to a client that does not know it: a different one for
// each value, which may have been answered after the push.
func (q *waitedFor) accountFor(v *Verdict, h *history.History) {
	slices.SortFunc(q.lost, func(a, b string) int { return cmp.Compare(q.pushes[b].Start, q.pushes[a].Start) })
	var until []int64
	for _, o := range q.doubts {
		until = append(until, mayHear(h, o))
	}
	slices.SortFunc(until, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, value := range q.lost { // from the last push to the first
		if push := q.pushes[value]; i >= len(until) || push.Start > until[i] {
			v.Add("lost", push, "%d values are missing, and of the clients that do not know what they were given %d can have "+
				"been given those that were pushed since", len(q.lost), i)
			return
		}
	}
}

// inOrder checks that no value was given out before one that had been pushed earlier and was requested later.
func (q *waitedFor) inOrder(v *Verdict, h *history.History) {
	var taken []*history.Op // pushes of values that were given out, by their ends
	for value := range q.takes {
		if p := q.pushes[value]; p != nil && p.OK() {
			taken = append(taken, p)
		}
	}
	slices.SortFunc(taken, func(a, b *history.Op) int { return int(a.Start - b.Start) })
	var latest *history.Op // of the values pushed before: the take that began last
	ended := slices.Clone(taken)
	slices.SortFunc(ended, func(a, b *history.Op) int { return int(a.End - b.End) })
	for _, p := range taken {
		for len(ended) > 0 && ended[0].End < p.Start {
			if by := q.takes[ended[0].In[0]]; latest == nil || by.Start > latest.Start {
				latest = by
			}
			ended = ended[1:]
		}
		if latest == nil || q.wasBack(h, latest) {
			continue
		}
		v.Stake(ruleFifo, 1)
		if by := q.takes[p.In[0]]; by.End < latest.Start {
			v.Add("order differs", by, "what %s was given had been pushed before", latest)
		}
	}
}

// wasBack reports whether the value that o took may have been given to an unanswered client before, and have been put
// back.
func (q *waitedFor) wasBack(h *history.History, o *history.Op) bool {
	push := q.pushes[o.Out[0]]
	return slices.ContainsFunc(q.asked, func(b *history.Op) bool {
		return b != o && b.Start < o.End && b.Told+wakeBound > push.Start &&
			(b.Outcome == history.Info || h.Disturbed(b.Start, b.Told, settleTime) > 0)
	})
}

// inVain checks that no operation got nothing while a value was there all the time.
func (q *waitedFor) inVain(v *Verdict, h *history.History) {
	var pushes []*history.Op
	for _, p := range q.pushes {
		take := q.takes[p.In[0]]
		if !p.OK() || take == nil {
			continue
		}
		pushes = append(pushes, p)
		if p.End < take.Start {
			v.Stake(ruleVain, 1) // take could have been told that there is nothing
		}
	}
	slices.SortFunc(pushes, func(a, b *history.Op) int { return int(a.End - b.End) })
	slices.SortFunc(q.empty, func(a, b *history.Op) int { return int(a.Start - b.Start) })
	var longest *history.Op // of the values there by then: the push of the one that was taken last
	for _, o := range q.empty {
		for len(pushes) > 0 && pushes[0].End < o.Start {
			if longest == nil || q.takes[pushes[0].In[0]].Start > q.takes[longest.In[0]].Start {
				longest = pushes[0]
			}
			pushes = pushes[1:]
		}
		if longest == nil {
			continue
		}
		if take := q.takes[longest.In[0]]; take.Start > o.End && !q.wasBack(h, take) {
			v.Add("in vain", o, "%s was there until %s", longest, take)
		}
	}
}
