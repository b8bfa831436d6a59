package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/report"
)

// planned has four steps with six faults, with different dice.
func planned() schedule {
	fault := func(kind, variant string, dice uint64) nemesis.Fault {
		return nemesis.Fault{Kind: kind, Variant: variant, Dice: dice}
	}
	return schedule{
		Seed: 9, Length: 40 * time.Second, Target: "lockd", Nodes: 5, Workers: 7, Rate: 70, Judge: judgeSafety, Plant: "skip-sync", Args: []string{"--x"},
		Steps: []nemesis.Step{
			{After: time.Second, For: time.Second, Faults: []nemesis.Fault{fault("kill", "leader", 0), fault("pause", "all", 1)}},
			{After: 2 * time.Second, For: time.Second, Faults: []nemesis.Fault{fault("kill", "all", 2)}},
			{After: 3 * time.Second, For: time.Second, Faults: []nemesis.Fault{fault("slow", "drip", 3), fault("late", "leader", 4)}},
			{After: 4 * time.Second, For: time.Second, Faults: []nemesis.Fault{fault("kill", "storm", 5)}},
		},
	}
}

// recordFailure writes a run of register that fails after met faults of those that took place.
func recordFailure(t *testing.T, s schedule, met, took int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "register"), 0o755); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	seen := 0 // the line of what is wrong
	add := func(e history.Event) {
		e.Time = int64(strings.Count(lines.String(), "\n") + 1)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(string(text) + "\n")
	}
	for i := range took + 1 {
		if i == met {
			add(history.Event{Process: 1, Type: history.Invoke, Op: "set", Key: "r", Value: []string{"1"}})
			add(history.Event{Process: 1, Type: history.OK, Op: "set", Key: "r", Value: []string{"OK"}})
			seen = strings.Count(lines.String(), "\n")
		}
		if i < took {
			add(history.Event{Process: history.Nemesis, Type: history.Invoke, Op: "kill", Key: fmt.Sprint(i)})
			add(history.Event{Process: history.Nemesis, Type: history.OK, Op: "kill", Key: fmt.Sprint(i)})
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "register", historyFile), []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(dir, "register", clusterFile), model.Verdict{Problems: []model.Problem{{Kind: problem, Line: seen}}}); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(dir, "register", scheduleFile), s); err != nil {
		t.Fatal(err)
	}
	return dir
}

// problem is the kind of problem of recordFailure.
const problem = "states differ"

// shrink searches with a player that is given the dice of the faults that it may play.
func shrink(ctx context.Context, t *testing.T, c *shrinkCmd, play func(dice []int, run *runCmd) (as string, complete bool, err error)) (passed bool, said string, err error) {
	t.Helper()
	f, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	c.Out = t.TempDir()
	var out strings.Builder
	passed, err = c.search(ctx, &out, f, func(_ context.Context, run *runCmd, words io.Writer) ([]report.Result, bool, error) {
		fmt.Fprintln(words, "said")
		s := &session{cmd: run}
		if _, err := s.check(); err != nil {
			t.Fatal(err)
		}
		var dice []int
		h := &history.History{}
		for _, step := range s.schedule(0, run.Time) {
			for _, fault := range step.Faults {
				dice = append(dice, int(fault.Dice))
				h.Faults = append(h.Faults, history.Window{What: fmt.Sprint("victim of ", fault.Dice)})
			}
		}
		as, complete, err := play(dice, run)
		v := &model.Verdict{}
		if as != "" {
			v.Add(as, nil, "so it was seen")
		}
		return []report.Result{{Workload: "register", History: h, Verdict: v}}, complete, err
	})
	return passed, out.String(), err
}

