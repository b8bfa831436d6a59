package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Times of the fault quiet.
const (
	quietMin   = time.Second
	quietMax   = 10 * time.Second
	loneMax    = time.Second // for the one command of the one client
	quietBurst = 300 * time.Millisecond
	settleMax  = 10 * time.Second // for what was broken before
)

// lone is what the one client asks for.
var lone = map[string][]string{
	"write":  {"SET", provokeKey, "lone"},
	"read":   {"GET", provokeKey},
	"script": {"EVAL", "return redis.call('incr', KEYS[1])", "1", provokeKey + ":count"},
}

// quiet has the clients ask for nothing for a while. Then one client has one command, at
// one node after the other, and nobody else: whoever sleeps until somebody else comes
// leaves it waiting. Then all come at once.
func quiet(f *Field, fault Fault) (string, func()) {
	d := dice(fault.Dice)
	speak := f.hush()
	defer speak()
	f.drain()
	length := quietMin + time.Duration(d.Float64()*d.Float64()*float64(quietMax-quietMin)) // mostly short
	time.Sleep(length)
	what := fmt.Sprintf("quiet for %.1f s, then one %s at each node", length.Seconds(), fault.Variant)
	if !f.settled() {
		return what + " (not settled)", nil
	}
	f.askAlone(fault.Variant, d)
	speak()
	_, stop := burst(f, 0)
	time.Sleep(quietBurst)
	stop()
	return what, nil
}

// drain waits, at each node, until what was asked for before has been executed, as far as
// one more write tells: a script that meets its limits takes a while.
func (f *Field) drain() {
	for _, n := range f.Target.Nodes() {
		_, _ = f.Target.Do(n, settleMax, lone["write"]...) // one that fails is not settled, either
	}
}

// settled waits until all nodes serve, and one leads.
func (f *Field) settled() bool {
	for until := time.Now().Add(settleMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if !slices.ContainsFunc(f.Target.Nodes(), func(n string) bool { return !f.Target.Serving(n) }) && f.Target.Leader() != "" {
			return true
		}
	}
	return false
}

// askAlone asks each node for one thing, and finds fault with one that does not answer in
// time.
func (f *Field) askAlone(which string, d *rand.Rand) {
	for _, n := range f.pick("all", d.Uint64()) {
		began := time.Now()
		r, err := f.Target.Do(n, loneMax, lone[which]...)
		if took := time.Since(began); err != nil || r.IsErr() || took > loneMax {
			f.found.add("left alone", fmt.Sprintf("%s of %s with nobody else there: %q, %v after %.1f s; %s are well", which, n, r.Text(), err, took.Seconds(), loneMax))
		}
		if d.IntN(2) == 0 {
			time.Sleep(time.Duration(d.Int64N(int64(quietMin))))
		}
	}
}
