package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/report"
)

// outcome is the result of a run with two seconds between its first and its last write, and a majority for one second
// of four.
func outcome(problems ...string) []report.Result {
	v := &model.Verdict{}
	for _, p := range problems {
		v.Add(p, nil, "so it was seen")
	}
	second := int64(time.Second)
	return []report.Result{{Workload: "register", Verdict: v, History: &history.History{
		Ops: []history.Op{
			{Name: "set", Node: "n1", Outcome: history.OK, End: second},
			{Name: "set", Node: "n1", Outcome: history.OK, Start: second, End: 3 * second},
			{Name: "set", Node: "n1", Outcome: history.Info, Start: 2 * second},
		},
		Worked:  4 * second,
		Faults:  []history.Window{{Kind: "kill", End: 4 * second}},
		Quorums: []history.Quorum{{End: second}},
		Marked:  true,
	}}}
}

// marathon runs with a player that knows the number of the run only, and leaves a file.
func marathon(ctx context.Context, t *testing.T, c *marathonCmd, play func(n int, run *runCmd) ([]report.Result, bool, error)) (passed bool, said string, err error) {
	t.Helper()
	c.Flags.Out = t.TempDir()
	n := 0
	var out strings.Builder
	passed, err = c.rounds(ctx, &out, func(_ context.Context, run *runCmd, words io.Writer) ([]report.Result, bool, error) {
		n++
		fmt.Fprintln(words, "run", n)
		return play(n, run)
	})
	return passed, out.String(), err
}

