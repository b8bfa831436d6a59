package model

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Bounds on how long a cluster may keep its clients waiting, in ns.
const (
	silenceMax = int64(3 * time.Second)         // without a successful write, while a majority serves
	longMax    = int64(15 * time.Second)        // such a time, while there is a fault that makes nodes slow
	answerMax  = int64(1500 * time.Millisecond) // for one answer, without a fault
	// nodeSilenceMax is silenceMax for one node: longer than it holds a command without a leader.
	nodeSilenceMax = int64(4 * time.Second)
	// askedPause is a pause after the answer to a write after which nobody is said to ask for one all the time.
	askedPause = int64(time.Second)
)

// Faults that the marks of the history do not describe, by kind or by kind and variant. While one lasts, a serving
// majority may be slow, or idle.
var (
	slowing = []string{"clock", "stall", "drag", "full", "scenario hand over", "scenario large"}
	idling  = []string{
		"clients", "load", // clients do not reach it, or others keep it busy
		"quiet", "together", "scenario save twice", // which have the clients ask for nothing
	}
	unmarked = slices.Concat(slowing, idling)
)

// unnoticed is the kind of fault that may make answers late, and nothing more: hostile clients.
const unnoticed = "hostile"

// isOneOf reports whether a fault is one of some of these. Its description begins with its variant, or, when it is over,
// with its kind.
func isOneOf(some []string, f history.Window) bool {
	what := f.Kind + " " + strings.TrimPrefix(f.What, f.Kind+" ") + " "
	return slices.ContainsFunc(some, func(u string) bool { return strings.HasPrefix(what, u) })
}

// onlyRead are the operations that a node answers without a write. Operations without a node are not the cluster's.
var onlyRead = map[string]bool{
	"get": true, "holder": true, "key": true, "joined": true, "fence": true, "read": true, "look": true, "pttl": true, "exists": true, "count": true,
	"sum": true, "sold": true, "llen": true, "left": true, "setting": true, "listen": true, "message": true,
	"cut":  true,
	"rest": true, "range": true, "all": true, "ledger": true, "versions": true, "glance": true, "reign": true,
	"history": true, "why": true, "time": true, "compare-get": true,
	"hello": true, "forget": true, "forgot": true, "lost": true, "expiring": true, "info": true, "list": true, "graph": true,
}

// Writes reports whether an operation asks a node for a write.
func Writes(o *history.Op) bool { return o.Node != "" && !onlyRead[o.Name] }

// Live judges how long clients waited: writes succeed while a majority of the nodes serves and is connected, without a
// fault every answer comes, and soon, and clients of other nodes notice nothing of a change of leaders but that it takes
// time. It judges no contents.
func Live(h *history.History) *Verdict {
	v := &Verdict{}
	if !h.Marked {
		v.Note("how long clients waited is not judged: nothing tells when nodes served")
		return v
	}
	silences(v, h)
	undisturbed(v, h)
	failovers(v, h)
	closings(v, h)
	return v
}

// silences reports times without a successful write in which one majority served all the time and was asked for a
// write, and such times of each node that reached a majority.
func silences(v *Verdict, h *history.History) {
	acked := map[string][]int64{} // by node; "": by any
	for i := range h.Ops {
		if o := &h.Ops[i]; o.OK() && Writes(o) {
			acked[""] = append(acked[""], o.End)
			acked[o.Node] = append(acked[o.Node], o.End)
		}
	}
	for _, at := range acked {
		slices.Sort(at)
	}
	slow, idle, nodes := excused(h, unmarked), excused(h, idling), nodesOf(h)
	for _, q := range h.Quorums {
		if q.Slow {
			continue
		}
		for _, well := range outside(slow, span{q.Start, q.End}) {
			judgeSilence(v, h, ruleSilence, q.Nodes, gaps(acked[""], well), silenceMax)
			for _, node := range nodes {
				silentNode(v, h, node, acked[node], well)
			}
		}
		for _, asked := range outside(idle, span{q.Start, q.End}) {
			judgeSilence(v, h, ruleLongSilence, q.Nodes, gaps(acked[""], asked), longMax)
		}
	}
}

// judgeSilence reports those of some times without a successful write in which nodes were asked for writes for longer than
// most, and puts the rule at stake as often as such times fit in.
func judgeSilence(v *Verdict, h *history.History, r *Rule, nodes []string, times iter.Seq[span], most int64) {
	all := int64(0)
	for gap := range times {
		all += gap.to - gap.from
		if first, asked := demand(h, nodes, gap, most); asked > most {
			v.Add(r.Kinds[0], first,
				"no write succeeded from %.3f s to %.3f s, although %s served and were connected, and asked for %.1f s",
				sec(gap.from), sec(gap.to), strings.Join(nodes, ", "), sec(asked))
		}
	}
	if n := int(all / most); n > 0 {
		v.Stake(r, n)
	}
}

