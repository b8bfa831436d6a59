package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Transactions over several keys are judged as by Elle (Kingsbury and Alvaro, 2020). Every value is unique, and a read
// of a list tells all appends to it in their order. So the answers tell which transaction came before which other one:
// one wrote after it (ww), one read what it wrote (wr), one wrote what it did not see yet (rw), one began when it had
// been answered (real time). A cycle of these has no order.

// Rules of transactions over several keys.
var (
	ruleIsolated = rule("transactions-isolated", "All transactions over several keys fit one order, each as a whole.",
		"write cycle (G0), circular reads (G1c), read skew (G-single), write skew (G2), intermediate read (G1b), "+
			"own writes not seen", "append", each(5, 5*time.Second)).
		judging("linearizable whole")
	ruleStrict = rule("transactions-in-real-time", "That order is one of real time.",
		"write cycle (G0-realtime), circular reads (G1c-realtime), stale read (G-single-realtime), "+
			"write skew (G2-realtime)", "append", each(5, 5*time.Second)).
		judging("linearizable")
	rulePipeline = rule("pipeline-whole", "A pipeline that arrives at once takes effect as a whole.",
		"write cycle (G0), circular reads (G1c), read skew (G-single), write skew (G2), intermediate read (G1b), "+
			"own writes not seen", "append", each(1, 5*time.Second)).
		judging("whole")
)

// The words of a transaction, each of which has one word of the result: KEY+VALUE appends to a list = its length;
// KEY=VALUE writes a register = the value before, or nil; KEY reads = [VALUE VALUE] or the value.
const (
	stepAppend = '+'
	stepWrite  = '='
	stepRead   = 0
)

// pipeline is the Key of transactions that are plain pipelines.
const pipeline = "pipe"

// step is one word of a transaction.
type step struct {
	verb       byte
	key, value string
	out        string   // its result
	list       []string // of a read of a list
}

// parseStep reads a word and its result.
func parseStep(word, out string) step {
	s := step{key: word, out: out}
	if i := strings.IndexAny(word, "+="); i >= 0 {
		s.verb, s.key, s.value = word[i], word[:i], word[i+1:]
	}
	if text, ok := strings.CutPrefix(out, "["); ok {
		s.list = strings.Fields(strings.TrimSuffix(text, "]"))
	}
	return s
}

// txn is a transaction, or one command of a pipeline that is none.
type txn struct {
	op    *history.Op
	steps []step
	sure  bool // it was done
	whole bool // it takes effect as a whole
}

// version is a place in the order of the writes to a key, from 1: the writes before it, and its own.
type version struct {
	place int
	value string
	by    *txn
}

// Append judges transactions over lists and registers: txn and look, which only reads. The key of an operation tells
// how it was sent: multi, eval, or pipe.
func Append(h *history.History) *Verdict {
	v, s := &Verdict{}, newStakes()
	defer s.count(v)
	c := &transactions{
		v: v, s: s, writers: map[string]changes{}, by: map[*history.Op][]*txn{}, reads: map[string][]seenBy{},
	}
	c.collect(h)
	for _, t := range c.all {
		c.inside(t)
	}
	g := &graph{all: c.all}
	for _, key := range slices.Sorted(maps.Keys(c.reads)) {
		c.orderOf(g, key)
	}
	g.realTime()
	g.judge(v)
	c.stakes()
	v.Note("%d transactions, %d of them plain pipelines", len(c.all), c.pipelines)
	return v
}

// transactions collects the transactions of a history.
type transactions struct {
	v         *Verdict
	s         stakes
	all       []*txn                 // done or perhaps done, in the order of their starts
	by        map[*history.Op][]*txn // several for a pipeline that is not whole
	writers   map[string]changes     // key -> value -> the operation that wrote it, also one that failed
	reads     map[string][]seenBy    // key -> what transactions saw of it, or told by a write to it
	pipelines int
}

// seenBy notes the values of a key that a transaction saw before its own writes, or only their number.
type seenBy struct {
	t      *txn
	values []string // of a read; of a register the last one alone
	read   bool     // values are known
	writes []step   // its own writes to the key
}

