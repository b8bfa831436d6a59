package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/workload"
)

// A run knows how long it must be, takes that time if it is given none, and says so if it is given less.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		workloads, nemesis, judge string
		time                      time.Duration
		becomes                   time.Duration
		says                      string
	}{
		{"set", "kill", judgeAll, 0, 10 * time.Second, ""},
		{"line", "kill", judgeAll, 0, 30 * time.Second, ""}, // 20 of them without a fault
		{"line", "none", judgeAll, 0, 20 * time.Second, ""},
		{"line", "kill", judgeSafety, 0, 10 * time.Second, ""},
		{"set,lock,line", "kill", judgeAll, 0, 90 * time.Second, ""},
		{"set,line", "kill", judgeAll, 60 * time.Second, 60 * time.Second, ""},
		{"set,line", "kill", judgeAll, 20 * time.Second, 20 * time.Second,
			"each workload has 10s, and there are rules that need more (line 30s): rules that were hardly at stake will be " +
				"undecided; --time 1m0s is enough"},
		{"set,line", "kill", judgeSafety, 6 * time.Second, 6 * time.Second,
			"each workload has 3s, and there are rules that need more (set 10s, line 10s): rules that need more will not be " +
				"judged; --time 20s is enough"},
	} {
		s := &session{cmd: &runCmd{Time: c.time, Judge: c.judge, Workload: strings.Split(c.workloads, ","),
			Nemesis: []string{c.nemesis}, Nodes: 3, Workers: 1, Rate: 1, Target: "lockd"}}
		if _, err := s.check(); err != nil || s.cmd.Time != c.becomes || s.needs().tooShort(s.workloads, s.cmd.Time) != c.says {
			t.Errorf("%+v: %v, %s, %q", c, err, s.cmd.Time, s.needs().tooShort(s.workloads, s.cmd.Time))
		}
	}
}

// The last part of a workload has no fault if its rules need that, and the workload is long enough for both parts.
func TestCalmTail(t *testing.T) {
	for _, c := range []struct {
		cmd      runCmd
		kinds    []string
		workload string
		length   time.Duration
		want     time.Duration
	}{
		{runCmd{Judge: judgeAll}, []string{"kill"}, "line", 30 * time.Second, 20 * time.Second},
		{runCmd{Judge: judgeAll}, []string{"kill"}, "line", 29 * time.Second, 0},
		{runCmd{Judge: judgeAll}, []string{"kill"}, "set", 60 * time.Second, 0},
		{runCmd{Judge: judgeAll}, nil, "line", 60 * time.Second, 0},
		{runCmd{Judge: judgeSafety}, []string{"kill"}, "line", 60 * time.Second, 0},
		{runCmd{Judge: judgeAll, Schedule: "x"}, []string{"kill"}, "line", 60 * time.Second, 0},
	} {
		s := &session{cmd: &c.cmd, kinds: c.kinds}
		if got := s.needs().calmTail(c.workload, c.length); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// REFERENCE.md has the table of the rules. Each workload has rules of its own, and no rule is of a workload that there
// is not.
func TestReferenceHasRules(t *testing.T) {
	reference, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	own := map[string]bool{}
	for _, r := range model.Rules {
		of := "all"
		if len(r.Workloads) > 0 {
			of = strings.Join(r.Workloads, ", ")
		}
		for _, w := range r.Workloads {
			if own[w] = true; workload.Find(w) == nil {
				t.Errorf("%s: there is no workload %q", r.ID, w)
			}
		}
		safety := "yes"
		if r.Late {
			safety = "no"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", r.ID, r.Says, of, r.Need, safety))
	}
	if table := strings.Join(rows, ""); !strings.Contains(string(reference), table) {
		t.Errorf("REFERENCE.md does not have this table:\n%s", table)
	}
	for _, w := range workload.Table {
		if !own[w.Name] {
			t.Errorf("%s has no rule of its own", w.Name)
		}
	}
}