// silentNode reports times in which one node, of those that reached a majority, did no write and was asked for some.
func silentNode(v *Verdict, h *history.History, node string, acked []int64, in span) {
	if n := int((in.to - in.from) / nodeSilenceMax); n > 0 && len(acked) > 0 && well(h, node, in.from, in.to) {
		v.Stake(ruleNodeSilence, n)
	}
	for gap := range gaps(acked, in) {
		if gap.to-gap.from <= nodeSilenceMax {
			continue
		}
		first, last := tries(h, node, gap)
		if first == nil || !well(h, node, first.Start, last.Told) {
			continue
		}
		v.Add("node silent", first, "%s did no write from %.3f s to %.3f s, and was asked for some until %.3f s, although "+
			"it served and a majority was connected", node, sec(gap.from), sec(gap.to), sec(last.Told))
	}
}

// tries returns the first and the last of the writes, two or more, that a node was asked for one after the other in a time
// in which it did none, without a pause in which nobody asked it; the first such that go on for longer than
// nodeSilenceMax.
func tries(h *history.History, node string, in span) (first, last *history.Op) {
	long := func() bool { return last != nil && min(last.Told, in.to)-first.Start > nodeSilenceMax }
	reach := int64(0)
	for i := range h.Ops { // in the order of their starts
		o := &h.Ops[i]
		if o.Node != node || o.Start < in.from || o.Start >= in.to || !Writes(o) || died(o) || waits(o) > 0 {
			continue
		}
		switch {
		case first == nil || o.Start > reach+askedPause && !long():
			first, last = o, nil
		case o.Start > reach+askedPause:
			return first, last
		default:
			last = o
		}
		reach = max(reach, o.Told)
	}
	if !long() {
		return nil, nil
	}
	return first, last
}

