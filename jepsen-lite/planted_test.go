package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
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
		run, err := p.parse()
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
	c := plantedCmd{Name: []string{"skip-sync", "map-order"}, Out: t.TempDir()}
	passed, err := c.runUntil(ctx, &out)
	if passed || err != nil || strings.Count(out.String(), "was not tried: told to end") != 2 {
		t.Errorf("%v, %v: %s", passed, err, &out)
	}
}
