package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
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
		{"line", "kill", judgeAll, 0, 40 * time.Second, ""}, // 30 of them without a fault
		{"line", "none", judgeAll, 0, 20 * time.Second, ""},
		{"line", "kill", judgeSafety, 0, 10 * time.Second, ""},
		{"set,lock,line", "kill", judgeAll, 0, 70 * time.Second, ""},
		{"line", "kill,absent", judgeAll, 0, 66 * time.Second, ""}, // 36 of them for three nodes that are absent
		{"line", "kill,absent:kill-leader", judgeAll, 0, 54 * time.Second, ""},
		{"line", "kill,absent", judgeSafety, 0, 10 * time.Second, ""},
		{"set,line", "kill", judgeAll, 60 * time.Second, 60 * time.Second, ""},
		{"set,line", "kill", judgeAll, 20 * time.Second, 20 * time.Second,
			"each workload has 10s, and there are rules that need more (line 40s): rules that were hardly at stake will be " +
				"undecided; --time 50s is enough"},
		{"set,line", "kill", judgeSafety, 6 * time.Second, 6 * time.Second,
			"each workload has 3s, and there are rules that need more (set 10s, line 10s): rules that need more will not be " +
				"judged; --time 20s is enough"},
	} {
		s := &session{cmd: &runCmd{Time: c.time, Judge: c.judge, Workload: strings.Split(c.workloads, ","),
			Nemesis: strings.Split(c.nemesis, ","), Nodes: 3, Workers: 1, Rate: 1, Target: "lockd"}}
		if _, err := s.check(); err != nil || s.cmd.Time != c.becomes || s.needs().tooShort(s.workloads, s.cmd.Time) != c.says {
			t.Errorf("%+v: %v, %s, %q", c, err, s.cmd.Time, s.needs().tooShort(s.workloads, s.cmd.Time))
		}
	}
}

// Each workload has what it needs and an equal part of the rest; where that is too little for all, all have the same.
func TestParts(t *testing.T) {
	for _, c := range []struct{ run, set, line time.Duration }{
		{50 * time.Second, 10 * time.Second, 40 * time.Second},
		{60 * time.Second, 15 * time.Second, 45 * time.Second},
		{49 * time.Second, 24500 * time.Millisecond, 24500 * time.Millisecond},
	} {
		s := &session{cmd: &runCmd{Judge: judgeAll}, kinds: []string{"kill"}}
		if got := s.needs().parts([]string{"set", "line"}, c.run); got[0] != c.set || got[1] != c.line {
			t.Errorf("%s: %v", c.run, got)
		}
	}
}

// A mixed run of all begins the workloads whose rules need a node that is absent with that, and the others with faults
// that have a step to themselves, each of these kinds once at least.
func TestFirstFaults(t *testing.T) {
	s := &session{cmd: &runCmd{Workload: []string{"all"}, Nemesis: []string{"all"}, Judge: judgeAll, Mixed: true,
		Nodes: 3, Workers: 1, Rate: 1, Target: "lockd", Seed: 5}}
	if _, err := s.check(); err != nil {
		t.Fatal(err)
	}
	lone, _ := nemesis.Apart(s.kinds)
	begun := map[string]int{}
	for turn, name := range s.workloads {
		plan := s.schedule(turn, time.Minute)
		first, absent := plan[0].Faults[0].Kind, len(model.Wants(name)) > 0
		if absent != (first == nemesis.Absent) || absent && plan[1].Faults[0].Kind != first {
			t.Errorf("%s begins with %+v", name, plan[:2])
		}
		if len(plan[0].Faults) == 1 {
			begun[first]++
		}
	}
	for _, kind := range lone {
		if begun[kind] == 0 {
			t.Errorf("no workload begins with %s", kind)
		}
	}
	if s.cmd.Time > 13*time.Minute {
		t.Errorf("a run of all needs %s", s.cmd.Time)
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
		{runCmd{Judge: judgeAll}, []string{"kill"}, "line", 40 * time.Second, 30 * time.Second},
		{runCmd{Judge: judgeAll}, []string{"kill"}, "line", 39 * time.Second, 0},
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

// The commands of README.md are ones, the first of them says something in the time that it takes, and the page fits two
// screens.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 85 {
		t.Errorf("README.md has %d lines: what is not read first belongs into REFERENCE.md", lines)
	}
	first := true
	for _, found := range regexp.MustCompile(`(?m)^go run \./jepsen-lite ?(.*)$`).FindAllStringSubmatch(string(text), -1) {
		var c cli
		parser, err := kong.New(&c)
		if err == nil {
			_, err = parser.Parse(strings.Fields(found[1]))
		}
		if err != nil {
			t.Errorf("%s: %v", found[0], err)
		}
		s := &session{cmd: &c.Run}
		if _, err := s.check(); first && (err != nil || s.needs().tooShort(s.workloads, c.Run.Time) != "" || len(s.kinds) < 2) {
			t.Errorf("%s judges too little: %v, %s of %v", found[0], err, c.Run.Time, s.kinds)
		}
		first = false
	}
	if first {
		t.Error("README.md has no command")
	}
}
