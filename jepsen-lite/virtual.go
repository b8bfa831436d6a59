package main

import (
	"context"
	"path/filepath"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/sim"
	"lockd/jepsen-lite/target"
	"lockd/jepsen-lite/workload"
)

// simulated reports whether the nodes run in this program, and all of the run in virtual time.
func (c *runCmd) simulated() bool { return c.Target == sim.Kind.Name }

// busyWorkload keeps the processor busy, with scripts up to their limits, while virtual time stands still: of a
// simulated run it is a part only where it is named.
const busyWorkload = "scripts"

// simulatedPace is the pace of the clients of a load on simulated nodes, and simulatedIdle the number of those that are
// mostly idle.
const (
	simulatedPace = 200 * time.Millisecond
	simulatedIdle = 500
)

// loads returns how long a client of a load waits between two steps, and how many idle ones there are, as
// nemesis.Runner has them.
func (c *runCmd) loads() (pace time.Duration, idle int) {
	if c.simulated() {
		return simulatedPace, simulatedIdle
	}
	return 0, 0
}

// follow ends a run in virtual time when it is interrupted: nothing in there may wait for what is outside.
func follow(ctx, own context.Context, cancel context.CancelFunc) {
	for wait(own, time.Second); own.Err() == nil; wait(own, time.Second) {
		if ctx.Err() != nil {
			cancel()
		}
	}
}

// recorder makes the recorder of a workload. In virtual time histories stay in memory until their run has failed.
func (c *runCmd) recorder(dir string, began time.Time) (*history.Recorder, error) {
	if c.simulated() {
		return history.Keep(began), nil
	}
	return history.Create(filepath.Join(dir, historyFile), began)
}

// watched calls do, and records and notes when this machine stood still meanwhile. In virtual time no machine does.
func (c *runCmd) watched(dir string, began time.Time, rec *history.Recorder, v *model.Verdict, do func()) {
	if c.simulated() {
		do()
		return
	}
	machine := watchPace(dir, began, rec)
	do()
	v.Notes = append(v.Notes, machine.end()...)
}

// judge judges the workload that was recorded. What was kept in memory is written if something is wrong with it, or if
// the run is to keep all; the logs of the nodes, too.
func (c *runCmd) judge(
	dir string, w *workload.Workload, rec *history.Recorder, t target.Target,
) (report.Result, error) {
	if !c.simulated() {
		return judge(dir, w, c.Judge)
	}
	h, err := rec.History()
	if err != nil {
		return report.Result{}, err
	}
	var r report.Result
	c.outside(func() { r, err = judgeHistory(dir, h, w, c.Judge) }) // checkers give up after some real time
	if err != nil || r.Verdict.OK() && !c.Keep {
		return r, err
	}
	if err := rec.Save(filepath.Join(dir, historyFile)); err != nil {
		return report.Result{}, err
	}
	if logs, ok := t.(interface{ SaveLogs() error }); ok {
		err = logs.SaveLogs()
	}
	return r, err
}
