package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

func nodeMark(at int64, op, node string) history.Event {
	return history.Event{Time: at, Process: history.Nemesis, Type: history.Info, Op: op, Node: node}
}

func linkMark(at int64, from, to, state string) history.Event {
	return history.Event{Time: at, Process: history.Nemesis, Type: history.Info, Op: history.Link, Node: from, Key: to, Value: []string{state}}
}

// live is Live on three nodes.
func live(h *history.History) *Verdict { return onThree(Live)(h) }

// onThree makes a checker of histories of three nodes.
func onThree(check Checker) Checker {
	return func(h *history.History) *Verdict {
		mark(h)
		return check(h)
	}
}

// mark makes three nodes serve, except where the marks of a history differ.
func mark(h *history.History) {
	marks := []history.Event{nodeMark(0, history.Serves, "n1"), nodeMark(0, history.Serves, "n2"), nodeMark(0, history.Serves, "n3")}
	for _, m := range append(h.Marks, nodeMark(h.End, "end", "")) {
		if m.Time <= h.End {
			marks = append(marks, m)
		}
	}
	slices.SortStableFunc(marks, func(a, b history.Event) int { return cmp.Compare(a.Time, b.Time) })
	var text strings.Builder
	for _, m := range marks {
		line, _ := json.Marshal(m)
		text.Write(append(line, '\n'))
	}
	read, err := history.Read(strings.NewReader(text.String()))
	if err != nil {
		panic(err)
	}
	h.Marks, h.Quorums, h.Marked = read.Marks, read.Quorums, read.Marked
}

// asks are writes at a node, one after the other, each of which has an unknown outcome after 400 ms.
func asks(node string, from, to int) string {
	s := ""
	for at := from; at < to; at += 400 {
		s += fmt.Sprintf("\n%d-?%d 9@%s set b", at, at+399, node)
	}
	return s
}