// kept returns the folders that are left.
func kept(t *testing.T, c *marathonCmd) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(c.Flags.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A marathon keeps the folders of runs that failed or were undecided, with the output of the run, removes the others,
// and sums up. The first seed decides all others.
func TestMarathonKeepsWhatFailed(t *testing.T) {
	synctest.Test(t, testMarathonKeepsWhatFailed)
}

func testMarathonKeepsWhatFailed(t *testing.T) {
	seen := map[uint64]int{}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		c := &marathonCmd{Each: time.Minute, Flags: runCmd{Seed: 7}}
		var failed string
		passed, said, err := marathon(ctx, t, c, func(n int, run *runCmd) ([]report.Result, bool, error) {
			seen[run.Seed]++
			if run.Time != time.Minute || n == 1 && run.Seed != 7 {
				t.Errorf("run %d: %s, seed %d", n, run.Time, run.Seed)
			}
			if n == 4 {
				cancel()
				return outcome(), false, nil
			}
			if n == 2 {
				failed = filepath.Base(run.Out)
				return outcome("two holders"), true, nil
			}
			return outcome(), true, nil
		})
		if left := kept(t, c); err != nil || passed || len(left) != 1 || left[0] != failed {
			t.Fatalf("passed %v, error %v, kept %q, not only %s\n%s", passed, err, left, failed, said)
		}
		words, err := os.ReadFile(filepath.Join(c.Flags.Out, failed, saidFile))
		if err != nil || string(words) != "run 2\n" {
			t.Errorf("the run said %q, %v", words, err)
		}
		lines := strings.Split(strings.TrimSpace(said), "\n")
		for i, want := range []string{
			"output in ", "seed verdict ok unknown faults majority without a write folder", "7 ok 2 1 1 25% 2s -",
			strings.TrimPrefix(failed, "seed-") + " register FAILED: two holders 2 1 1 25% 2s " + filepath.Join(c.Flags.Out, failed), " ok 2 1 1 25% 2s -", " interrupted 2 1 1 25% 2s -",
			"4 seeds in 0s: 2 passed, 1 did not, 1 interrupted; 8 operations ok, 4 unknown, 4 faults; longest time without a successful write 2s (seed 7)",
			"seed " + strings.TrimPrefix(failed, "seed-") + ": register FAILED: two holders: ",
		} {
			if i >= len(lines) || !strings.Contains(strings.Join(strings.Fields(lines[i]), " "), want) {
				t.Errorf("line %d is not %q:\n%s", i, want, said)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("two marathons with the same first seed had the seeds %v", seen)
	}
}

// A marathon ends when its time is over, or its runs are made. The last run may be shorter, but no shorter than half a run.
func TestMarathonOfALength(t *testing.T) {
	for _, c := range []struct {
		time, each time.Duration
		seeds      int
		want       string
	}{
		{25 * time.Minute, 10 * time.Minute, 0, "[10m0s 10m0s 5m0s]"},
		{24 * time.Minute, 10 * time.Minute, 0, "[10m0s 10m0s]"},
		{5 * time.Second, 10 * time.Minute, 0, "[5s]"},
		{20 * time.Minute, 10 * time.Minute, 0, "[10m0s 10m0s]"},
		{20 * time.Minute, 10 * time.Minute, 1, "[10m0s]"},
		{0, 10 * time.Minute, 3, "[10m0s 10m0s 10m0s]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lengths []time.Duration
			m := &marathonCmd{Each: c.each, Seeds: c.seeds, Flags: runCmd{Time: c.time}}
			passed, said, err := marathon(t.Context(), t, m, func(_ int, run *runCmd) ([]report.Result, bool, error) {
				lengths = append(lengths, run.Time)
				time.Sleep(run.Time)
				return outcome(), true, nil
			})
			if got := fmt.Sprint(lengths); err != nil || !passed || got != c.want {
				t.Errorf("%s of %s: runs of %s, want %s; passed %v, error %v\n%s", c.time, c.each, got, c.want, passed, err, said)
			}
		})
	}
}

// An interrupted run does not count as failed, unless something was wrong before.
func TestMarathonInterrupted(t *testing.T) {
	for _, c := range []struct {
		problems, undecided []string
		err                 error
		passes              bool
		want                string
	}{
		{nil, nil, nil, true, "interrupted"},
		{nil, []string{"the run was interrupted"}, nil, true, "interrupted"},
		{nil, nil, context.Canceled, true, "interrupted"},
		{[]string{"lost"}, nil, nil, false, "register FAILED: lost"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		m := &marathonCmd{Each: time.Minute}
		passed, said, err := marathon(ctx, t, m, func(int, *runCmd) ([]report.Result, bool, error) {
			cancel()
			results := outcome(c.problems...)
			results[0].Verdict.Undecided = c.undecided
			if c.err != nil {
				results = nil
			}
			return results, false, c.err
		})
		if left := kept(t, m); err != nil || passed != c.passes || !strings.Contains(said, " "+c.want+" ") || (len(left) == 0) != c.passes {
			t.Errorf("%q %q %v: passed %v, error %v, kept %q\n%s", c.problems, c.undecided, c.err, passed, err, left, said)
		}
	}
}

// A marathon ends if the first run cannot be made, or several in a row. A single one counts as failed.
func TestMarathonOfErrors(t *testing.T) {
	synctest.Test(t, testMarathonOfErrors)
}

func testMarathonOfErrors(t *testing.T) {
	bad := errors.New("no port is free")
	for _, c := range []struct {
		broken map[int]bool
		runs   int
		err    error
		not    string
	}{
		{map[int]bool{1: true}, 1, bad, ""},
		{map[int]bool{2: true, 3: true, 4: true}, 4, bad, ""},
		{map[int]bool{2: true, 3: true, 5: true}, 6, nil, "6 seeds in 0s: 2 passed, 3 did not, 1 interrupted"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		m := &marathonCmd{Each: time.Minute}
		runs := 0
		passed, said, err := marathon(ctx, t, m, func(n int, _ *runCmd) ([]report.Result, bool, error) {
			if runs = n; n == 6 {
				cancel()
				return nil, false, nil
			}
			if c.broken[n] {
				return nil, false, bad
			}
			return outcome(), true, nil
		})
		if passed || runs != c.runs || !errors.Is(err, c.err) || !strings.Contains(said, c.not) || !strings.Contains(said, " NOT MADE: no port is free ") {
			t.Errorf("%v: %d runs, passed %v, error %v\n%s", c.broken, runs, passed, err, said)
		}
		cancel()
	}
}

// A mistake in a command line is reported in one sentence, with exit status 2.
func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--time=-1s", "--time must not be less than 0"},
		{"--nodes many", "--nodes: "},
		{"--shout", "unknown flag --shout"},
		{"marathon --each 0s", "--each must be greater than 0"},
		{"marathon --each soon", "--each: "},
		{"marathon --time=-1s", "--time must not be less than 0"},
		{"marathon --workload nothing", `there is no workload "nothing": choose from register, `},
		{"marathon --nemesis nothing", `there is no nemesis "nothing": choose from kill, `},
		{"marathon --workload none", "there must be a workload"},
		{"marathon --rate 0", "--rate must be at least 1"},
		{"marathon --target nothing", `there is no target "nothing"`},
		{"marathon --plant nothing", `there is no bug "nothing" to plant`},
		{"marathon --plant skip-sync --binary lockd", "--plant skip-sync: a bug is planted before the server is built"},
		{"--plant skip-sync --binary lockd", "--plant skip-sync: a bug is planted before the server is built"},
		{"--from v1 --nemesis upgrade --binary lockd", "--from v1: the nodes start with the build of it, so --binary cannot be another"},
		{"--from v1 --nemesis kill", "--from v1: only --nemesis upgrade goes from one build to another"},
		{"--plant skip-sync --target redis-sentinel", "--plant skip-sync: the target redis-sentinel is not built here"},
		{"marathon DIR", "unexpected argument DIR"},
		{"marathon --out /dev/null/x", "mkdir /dev/null: not a directory"},
	} {
		refused(t, c.want, strings.Fields(c.line)...)
	}
}

// Flags that would change nothing of a run are refused.
func TestIdleFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--target sim --binary lockd":                         "--binary: the nodes of target sim are in this program",
		"--target sim --race":                                 "--race: the target sim is not built for the run",
		"--target sim --args=--log-level=debug":               "--args: the nodes of target sim are started without more arguments",
		"--target redis-sentinel --race":                      "--race: the target redis-sentinel is not built for the run",
		"--target redis-sentinel --args=--port":               "--args: the nodes of target redis-sentinel are started without more arguments",
		"--keep":                                              "--keep: histories of target lockd are always kept",
		"--again=-1":                                          "--again must not be less than 0",
		"--swarm --mixed":                                     "--mixed: with --swarm the seed decides whether faults are mixed",
		"--swarm --schedule " + emptySchedule(t):              "--swarm: the faults are those of --schedule",
		"--mixed --schedule " + emptySchedule(t):              "--mixed: the faults are those of --schedule",
		"marathon --again 2":                                  "--again: a marathon makes one run of each seed; run gives the one of --seed again",
		"marathon --side 2":                                   "--side: runs of target lockd are made one after the other",
		"marathon --target sim --seeds=-1":                    "--seeds and --side must not be less than 0",
		"marathon --target sim --mixed":                       "--mixed: with --swarm the seed decides whether faults are mixed",
		"marathon --target sim --race --seeds 1 --each 1s":    "--race: the target sim is not built for the run",
		"marathon --target sim --binary x --seeds 1 --side 1": "--binary: the nodes of target sim are in this program",
	} {
		refused(t, want, append(strings.Fields(line), "--time", "1s", "--out", t.TempDir())...)
	}
}

// emptySchedule returns the path of a schedule without faults.
func emptySchedule(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), scheduleFile)
	if err := writeJSON(path, schedule{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused runs a command line that must be refused in one sentence.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	var out, errs strings.Builder
	code := command(args, &out, &errs)
	if code != 2 || out.Len() > 0 || !strings.HasPrefix(errs.String(), "jepsen-lite: ") || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("%q: status %d, said %q, %q, want %q", args, code, out.String(), errs.String(), want)
	}
}
