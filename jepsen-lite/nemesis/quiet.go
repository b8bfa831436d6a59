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
	loneMax    = time.Second // for the one command of the one client
	quietBurst = 300 * time.Millisecond
	lateFor    = 20 * time.Second        // for how long one comes late, again and again
	lateFrom   = -200 * time.Microsecond // than the others are answered as a rule
	lateTo     = 400 * time.Microsecond
	lateMax    = 5 * time.Millisecond // of what is the rule
	lateGather = 2 * time.Millisecond // for whoever waits for more, in a test build
	settleMax  = 10 * time.Second     // for what was broken before
)

// clockTime is how a finding says when it was, as the nodes' logs do.
const clockTime = "15:04:05.000"

// lone is what the one client asks for.
var lone = map[string][]string{
	"write":  {"SET", provokeKey, "lone"},
	"read":   {"GET", provokeKey},
	"script": {"EVAL", "return redis.call('incr', KEYS[1])", "1", provokeKey + ":count"},
}

// lateCrowd is how many come before the one that is late.
const lateCrowd = 5

// quiet has the clients ask for nothing for a while. Then one client has one command, at
// one node after the other, and nobody else: whoever sleeps until somebody else comes
// leaves it waiting. Then all come at once. Or, instead, several come at once and one a moment later,
// again and again, while whoever has answered the others looks whether more come.
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

// drain waits, at each node, until what was asked for before has been executed, as far as
// one more write tells: a script that meets its limits takes a while.
func drain(f *field) {
	for _, n := range f.Target.Nodes() {
		if f.isOver() {
			return
		}
		_, _ = f.Target.Do(n, settleMax, lone["write"]...) // one that fails is not settled, either
	}
}

// settled waits until all nodes serve, and one leads. They are not settled in time if that of
// the run is over.
func settled(f *field) bool {
	for until := time.Now().Add(settleMax); time.Now().Before(until) && !f.isOver(); f.wait(50 * time.Millisecond) {
		if !slices.ContainsFunc(f.Target.Nodes(), func(n string) bool { return !f.Target.Serving(n) }) &&
			f.Target.Leader() != "" {
			return true
		}
	}
	return false
}

// askAlone asks each node for one thing, and finds fault with one that does not answer in
// time.
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

// straggle has a crowd come and, once it is answered, one more client, again and again. The
// leader is slow where it has read the clock and is to wait for more: when it goes on, that
// wait is over. It finds fault with a cluster that leaves the one waiting, and returns how
// often it came.
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
	usual := lateMax // for the others to be answered
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

// together has each of some clients write, and one more a moment later, and all be answered.
// It returns how long the others waited.
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