// Writes must succeed while a majority is up and connected, and is asked for writes.
func TestSilence(t *testing.T) {
	const kill = "0-1 1@n1 set a = OK\n 10-200 fault kill\n " // lines 1 and 2
	const end = "\n 9000-9001 1@n1 set a = OK"
	good := []string{
		kill + "10-20000 away n1\n 10-20000 away n2" + asks("n3", 20, 9000) + end,        // two are down
		kill + "10-20000 away n1\n 10-20000 link n2 n3 cut" + asks("n3", 20, 9000) + end, // one is, and two cannot talk
		kill + "10-20000 away n1\n 10-20000 link n3 n2 cut" + asks("n3", 20, 9000) + end, // nor the other way round
		kill + "10-20000 away n1\n 10-9000 fault clients" + asks("n2", 20, 9000) + end,   // nobody gets there
		kill + "10-20000 away n1\n 10-9000 link n2 n3 slow" + asks("n2", 20, 9000) + end, // or each message takes its time
		kill + "10-9000 fault quiet" + asks("n2", 20, 9000) + end,                        // nobody was to ask
		kill + "10-9000 7@n1 poison p = 1" + asks("n2", 20, 9000) + end,                  // they asked for too much

		kill + "10-20000 away n1\n 3000-3001 away n2\n 6000-6001 away n3" + asks("n3", 20, 9000) + end,   // not all the time, below
		kill + "10-20000 away n1" + asks("n3", 20, 3000) + "\n 3001-3002 1@n2 set a = OK" + end,          // three seconds are allowed
		kill + "10-20000 away n1" + asks("n3", 20, 2000) + asks("n3", 8000, 9000) + end,                  // nobody asked
		kill + "10-20000 away n1" + asks("n1", 20, 9000) + end,                                           // nor here, of those who are well
		kill + "10-20000 away n1\n 10-9000 fault load" + asks("n3", 20, 9000) + end,                      // which may be anywhere
		kill + "10-20000 away n1\n 3000-3001 away n2" + asks("n2", 3001, 5400) + end,                     // less than three seconds of asking
		kill + "10-8000 fault install\n 10-20000 away n1\n 10-7000 away n3" + asks("n3", 20, 9000) + end, // n3 gets a snapshot
		kill + "10-20000 away n1\n 2900-6100 stood" + asks("n3", 20, 9000) + end,                         // nor did the machine do anything
		"0-1 1@n1 set a = OK\n 0-9000 2@n1 set b = OK",                                                   // one that is lost
	}
	for _, s := range good {
		h := story(t, s)
		if v := onlyKind(live(h), "silence"); len(v) > 0 {
			t.Errorf("%v in\n%s", v, s)
		}
	}
	for _, c := range []struct {
		text string
		line int
	}{
		{kill + "10-20000 away n1" + asks("n3", 20, 9000) + end, 4},
		{kill + "10-8000 fault install\n 10-20000 away n1\n 10-5000 away n3" + asks("n3", 20, 9000) + end, 19},          // it had it
		{kill + "10-20000 away n1\n 10-20000 link n2 n1 cut\n 10-20000 link n1 n3 cut" + asks("n3", 20, 9000) + end, 6}, // cut off, too
		{kill + "10-500 away n1\n 10-500 away n2\n 10-500 away n3\n 600-8900 1@n1 set c = OK" + end, 6},                 // all were, and came back
		{kill + "10-20000 away n1\n 3000-3001 away n2" + asks("n3", 20, 9000) + end, 13},                                // after that
		{"0-1 1@n1 set a = OK" + asks("n1", 400, 9000) + "\n 9000-9001 1@n1 get a = OK", 2},                             // never again
		{"0-1 1@n1 set a = OK" + asks("n1", 400, 9000) + "\n 10-9000 fault transfer" + end, 2},                          // which costs nobody three seconds
		{kill + "10-20000 away n1\n 10-4000 stood" + asks("n3", 20, 9000) + end, 15},                                    // it had time enough afterwards
		{kill + "10-20000 away n1" + asks("n3", 20, 9000) + "\n 5000-5001 1@n3 get a = x" + end, 4},                     // a read is no write
		{kill + "10-20000 away n1" + asks("n3", 20, 9000) + "\n 5000-5001 1 unfenced a = accepted" + end, 4},            // nor what no node did
	} {
		v := onlyKind(live(story(t, c.text)), "silence")
		if len(v) != 1 || v[0].Line != c.line {
			t.Errorf("%v, want a silence at line %d in\n%s", v, c.line, c.text)
		}
	}
	if v := Live(story(t, "0-1 1@n1 set a = OK"+asks("n3", 20, 9000)+end)); len(v.Problems) > 0 || len(v.Notes) != 1 {
		t.Errorf("without marks: %v, %q", v.Problems, v.Notes)
	}
}

// Faults that make nodes slow excuse no silence that lasts: half a minute is judged, whichever of them is on, while a
// majority is in touch. Faults in which clients ask for nothing, or do not get there, excuse it.
func TestLongSilence(t *testing.T) {
	planted := func(to int, more string) string {
		return "0-1 1@n1 set a = OK" + asks("n2", 400, to) + fmt.Sprintf("\n %d-%d 1@n2 set a = OK\n ", to, to+1) + more
	}
	for _, fault := range []string{
		"clock step leader", "stall leader", "drag all", "full follower", "scenario hand over", "scenario large",
		"kill follower", "snapshot all", "transfer often", "frame lost", "port flap follower",
	} {
		during := "200-30000 fault " + fault
		if v := onlyKind(live(story(t, planted(30000, during))), "long silence"); len(v) != 1 || v[0].Line != 2 {
			t.Errorf("%s: 30 s: %v", fault, v)
		}
		if v := onlyKind(live(story(t, planted(15300, during))), "long silence"); len(v) > 0 {
			t.Errorf("%s: 15 s: %v", fault, v)
		}
	}
	for _, excuse := range []string{
		"200-30000 fault clients delay", "200-30000 fault load burst", "200-30000 fault quiet", "200-30000 fault together kill",
		"200-30000 fault scenario save twice", "200-30000 7@n1 poison p = 1", "200-30000 stood", "10000-20000 link n1 n2 slow\n 10000-20000 link n1 n3 slow\n 10000-20000 link n2 n3 slow",
		"200-14000 away n1\n 200-14000 away n3",
	} {
		if v := onlyKind(live(story(t, planted(28000, excuse))), "long silence"); len(v) > 0 {
			t.Errorf("%s: %v", excuse, v)
		}
	}
}

