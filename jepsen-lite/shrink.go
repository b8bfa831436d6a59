package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/report"
)

type shrinkCmd struct {
	Dir    string        `arg:"" help:"Folder of a run that failed, or of one workload of it."`
	Tries  int           `default:"5" help:"How often fewer faults are tried before they count as too few: who leads is up to the run."`
	Time   time.Duration `default:"30m" help:"Length of all runs together."`
	Binary string        `help:"The server to test (default: built from this repository, as a test build)." placeholder:"FILE"`
	Out    string        `help:"Folder for what the runs leave (default: a new one in the temporary folder)." placeholder:"DIR"`
	built  string        // the server of all runs
}

// run prints the smallest set of faults it finds that fails like the recorded run. It succeeds if the recorded faults
// failed again at all.
func (c *shrinkCmd) run(out io.Writer) (passed bool, err error) {
	f, err := c.load()
	if err != nil {
		return false, err
	}
	one := f.run(nil)
	kind, err := (&session{cmd: &one}).check()
	if err != nil {
		return false, err
	}
	one.Binary = c.Binary
	if err := one.checkBinary(); err != nil {
		return false, err
	}
	if one.Out, err = folder(c.Out, "shrink"); err != nil {
		return false, err
	}
	if err := one.buildOnce(kind); err != nil {
		return false, err
	}
	c.Out, c.built = one.Out, one.built
	ctx, stop := untilTold()
	defer stop()
	return c.search(ctx, out, f, func(ctx context.Context, run *runCmd, out io.Writer) ([]report.Result, bool, error) {
		return run.resultsUntil(ctx, out)
	})
}

// load finds the failure in the folder.
func (c *shrinkCmd) load() (*failure, error) {
	if c.Tries < 1 || c.Time <= 0 {
		return nil, errors.New("--tries must be at least 1, and --time greater than 0")
	}
	runs, err := recorded(c.Dir)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		s, err := loadSchedule(filepath.Join(r.dir, scheduleFile))
		if err != nil {
			return nil, err
		}
		if s.Nodes < 1 || s.Length <= 0 {
			return nil, fmt.Errorf("%s does not say how the run was made: an older jepsen-lite wrote it",
				filepath.Join(r.dir, scheduleFile))
		}
		result, err := r.judge(s.Judge)
		if err != nil {
			return nil, err
		}
		if len(result.Verdict.Problems) > 0 {
			return newFailure(s, result), nil
		}
	}
	return nil, fmt.Errorf("what is recorded in %s did not fail: there is nothing to shrink", c.Dir)
}

// failure is a recorded run that failed.
type failure struct {
	schedule
	workload string
	kinds    []string        // of the problems
	lasted   []time.Duration // of each fault that took place, in the order of the schedule
	met      int             // how many had begun when the first problem occurred
}

func newFailure(s schedule, r report.Result) *failure {
	f := &failure{schedule: s, workload: r.Workload}
	seen := r.History.End
	for _, p := range r.Verdict.Problems {
		if !slices.Contains(f.kinds, p.Kind) {
			f.kinds = append(f.kinds, p.Kind)
		}
		if o := r.History.At(p.Line); o != nil {
			seen = min(seen, o.End)
		}
	}
	planned := 0
	for _, step := range s.Steps {
		planned += len(step.Faults)
	}
	for _, w := range r.History.Faults[:min(planned, len(r.History.Faults))] {
		f.lasted = append(f.lasted, time.Duration(w.End-w.Start))
		if w.Start < seen {
			f.met++
		}
	}
	return f
}

// Times of a run with fewer faults.
const (
	shrunkAfter = 5 * time.Second // after the last fault, for its effects to show
	shrunkMin   = 10 * time.Second
)

// fewer returns the schedule with some of its faults, by number. It is no longer than necessary.
func (f *failure) fewer(keep []int) schedule {
	s := f.schedule
	s.Steps = []nemesis.Step{}
	length, number := shrunkAfter, 0
	for _, step := range f.Steps {
		some := step
		some.Faults = nil
		lasts := step.For
		for _, fault := range step.Faults {
			if slices.Contains(keep, number) {
				some.Faults = append(some.Faults, fault)
				lasts = max(lasts, f.lasted[number])
			}
			number++
		}
		if len(some.Faults) > 0 {
			s.Steps = append(s.Steps, some)
			length += step.After + lasts
		}
	}
	s.Length = min(f.Length, max(length, shrunkMin))
	return s
}

// run makes a run with the settings of the recorded one and some of its faults.
func (f *failure) run(keep []int) runCmd {
	return runCmd{
		Time: f.fewer(keep).Length, Workload: []string{f.workload}, Nodes: f.Nodes, Workers: f.Workers,
		Rate: f.Rate, Judge: f.Judge, Seed: f.Seed, Target: f.Target, Plant: f.Plant, State: f.State, Race: f.Race, TLS: f.TLS,
		Args: f.Args,
	}
}

// errOver ends a search that is interrupted or out of time.
var errOver = errors.New("stopped before all was tried")

