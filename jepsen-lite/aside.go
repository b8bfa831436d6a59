package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lockd/internal/process"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/target"
)

// plantedVar is the environment variable that names the bug which is planted in this very program.
const plantedVar = "JEPSEN_LITE_PLANTED"

// simulator is this program as another process starts it to make one simulated run: what goes on in such a run may
// panic, or never end.
type simulator struct {
	path string
	bug  string // that is planted in it; "": none
}

// itself returns the program that runs.
func itself() (*simulator, error) {
	path, err := os.Executable()
	return &simulator{path, os.Getenv(plantedVar)}, err
}

// ownKind builds this program.
var ownKind = target.Kind{Package: "lockd/jepsen-lite"}

// buildSimulator builds this program with a bug planted in the nodes that it simulates.
func (c *runCmd) buildSimulator() (*simulator, error) {
	path := filepath.Join(c.Out, "jepsen-lite")
	return &simulator{path, c.Plant}, ownKind.Build(path, c.bug(), c.buildFlags()...)
}

// endMax bounds the time in which a process ends its run in order.
const endMax = 30 * time.Second

// run makes one run, in a folder that is there, and returns when it has ended.
func (s *simulator) run(ctx context.Context, c *runCmd) (o figures, err error) {
	said := filepath.Join(c.Out, saidFile)
	p, err := process.Command{
		Name: fmt.Sprint("seed ", c.Seed), Path: s.path, Args: append(c.words(), "--out", c.Out), Log: said,
		Env: append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", plantedVar+"="+s.bug),
	}.Start()
	if err != nil {
		return o, err
	}
	hung := !awaitRun(ctx, p, said)
	o, err = loadFigures(c.Out)
	o.CPU = p.State().UserTime() + p.State().SystemTime()
	switch {
	case hung:
		return o, fmt.Errorf("it has said nothing for %s: its stacks are in %s", silentMax, saidFile)
	case err != nil:
		return o, errors.New(whyNotMade(p))
	}
	return o, nil
}

// Times of a process that makes a run: it says something every five virtual seconds.
const (
	silentMax  = 20 * time.Minute // before it is taken for one that never ends; a busy machine needs a minute
	silentLook = 10 * time.Second
)

// awaitRun waits until a process has ended, and tells it to end when ctx does. One whose output stands still ends with
// the stacks of its goroutines; then awaitRun returns false.
func awaitRun(ctx context.Context, p *process.Process, output string) bool {
	look := time.NewTicker(silentLook)
	defer look.Stop()
	for size, since := int64(-1), time.Now(); ; {
		select {
		case <-p.Ended():
			return true
		case <-ctx.Done():
			p.Stop(syscall.SIGINT, endMax)
			return true
		case <-look.C:
		}
		switch info, err := os.Stat(output); {
		case err == nil && info.Size() != size:
			size, since = info.Size(), time.Now()
		case time.Since(since) > silentMax:
			p.Stop(syscall.SIGQUIT, endMax)
			return false
		}
	}
}

// whyNotMade says in a line why a process has made no run.
func whyNotMade(p *process.Process) string {
	for line := range strings.Lines(p.Output()) {
		for _, begins := range []string{"panic: ", "fatal error: ", "jepsen-lite: "} {
			if strings.HasPrefix(line, begins) {
				return strings.TrimSpace(line)
			}
		}
	}
	return fmt.Sprintf("%s: %s", p.State(), strings.Join(p.LastLines(3), " | "))
}

// playPlanted makes a simulated run with a bug planted in the nodes: by a build of this program that has it.
func (c *runCmd) playPlanted(ctx context.Context, out io.Writer) (results []report.Result, complete bool, err error) {
	if err := c.makeFolder(); err != nil {
		return nil, false, err
	}
	if c.sim == nil {
		if c.sim, err = c.buildSimulator(); err != nil {
			return nil, false, err
		}
	}
	o, err := c.sim.run(ctx, c)
	if err != nil || !o.Complete || o.Verdict == "" {
		return nil, o.Complete, err
	}
	runs, err := recorded(c.Out)
	if err != nil {
		return nil, false, err
	}
	for _, r := range runs {
		result, err := r.judge(c.Judge)
		if err != nil {
			return nil, false, err
		}
		results = append(results, result)
	}
	report.Table(out, results)
	return results, true, nil
}
