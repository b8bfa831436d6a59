package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
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
