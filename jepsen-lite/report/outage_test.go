package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
)

const second = int64(time.Second)

// write is a write that ended at a second.
func write(end int64) history.Op {
	return history.Op{Name: "set", Node: "n1", Outcome: history.OK, Start: end*second - 1, End: end * second}
}

// An outage lasts from one successful write to the next, and counts for every fault that it overlaps. Reads, failures
// and operations outside the cluster do not end it.
func TestOutages(t *testing.T) {
	read, failed, unknown, local := write(22), write(23), write(24), write(25)
	read.Name, failed.Outcome, unknown.Outcome, local.Node = "get", history.Fail, history.Info, ""
	h := &history.History{
		Worked: 50 * second,
		Ops:    []history.Op{write(1), write(2), write(10), write(11), write(20), read, failed, unknown, local, write(27), write(40)},
		Faults: []history.Window{
			{Kind: "kill", What: "first", Start: 3 * second, End: 4 * second},           // within 2..10
			{Kind: "kill", What: "later", Start: 10 * second, End: 12 * second},         // 11..20 is longer
			{Kind: "pause", What: "short", Start: 21 * second, End: 26 * second},        // within 20..27
			{Kind: "slow", What: "from then on", Start: 5 * second, End: 10*second + 1}, // 2..10, and 10..11
			{Kind: "late", What: "after the last write", Start: 41 * second, End: 42 * second},
		},
	}
	got := Outages([]Result{{Workload: "w", History: h}})
	want := map[string]Outage{
		"kill":  {9 * time.Second, "w", "later"},
		"pause": {7 * time.Second, "w", "short"},
		"slow":  {8 * time.Second, "w", "from then on"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outages %v, want %v", got, want)
	}
	h.Worked = 25 * second // the clients stopped then
	want["pause"] = Outage{5 * time.Second, "w", "short"}
	if got := Outages([]Result{{Workload: "w", History: h}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outages %v, want %v", got, want)
	}
}

// The longest outage of all workloads is told, with the number of faults, and the totals.
func TestOutageTable(t *testing.T) {
	results := []Result{}
	for i, gap := range []int64{3, 5} {
		results = append(results, Result{Workload: fmt.Sprint("w", i), History: &history.History{
			Worked: 9 * second,
			Ops:    []history.Op{write(1), write(1 + gap), {Name: "set", Outcome: history.Info}},
			Faults: []history.Window{{Kind: "kill", What: fmt.Sprint("kill ", i), Start: second + 1, End: second + 2}},
		}})
	}
	var b strings.Builder
	outages(&b, results)
	for _, want := range []string{"kill   2      5s              w1           kill 1\n", "in all: 6 operations, 2 of them unknown, and 2 faults\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A silence begins with the history or a successful write, and ends with the next one, or at the last try. Reads and
// failures do not end it.
func TestSilence(t *testing.T) {
	read, failed := write(9), write(30)
	read.Name, failed.Outcome = "get", history.Fail
	for _, c := range []struct {
		ops  []history.Op
		want time.Duration
	}{
		{nil, 0},
		{[]history.Op{read}, 0},
		{[]history.Op{write(4), write(5)}, 4 * time.Second},
		{[]history.Op{write(1), read, write(12)}, 11 * time.Second},
		{[]history.Op{write(1), write(7), failed}, 23*time.Second - 1},
	} {
		if got := Silence(&history.History{Ops: c.ops, Worked: 50 * second}); got != c.want {
			t.Errorf("%v: %s, want %s", c.ops, got, c.want)
		}
	}
}

// No silence lasts beyond the end of the clients' work.
func TestSilenceEndsWithTheWork(t *testing.T) {
	recorded := func(marks string) *history.History {
		text := `{"time":1000000000,"process":1,"type":"invoke","op":"set","node":"n1"}
{"time":2000000000,"process":1,"type":"ok","op":"set","node":"n1"}
` + marks + `{"time":4000000000,"process":1,"type":"invoke","op":"set","node":"n1"}
{"time":14000000000,"process":1,"type":"ok","op":"set","node":"n1"}
{"time":24000000000,"process":1,"type":"invoke","op":"set","node":"n1"}
{"time":25000000000,"process":1,"type":"ok","op":"set","node":"n1"}
`
		h, err := history.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, c := range []struct {
		marks       string
		writes, all time.Duration
	}{
		{"", 12 * time.Second, 12 * time.Second}, // an old recording, which does not tell
		{`{"time":3500000000,"process":-1,"type":"info","op":"rest"}` + "\n", 2 * time.Second, 1500 * time.Millisecond},
	} {
		h := recorded(c.marks)
		if writes, all := Silence(h), Count(h).Gap; writes != c.writes || all != c.all {
			t.Errorf("with %q no write for %s, nothing for %s, want %s and %s", c.marks, writes, all, c.writes, c.all)
		}
	}
}
