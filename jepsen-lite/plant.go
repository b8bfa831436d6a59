package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/sim"
	"lockd/jepsen-lite/target"
)

type plantedCmd struct {
	Name   []string `arg:"" optional:"" help:"Bugs to plant (default: all)."`
	Sound  bool     `help:"Run the same without the bugs: each run must pass."`
	Target string   `default:"lockd" enum:"lockd,sim,any" help:"What the bugs are planted in: lockd, nodes that are processes; sim, nodes that are simulated; any, sim for the bugs that can be simulated, and lockd for the others." placeholder:"NAME"`
	Side   int      `help:"Simulated runs beside each other (default: one for each processor)." placeholder:"N"`
	Out    string   `help:"Folder for what the runs leave (default: a new one in the temporary folder)." placeholder:"DIR"`

	sims, servers several

	mu     sync.Mutex // of what is printed, and of missed
	missed int        // runs that did not end as they must
}

// anyTarget plants each bug where it is caught soonest.
const anyTarget = "any"

// run plants one bug after the other and says whether each was caught.
func (c *plantedCmd) run(out io.Writer) (passed bool, err error) {
	ctx, stop := untilTold()
	defer stop()
	return c.runUntil(ctx, out)
}

// runUntil is run that the end of ctx interrupts.
func (c *plantedCmd) runUntil(ctx context.Context, out io.Writer) (passed bool, err error) {
	if _, err = names("bug", c.Name, bugs()); err != nil {
		return false, err
	}
	if c.Side < 0 {
		return false, errors.New("--side must not be less than 0")
	}
	simulated, actual, err := c.divide(out)
	if err != nil {
		return false, err
	}
	if c.Sound {
		simulated, actual = once(simulated), once(actual)
	}
	if c.Out, err = folder(c.Out, "planted"); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "output in %s\n", c.Out)
	if ctx.Err() == nil {
		if err := c.build(simulated, actual); err != nil {
			return false, err
		}
	}
	c.beside(cmp.Or(c.Side, runtime.GOMAXPROCS(0)), simulated, func(p plantedRun) { c.try(ctx, out, p, sim.Kind.Name) })
	c.beside(1, actual, func(p plantedRun) { c.try(ctx, out, p, target.Kinds[0].Name) })
	if c.missed > 0 {
		fmt.Fprintf(out, "%d of %d runs did not end as they must\n", c.missed, len(simulated)+len(actual))
	}
	return c.missed == 0, nil
}

// divide returns the chosen bugs by what they are planted in, and says which it leaves out because they cannot be
// simulated. It is an error to name one of these.
func (c *plantedCmd) divide(out io.Writer) (simulated, actual []plantedRun, err error) {
	for _, p := range plantedRuns {
		if len(c.Name) > 0 && !slices.Contains(c.Name, p.bug) && !slices.Contains(c.Name, "all") {
			continue
		}
		if c.Target == target.Kinds[0].Name {
			actual = append(actual, p)
			continue
		}
		why, err := p.grounded()
		switch {
		case err != nil:
			return nil, nil, err
		case c.Target == anyTarget && why != "":
			actual = append(actual, p)
		case why == "":
			simulated = append(simulated, p)
		case slices.Contains(c.Name, p.bug):
			return nil, nil, fmt.Errorf("--target sim: %s %s", p.bug, why)
		default:
			fmt.Fprintf(out, "left out: %s: it %s\n", p.bug, why)
		}
	}
	return simulated, actual, nil
}

// several is a program with several bugs, of which plantedVar chooses one.
type several struct {
	path string
	bugs []string
}

// build builds the programs of the runs as far as several can share one.
func (c *plantedCmd) build(simulated, actual []plantedRun) error {
	shared := func(s *several, kind target.Kind, name string, runs []plantedRun) (err error) {
		s.path = filepath.Join(c.Out, name)
		if len(runs) > 1 && !c.Sound {
			s.bugs, err = kind.BuildChoice(s.path, plantedVar, bugsOf(runs))
		}
		return err
	}
	err := shared(&c.sims, ownKind, "jepsen-lite", simulated)
	if err == nil {
		err = shared(&c.servers, target.Kinds[0], "server", actual)
	}
	if err == nil && c.Sound && len(actual) > 0 {
		err = target.Kinds[0].Build(c.servers.path, nil)
	}
	return err
}

// grounded says why a bug cannot be simulated; "": it can.
func (p plantedRun) grounded() (why string, err error) {
	if why := grounded[p.bug]; why != "" {
		return why, nil
	}
	run, err := p.parse(true)
	if err != nil {
		return "", err
	}
	for _, name := range run.Nemesis {
		if k := nemesis.Find(name); k != nil && len(k.Grounded()) == len(k.Variants) {
			return fmt.Sprintf("is caught by the nemesis %s, which %s", name, notSimulated.one), nil
		}
	}
	return "", nil
}

// once leaves out runs that differ from one before by their bug only.
func once(all []plantedRun) (distinct []plantedRun) {
	made := map[string]bool{}
	for _, p := range all {
		if flags := p.flags + aimed[p.bug]; !made[flags] {
			made[flags] = true
			distinct = append(distinct, p)
		}
	}
	return distinct
}

