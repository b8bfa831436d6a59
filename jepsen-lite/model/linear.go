package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"lockd/jepsen-lite/history"
)

// machine is a sequential specification. States are comparable with ==.
type machine struct {
	init any
	// step returns the states in which o may leave the machine; none: o could not
	// have had this outcome. o.Out counts if o.OK(). horizon is the time of the last
	// completion: what happens later explains nothing.
	step func(state any, o *history.Op, horizon int64) []any
	// reads reports that an operation changes nothing, so that it can be left out
	// when its outcome is unknown.
	reads func(o *history.Op) bool
	// covers reports that whatever may follow state b may follow a too, so that b
	// need not be kept beside a; nil: no state but itself.
	covers func(a, b any) bool
	kind   string // of the problem when there is no order
	// name gives it a better one: ops are those until o, which no order explains; nil: there is none.
	name func(ops []*history.Op, o *history.Op) string
	ops  []string // the names of its operations; nil: all are
}

// takes reports whether o belongs to the machine, and may have changed or shown its state.
func (m machine) takes(o *history.Op) bool {
	return o.Outcome != history.Fail && !(o.Outcome == history.Info && m.reads(o)) && o.Key != "" &&
		(m.ops == nil || slices.Contains(m.ops, o.Name))
}

// decideMax bounds the search for one key.
const decideMax = 20 * time.Second

// linearizable checks every key by itself against m.
func linearizable(v *Verdict, h *history.History, m machine) {
	keys := map[string][]*history.Op{}
	for i := range h.Ops {
		if o := &h.Ops[i]; m.takes(o) {
			keys[o.Key] = append(keys[o.Key], o)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch m.search(keys[key], decideMax) {
		case porcupine.Illegal:
			m.blame(v, keys[key])
		case porcupine.Unknown:
			v.Undecided = append(v.Undecided, "key "+key+": no order found or excluded in "+decideMax.String())
		}
	}
	v.Note("%d keys, each linearizable by itself or named", len(keys))
}

// position is the progress of a search: the possible states of the machine, and the number of answered operations
// that are left.
type position struct {
	states []any
	left   int
}

// model is what porcupine searches. An operation of unknown outcome may have happened or not. At once both are
// gone on with, as states of one position; late it takes its place only where it has an effect, or after all that
// was answered, which is the same as to have none. Either finds an order if there is one. The first has fewer
// positions where many may have happened in any order, the second where one of them must have happened late.
func (m machine) model(ops []*history.Op, late bool) porcupine.Model {
	horizon, answered := int64(0), 0
	for _, o := range ops {
		if o.End != history.Forever {
			horizon = max(horizon, o.End)
		}
		if o.OK() {
			answered++
		}
	}
	return porcupine.Model{
		Init: func() any { return position{[]any{m.init}, answered} },
		Step: func(at, input, _ any) (bool, any) {
			next := m.advance(at.(position), input.(*history.Op), horizon, late)
			return len(next.states) > 0, next
		},
		Equal: func(a, b any) bool { return sameStates(a.(position).states, b.(position).states) },
		DescribeOperation: func(input, _ any) string {
			o := input.(*history.Op)
			return o.Name + " " + o.String()
		},
	}
}

// advance makes the next operation of an order.
func (m machine) advance(at position, o *history.Op, horizon int64, late bool) position {
	switch {
	case o.OK():
		return position{m.stepAll(at.states, o, horizon), at.left - 1}
	case !late || o.End != history.Forever:
		return position{m.stepAll(at.states, o, horizon), at.left}
	case at.left == 0:
		return at
	}
	effects := slices.DeleteFunc(m.stepAll(at.states, o, horizon), func(n any) bool {
		return slices.ContainsFunc(at.states, func(s any) bool { return m.follows(s, n) })
	})
	return position{effects, at.left}
}

// follows reports whether whatever may follow state b may follow a too.
func (m machine) follows(a, b any) bool { return a == b || m.covers != nil && m.covers(a, b) }

// stepAll is step for a machine that is in one of several states. Without covers
// their number would double with each unknown outcome.
func (m machine) stepAll(states []any, o *history.Op, horizon int64) []any {
	var all []any
	for _, s := range states {
		for _, n := range m.step(s, o, horizon) {
			if slices.ContainsFunc(all, func(a any) bool { return m.follows(a, n) }) {
				continue
			}
			all = append(slices.DeleteFunc(all, func(a any) bool { return m.follows(n, a) }), n)
		}
	}
	return all
}

// sameStates compares sets.
func sameStates(a, b []any) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s any) bool { return !slices.Contains(b, s) })
}

