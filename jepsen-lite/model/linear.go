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

// machine is a sequential specification. A history is linearizable if there is an order of its operations, each within
// its time, in which every answer is that of the machine. Porcupine searches for the order; an operation of unknown
// outcome may have happened at any time after its start, or never. States are comparable with ==.
type machine struct {
	init any
	// step returns the possible states after o; none: o cannot have had this outcome. o.Out counts if o.OK(). horizon
	// is the time of the last completion; later events explain nothing.
	step func(state any, o *history.Op, horizon int64) []any
	// reads reports whether an operation changes nothing. It is left out if its outcome is unknown.
	reads func(o *history.Op) bool
	// covers reports whether every continuation of state b is one of state a, so that b need not be kept beside a; nil:
	// states cover only themselves.
	covers func(a, b any) bool
	rule   *Rule  // at stake with each answer; nil: others count
	kind   string // of the problem if there is no order
	// name chooses a better kind; nil: there is none. ops are the operations up to o, which no order explains.
	name func(ops []*history.Op, o *history.Op) string
	ops  []string // names of its operations; nil: all
}

// takes reports whether o belongs to the machine and may have changed or shown its state.
func (m machine) takes(o *history.Op) bool {
	return o.Outcome != history.Fail && !(o.Outcome == history.Info && m.reads(o)) && o.Key != "" &&
		(m.ops == nil || slices.Contains(m.ops, o.Name))
}

// decideMax bounds the search for one key.
const decideMax = 20 * time.Second

// linearizable checks each key against m.
func linearizable(v *Verdict, h *history.History, m machine) {
	keys := map[string][]*history.Op{}
	for i := range h.Ops {
		if o := &h.Ops[i]; m.takes(o) {
			keys[o.Key] = append(keys[o.Key], o)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if m.rule != nil {
			v.Stake(m.rule, answeredOf(keys[key]))
		}
		switch m.search(keys[key], decideMax) {
		case porcupine.Illegal:
			m.blame(v, keys[key])
		case porcupine.Unknown:
			v.GaveUp++
			v.Undecided = append(v.Undecided, "key "+key+": no order found or excluded in "+decideMax.String())
		}
	}
	v.Note("%d keys, each linearizable by itself or named", len(keys))
}

// answeredOf returns how many operations were answered.
func answeredOf(ops []*history.Op) (n int) {
	for _, o := range ops {
		if o.OK() {
			n++
		}
	}
	return n
}

// position is the progress of a search: the possible states, and the number of answered operations that are left.
type position struct {
	states []any
	left   int
}

// model makes the model that porcupine searches. There are two ways to treat an operation of unknown outcome. Early,
// the search goes on with both cases, happened and not, as states of one position. Late, the operation takes its place
// only where it has an effect, or after all answered operations, which means that it never happened. Both find an order
// if there is one. Early needs fewer positions if many such operations may have happened in any order, late if one of
// them must have happened late.
func (m machine) model(ops []*history.Op, late bool) porcupine.Model {
	horizon, answered := int64(0), answeredOf(ops)
	for _, o := range ops {
		if o.End != history.Forever {
			horizon = max(horizon, o.End)
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

// advance returns the position after the next operation of an order.
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

// follows reports whether every continuation of state b is one of state a.
func (m machine) follows(a, b any) bool { return a == b || m.covers != nil && m.covers(a, b) }

// stepAll steps from each of several states. It drops covered states: their number would double with each unknown
// outcome.
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

// sameStates reports whether two sets of states are equal.
func sameStates(a, b []any) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s any) bool { return !slices.Contains(b, s) })
}

// search looks for an order, early and late in turn, since mostly one of them decides soon.
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

// searchModel runs porcupine. It panics if the model panics, as for a history of another kind: porcupine's own
// goroutines could not be recovered.
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

// operations makes porcupine's operations.
func operations(ops []*history.Op) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		out[i] = porcupine.Operation{ClientId: o.Process, Input: o, Call: o.Start, Return: o.End}
	}
	return out
}

// blame names the completion before which an order exists, and after which none does. A prefix of a linearizable
// history is linearizable, so a binary search finds it.
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

// until returns the history as it was known at a time: an operation that had not completed has an unknown outcome.
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

// recent lists the operations before one.
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

// always makes a Machine that is the same for all histories.
func always(m machine) Machine { return Machine{func(*history.History) machine { return m }} }

// absent is the value of a register that does not exist.
const absent = "nil"