// collect finds the transactions, and which of them wrote what.
func (c *transactions) collect(h *history.History) {
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "txn" && o.Name != "look" {
			continue
		}
		var steps []step
		for n, word := range o.In {
			out := ""
			if o.OK() && n < len(o.Out) {
				out = o.Out[n]
			}
			one := parseStep(word, out)
			steps = append(steps, one)
			if one.verb == stepRead {
				continue
			}
			if c.writers[one.key] == nil {
				c.writers[one.key] = changes{}
			}
			c.writers[one.key][one.value] = o
		}
		torn := o.Key == pipeline && inPieces(h, o)
		switch {
		case o.Key == pipeline && !torn:
			c.pipelines++
		case torn:
			c.split(o, steps)
			continue
		}
		if o.Maybe() {
			c.add(o, &txn{op: o, steps: steps, sure: o.OK(), whole: true})
		}
	}
}

// inPieces reports whether a pipeline may have arrived in pieces: something disturbed the links of clients.
func inPieces(h *history.History, o *history.Op) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Window) bool {
		return f.Kind == "clients" && f.Start <= o.Told && f.End+settleTime > o.Start
	})
}

// split makes each command of a pipeline a transaction. If one of them was refused the others may have been done.
func (c *transactions) split(o *history.Op, steps []step) {
	one := *o
	if o.Outcome == history.Fail {
		one.Outcome, one.End = history.Info, history.Forever
	}
	for _, s := range steps {
		if s.verb != stepRead {
			c.writers[s.key][s.value] = &one
		}
		c.add(&one, &txn{op: &one, steps: []step{s}, sure: o.OK()})
	}
}

func (c *transactions) add(o *history.Op, t *txn) {
	c.all = append(c.all, t)
	c.by[o] = append(c.by[o], t)
}

// writer returns the transaction that wrote a value; nil: none may have.
func (c *transactions) writer(key, value string) *txn {
	all := c.by[c.writers[key][value]]
	for _, t := range all {
		if slices.ContainsFunc(t.steps, func(s step) bool { return s.key == key && s.verb != stepRead && s.value == value }) {
			return t
		}
	}
	return nil
}

