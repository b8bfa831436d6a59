package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of the fault quiet.
const (
	quietMin   = time.Second
	quietMax   = 10 * time.Second
	loneMax    = time.Second // for the command of the only client
	quietBurst = 300 * time.Millisecond
	lateFor    = 20 * time.Second        // how long a straggler comes, again and again
	lateFrom   = -200 * time.Microsecond // relative to when the others are usually answered
	lateTo     = 400 * time.Microsecond
	lateMax    = 5 * time.Millisecond // bounds what counts as usual
	lateGather = 2 * time.Millisecond // delay of a test build that waits for more clients
	settleMax  = 10 * time.Second     // for the cluster to recover from earlier faults
)

// clockTime is the format of times in findings, as in the nodes' logs.
const clockTime = "15:04:05.000"

// lone are the commands of the only client.
var lone = map[string][]string{
	"write":  {"SET", provokeKey, "lone"},
	"read":   {"GET", provokeKey},
	"script": {"EVAL", "return redis.call('incr', KEYS[1])", "1", provokeKey + ":count"},
}

// lateCrowd is the number of clients before the straggler.
const lateCrowd = 5

// quiet stops the clients for a while. Then a single client sends one command to one node after the other: a node that
// waits until another client comes would leave it waiting. Then all clients come at once. The variant straggler has
// several clients write at once, and one more a moment later, while the leader checks whether more will come.
func quiet(f *field, fault Fault) (string, func()) {
	d := dice(fault.Dice)
	speak := f.quietClients()
	defer speak()
	drain(f)
	if fault.Variant == "straggler" {
		if !settled(f) {
			return "quiet: straggler (not settled)", nil
		}
		return fmt.Sprintf("quiet: straggler after %d others, %d times", lateCrowd, straggle(f, d, lateFor)), nil
	}
	length := quietMin + time.Duration(d.Float64()*d.Float64()*float64(quietMax-quietMin)) // mostly short
	f.wait(length)
	what := fmt.Sprintf("quiet for %.1f s, then one %s at each node", length.Seconds(), fault.Variant)
	if !settled(f) {
		return what + " (not settled)", nil
	}
	askAlone(f, fault.Variant, d)
	speak()
	_, stop := burst(f, 0)
	time.Sleep(quietBurst)
	stop()
	return what, nil
}

// drain waits at each node until earlier commands have been executed, which one more write tells: a script that meets
// its limits takes a while.
func drain(f *field) {
	for _, n := range f.Target.Nodes() {
		if f.isOver() {
			return
		}
		_, _ = f.Target.Do(n, settleMax, lone["write"]...) // settled finds a node at which it fails
	}
}

// settled waits until all nodes serve and one leads. It reports false if they do not in time, or if the time of the run
// ends.
func settled(f *field) bool {
	for until := time.Now().Add(settleMax); time.Now().Before(until) && !f.isOver(); f.wait(50 * time.Millisecond) {
		if !slices.ContainsFunc(f.Target.Nodes(), func(n string) bool { return !f.Target.Serving(n) }) &&
			f.Target.Leader() != "" {
			return true
		}
	}
	return false
}

// askAlone sends one command to each node, and reports a node that does not answer in time.
func askAlone(f *field, which string, d *rand.Rand) {
	for _, n := range f.pick("all", d.Uint64()) {
		began := time.Now()
		r, err := f.Target.Do(n, loneMax, lone[which]...)
		if took := time.Since(began); err != nil || r.IsErr() || took > loneMax {
			f.found.add(
				"left alone",
				fmt.Sprintf("%s of %s with nobody else there, at %s: %q, %v after %.1f s; %s are well",
					which, n, began.Format(clockTime), r.Text(), err, took.Seconds(), loneMax),
			)
		}
		if d.IntN(2) == 0 {
			time.Sleep(time.Duration(d.Int64N(int64(quietMin))))
		}
	}
}

// straggle has a crowd of clients write and, about when they are answered, one more client, again and again. The leader
// is slowed down between reading its clock and waiting for more clients, so that the wait is over when it begins.
// straggle reports a cluster that leaves the straggler waiting. It returns how often the straggler came.
func straggle(f *field, d *rand.Rand, length time.Duration) (times int) {
	leader := f.Target.Leader()
	slow := target.Strike{Point: target.Gather, Act: target.ActSlow, Stall: lateGather}
	if a, err := f.Target.Arm(leader, slow); err == nil {
		defer f.Target.Disarm(a)
	}
	var crowd []*target.Conn
	defer func() {
		for _, c := range crowd {
			c.Close()
		}
	}()
	for range lateCrowd + 1 {
		c, err := f.Target.Dial(leader, loneMax)
		if err != nil {
			return 0
		}
		crowd = append(crowd, c)
	}
	usual := lateMax // time in which the others are answered
	for until := time.Now().Add(length); time.Now().Before(until) && !f.isOver(); times++ {
		late := usual + lateFrom + time.Duration(d.Int64N(int64(lateTo-lateFrom)))
		took, err := together(crowd[1:], crowd[0], late)
		if err != nil {
			f.found.add(
				"left alone",
				fmt.Sprintf("one of %d writes at once, or of one more %s later, at try %d: %v; %s are well",
					lateCrowd, late, times+1, err, loneMax),
			)
			return times
		}
		usual += (min(took, lateMax) - usual) / 8
	}
	return times
}

// together has each client of a crowd write, and one more a moment later, and waits for all answers. It returns how
// long the crowd waited.
func together(crowd []*target.Conn, one *target.Conn, late time.Duration) (took time.Duration, err error) {
	began := time.Now()
	for _, c := range crowd {
		if err := c.Send(loneMax, lone["write"]); err != nil {
			return 0, err
		}
	}
	sent := make(chan error, 1)
	time.AfterFunc(late, func() { sent <- one.Send(loneMax, lone["write"]) })
	for _, c := range crowd {
		if err := answered(c); err != nil {
			return 0, err
		}
	}
	took = time.Since(began)
	if err := <-sent; err != nil {
		return 0, err
	}
	return took, answered(one)
}

// answered waits for the answer to a write.
func answered(c *target.Conn) error {
	r, err := c.Wait(loneMax)
	if err == nil && r.IsErr() {
		err = errors.New(r.Str)
	}
	return err
}