// search makes runs with fewer and fewer faults, and prints what is left.
func (c *shrinkCmd) search(ctx context.Context, out io.Writer, f *failure, play player) (passed bool, err error) {
	ctx, stop := context.WithTimeout(ctx, c.Time)
	defer stop()
	s := &search{cmd: c, out: out, failure: f, play: play}
	fmt.Fprintf(out, "%s failed with %d faults in %s (%s), output in %s\n",
		f.workload, len(f.lasted), f.Length, strings.Join(f.kinds, ", "), c.Out)
	best, err := s.least(ctx)
	if errors.Is(err, errOver) {
		fmt.Fprintln(out, err)
		err = nil
	}
	if s.dir == "" {
		fmt.Fprintln(out, "the recorded schedule did not fail again")
		return false, err
	}
	fmt.Fprintf(out, "%d of %d faults are enough for: %s\n%s",
		len(best), len(f.lasted), s.as, scenario(f.fewer(best), s.what))
	fmt.Fprintf(out, "that run is in %s\nagain: %s\n", s.dir, s.again)
	return true, err
}

// scenario is a schedule as a list for a person; what are the words of the faults that
// took place.
func scenario(s schedule, what []string) string {
	var b strings.Builder
	for i, step := range s.Steps {
		var faults []string
		for _, fault := range step.Faults {
			did := ""
			if len(what) > 0 {
				did, what = " ("+what[0]+")", what[1:]
			}
			faults = append(faults, fault.Kind+" "+fault.Variant+did)
		}
		fmt.Fprintf(&b, "%3d. after %s, for %s: %s\n", i+1, step.After, step.For, strings.Join(faults, ", "))
	}
	fmt.Fprintf(&b, "%3d. end after %s in all\n", len(s.Steps)+1, s.Length)
	return b.String()
}

// search is a search in progress.
type search struct {
	cmd     *shrinkCmd
	out     io.Writer
	failure *failure
	play    player
	runs    int

	// Of the last run that failed, which had the fewest faults.
	dir   string // "": there was none
	as    string // its problems
	what  []string
	again string
}

// least returns the smallest set of faults found that still fails. It first tries only the faults that had begun by the
// first problem.
func (s *search) least(ctx context.Context) ([]int, error) {
	fails := func(keep []int) (bool, error) { return s.fails(ctx, keep) }
	all := make([]int, len(s.failure.lasted))
	for i := range all {
		all[i] = i
	}
	for _, from := range [][]int{all[:s.failure.met], all} {
		failed, err := fails(from)
		if err != nil {
			return nil, err
		}
		if failed {
			return least(from, fails)
		}
		if len(from) == len(all) {
			break
		}
	}
	return nil, nil
}

// fails tries some of the faults until the run fails, or often enough.
func (s *search) fails(ctx context.Context, keep []int) (bool, error) {
	for try := range s.cmd.Tries {
		if ctx.Err() != nil {
			return false, errOver
		}
		failed, err := s.try(ctx, keep)
		if err != nil {
			return false, err
		}
		if failed {
			fmt.Fprintf(s.out, "%3d faults: FAILED in try %d: %s\n", len(keep), try+1, s.as)
			return true, nil
		}
	}
	fmt.Fprintf(s.out, "%3d faults: passed %d times\n", len(keep), s.cmd.Tries)
	return false, nil
}

// try makes one run. It keeps the folder of the last run only that failed like the recorded one.
func (s *search) try(ctx context.Context, keep []int) (failed bool, err error) {
	s.runs++
	run := s.failure.run(keep)
	run.Binary, run.built, run.Out = s.cmd.Binary, s.cmd.built, filepath.Join(s.cmd.Out, fmt.Sprint("run-", s.runs))
	run.Schedule = filepath.Join(run.Out, scheduleFile)
	if err := os.Mkdir(run.Out, 0o755); err != nil {
		return false, err
	}
	if err := writeJSON(run.Schedule, s.failure.fewer(keep)); err != nil {
		return false, err
	}
	results, complete, err := playAside(ctx, s.play, &run)
	switch {
	case ctx.Err() != nil || err == nil && !complete:
		return false, errors.Join(errOver, os.RemoveAll(run.Out))
	case err != nil:
		return false, err
	}
	as := s.failure.same(results)
	if len(as) == 0 {
		return false, os.RemoveAll(run.Out)
	}
	if s.dir != "" {
		err = os.RemoveAll(s.dir)
	}
	s.dir, s.as, s.again, s.what = run.Out, strings.Join(as, ", "), run.again(), whats(results)
	return true, err
}

// whats describes the effects of the faults.
func whats(results []report.Result) (what []string) {
	for _, r := range results {
		for _, w := range r.History.Faults {
			what = append(what, w.What)
		}
	}
	return what
}

// same are the problems that the recorded run had, too.
func (f *failure) same(results []report.Result) (kinds []string) {
	for _, r := range results {
		for _, p := range r.Verdict.Problems {
			if slices.Contains(f.kinds, p.Kind) && !slices.Contains(kinds, p.Kind) {
				kinds = append(kinds, p.Kind)
			}
		}
	}
	return kinds
}
