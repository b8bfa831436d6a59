package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/target"
)

type marathonCmd struct {
	Flags runCmd        `embed:""`
	Each  time.Duration `default:"10m" help:"Length of the run of one seed, in its own time if it is simulated."`
	Seeds int           `help:"Make so many runs (default: as many as --time allows)." placeholder:"N"`
	Side  int           `help:"Simulated runs beside each other (default: one for each processor)." placeholder:"N"`
}

// player makes one run, until ctx ends.
type player func(ctx context.Context, run *runCmd, out io.Writer) (results []report.Result, complete bool, err error)

// run runs with one seed after the other until it is told to stop.
func (c *marathonCmd) run(out io.Writer) (passed bool, err error) {
	if err := c.prepare(); err != nil {
		return false, err
	}
	ctx, stop := untilTold()
	defer stop()
	if c.Flags.simulated() {
		return c.simulate(ctx, out)
	}
	return c.rounds(ctx, out, func(ctx context.Context, run *runCmd, out io.Writer) ([]report.Result, bool, error) {
		return run.resultsUntil(ctx, out)
	})
}

// prepare checks the flags, makes the folder, and builds the server once for all runs.
func (c *marathonCmd) prepare() error {
	if c.Each <= 0 {
		return errors.New("--each must be greater than 0")
	}
	if c.Flags.Time < 0 {
		return errors.New("--time must not be less than 0")
	}
	switch {
	case c.Flags.Again != 0:
		return errors.New("--again: a marathon makes one run of each seed; run gives the one of --seed again")
	case c.Seeds < 0 || c.Side < 0:
		return errors.New("--seeds and --side must not be less than 0")
	case !c.Flags.simulated() && c.Side != 0:
		return fmt.Errorf("--side: runs of target %s are made one after the other", c.Flags.Target)
	}
	one := c.Flags
	one.Time, one.Swarm = c.Each, one.Swarm || c.Flags.simulated()
	kind, err := (&session{cmd: &one}).check()
	if err != nil {
		return err
	}
	if err := one.checkBinary(); err != nil {
		return err
	}
	if c.Flags.Out, err = folder(c.Flags.Out, "marathon"); err != nil {
		return err
	}
	return c.Flags.buildOnce(kind)
}

// folder makes an output folder: the one that is named, or a new one.
func folder(name, command string) (path string, err error) {
	if name == "" {
		return os.MkdirTemp("", "jepsen-lite-"+command+"-")
	}
	if path, err = filepath.Abs(name); err != nil {
		return "", err
	}
	return path, os.MkdirAll(path, 0o755)
}

// server returns the server to test, if it need not be built.
func (c *runCmd) server() string { return cmp.Or(c.Binary, c.built) }

// buildOnce builds the server in the output folder, for all runs there.
func (c *runCmd) buildOnce(kind target.Kind) error {
	if c.server() != "" || c.From != "" || kind.Package == "" { // each run builds the next release anyway
		return nil
	}
	c.built = filepath.Join(c.Out, "server")
	return c.build(kind, c.built)
}

// errorsMax bounds the consecutive runs that fail to start.
const errorsMax = 3

// rounds makes one run after the other. It ends if the first run cannot be made, or several in a row.
func (c *marathonCmd) rounds(ctx context.Context, out io.Writer, play player) (passed bool, err error) {
	sum := tally{began: time.Now()}
	fmt.Fprintf(out, "output in %s\n", c.Flags.Out)
	fmt.Fprintf(out, "%9s  %-36s %9s %8s %7s %8s %15s  %s\n",
		"seed", "verdict", "ok", "unknown", "faults", "majority", "without a write", "folder")
	errorsInRow := 0
	for seed := range seeds(c.Flags.Seed) {
		length, ok := c.length(time.Since(sum.began), sum.rounds == 0)
		if !ok || ctx.Err() != nil || c.Seeds > 0 && sum.rounds == c.Seeds {
			break
		}
		r := c.round(ctx, play, seed, length)
		sum.add(r)
		fmt.Fprintln(out, r)
		if errorsInRow++; r.err == nil {
			errorsInRow = 0
		}
		if r.err != nil && (sum.rounds == 1 || errorsInRow == errorsMax) {
			err = r.err
		}
		if r.interrupted || err != nil {
			break
		}
	}
	fmt.Fprintf(out, "%s", sum)
	return len(sum.bad) == 0, err
}

// seeds are the first seed, or one by chance, and those that follow from it: not the
// next numbers, as a run with several workloads uses these, too.
func seeds(first uint64) func(yield func(uint64) bool) {
	if first == 0 {
		first = rand.Uint64N(1e9) + 1
	}
	return func(yield func(uint64) bool) {
		rng := rand.New(rand.NewPCG(first, 0x6d61726174686f6e))
		for seed := first; yield(seed); {
			seed = rng.Uint64N(1e9) + 1
		}
	}
}

