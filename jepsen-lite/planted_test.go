package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/target"
	"lockd/jepsen-lite/workload"
)

// Every bug that can be planted has a run; REFERENCE.md lists them (TestReference).
func TestPlantedRuns(t *testing.T) {
	var bugs, runs []string
	for _, p := range plantedRuns {
		bugs, runs = append(bugs, p.bug), append(runs, p.flags)
		run, err := p.parse(false)
		switch {
		case err != nil:
			t.Errorf("%s: %v", p.bug, err)
		case run.Seed == 0 || len(run.Workload) != 1 || workload.Find(run.Workload[0]) == nil || run.Nodes != 3:
			t.Errorf("%s: %+v", p.bug, run)
		}
	}
	for _, name := range []string{"line", "shared", "limit", "idempotent", "forensics"} { // which are run without bugs, too
		if !strings.Contains(strings.Join(runs, "\n"), "--workload "+name+" ") {
			t.Errorf("no bug is planted for the workload %s", name)
		}
	}
	found, err := filepath.Glob("planted/*.bug")
	if err != nil {
		t.Fatal(err)
	}
	var planted []string
	for _, file := range found {
		planted = append(planted, strings.TrimSuffix(filepath.Base(file), ".bug"))
	}
	if slices.Sort(bugs); !slices.Equal(bugs, slices.DeleteFunc(planted, func(p string) bool { return p == target.OtherBuild || p == target.NextBuild })) {
		t.Errorf("there are runs for %q, and files for %q", bugs, planted)
	}
}

// A bug is caught by a problem that it causes, and not by another one.
func TestPlantedJudge(t *testing.T) {
	p := plantedRun{as: []string{"stale read", "went back"}}
	for _, c := range []struct {
		kinds []string
		want  string
		ok    bool
	}{
		{nil, "NOT CAUGHT", false},
		{[]string{"not healthy"}, "NOT CAUGHT", false},
		{[]string{"not healthy", "went back", "went back"}, "caught: went back", true},
		{[]string{"went back", "stale read"}, "caught: went back, stale read", true},
	} {
		v := &model.Verdict{}
		for _, k := range c.kinds {
			v.Add(k, nil, "so it was seen")
		}
		if word, ok := p.judge([]report.Result{{Verdict: v}}); word != c.want || ok != c.ok {
			t.Errorf("%q: %s, %v, want %s", c.kinds, word, ok, c.want)
		}
	}
}

// The time of the catch is that of the first answer with one of these problems.
func TestPlantedJudgeTellsWhen(t *testing.T) {
	h := &history.History{Ops: []history.Op{{Line: 2, Told: 900e6}, {Line: 4, Told: 2500e6}, {Line: 6, Told: 1500e6}}}
	v := &model.Verdict{}
	for i, kind := range []string{"silence", "went back", "stale read"} { // the first one is not its doing
		v.Add(kind, &h.Ops[i], "so it was seen")
	}
	p := plantedRun{as: []string{"stale read", "went back"}}
	if word, ok := p.judge([]report.Result{{History: h, Verdict: v}}); word != "caught: went back, stale read after 1.5 s" || !ok {
		t.Errorf("%s, %v", word, ok)
	}
}

// What is told to end begins no further run.
func TestPlantedToldToEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out strings.Builder
	c := plantedCmd{Name: []string{"skip-sync", "map-order", "level-stuck"}, Target: anyTarget, Out: t.TempDir()}
	passed, err := c.runUntil(ctx, &out)
	if passed || err != nil || strings.Count(out.String(), "was not tried: told to end") != 3 {
		t.Errorf("%v, %v: %s", passed, err, &out)
	}
}

// A bug that cannot be simulated goes to processes, or is left out with the reason; naming one is an error.
func TestPlantedDivides(t *testing.T) {
	for _, c := range []struct {
		target, names     string
		simulated, actual string
		says              string
	}{
		{"lockd", "map-order skip-sync", "", "skip-sync map-order", ""},
		{"any", "map-order skip-sync level-stuck", "map-order", "skip-sync level-stuck", ""},
		{"sim", "map-order follower-read", "follower-read map-order", "", ""},
		{"sim", "map-order skip-sync", "", "", "--target sim: skip-sync is in the disk of a test build"},
		{"sim", "level-stuck", "", "", "--target sim: level-stuck is caught by the nemesis upgrade:up, which needs real processes"},
	} {
		simulated, actual, err := (&plantedCmd{Target: c.target, Name: strings.Fields(c.names)}).divide(io.Discard)
		if said := fmt.Sprint(err); (err == nil) != (c.says == "") || !strings.HasPrefix(said, c.says) && err != nil {
			t.Errorf("%s of %s: %v", c.names, c.target, err)
		}
		if err == nil && (listed(simulated) != c.simulated || listed(actual) != c.actual) {
			t.Errorf("%s of %s: %s are simulated, %s are not", c.names, c.target, listed(simulated), listed(actual))
		}
	}
	var out strings.Builder
	simulated, actual, err := (&plantedCmd{Target: "sim"}).divide(&out)
	left := strings.Count(out.String(), "left out: ")
	if err != nil || len(actual) > 0 || left == 0 || len(simulated)+left != len(plantedRuns) {
		t.Errorf("%v: %d are simulated, %d are not: %s", err, len(simulated), len(actual), &out)
	}
}

func listed(runs []plantedRun) string { return strings.Join(bugsOf(runs), " ") }

// What is said of single bugs in the simulator is about bugs that there are, and gives flags that it takes.
func TestPlantedInTheSimulator(t *testing.T) {
	for _, bug := range slices.Collect(maps.Keys(grounded)) {
		if !slices.Contains(bugs(), bug) || aimed[bug] != "" {
			t.Errorf("%s is grounded, and no bug, or aimed", bug)
		}
	}
	for _, p := range plantedRuns {
		run, err := p.parse(true)
		if why, _ := p.grounded(); err != nil || why != "" {
			continue
		}
		run.Target = "sim"
		if _, err := (&session{cmd: run}).check(); err != nil || run.Seed == 0 || len(run.Workload) != 1 {
			t.Errorf("%s: %v, %+v", p.bug, err, run)
		}
	}
	for bug := range aimed {
		if !slices.Contains(bugs(), bug) {
			t.Errorf("there is no bug %s to aim at", bug)
		}
	}
}

// Of runs without bugs each is made once.
func TestPlantedOnce(t *testing.T) {
	got := listed(once([]plantedRun{{bug: "a", flags: "1"}, {bug: "b", flags: "2"}, {bug: "c", flags: "1"}}))
	if got != "a b" {
		t.Errorf("%s", got)
	}
}

// Runs beside each other are all made, each once.
func TestPlantedBeside(t *testing.T) {
	var mu sync.Mutex
	made := map[string]int{}
	(&plantedCmd{}).beside(3, plantedRuns, func(p plantedRun) {
		mu.Lock()
		defer mu.Unlock()
		made[p.bug]++
	})
	for _, p := range plantedRuns {
		if made[p.bug] != 1 {
			t.Errorf("%s: %d times", p.bug, made[p.bug])
		}
	}
}