func onlyKind(v *Verdict, kind string) (found []Problem) {
	for _, p := range v.Problems {
		if p.Kind == kind {
			found = append(found, p)
		}
	}
	return found
}

// While a leader is killed, clients of other nodes are answered later, and no worse.
func TestFailovers(t *testing.T) {
	const kill = "1500-1700 fault kill leader [n1]\n 1500-9000 died n1\n "
	const late = "\n 30000-30001 1@n2 get a = x"
	expect(t, onThree(failoversOf), kill+"900-2900 1@n2 set a = OK\n 1900-2900 2@n3 set b = OK"+late)
	expect(t, onThree(failoversOf), kill+"900-2900 1@n2 set a failed"+late, "failover noticed@3")
	expect(t, onThree(failoversOf), kill+"900-?2900 1@n2 set a"+late, "failover noticed@3")
	expect(t, onThree(failoversOf), kill+"900-2900 1@n1 set a failed\n 500-900 1@n2 set a failed\n 2600-2900 2@n2 set a failed"+late)
	expect(t, onThree(failoversOf), kill+"900-2900 1@n2 set a failed\n 4000-4500 fault transfer"+late)
	expect(t, onThree(failoversOf), kill+"900-2900 1@n2 set a failed\n 600-1000 away n3"+late)
	expect(t, onThree(failoversOf), strings.Replace(kill, "leader", "follower", 1)+"900-2900 1@n2 set a failed"+late)
	expect(t, onThree(failoversOf), kill+"900-2900 1@n2 set a failed\n 950-2000 link n2 n3 cut"+late)
	if v := onThree(failoversOf)(story(t, kill+"900-2900 1@n2 set a = OK"+late)); v.AtStake[ruleOnlySlow.ID] != 1 {
		t.Error(v.AtStake)
	}
}

func failoversOf(h *history.History) *Verdict {
	v := &Verdict{}
	failovers(v, h)
	return v
}

// A node that lives closes no connection because leadership changes hands.
func TestClosings(t *testing.T) {
	closed := func(text string) *Verdict {
		h, v := story(t, text+"\n 30000-30001 1@n2 get a = x"), &Verdict{}
		for i := range h.Ops {
			if h.Ops[i].Outcome == history.Info {
				h.Ops[i].Error = "read tcp 127.0.0.1:1: connection reset by peer"
			}
		}
		mark(h)
		closings(v, h)
		return v
	}
	const asks, moves = "0-1 1@n1 set a = OK\n 900-?910 1@n1 set a\n ", "800-850 fault transfer once"
	for _, c := range []struct {
		text  string
		wrong bool
	}{
		{asks + moves, true},
		{asks + "800-950 fault partition leader alone\n 800-950 link n1 n2 cut", true},
		{strings.TrimSpace(asks), false},
		{asks + moves + "\n 500-600 fault clients reset", false},
		{asks + moves + "\n 500-600 away n1", false},
		{asks + moves + "\n 905-2000 died n1", false},
		{"900-?910 1@n1 set a\n " + moves, false}, // its connection may be older
	} {
		if v := closed(c.text); (len(v.Problems) > 0) != c.wrong {
			t.Errorf("%v in\n%s", v.Problems, c.text)
		}
	}
	for err, ended := range map[string]bool{"EOF": true, "unexpected EOF": true, "write tcp: broken pipe": true, "i/o timeout": false, Gone: false} {
		if endedByServer(err) != ended {
			t.Error(err)
		}
	}
}

// A fault that marks do not describe is known by its name, before its end and after it.
func TestIsUnmarked(t *testing.T) {
	for _, c := range []struct {
		kind, what string
		want       bool
	}{
		{"load", "burst", true},
		{"quiet", "quiet for 1.0 s, then one write at each node", true},
		{"scenario", "save twice", true},
		{"scenario", "scenario save twice: save [n1]", true},
		{"scenario", "scenario hand over: n2 hangs", true},
		{"scenario", "scenario elected: hand over to n2, kill n2", false},
		{"kill", "kill leader [n1]", false},
		{"install", "install kill n1: kill n2 after 1 s", false},
		{"transfer", "", false},
	} {
		if got := isOneOf(unmarked, history.Window{Kind: c.kind, What: c.what}); got != c.want {
			t.Errorf("%s %q: %v", c.kind, c.what, got)
		}
	}
}

