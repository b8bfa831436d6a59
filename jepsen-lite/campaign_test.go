package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/model"
)

// The summary of a campaign has the sums of all runs, whatever became of them, and the rules that no run put at stake.
func TestCampaignSummary(t *testing.T) {
	m := &campaign{
		cmd:   &marathonCmd{Each: 30 * time.Second, Seeds: 3, Flags: runCmd{Target: "sim", Nodes: 5, Workload: []string{"all"}}},
		first: 7, loads: map[string]int{}, sum: newFigures(nil, true),
	}
	run := func(ok int, silence time.Duration, load string) *figures {
		return &figures{
			OK: ok, Fail: 2, Info: 1, Faults: 4, Ended: 1, Silence: silence, Lasted: 30 * time.Second, CPU: 3 * time.Second, GaveUp: 1,
			AtStake: map[string]int{"one-holder": ok}, Kinds: map[string]int{"kill": 3, "pause": 1}, Loads: map[string]int{load: ok + 3},
		}
	}
	m.count(7, run(100, time.Second, "lock"))
	m.count(8, run(200, 3*time.Second, "lock"))
	m.count(9, run(50, 2*time.Second, "keys"))
	m.passed, m.failed = 2, []string{"seed 9: keys FAILED: two holders: DIR"}
	m.began, m.cmd.Flags.Out = time.Now(), t.TempDir()
	kept, err := m.keep()
	written, _ := os.ReadFile(filepath.Join(m.cmd.Flags.Out, summaryFile))
	totals, _ := os.ReadFile(filepath.Join(m.cmd.Flags.Out, totalsFile))
	if err != nil || kept == "" || string(written) != kept || !strings.Contains(string(totals), `"one-holder": 350`) {
		t.Errorf("%v: %q is kept, and %s", err, written, totals)
	}
	var text strings.Builder
	m.summary(&text, time.Minute)
	said := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"go run ./jepsen-lite marathon --each 30s --seeds 3", "--nodes 5", "--seed 7", "--target sim",
		"seeds 2 passed, 1 failed, from 7 on",
		"operations 359: 350 ok, 6 refused, 3 unknown",
		"faults 12; 3 processes ended",
		"simulated 1m30s in 1m0s, and 9s of one processor",
		"rate 40 operations and 10.0 simulated seconds per second of one processor",
		"longest time without a write 3s (seed 8)",
		"or a search gave up; 3 searches did",
		"workload runs operations keys 1 53 lock 2 306",
		"fault times kill 9 pause 3",
		"rule at stake one-holder 350 never at stake: " + model.Rules[0].ID,
		"seed 9: keys FAILED: two holders: DIR",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it lacks %q:\n%s", want, &text)
		}
	}
}

// The figures of a run count a rule that faults put at stake, though no checker has counted them.
func TestFiguresCountFaults(t *testing.T) {
	counted, byFaults := model.Rules[0], model.Rules[1]
	v := &model.Verdict{
		AtStake: map[string]int{counted.ID: 5}, GaveUp: 2,
		Stakes: []model.Stake{{Rule: counted, Times: 5}, {Rule: byFaults, Times: 3}},
	}
	o := newFigures(nil, true)
	o.add("lock", v)
	if o.AtStake[counted.ID] != 5 || o.AtStake[byFaults.ID] != 3 || o.GaveUp != 2 {
		t.Errorf("%+v", o)
	}
}
