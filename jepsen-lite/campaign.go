package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// campaign is a marathon on simulated machines: runs of one seed after the other, several beside each other, each in a
// process of its own.
type campaign struct {
	cmd   *marathonCmd
	sim   *simulator
	out   io.Writer
	began time.Time

	mu       sync.Mutex // not held while a run is made
	seeds    func() (uint64, bool)
	first    uint64 // the first seed
	made     int    // runs that have begun
	loads    map[string]int
	sum      figures
	silent   uint64 // the seed of the longest time without a write
	passed   int
	doubtful int // runs in which nothing was wrong, and a rule was hardly at stake, or a search gave up
	failed   []string
}

// simulate makes runs until their time is over, or all are made, and prints what they had in all.
func (c *marathonCmd) simulate(ctx context.Context, out io.Writer) (passed bool, err error) {
	m := &campaign{cmd: c, out: out, began: time.Now(), loads: map[string]int{}, sum: newFigures(nil, true)}
	if m.sim, err = itself(); err == nil && c.Flags.Plant != m.sim.bug {
		m.sim, err = c.Flags.buildSimulator()
	}
	if err != nil {
		return false, err
	}
	if m.first = c.Flags.Seed; m.first == 0 {
		m.first = rand.Uint64N(1e9) + 1
	}
	next, stop := iter.Pull(seeds(m.first))
	defer stop()
	m.seeds = next
	fmt.Fprintf(out, "output in %s\n%s\n", c.Flags.Out, m.command())
	saying, quiet := context.WithCancel(ctx)
	go m.say(saying)
	var all sync.WaitGroup
	for range cmp.Or(c.Side, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for m.one(ctx) {
			}
		})
	}
	all.Wait()
	quiet()
	return len(m.failed) == 0, m.summarize()
}

// one makes the next run, if there is one.
func (m *campaign) one(ctx context.Context) bool {
	m.mu.Lock()
	over := ctx.Err() != nil || m.cmd.Seeds > 0 && m.made >= m.cmd.Seeds ||
		m.cmd.Flags.Time > 0 && time.Since(m.began) >= m.cmd.Flags.Time
	run := m.cmd.Flags
	if !over {
		run.Seed, _ = m.seeds()
		m.made++
	}
	m.mu.Unlock()
	if over {
		return false
	}
	run.Time, run.Swarm, run.Out = m.cmd.Each, true, filepath.Join(m.cmd.Flags.Out, fmt.Sprint("seed-", run.Seed))
	o, err := figures{}, os.Mkdir(run.Out, 0o755) // it fails if another run has the folder
	if err == nil {
		o, err = m.sim.run(ctx, &run)
	}
	if ctx.Err() != nil && (err != nil || o.Problems == 0) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.fail(&run, "NOT MADE: "+err.Error())
	case o.Problems > 0:
		m.fail(&run, o.Verdict)
	default:
		if m.passed++; o.Verdict != "" {
			m.doubtful++
		}
		if !run.Keep {
			err = os.RemoveAll(run.Out)
		}
	}
	m.count(run.Seed, &o)
	return err == nil || len(m.failed) < failuresMax
}

// count adds a run to the sums. m.mu is held.
func (m *campaign) count(seed uint64, o *figures) {
	if o.Silence > m.sum.Silence {
		m.silent = seed
	}
	for load := range o.Loads {
		m.loads[load]++
	}
	m.sum.join(o)
}

// failuresMax bounds the failed runs of a campaign that is to go on.
const failuresMax = 20

// fail notes a run that failed. m.mu is held.
func (m *campaign) fail(run *runCmd, why string) {
	line := fmt.Sprintf("seed %d: %s: %s\n  %s", run.Seed, why, run.Out, run.again())
	m.failed = append(m.failed, line)
	fmt.Fprintln(m.out, line)
}

// sayCampaign is the time between two lines that tell how far a campaign is.
const sayCampaign = 10 * time.Second

// say tells now and then how far the campaign is.
func (m *campaign) say(ctx context.Context) {
	for wait(ctx, sayCampaign); ctx.Err() == nil; wait(ctx, sayCampaign) {
		m.mu.Lock()
		fmt.Fprintln(m.out, m.total())
		_, _ = m.keep() // the end of the campaign tells of an error
		m.mu.Unlock()
	}
}

// total is the campaign in one line. m.mu is held, or no run is being made.
func (m *campaign) total() string {
	took := time.Since(m.began)
	return fmt.Sprintf("%6.0f s: %d seeds passed, %d failed; %d operations, %d of them unknown; %d faults, %d processes "+
		"ended; %s simulated, %.0f times as much", took.Seconds(), m.passed, len(m.failed), m.sum.operations(), m.sum.Info,
		m.sum.Faults, m.sum.Ended, m.sum.Lasted.Round(time.Second), m.sum.Lasted.Seconds()/took.Seconds())
}