// Without a fault near it every operation is answered in time, and done.
func TestUndisturbed(t *testing.T) {
	good := []string{
		"0-1499 1@n1 get a = OK",
		"0-9000 1 wait a = timeout", // of which no node knows
		"0-10 fault kill\n 5009-5010 1@n1 get a failed",
		"0-10 fault kill\n 5009-?9000 1@n1 get a",
		"0-10 fault kill\n 5009-9000 1@n1 get a = OK",
		"0-10 away n2\n 5009-9000 1@n1 get a = OK",
		"8000-9999 fault kill\n 5009-9000 1@n1 get a = OK",
		"0-10 2@n1 poison p = 1\n 5009-9000 1@n1 get a = OK",
		"0-1 1@n1 get a = OK\n 5-10 fault kill\n 9000-?9001 1@n1 get a", // its connection had broken, unseen
	}
	for _, s := range good {
		expect(t, live, s)
	}
	if v := live(story(t, "0-10 2@n1 poison p = 1\n 9009-9010 1@n1 get a = OK")); v.AtStake[ruleUndisturbed.ID] != 0 {
		t.Errorf("beside scripts that exceed limits: %v", v.AtStake)
	}
	expect(t, live, "0-1501 1@n1 get a = OK", "answered late@1")
	expect(t, live, "0-1 1@n1 get a failed", "refused without a fault@1")
	expect(t, live, "0-? 1@n1 get a", "unknown without a fault@1")
	expect(t, live, "0-10 fault kill\n 5011-5012 1@n1 get a failed", "refused without a fault@2")
	expect(t, live, "0-10 fault kill\n 5011-5012 1@n1 get a failed\n 6000-6001 fault kill", "refused without a fault@2")
	expect(t, live, "0-1 1@n1 get a = OK\n 5-10 fault kill\n 9000-9001 1@n1 get a failed", "refused without a fault@3")
	expect(t, live, "0-1 1@n1 get a = OK\n 5-10 fault kill\n 9000-?10501 1@n1 get a", "unknown without a fault@3")
	expect(t, live, "5-10 fault kill\n 6000-6001 1@n1 get a = OK\n 9000-?9001 1@n1 get a", "unknown without a fault@3")
	expect(t, live, "0-1 2@n1 get a = OK\n 5-10 fault kill\n 9000-?9001 1@n1 get a", "unknown without a fault@3")
	expect(t, live, "0-10 fault hostile\n 5-1510 1@n1 get a = OK")
	expect(t, live, "0-10 fault hostile\n 5-6 1@n1 get a failed", "refused without a fault@2")
	expect(t, live, "0-10 fault hostile\n 5-? 1@n1 get a", "unknown without a fault@2")
	expect(t, live, "0-10 fault hostile\n 0-10 fault kill\n 5-6 1@n1 get a failed")
	for _, c := range []struct {
		op   history.Op
		fine bool
	}{
		{history.Op{Node: "n1", Outcome: history.OK, Told: 3e9, Slept: 2e9}, true},
		{history.Op{Node: "n1", Outcome: history.OK, Told: 4e9, Slept: 2e9}, false},
		{history.Op{Node: "n1", Outcome: history.Info, Error: Died}, true},
		{history.Op{Node: "n1", Outcome: history.Info, Error: "connection reset"}, false},
	} {
		if v := Live(&history.History{Ops: []history.Op{c.op}, Marked: true}); v.OK() != c.fine {
			t.Errorf("%+v: %v", c.op, v.Problems)
		}
	}
}

// The kind of request or answer that was seen the fewest times is counted and named.
func TestLeast(t *testing.T) {
	const text = "0-1 1 get a = 1\n 2-3 1 get a = 2\n 4-5 1 set a 3 = OK\n 6-? 1 set a 4"
	for _, c := range []struct {
		kinds  string
		rarest string
		seen   int
	}{
		{"get", "get", 2}, {"get,get 1", "get 1", 1}, {"get,set", "set", 1}, {"get,del", "del", 0},
	} {
		v := Least(strings.Split(c.kinds, ",")...)(story(t, text))
		if n, counted := v.AtStake[ruleEach.ID]; n != c.seen || !counted || v.Rarest != c.rarest || !v.OK() {
			t.Errorf("%s: %q %d times, %+v", c.kinds, v.Rarest, n, v)
		}
	}
}