// inside judges a transaction by itself, and finds what it saw of each key.
func (c *transactions) inside(t *txn) {
	if !t.sure {
		for _, s := range t.steps {
			if s.verb != stepRead {
				c.reads[s.key] = append(c.reads[s.key], seenBy{t: t, writes: []step{s}})
			}
		}
		return
	}
	saw := map[string]*seenBy{}
	for _, s := range t.steps {
		b := saw[s.key]
		if b == nil {
			b = &seenBy{t: t}
			saw[s.key] = b
		}
		if !b.goesOn(s) {
			c.v.Add("own writes not seen", short(t.op), "its answer for %s does not follow from those before it", s.key)
			return
		}
		if s.verb != stepRead {
			b.writes = append(b.writes, s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(saw)) {
		c.reads[key] = append(c.reads[key], *saw[key])
	}
}

// goesOn reports whether a step follows from what the transaction saw and wrote before, and learns from its result.
func (b *seenBy) goesOn(s step) bool {
	own := make([]string, len(b.writes))
	for i, w := range b.writes {
		own[i] = w.value
	}
	switch s.verb {
	case stepAppend:
		return !b.read || s.out == strconv.Itoa(len(b.values)+len(own)+1)
	case stepWrite:
		return b.register(s.out, own)
	}
	if s.list == nil && !strings.HasPrefix(s.out, "[") {
		return b.register(s.out, own)
	}
	before := len(s.list) - len(own)
	if before < 0 || !slices.Equal(s.list[before:], own) || b.read && !slices.Equal(s.list[:before], b.values) {
		return false
	}
	b.values, b.read = s.list[:before], true
	return true
}

// register reports whether the value of a register follows from what was seen and written before.
func (b *seenBy) register(value string, own []string) bool {
	switch {
	case len(own) > 0:
		return value == own[len(own)-1]
	case b.read:
		return slices.Equal(b.values, valueOf(value))
	}
	b.values, b.read = valueOf(value), true
	return true
}

// valueOf returns what a register holds.
func valueOf(text string) []string {
	if text == absent {
		return nil
	}
	return []string{text}
}

// orderOf judges what transactions saw of one key, and adds the edges that follow from it.
func (c *transactions) orderOf(g *graph, key string) {
	isRegister := slices.ContainsFunc(c.reads[key], func(b seenBy) bool {
		return slices.ContainsFunc(b.t.steps, func(s step) bool {
			return s.key == key && (s.verb == stepWrite || s.verb == stepRead && b.t.sure && !strings.HasPrefix(s.out, "["))
		})
	})
	for _, b := range c.reads[key] {
		if b.read {
			c.known(key, b, isRegister)
		}
	}
	if isRegister {
		c.registerEdges(g, key)
		return
	}
	if order, ok := c.listOrder(key); ok {
		c.listEdges(g, key, order)
	}
}

// known judges whether what was read was written, and whether nothing is missing.
func (c *transactions) known(key string, b seenBy, isRegister bool) {
	seen, all := map[string]int64{}, c.writers[key]
	for _, value := range b.values {
		seen[value]++
	}
	if isRegister { // it shows the last write alone
		all = changes{}
		for value := range seen {
			if by := c.writers[key][value]; by != nil {
				all[value] = by
			}
		}
	}
	all.check(c.v, c.s, short(b.t.op), seen)
	last := b.last()
	w := c.writer(key, last)
	if w == nil || w == b.t || !w.whole {
		return
	}
	final := ""
	for _, s := range w.steps {
		if s.key == key && s.verb != stepRead {
			final = s.value
		}
	}
	if final != last {
		c.v.Add("intermediate read (G1b)", short(b.t.op), "it saw %s in %s and not %s, which %s wrote together", last, key,
			final, short(w.op))
	}
}

// last returns the newest value that was seen; "": none.
func (b *seenBy) last() string {
	if len(b.values) == 0 {
		return ""
	}
	return b.values[len(b.values)-1]
}

// listOrder returns the writes to a list, in their order: those of the longest read, those whose place is told, and
// last those that nobody has seen, which have no place. ok is false if the answers contradict each other.
func (c *transactions) listOrder(key string) (order []version, ok bool) {
	longest, n := &seenBy{}, 0
	for i := range c.reads[key] {
		if b := &c.reads[key][i]; b.read {
			if n++; len(b.values) > len(longest.values) {
				longest = b
			}
		}
	}
	c.v.Stake(rulePrefix, max(n-1, 0))
	at := map[int]string{}
	for i, value := range longest.values {
		at[i+1] = value
	}
	ok = true
	for _, b := range c.reads[key] {
		if b.read && !slices.Equal(b.values, longest.values[:len(b.values)]) {
			c.v.Add("order differs", short(b.t.op), "%s is not how %s begins, which %s saw", b.last(), key, short(longest.t.op))
			ok = false
		}
	}
	for _, b := range c.reads[key] {
		for _, w := range b.writes {
			if place, err := strconv.Atoi(w.out); b.t.sure && err == nil {
				if was, taken := at[place]; taken && was != w.value {
					c.v.Add("wrong place", short(b.t.op), "%s has %s at place %d", key, was, place)
					ok = false
				}
				at[place] = w.value
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		if t := c.writer(key, at[place]); t != nil {
			order = append(order, version{place, at[place], t})
		}
	}
	return order, ok
}

// listEdges adds the edges of a list whose order is known.
func (c *transactions) listEdges(g *graph, key string, order []version) {
	done := map[*txn]bool{} // by what others saw of it
	placed := map[string]bool{}
	for i, w := range order {
		done[w.by], placed[w.value] = true, true
		if i > 0 {
			g.edge(order[i-1].by, w.by, edge{kind: ww, key: key, was: order[i-1].value, value: w.value})
		}
	}
	for _, b := range c.reads[key] {
		if !b.read {
			continue
		}
		n := len(b.values)
		if w := c.writer(key, b.last()); n > 0 && w != nil {
			g.edge(w, b.t, edge{kind: wr, key: key, value: b.last()})
		}
		next, _ := slices.BinarySearchFunc(order, n+1, func(w version, place int) int { return cmp.Compare(w.place, place) })
		if next < len(order) {
			g.edge(b.t, order[next].by, edge{kind: rw, key: key, value: order[next].value})
		}
	}
	c.unseen(g, key, order, placed)
}

// unseen adds the edges of appends that certainly were done and that no read has: they came after all reads.
func (c *transactions) unseen(g *graph, key string, order []version, placed map[string]bool) {
	for _, b := range c.reads[key] {
		for _, w := range b.writes {
			if placed[w.value] || !b.t.sure && !c.wasSeen(b.t) {
				continue
			}
			for _, r := range c.reads[key] {
				if r.read && r.t != b.t {
					g.edge(r.t, b.t, edge{kind: rw, key: key, value: w.value})
				}
			}
		}
	}
}

// wasSeen reports whether a whole transaction of unknown outcome was done, since another one saw a write of it.
func (c *transactions) wasSeen(t *txn) bool {
	return t.whole && slices.ContainsFunc(t.steps, func(s step) bool {
		return s.verb != stepRead && slices.ContainsFunc(c.reads[s.key], func(b seenBy) bool {
			return b.read && b.t != t && slices.Contains(b.values, s.value)
		})
	})
}

// registerEdges adds the edges of a register: a write tells which value it replaced, so that each value has one that
// came after it.
func (c *transactions) registerEdges(g *graph, key string) {
	next := map[string]*seenBy{} // value -> the transaction that replaced it
	for i := range c.reads[key] {
		b := &c.reads[key][i]
		if !b.t.sure || len(b.writes) == 0 || !b.read {
			continue
		}
		if other := next[b.last()]; other != nil {
			c.v.Add("update lost", short(b.t.op), "%s replaced the same value of %s", short(other.t.op), key)
			return
		}
		next[b.last()] = b
	}
	for i := range c.reads[key] {
		b := &c.reads[key][i]
		if !b.read {
			continue
		}
		w := c.writer(key, b.last())
		if w != nil && b.last() != "" {
			kind := wr
			if len(b.writes) > 0 {
				kind = ww
				g.edge(w, b.t, edge{kind: wr, key: key, value: b.last()})
			}
			g.edge(w, b.t, edge{kind: kind, key: key, was: b.last(), value: cmp.Or(firstOf(b.writes), b.last())})
		}
		if after := next[b.last()]; after != nil && after.t != b.t {
			g.edge(b.t, after.t, edge{kind: rw, key: key, value: firstOf(after.writes)})
		}
	}
}

func firstOf(writes []step) string {
	if len(writes) == 0 {
		return ""
	}
	return writes[0].value
}

// stakes counts the transactions that a server could have mixed up.
func (c *transactions) stakes() {
	var open []*txn
	for _, t := range c.all {
		if !t.whole || !t.sure {
			continue
		}
		open = slices.DeleteFunc(open, func(o *txn) bool { return o.op.End < t.op.Start })
		mixed, piped := false, false
		for _, o := range open {
			if sharesTwo(t, o) {
				mixed = true
				piped = piped || t.op.Key == pipeline || o.op.Key == pipeline
			}
		}
		c.v.Stake(ruleIsolated, bit(mixed))
		c.v.Stake(rulePipeline, bit(piped))
		open = append(open, t)
	}
	timed := map[*txn]bool{}
	for key, reads := range c.reads {
		for _, b := range reads {
			w := c.writer(key, b.last())
			if b.read && w != nil && w.sure && w.op.End < b.t.op.Start && !timed[b.t] {
				timed[b.t] = true
				c.v.Stake(ruleStrict, 1)
			}
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sharesTwo reports whether two transactions have two keys in common of which one of them writes one.
func sharesTwo(a, b *txn) bool {
	shared, written := map[string]bool{}, false
	for _, s := range a.steps {
		for _, other := range b.steps {
			if s.key == other.key {
				shared[s.key] = true
				written = written || s.verb != stepRead || other.verb != stepRead
			}
		}
	}
	return len(shared) > 1 && written
}

// short is an operation without the long lists that it saw.
func short(o *history.Op) *history.Op {
	less := *o
	less.Out = slices.Clone(o.Out)
	for i, text := range less.Out {
		if values := strings.Fields(text); len(values) > shownMax {
			less.Out[i] = "[... " + strings.Join(values[len(values)-shownMax:], " ")
		}
	}
	return &less
}

// shownMax bounds the values of a list that are shown.
const shownMax = 4

// edgeKind says why one transaction came before another one.
type edgeKind uint8

const (
	ww edgeKind = 1 << iota // the other wrote after it
	wr                      // the other saw what it wrote
	rw                      // it did not see what the other wrote
	rt                      // the other began after its answer
)

// edge is an edge of a graph.
type edge struct {
	kind            edgeKind
	to              int
	key, was, value string
}

// graph is the transactions, and which of them came before which.
type graph struct {
	all []*txn
	at  map[*txn]int
	out [][]edge
}

func (g *graph) edge(from, to *txn, e edge) {
	if from == to {
		return
	}
	if g.at == nil {
		g.at, g.out = map[*txn]int{}, make([][]edge, len(g.all))
		for i, t := range g.all {
			g.at[t] = i
		}
	}
	e.to = g.at[to]
	g.out[g.at[from]] = append(g.out[g.at[from]], e)
}

// realTime adds an edge from each transaction to those that began after its answer, but for those that follow from
// others.
func (g *graph) realTime() {
	type moment struct {
		at  int64
		end bool
		t   *txn
	}
	var moments []moment
	for _, t := range g.all {
		moments = append(moments, moment{t.op.Start, false, t})
		if t.sure {
			moments = append(moments, moment{t.op.End, true, t})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(bit(a.end), bit(b.end)))
	})
	var ended []*txn
	before := map[*txn][]*txn{}
	for _, m := range moments {
		if m.end {
			ended = append(slices.DeleteFunc(ended, func(t *txn) bool { return slices.Contains(before[m.t], t) }), m.t)
			delete(before, m.t)
			continue
		}
		for _, t := range ended {
			g.edge(t, m.t, edge{kind: rt})
		}
		before[m.t] = slices.Clone(ended)
	}
}

// anomaly is a kind of cycle: an edge of one of some kinds, and a way back over edges of others.
type anomaly struct {
	kind        string
	first, back edgeKind
}

// anomalies are the kinds of cycles, the worst first.
var anomalies = []anomaly{
	{"write cycle (G0)", ww, ww},
	{"circular reads (G1c)", ww | wr, ww | wr},
	{"read skew (G-single)", rw, ww | wr},
	{"write skew (G2)", rw, ww | wr | rw},
	{"write cycle (G0-realtime)", ww, ww | rt},
	{"circular reads (G1c-realtime)", ww | wr, ww | wr | rt},
	{"stale read (G-single-realtime)", rw, ww | wr | rt},
	{"write skew (G2-realtime)", rw, ww | wr | rw | rt},
}

// judge reports a cycle of each strongly connected part: one of the worst kind, and the shortest that is found soon.
func (g *graph) judge(v *Verdict) {
	if g.out == nil {
		return
	}
	for _, part := range g.parts(ww | wr | rw | rt) {
		for _, a := range anomalies {
			if cycle := g.cycle(part, a); cycle != nil {
				g.tell(v, a.kind, cycle)
				break
			}
		}
	}
}

// parts returns the sets of more than one transaction that are connected both ways by edges of some kinds, by Tarjan's
// algorithm.
func (g *graph) parts(kinds edgeKind) (parts [][]int) {
	n := len(g.all)
	index, low, on, stack, next := make([]int, n), make([]int, n), make([]bool, n), []int{}, 0
	var visit func(i int)
	visit = func(i int) {
		next++
		index[i], low[i], on[i], stack = next, next, true, append(stack, i)
		for _, e := range g.out[i] {
			switch {
			case e.kind&kinds == 0:
			case index[e.to] == 0:
				visit(e.to)
				low[i] = min(low[i], low[e.to])
			case on[e.to]:
				low[i] = min(low[i], index[e.to])
			}
		}
		if low[i] != index[i] {
			return
		}
		from := slices.Index(stack, i)
		part := slices.Clone(stack[from:])
		for _, j := range part {
			on[j] = false
		}
		if stack = stack[:from]; len(part) > 1 {
			slices.Sort(part)
			parts = append(parts, part)
		}
	}
	for i := range n {
		if index[i] == 0 {
			visit(i)
		}
	}
	slices.SortFunc(parts, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return parts
}

// waysMax bounds the edges from which a way back is looked for after one was found, and waysAllMax those in all.
const (
	waysMax    = 50
	waysAllMax = 5000
)

// cycle returns a short cycle of a kind in a part, as its edges with the transaction that each begins at; nil: there is
// none.
func (g *graph) cycle(part []int, a anomaly) (best []hop) {
	inside := map[int]int{} // those that a cycle of these kinds can have -> their part
	for n, p := range g.parts(a.first | a.back) {
		for _, i := range p {
			if _, found := slices.BinarySearch(part, i); found {
				inside[i] = n + 1
			}
		}
	}
	ways, found := 0, 0
	for _, i := range part {
		for _, e := range g.out[i] {
			if e.kind&a.first == 0 || inside[i] == 0 || inside[i] != inside[e.to] {
				continue
			}
			if ways++; ways > waysAllMax || found > waysMax {
				return best
			}
			back := g.way(e.to, i, a.back, inside)
			if back == nil {
				continue
			}
			found++
			if best == nil || len(back)+1 < len(best) {
				best = append([]hop{{i, e}}, back...)
			}
		}
	}
	return best
}

// hop is an edge with its beginning.
type hop struct {
	from int
	edge
}

// way returns the shortest way over edges of some kinds, within the parts of inside.
func (g *graph) way(from, to int, kinds edgeKind, inside map[int]int) []hop {
	came, queue := map[int]hop{from: {}}, []int{from}
	for len(queue) > 0 && queue[0] != to {
		i := queue[0]
		queue = queue[1:]
		for _, e := range g.out[i] {
			if _, seen := came[e.to]; !seen && e.kind&kinds != 0 && inside[e.to] == inside[from] {
				came[e.to] = hop{i, e}
				queue = append(queue, e.to)
			}
		}
	}
	if len(queue) == 0 {
		return nil
	}
	var hops []hop
	for i := to; i != from; i = came[i].from {
		hops = append(hops, came[i])
	}
	slices.Reverse(hops)
	return hops
}

// tell reports a cycle, at the transaction of it that was answered last.
func (g *graph) tell(v *Verdict, kind string, cycle []hop) {
	last, text, named := g.all[cycle[0].from], "", ""
	for _, h := range cycle {
		from, to := g.all[h.from], g.all[h.to]
		if from.op.Told > last.op.Told {
			last = from
		}
		text += "\n    " + h.words(from.op.Line, to.op.Line)
		named += "\n    " + short(from.op).String()
	}
	v.Add(kind, short(last.op), "these transactions have no order:%s\n  they are:%s", text, named)
}

// words says why the transaction of one line came before that of another one.
func (h hop) words(from, to int) string {
	switch h.kind {
	case ww:
		return fmt.Sprintf("line %d before line %d: in %s, %s was written before %s (ww)", from, to, h.key, h.was, h.value)
	case wr:
		return fmt.Sprintf("line %d before line %d: it wrote %s to %s, which the other saw (wr)", from, to, h.value, h.key)
	case rw:
		return fmt.Sprintf("line %d before line %d: it did not see %s in %s, which the other wrote (rw)", from, to, h.value,
			h.key)
	}
	return fmt.Sprintf("line %d before line %d: it was answered before the other began (real time)", from, to)
}