// search looks for an order, both ways in turn: mostly one of them decides soon.
func (m machine) search(ops []*history.Op, timeout time.Duration) porcupine.CheckResult {
	for _, patience := range []time.Duration{timeout / 20, timeout * 9 / 20} {
		for _, late := range []bool{false, true} {
			if res := searchModel(m.model(ops, late), ops, patience); res != porcupine.Unknown {
				return res
			}
		}
	}
	return porcupine.Unknown
}

// searchModel panics as the model does, of a history that is none of its kind. Porcupine searches in
// goroutines of its own, where nobody could recover.
func searchModel(model porcupine.Model, ops []*history.Op, timeout time.Duration) porcupine.CheckResult {
	var why atomic.Value
	step := model.Step
	model.Step = func(states, input, output any) (ok bool, next any) {
		defer func() {
			if r := recover(); r != nil {
				why.CompareAndSwap(nil, fmt.Sprint(r))
			}
		}()
		return step(states, input, output)
	}
	res, _ := porcupine.CheckOperationsVerbose(model, operations(ops), timeout)
	if why := why.Load(); why != nil {
		panic(why)
	}
	return res
}

func operations(ops []*history.Op) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		out[i] = porcupine.Operation{ClientId: o.Process, Input: o, Call: o.Start, Return: o.End}
	}
	return out
}

// blame names the completion before which an order exists and after which none
// does. A prefix of a linearizable history is linearizable, so it can be searched
// for by halves.
func (m machine) blame(v *Verdict, ops []*history.Op) {
	done := make([]*history.Op, 0, len(ops))
	for _, o := range ops {
		if o.OK() {
			done = append(done, o)
		}
	}
	slices.SortFunc(done, func(a, b *history.Op) int { return cmp.Compare(a.End, b.End) })
	i := sort.Search(len(done), func(i int) bool {
		return m.search(m.until(ops, done[i].End), decideMax/4) == porcupine.Illegal
	})
	if i == len(done) {
		v.Undecided = append(v.Undecided, "key "+ops[0].Key+": there is no order, and the event could not be found "+
			"in time")
		return
	}
	kind := m.kind
	if m.name != nil {
		kind = m.name(m.until(ops, done[i].End), done[i])
	}
	v.Add(
		kind,
		done[i],
		"no order of the operations on %s explains this answer; those before it on the key were:%s",
		ops[0].Key,
		recent(ops, done[i]),
	)
}

// until is the history as it was known at a time: what had not completed has an
// unknown outcome.
func (m machine) until(ops []*history.Op, end int64) []*history.Op {
	var known []*history.Op
	for _, o := range ops {
		switch {
		case o.Start > end:
		case o.End <= end:
			known = append(known, o)
		case !m.reads(o):
			open := *o
			open.Outcome, open.Out, open.End = history.Info, nil, history.Forever
			known = append(known, &open)
		}
	}
	return known
}

// recentMax bounds how many operations a problem quotes.
const recentMax = 12

func recent(ops []*history.Op, last *history.Op) string {
	var lines []string
	for _, o := range ops {
		if o != last && o.Start <= last.End {
			lines = append(lines, "\n    "+o.String())
		}
	}
	s := ""
	for _, l := range lines[max(0, len(lines)-recentMax):] {
		s += l
	}
	return s
}

// Picture writes porcupine's timeline of one key to an HTML file.
func Picture(h *history.History, line int, of Machine, path string) error {
	m := of.of(h)
	key := ""
	if o := h.At(line); o != nil {
		key = o.Key
	}
	var ops []*history.Op
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Key == key && m.takes(o) {
			ops = append(ops, o)
		}
	}
	model := m.model(ops, false)
	_, info := porcupine.CheckOperationsVerbose(model, operations(ops), decideMax)
	return porcupine.VisualizePath(model, info, path)
}

// Machine is a sequential specification that Picture can draw.
type Machine struct {
	of func(h *history.History) machine
}

// always is a machine that is the same for all histories.
func always(m machine) Machine { return Machine{func(*history.History) machine { return m }} }