// An acknowledged write that was never read is not decided.
func TestSeen(t *testing.T) {
	check := Seen([]string{"add", "take"}, []string{"read", "sold"})
	for text, want := range map[string]string{
		"0-1 1 add s a = 1\n 2-3 1 read s = a":                             "",
		"0-1 1 add s a = 1\n 1-3 1 read s = a":                             "",
		"0-? 1 add s a\n 0-1 2 add s b failed":                             "",
		"0-1 1 add s a = 1":                                                "s was not read after line 1",
		"0-2 1 add s a = 1\n 1-3 1 read s = a":                             "s was not read after line 1",
		"0-1 1 add s a = 1\n 2-3 1 read t = a":                             "s was not read after line 1",
		"0-1 1 add s a = 1\n 2-? 1 read s":                                 "s was not read after line 1",
		"0-1 1 add s a = 1\n 2-3 1 read s = a\n 4-5 1 add s b = 1":         "s was not read after line 3",
		"0-1 1 take s a,l = 9,1\n 2-3 1 read s = 9\n 4-5 1 sold l = a,1":   "",
		"0-1 1 take s a,l = 9,1\n 2-3 1 read s = 9\n 4-5 1 sold k = a,1":   "l was not read after line 1",
		"0-1 1 take s a,l = 9,1\n 4-5 1 sold l = a,1\n 2-3 1 sold z = a,1": "s was not read after line 1",
	} {
		v := check(story(t, text))
		if got := strings.Join(v.Undecided, "; "); len(v.Problems) > 0 || (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("undecided %q, want %q in\n%s", got, want, text)
		}
	}
}

// refusals is a process that asks a node for a write again and again, and is refused at once.
func refusals(node string, from, to int) string {
	s := ""
	for at := from; at < to; at += 400 {
		s += fmt.Sprintf("\n%d-%d 9@%s set b failed", at, at+5, node)
	}
	return s
}

// beatsAt is a process whose writes at a node are done.
func beatsAt(node string, from, to int) string {
	s := ""
	for at := from; at < to; at += 400 {
		s += fmt.Sprintf("\n%d-%d 8@%s set b = OK", at, at+5, node)
	}
	return s
}

// Each node of a connected majority does writes, whatever the others do.
func TestNodeSilence(t *testing.T) {
	const begin = "0-1 1@n1 set a = OK\n 0-1 2@n2 set a = OK\n 0-1 3@n3 set a = OK\n 10-200 fault kill"
	for _, c := range []struct {
		history string
		silent  bool
	}{
		{begin + beatsAt("n1", 300, 9000) + refusals("n2", 320, 9000), true},
		{begin + beatsAt("n1", 300, 9000) + refusals("n2", 320, 4000), false},                                  // not for long
		{begin + beatsAt("n1", 300, 9000) + "\n 400-405 9@n2 set b failed", false},                             // asked once
		{begin + beatsAt("n1", 300, 9000) + "\n 400-405 9@n2 set b failed\n 6000-6005 9@n2 set b = OK", false}, // and not again for long
		{begin + beatsAt("n1", 300, 9000) + "\n 400-405 9@n2 set b failed\n 1000-6005 9@n2 set b = OK", true},  // answered late
		{begin + "\n 10-20000 away n2" + beatsAt("n1", 300, 9000) + refusals("n2", 320, 9000), false},          // it is away
		{begin + "\n 10-20000 link n2 n3 cut" + beatsAt("n1", 300, 9000) + refusals("n2", 320, 9000), false},   // or badly linked
		{begin + "\n 10-20000 away n2\n 10-20000 away n3" + refusals("n1", 320, 9000), false},                  // no majority
	} {
		v := live(story(t, c.history))
		if silent := slices.ContainsFunc(v.Problems, func(p Problem) bool { return p.Kind == "node silent" }); silent != c.silent {
			t.Errorf("%v, want %v, in\n%s", v.Problems, c.silent, c.history)
		}
	}
}