// nodesOf returns the nodes of a history that has marks.
func nodesOf(h *history.History) (nodes []string) {
	for _, m := range h.Marks {
		if m.Op == history.Serves && !slices.Contains(nodes, m.Node) {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// gaps yields the parts of a time between some moments, which are sorted.
func gaps(moments []int64, in span) iter.Seq[span] {
	return func(yield func(span) bool) {
		from := in.from
		i, _ := slices.BinarySearch(moments, from)
		for ; from < in.to; i++ {
			to := in.to
			if i < len(moments) {
				to = min(to, moments[i])
			}
			if !yield(span{from, to}) {
				return
			}
			from = to
		}
	}
}

// sec returns a time in seconds.
func sec(ns int64) float64 { return float64(ns) / 1e9 }

// excused returns the times in which a serving majority need not write, by their starts: some faults are among them.
func excused(h *history.History, faults []string) []span {
	spans := poisoned(h)
	for _, s := range h.Stood {
		spans = append(spans, span{s.Start, s.End})
	}
	for _, f := range h.Faults {
		if isOneOf(faults, f) {
			spans = append(spans, span{f.Start, f.End})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// outside returns the parts of a time outside of spans, which are sorted by start.
func outside(spans []span, in span) (left []span) {
	from := in.from
	for _, s := range append(slices.Clone(spans), span{in.to, in.to}) {
		if to := min(s.from, in.to); to > from {
			left = append(left, span{from, to})
		}
		from = max(from, s.to)
	}
	return left
}

// poisoned returns the times in which scripts kept every node busy on purpose.
func poisoned(h *history.History) (spans []span) {
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "poison" {
			spans = append(spans, span{o.Start, o.Told})
		}
	}
	return spans
}

// unwell returns the times in which a node did not serve, or a link was not whole.
func unwell(h *history.History) (spans []span) {
	open := map[[2]string]int{} // node, or both ends of a link -> index of the span that has not ended
	for _, m := range h.Marks {
		var bad bool
		switch m.Op {
		case history.Serves, history.Leaves:
			bad = m.Op == history.Leaves
		case history.Link:
			bad = !slices.Equal(m.Value, []string{history.LinkWhole})
		default:
			continue
		}
		key := [2]string{m.Node, m.Key}
		i, was := open[key]
		switch {
		case bad && !was:
			open[key] = len(spans)
			spans = append(spans, span{m.Time, h.End})
		case !bad && was:
			spans[i].to = m.Time
			delete(open, key)
		}
	}
	return spans
}

// demand returns the first write that nodes were asked for in a time, and for how much of that time a write was waiting
// for an answer; 0 if the time is no longer than most. Writes that were sent before may have been lost with their
// connections.
func demand(h *history.History, nodes []string, in span, most int64) (first *history.Op, asked int64) {
	if in.to-in.from <= most {
		return nil, 0
	}
	reach := in.from
	for i := range h.Ops { // in the order of their starts
		o := &h.Ops[i]
		from, to := max(o.Start, reach), min(o.Told, in.to)
		if o.Start < in.from || to <= from || !Writes(o) || !slices.Contains(nodes, o.Node) || died(o) || waits(o) > 0 {
			continue
		}
		if first == nil {
			first = o
		}
		asked += to - from
		reach = to
	}
	return first, asked
}

// Died is the error of an operation whose client did not wait for its answer.
const Died = "the client died before the answer came"

// Gone is the error of an operation whose client closed its half of the connection, and saw the server close the other
// half without an answer. The server has written none, if the node lived until then.
const Gone = "the client hung up, and no answer came"

// died reports whether the client gave the operation up.
func died(o *history.Op) bool { return o.Error == Died || o.Error == Gone }

// undisturbed judges every operation without a fault near it.
func undisturbed(v *Verdict, h *history.History) {
	poison := poisoned(h)
	faults := slices.Concat(unwell(h), poison)
	judged := 0
	if len(poison) == 0 { // else no time is quiet, though there is no fault
		defer func() { v.Stake(ruleUndisturbed, judged) }()
	}
	var hostile []span
	for _, f := range h.Faults {
		if f.Kind == unnoticed {
			hostile = append(hostile, span{f.Start, f.End})
		} else {
			faults = append(faults, span{f.Start, f.End})
		}
	}
	heard := map[int]int64{} // process -> its last answer
	for i := range h.Ops {
		o := &h.Ops[i]
		took := o.Told - o.Start - o.Slept
		late := o.OK() && took > answerMax+waits(o)
		since := o.Start
		if t, ok := heard[o.Process]; ok && o.Outcome == history.Info && took <= answerMax {
			since = t // its connection may have broken while it was idle
		}
		heard[o.Process] = o.Told
		if o.Node == "" || died(o) {
			continue
		}
		near := func(f span) bool { return f.from < o.Told && f.to+settleTime > since }
		if slices.ContainsFunc(faults, near) || late && slices.ContainsFunc(hostile, near) {
			continue
		}
		judged++
		switch {
		case o.OK() && !late:
		case late:
			v.Add("answered late", o, "it took %.3f s, without a fault", sec(took))
		case o.Outcome == history.Fail:
			v.Add("refused without a fault", o, "there was none within %.0f s", sec(settleTime))
		default:
			v.Add("unknown without a fault", o, "there was none within %.0f s", sec(settleTime))
		}
	}
}

// Rules of what clients of living nodes notice of a change of leaders.
var (
	ruleOnlySlow = lateRule("failover-is-slow", "While the leader is killed alone, every request at another node is done, if late.",
		"failover noticed", everywhere, times(1)).told().
		judging("failover-is-a-slow-command")
	_ = rule("connections-stay", "While leadership changes hands, no living node closes the connection of a client.",
		"connection closed", everywhere, faulty(1, 1, handOvers...)).
		judging("lost-leadership-closes-nothing")
)

// handOvers are the faults in which another node comes to lead although all live.
var handOvers = []string{"transfer", "partition"}

// afterKill is the time after the end of a leader's process in which requests notice it.
const afterKill = int64(time.Second)

// failovers judges the requests at other nodes that were on their way when a leader was killed, or came soon after.
func failovers(v *Verdict, h *history.History) {
	if len(poisoned(h)) > 0 {
		return // nodes are busy for long
	}
	for i := range h.Faults {
		at, leader := killedAlone(h, i)
		for j := range h.Ops {
			o := &h.Ops[j]
			if leader == "" || o.Node == "" || o.Node == leader || o.Start > at+afterKill || o.Told < at || died(o) ||
				!well(h, o.Node, o.Start, o.Told) {
				continue
			}
			if Writes(o) {
				v.Stake(ruleOnlySlow, 1)
			}
			if !o.OK() {
				v.Add("failover noticed", o, "the leader %s was killed at %.3f s, and %s lived", leader, sec(at), o.Node)
			}
		}
	}
}

// killedAlone returns when a fault killed the leader while all others served, and which node that was; "": it did not, or
// another fault was near. Another leader's end is over when its node serves again.
func killedAlone(h *history.History, fault int) (at int64, leader string) {
	f := h.Faults[fault]
	if f.Kind != "kill" || !strings.Contains(f.What, "leader") {
		return 0, ""
	}
	for i, other := range h.Faults {
		after := settleTime
		if other.Kind == f.Kind {
			after = afterKill
		}
		if i != fault && other.Start < f.Start+silenceMax+afterKill && other.End+after > f.Start {
			return 0, ""
		}
	}
	for _, m := range h.Marks {
		if m.Op == history.Down && m.Time >= f.Start && m.Time < f.Start+afterKill {
			at, leader = m.Time, m.Node
			break
		}
	}
	for _, node := range nodesOf(h) {
		if node != leader && !served(h, node, f.Start-afterKill, f.Start+silenceMax) {
			return 0, ""
		}
	}
	return at, leader
}

// closings reports connections that a node closed although it lived, while the only faults near were changes of leaders.
func closings(v *Verdict, h *history.History) {
	heard := map[int]int64{} // process -> its last answer
	for i := range h.Ops {
		o := &h.Ops[i]
		since, known := heard[o.Process]
		if o.Outcome != history.Info {
			heard[o.Process] = o.Told
		}
		if !known || o.Outcome != history.Info || o.Node == "" || died(o) || !endedByServer(o.Error) ||
			!served(h, o.Node, since, o.Told) {
			continue
		}
		near := slices.DeleteFunc(slices.Clone(h.Faults), func(f history.Window) bool {
			return f.Start > o.Told || f.End+settleTime < since
		})
		if len(near) > 0 && !slices.ContainsFunc(near, func(f history.Window) bool { return !slices.Contains(handOvers, f.Kind) }) {
			v.Add("connection closed", o, "%s lived, and leadership changed hands: %s", o.Node, near[len(near)-1].What)
		}
	}
}

// endedByServer reports whether an error says that the other side has closed the connection.
func endedByServer(err string) bool {
	return slices.ContainsFunc([]string{"EOF", "connection reset", "broken pipe"}, func(end string) bool {
		return strings.HasSuffix(err, end) || strings.Contains(err, end+" ")
	})
}

// served reports whether the process of a node served all the time, whatever its links did.
func served(h *history.History, node string, from, to int64) bool {
	serves := false
	for _, m := range h.Marks {
		switch {
		case m.Time >= to:
			return serves
		case m.Node != node:
		case m.Op == history.Serves:
			serves = true
		case m.Op == history.Leaves:
			serves = false
		}
		if m.Time > from && !serves {
			return false
		}
	}
	return serves
}

// waits returns how long an operation may wait in line by its own request.
func waits(o *history.Op) int64 {
	switch o.Name {
	case "enter":
		return millis(o.In[2])
	case "seize":
		return millis(o.In[1])
	case "doze":
		return millis(o.In[0])
	}
	return 0
}

// Least makes a checker of what a history must have to mean anything: answers of each of some kinds. A kind is the name
// of an operation, or that and the first word of its result.
func Least(kinds ...string) Checker {
	return func(h *history.History) *Verdict {
		v, seen := &Verdict{}, map[string]int{}
		for i := range h.Ops {
			if o := &h.Ops[i]; o.OK() {
				seen[o.Name]++
				if len(o.Out) > 0 {
					seen[o.Name+" "+o.Out[0]]++
				}
			}
		}
		if len(kinds) > 0 {
			v.Rarest = slices.MinFunc(kinds, func(a, b string) int { return cmp.Compare(seen[a], seen[b]) })
			v.Stake(ruleEach, seen[v.Rarest])
		}
		return v
	}
}

// Seen makes a checker that decides nothing about writes that were never read: each key with an acknowledged write must
// have a read that began later.
func Seen(writes, reads []string) Checker {
	return func(h *history.History) *Verdict {
		v, wrote, read := &Verdict{}, map[string]*history.Op{}, map[string]int64{}
		for i := range h.Ops {
			o := &h.Ops[i]
			switch {
			case !o.OK():
			case slices.Contains(reads, o.Name):
				read[o.Key] = max(read[o.Key], o.Start)
			case slices.Contains(writes, o.Name):
				keys := []string{o.Key}
				if o.Name == "take" {
					keys = append(keys, o.In[1]) // of its buyers
				}
				for _, k := range keys {
					if wrote[k] == nil || wrote[k].End < o.End {
						wrote[k] = o
					}
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(wrote)) {
			if read[key] < wrote[key].End {
				v.undecided("%s was not read after %s", key, wrote[key])
			}
		}
		return v
	}
}