// The smallest failing set of faults is printed as a list, with its run and the command that repeats it. A set that
// fails only sometimes is tried several times.
func TestShrink(t *testing.T) {
	c := &shrinkCmd{Dir: recordFailure(t, planned(), 5, 6), Tries: 3, Time: time.Hour}
	turns := map[string]int{}
	var last *runCmd
	passed, said, err := shrink(t.Context(), t, c, func(dice []int, run *runCmd) (string, bool, error) {
		want := runCmd{
			Time: run.Time, Workload: []string{"register"}, Nemesis: run.Nemesis, Schedule: run.Schedule, Nodes: 5, Workers: 7, Rate: 70,
			Judge: judgeSafety, Seed: 9, Out: run.Out, Target: "lockd", Plant: "skip-sync", Args: []string{"--x"},
		}
		if !reflect.DeepEqual(*run, want) {
			t.Errorf("run %+v, want %+v", *run, want)
		}
		if turns[fmt.Sprint(dice)]++; turns[fmt.Sprint(dice)]%3 != 0 || !containing(1, 4)(dice) {
			return "not healthy", true, nil // another one than was recorded
		}
		last = run
		return problem, true, nil
	})
	if err != nil || !passed {
		t.Fatalf("passed %v, error %v\n%s", passed, err, said)
	}
	for _, want := range []string{
		"register failed with 6 faults in 40s (" + problem + "), output in " + c.Out,
		"  5 faults: FAILED in try 3: " + problem + "\n  0 faults: passed 3 times\n",
		"2 of 6 faults are enough for: " + problem + `
  1. after 1s, for 1s: pause all (victim of 1)
  2. after 3s, for 1s: late leader (victim of 4)
  3. end after 11s in all
that run is in ` + last.Out + "\nagain: go run ./jepsen-lite --time 11s --workload register --nemesis pause,late ",
		" --schedule " + last.Schedule + " ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
	if left, err := os.ReadDir(c.Out); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(last.Out) {
		t.Errorf("%v is left, not only %s; %v", left, last.Out, err)
	}
	s, err := loadSchedule(last.Schedule)
	if err != nil || len(s.Steps) != 2 || s.Length != 11*time.Second {
		t.Errorf("the schedule is %+v, %v", s, err)
	}
	words, err := os.ReadFile(filepath.Join(last.Out, saidFile))
	if err != nil || string(words) != "said\n" {
		t.Errorf("the run said %q, %v", words, err)
	}
}

// If the faults before the first problem do not fail, all that took place are tried. Planned faults that did not take
// place are not.
func TestShrinkWhatTookPlace(t *testing.T) {
	var tried []string
	c := &shrinkCmd{Dir: recordFailure(t, planned(), 1, 5), Tries: 1, Time: time.Hour}
	passed, said, err := shrink(t.Context(), t, c, func(dice []int, _ *runCmd) (string, bool, error) {
		tried = append(tried, fmt.Sprint(dice))
		if !containing(4)(dice) {
			return "", true, nil
		}
		return problem, true, nil
	})
	if err != nil || !passed || !strings.HasPrefix(strings.Join(tried, ""), "[0][0 1 2 3 4][]") || !strings.Contains(said, "1 of 5 faults are enough") {
		t.Errorf("tried %q, passed %v, error %v\n%s", tried, passed, err, said)
	}
}

// A schedule that does not fail again is no success, and leaves nothing.
func TestShrinkOfNothing(t *testing.T) {
	runs := 0
	c := &shrinkCmd{Dir: recordFailure(t, planned(), 6, 6), Tries: 4, Time: time.Hour}
	passed, said, err := shrink(t.Context(), t, c, func([]int, *runCmd) (string, bool, error) {
		runs++
		return "", true, nil
	})
	if left, _ := os.ReadDir(c.Out); err != nil || passed || runs != 4 || len(left) > 0 || !strings.Contains(said, "the recorded schedule did not fail again") {
		t.Errorf("%d runs, passed %v, error %v, left %v\n%s", runs, passed, err, left, said)
	}
}

// When its time is over, or it is interrupted, or a run cannot be made, the search prints its result so far. An
// interrupted run proves nothing.
func TestShrinkStops(t *testing.T) {
	broken := errors.New("no port is free")
	for _, c := range []struct {
		name string
		stop func(tell func()) error // in the third run
		done bool                    // which is complete all the same
		err  error
		want string
	}{
		{"time is over", func(func()) error { time.Sleep(time.Minute); return nil }, true, nil, "stopped before all was tried\n"},
		{"told", func(tell func()) error { tell(); return nil }, false, nil, "stopped before all was tried\n"},
		{"told at the start", func(tell func()) error { tell(); return context.Canceled }, false, nil, "stopped before all was tried\n"},
		{"broken", func(func()) error { return broken }, false, broken, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			cmd := &shrinkCmd{Dir: recordFailure(t, planned(), 6, 6), Tries: 1, Time: 55 * time.Second}
			ctx, tell := context.WithCancel(t.Context())
			defer tell()
			runs := 0
			passed, said, err := shrink(ctx, t, cmd, func(dice []int, run *runCmd) (string, bool, error) {
				if runs++; runs == 3 {
					err := c.stop(tell)
					return problem, c.done, err
				}
				time.Sleep(run.Time)
				if len(dice) == 0 {
					return "", true, nil
				}
				return problem, true, nil
			})
			if !passed || runs != 3 || !errors.Is(err, c.err) || !strings.Contains(said, c.want+"6 of 6 faults are enough") {
				t.Errorf("%s: %d runs, passed %v, error %v\n%s", c.name, runs, passed, err, said)
			}
		})
	}
}

// A run plays the faults of its --schedule, whatever its seed and its nemeses. Its own schedule tells all that is
// needed to repeat it.
func TestScheduleIsPlayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), scheduleFile)
	want := planned()
	if err := writeJSON(path, want); err != nil {
		t.Fatal(err)
	}
	c := &runCmd{
		Time: want.Length, Workload: []string{"lock"}, Nemesis: []string{"all"}, Schedule: path, Seed: 9, Target: want.Target,
		Nodes: want.Nodes, Workers: want.Workers, Rate: want.Rate, Judge: want.Judge, Plant: want.Plant, Args: want.Args,
	}
	s := &session{cmd: c}
	if _, err := s.check(); err != nil {
		t.Fatal(err)
	}
	if got := s.schedule(0, time.Minute); !reflect.DeepEqual(got, want.Steps) || !slices.Equal(s.kinds, []string{"kill", "pause", "slow", "late"}) {
		t.Errorf("kinds %q, faults %v, want %v", s.kinds, got, want.Steps)
	}
	if got := c.scheduleOf(9, time.Time{}, want.Length, want.Steps); !reflect.DeepEqual(got, want) {
		t.Errorf("the schedule is %+v, want %+v", got, want)
	}
	if again := c.again(); !strings.Contains(again, " --nemesis kill,pause,slow,late ") || !strings.HasSuffix(again, " --args=--x") || !strings.Contains(again, " --schedule "+path+" ") {
		t.Errorf("again: %s", again)
	}
}
