package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/nemesis"
)

// A simulated run passes, and leaves its figures; its history only if it is to be kept.
func TestSimulatedRun(t *testing.T) {
	for _, keep := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "out")
		args := []string{
			"--target", "sim", "--workload", "lock", "--nemesis", "kill,partition", "--time", "10s", "--judge", "safety", "--seed", "1",
			"--out", dir,
		}
		if keep {
			args = append(args, "--keep")
		}
		var out, errs bytes.Buffer
		if status := command(args, &out, &errs); status != 0 {
			t.Fatalf("status %d: %s%s", status, &out, &errs)
		}
		f, err := loadFigures(dir)
		if err != nil || f.OK < 1000 || f.Faults == 0 || f.Lasted < 10*time.Second || f.AtStake["one-holder"] == 0 {
			t.Errorf("%v: %+v", err, f)
		}
		_, err = os.Stat(filepath.Join(dir, "lock", historyFile))
		if (err == nil) != keep {
			t.Errorf("keep %v: %v", keep, err)
		}
	}
}

// Faults that need real processes are refused where they are named, and left out where all are meant; so is the workload
// that keeps processors busy.
func TestWhatCannotBeSimulated(t *testing.T) {
	for given, refused := range map[string]string{
		"kill,hostile": "--target sim: the nemesis hostile needs real processes, files or sockets",
		"run:orphan":   "--target sim: the nemesis run:orphan needs real processes, files or sockets",
		"all":          "",
	} {
		s := &session{cmd: &runCmd{
			Target: "sim", Nemesis: strings.Split(given, ","), Workload: []string{"all"}, Nodes: 3, Workers: 1, Rate: 1,
		}}
		_, err := s.check()
		if (err != nil) != (refused != "") || err != nil && err.Error() != refused {
			t.Errorf("%s: %v", given, err)
		}
		if err != nil {
			continue
		}
		for _, step := range s.schedule(0, time.Hour) {
			for _, f := range step.Faults {
				if k := nemesis.Find(f.Kind); len(k.Grounded()) > 0 && strings.Contains(strings.Join(k.Grounded(), ","), f.Variant) {
					t.Errorf("the plan has %s %s", f.Kind, f.Variant)
				}
			}
		}
		if kinds := strings.Join(s.kinds, " "); !strings.Contains(kinds, "deposed") || strings.Contains(kinds, "upgrade") {
			t.Errorf("nemeses: %s", kinds)
		}
		if loads := strings.Join(s.workloads, " "); strings.Contains(loads, busyWorkload) || !strings.Contains(loads, "lock") {
			t.Errorf("workloads: %s", loads)
		}
	}
}

// A seed draws the same swarm each time; other seeds draw others. Its faults take the time that there is.
func TestSwarm(t *testing.T) {
	draw := func(seed uint64) *session {
		s := &session{cmd: &runCmd{Seed: seed}, workloads: []string{"a", "b", "c"}, kinds: []string{"kill", "pause", "slow"}}
		drawSwarm(s)
		return s
	}
	drawn := map[string]bool{}
	for seed := uint64(1); seed < 50; seed++ {
		one, same := draw(seed), draw(seed)
		plan := one.schedule(0, time.Minute)
		if !reflect.DeepEqual(plan, same.schedule(0, time.Minute)) || one.workloads[0] != same.workloads[0] {
			t.Errorf("seed %d draws different runs", seed)
		}
		var sum time.Duration
		for _, step := range plan {
			sum += step.After + step.For
		}
		if sum < time.Minute {
			t.Errorf("seed %d: the faults take %s of a minute", seed, sum)
		}
		drawn[one.workloads[0]+strings.Join(one.kinds, ",")] = true
	}
	if len(drawn) < 10 {
		t.Errorf("few different runs: %v", drawn)
	}
}