// length returns the length of the next run; false if it would be shorter than half a run, which tests little. The
// first run always happens.
func (c *marathonCmd) length(spent time.Duration, first bool) (time.Duration, bool) {
	if c.Flags.Time == 0 {
		return c.Each, true
	}
	left := c.Flags.Time - spent.Truncate(time.Second)
	return min(c.Each, left), first || left >= c.Each/2
}

// round makes the run of one seed, and removes its folder unless it failed.
func (c *marathonCmd) round(ctx context.Context, play player, seed uint64, length time.Duration) (r round) {
	run := c.Flags
	run.Seed, run.Time, run.Out = seed, length, filepath.Join(c.Flags.Out, fmt.Sprint("seed-", seed))
	r = round{seed: seed, dir: run.Out}
	var results []report.Result
	complete := false
	err := os.Mkdir(run.Out, 0o755) // it fails if another run has the folder
	if err == nil {
		results, complete, err = playAside(ctx, play, &run)
	}
	if r.interrupted = ctx.Err() != nil || err == nil && !complete; !r.interrupted {
		r.err = err
	}
	r.count(results)
	if r.verdict == "" {
		r.dir = ""
		r.err = os.RemoveAll(run.Out)
	}
	return r
}

// saidFile has the lines that a run says meanwhile.
const saidFile = "run.txt"

// playAside makes a run whose output goes into a file of its folder.
func playAside(ctx context.Context, play player, run *runCmd) ([]report.Result, bool, error) {
	said, err := os.Create(filepath.Join(run.Out, saidFile))
	if err != nil {
		return nil, false, err
	}
	defer said.Close()
	return play(ctx, run, said)
}

// round is the result of the run of one seed.
type round struct {
	seed        uint64
	dir         string // "": it was removed
	verdict     string // "": passed
	interrupted bool   // before its end
	err         error  // the run could not be made

	report.Figures
	silence  time.Duration
	majority string // share of the time with faults in which a majority served; "-": unknown
}

// count adds the counts and the first problem of the results. An undecided verdict does not count against an
// interrupted run.
func (r *round) count(results []report.Result) {
	if r.err != nil {
		r.verdict = "NOT MADE: " + r.err.Error()
	}
	r.majority = "-"
	if share, ok := report.QuorumShare(results); ok {
		r.majority = fmt.Sprintf("%.0f%%", 100*share)
	}
	for _, res := range results {
		f := report.Count(res.History)
		r.OK, r.Info, r.Faults = r.OK+f.OK, r.Info+f.Info, r.Faults+f.Faults
		r.silence = max(r.silence, report.Silence(res.History))
		if r.verdict == "" && !res.Verdict.OK() && (len(res.Verdict.Problems) > 0 || !r.interrupted) {
			r.verdict = res.Workload + " " + report.Word(res.Verdict)
		}
	}
}

// String returns a line of the table.
func (r round) String() string {
	verdict, dir := r.verdict, r.dir
	if verdict == "" {
		verdict, dir = "ok", "-"
		if r.interrupted {
			verdict = "interrupted"
		}
	}
	return fmt.Sprintf("%9d  %-36s %9d %8d %7d %8s %15s  %s",
		r.seed, verdict, r.OK, r.Info, r.Faults, r.majority, r.silence.Round(time.Millisecond), dir)
}

// tally is the sum of rounds.
type tally struct {
	began       time.Time
	rounds      int
	interrupted int // and nothing was wrong until then
	bad         []round
	report.Figures
	silence   time.Duration
	silentest uint64 // the seed of silence
}

func (t *tally) add(r round) {
	t.rounds++
	t.OK, t.Info, t.Faults = t.OK+r.OK, t.Info+r.Info, t.Faults+r.Faults
	if r.silence > t.silence {
		t.silence, t.silentest = r.silence, r.seed
	}
	switch {
	case r.verdict != "":
		t.bad = append(t.bad, r)
	case r.interrupted:
		t.interrupted++
	}
}

// String returns the end of the table.
func (t tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds in %s: %d passed, %d did not, %d interrupted; %d operations ok, %d unknown, %d faults; "+
		"longest time without a successful write %s",
		t.rounds, time.Since(t.began).Round(time.Second), t.rounds-len(t.bad)-t.interrupted, len(t.bad), t.interrupted,
		t.OK, t.Info, t.Faults, t.silence.Round(time.Millisecond))
	if t.silentest > 0 {
		fmt.Fprintf(&b, " (seed %d)", t.silentest)
	}
	b.WriteByte('\n')
	for _, r := range t.bad {
		fmt.Fprintf(&b, "seed %d: %s: %s\n", r.seed, r.verdict, r.dir)
	}
	return b.String()
}