// register: get = value | nil; set v = OK; swap v = the value before | nil; setnx v = OK | nil; cas old new = 1 | 0;
// del = 1 | 0.
var register = machine{
	rule:  ruleRegister,
	kind:  "not linearizable",
	init:  absent,
	reads: func(o *history.Op) bool { return o.Name == "get" },
	step:  registerStep,
}

// RegisterMachine is the machine of Register, for Picture.
var RegisterMachine = always(register)

// Register judges single keys that are read, written, compared and deleted: each is linearizable. Each "set" and each
// successful "cas" also appends its value to the versions of the key; "versions" = all of them. They show a write that
// was lost or done twice even after another write.
func Register(h *history.History) *Verdict {
	only := &history.History{Faults: h.Faults, End: h.End}
	writes := map[string]changes{}
	for _, o := range h.Ops {
		if o.Name != "versions" {
			only.Ops = append(only.Ops, o)
		}
		if o.Name != "set" && o.Name != "cas" {
			continue
		}
		if writes[o.Key] == nil {
			writes[o.Key] = changes{}
		}
		if o.OK() && o.Out[0] == "0" {
			o.Outcome, o.Error = history.Fail, "it was another value"
		}
		writes[o.Key][o.In[len(o.In)-1]] = &o
	}
	v, s := &Verdict{}, newStakes()
	defer s.count(v)
	linearizable(v, only, register)
	for i := range v.Problems {
		if o := h.At(v.Problems[i].Line); o != nil {
			v.Problems[i].Kind = registerKind(h, o)
		}
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "versions" && o.OK() {
			seen := map[string]int64{}
			for _, value := range o.Out {
				seen[value]++
			}
			writes[o.Key].check(v, s, brief(o), seen)
		}
	}
	return v
}

// registerKind names a wrong answer where that is plain: it ignores a write that was acknowledged before, and others
// saw that write later (a stale read), or nobody saw it again (a lost write).
func registerKind(h *history.History, o *history.Op) string {
	var last *history.Op // the last write of this key that completed before o began
	for i := range h.Ops {
		w := &h.Ops[i]
		if w.Key == o.Key && w.OK() && w.End < o.Start && wrote(w) != "" && (last == nil || w.Start > last.Start) {
			last = w
		}
	}
	switch {
	case last == nil || o.Name != "get" && o.Name != "swap" && o.Out[0] == "1" || o.Out[0] == wrote(last):
		return register.kind
	case removed(h, last, o):
		return register.kind
	}
	for i := range h.Ops {
		r := &h.Ops[i]
		if r.Key == o.Key && r.Name == "get" && r.OK() && r.Start > o.End && r.Out[0] == wrote(last) {
			return "stale read"
		}
	}
	return "acknowledged write lost"
}

// wrote returns the value that an acknowledged operation left, or "".
func wrote(o *history.Op) string {
	switch {
	case o.Name == "set", o.Name == "swap", o.Name == "setnx" && o.Out[0] == "OK":
		return o.In[0]
	case o.Name == "cas" && o.Out[0] == "1":
		return o.In[1]
	}
	return ""
}

// removed reports whether another operation may have replaced w's value before o ended.
func removed(h *history.History, w, o *history.Op) bool {
	for i := range h.Ops {
		x := &h.Ops[i]
		if x == w || x == o || x.Key != w.Key || !x.Maybe() || x.End < w.Start || x.Start > o.End {
			continue
		}
		if x.Name == "del" || x.Name == "set" || x.Name == "swap" || x.Name == "cas" && !(x.OK() && x.Out[0] == "0") ||
			x.Name == "setnx" && !x.OK() {
			return true
		}
	}
	return false
}

// registerStep is the step of register.
func registerStep(state any, o *history.Op, _ int64) []any {
	now := state.(string)
	next, out := now, now
	switch o.Name {
	case "versions": // judged elsewhere, and only drawn here
		return []any{state}
	case "get":
	case "set":
		next, out = o.In[0], "OK"
	case "swap":
		next = o.In[0]
	case "setnx":
		out = "nil"
		if now == absent {
			next, out = o.In[0], "OK"
		}
	case "cas":
		out = "0"
		if now == o.In[0] {
			next, out = o.In[1], "1"
		}
	case "del":
		out = "0"
		if now != absent {
			next, out = absent, "1"
		}
	}
	if o.OK() && o.Out[0] != out {
		return nil
	}
	return []any{next}
}