// beside makes runs, several at once.
func (c *plantedCmd) beside(n int, runs []plantedRun, try func(plantedRun)) {
	next := make(chan plantedRun)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for p := range next {
				try(p)
			}
		})
	}
	for _, p := range runs {
		next <- p
	}
	close(next)
	all.Wait()
}

// try makes one run, and says how it ended.
func (c *plantedCmd) try(ctx context.Context, out io.Writer, p plantedRun, in string) {
	var said bytes.Buffer
	began := time.Now()
	word, again, ok, err := "", "", false, error(nil)
	if ctx.Err() == nil {
		word, again, ok, err = c.play(ctx, &said, p, in)
	}
	if ok {
		err = os.RemoveAll(filepath.Join(c.Out, p.bug))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		fmt.Fprintf(out, "%-18s DID NOT RUN: %v\n", p.bug, err)
	case word == "":
		fmt.Fprintf(out, "%-18s was not tried: told to end\n", p.bug)
	default:
		fmt.Fprintf(out, "%-18s %-50s in %3.0f s  %s\n", p.bug, word, time.Since(began).Seconds(), again)
	}
	if !ok || err != nil {
		_, _ = said.WriteTo(out)
		c.missed++
	}
}

// play makes one run of jepsen-lite.
func (c *plantedCmd) play(
	ctx context.Context, said io.Writer, p plantedRun, in string,
) (word, again string, ok bool, err error) {
	run, err := p.parse(in == sim.Kind.Name)
	if err != nil {
		return "", "", false, err
	}
	run.Out, run.Target = filepath.Join(c.Out, p.bug), in
	if run.simulated() {
		return c.playSimulated(ctx, said, p, run)
	}
	if !c.Sound {
		run.Plant = p.bug
	}
	if shared := slices.Contains(c.servers.bugs, p.bug); c.Sound || shared {
		run.built = c.servers.path
		if shared { // processes have the environment of this one, and there is no other run meanwhile
			if err := os.Setenv(plantedVar, p.bug); err != nil {
				return "", "", false, err
			}
			defer func() { _ = os.Unsetenv(plantedVar) }()
		}
	}
	results, complete, err := run.resultsUntil(ctx, said)
	if err != nil || !complete {
		return "", "", false, err
	}
	word, ok = c.judge(p, results)
	return word, run.again(), ok, nil
}

// Bounds of the search for a bug on simulated nodes, with one seed after the other. It begins with a short run, as most
// bugs show at once; each seed has twice the time of the one before, up to that of the table. It ends after searchMax,
// and not before it has tried seedsMin. A run that takes longer than endlessRun will not end.
const (
	firstLook  = 8 * time.Second
	searchMax  = 60 * time.Second
	seedsMin   = 5
	endlessRun = 10 * time.Minute
)

// playSimulated makes simulated runs, each in a process of its own, with one seed after the other until one catches the
// bug. A sound run is made once.
func (c *plantedCmd) playSimulated(
	ctx context.Context, said io.Writer, p plantedRun, run *runCmd,
) (word, again string, ok bool, err error) {
	dir := run.Out
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", false, err
	}
	if !c.Sound {
		run.Plant = p.bug
	}
	switch {
	case c.Sound:
		run.sim, err = itself()
	case slices.Contains(c.sims.bugs, p.bug):
		run.sim = &simulator{c.sims.path, p.bug}
	default:
		run.sim, err = run.buildSimulator()
	}
	if err != nil {
		return "", "", false, err
	}
	began, tried, longest := time.Now(), 0, run.Time
	for seed := range seeds(run.Seed) {
		if !c.Sound {
			run.Time = min(longest, firstLook<<min(tried, seedsMin))
		}
		run.Seed, run.Out = seed, filepath.Join(dir, fmt.Sprint("seed-", seed))
		results, err := run.endless(ctx, said)
		if err != nil || ctx.Err() != nil {
			return "", "", false, err
		}
		tried++
		word, ok = c.judge(p, results)
		if ok || c.Sound || tried >= seedsMin && time.Since(began) > searchMax {
			break
		}
	}
	return word, run.again(), ok, nil
}

// endless makes a simulated run, and ends it when it does not end by itself.
func (c *runCmd) endless(ctx context.Context, said io.Writer) (results []report.Result, err error) {
	bound, cancel := context.WithTimeout(ctx, endlessRun)
	defer cancel()
	results, complete, err := c.resultsUntil(bound, said)
	if !complete && err == nil && ctx.Err() == nil {
		err = fmt.Errorf("seed %d: the run did not end within %s", c.Seed, endlessRun)
	}
	return results, err
}

// judge returns in a word how a run ended, and whether it ended as it must.
func (c *plantedCmd) judge(p plantedRun, results []report.Result) (word string, ok bool) {
	switch {
	case !c.Sound:
		return p.judge(results)
	case !report.Passed(results):
		return "FAILS WITHOUT IT", false
	}
	return "passes without it", true
}
