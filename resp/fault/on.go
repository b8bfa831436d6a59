//go:build faults

package fault

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// On says whether this is a test build.
const On = true

// What the environment of a test build says.
const (
	listenVar = "LOCKD_FAULT_LISTEN" // address of the control port
	fullVar   = "LOCKD_FAULT_FULL"   // a file: while it is there, the disk has no space
	waysVar   = "LOCKD_FAULT_WAYS"   // ADDR=ADDR,...: a peer known by the first is dialled at the second
)

// What an armed point does.
const (
	actKill  = "kill"  // the process dies on the spot, its files as they are
	actDrop  = "drop"  // it dies, and what was not synced is lost
	actTear  = "tear"  // it dies, and of what was not synced a part is there
	actError = "error" // the operation fails with EIO
	actFull  = "full"  // the operation fails with ENOSPC
	actStall = "stall" // the operation waits
	actSlow  = "slow"  // the operation waits, for a quarter of the time to all of it, each time
)

var actions = []string{actKill, actDrop, actTear, actError, actFull, actStall, actSlow}

// armed is what waits at a point.
type armed struct {
	act   string
	stall time.Duration
	skip  int // times to let pass before
}

var state struct {
	sync.Mutex
	points map[string]*armed
	step   int64     // µs added to the wall clock
	rate   float64   // by how much the wall clock is fast (0.05: 5 %)
	since  time.Time // the rate counts from here
	dying  []func(how string)
}

// full reports whether a point writes, and there is no space.
func full(point string) bool {
	file := os.Getenv(fullVar)
	if file == "" || point != LogWrite && point != VoteWrite && point != SnapshotWrite {
		return false
	}
	_, err := os.Stat(file)
	return err == nil
}

// At is called at a point; its error is that of the operation. It may be called
// concurrently. An armed point strikes once, unless it is slow.
func At(point string) error {
	if full(point) {
		fmt.Fprintf(os.Stderr, "fault: no space at %s\n", point)
		return syscall.ENOSPC
	}
	state.Lock()
	a := state.points[point]
	if a == nil {
		state.Unlock()
		return nil
	}
	if a.skip > 0 {
		a.skip--
		state.Unlock()
		return nil
	}
	if a.act == actSlow {
		state.Unlock()
		time.Sleep(a.stall/4 + rand.N(a.stall*3/4+1))
		return nil
	}
	delete(state.points, point)
	state.Unlock()
	fmt.Fprintf(os.Stderr, "fault: %s at %s\n", a.act, point)
	switch a.act {
	case actError:
		return syscall.EIO
	case actFull:
		return syscall.ENOSPC
	case actStall:
		time.Sleep(a.stall)
		return nil
	}
	die(a.act)
	return nil
}

// die ends the process as a power failure would, or a kill.
func die(how string) {
	state.Lock() // for ever: nothing is armed, and no clock is read, any more
	for _, do := range state.dying {
		do(how)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// OnDie registers what a death of a kind (kill, drop, tear) does to the disk. While
// do runs, everything that comes to a point hangs there: what do locks may not be
// held by a caller of At.
func OnDie(do func(how string)) {
	state.Lock()
	defer state.Unlock()
	state.dying = append(state.dying, do)
}

// arm sets a point.
func arm(point, act string, stall time.Duration, skip int) error {
	if !slices.Contains(Points, point) || !slices.Contains(actions, act) {
		return errors.New("no such point or action")
	}
	state.Lock()
	defer state.Unlock()
	if state.points == nil {
		state.points = map[string]*armed{}
	}
	state.points[point] = &armed{act: act, stall: stall, skip: skip}
	return nil
}

// reset disarms all points and sets the wall clock right.
func reset() {
	state.Lock()
	defer state.Unlock()
	state.points, state.step, state.rate = nil, 0, 0
}

// setClock has the wall clock step by µs, and run fast by a part from now on.
func setClock(step int64, rate float64) {
	state.Lock()
	defer state.Unlock()
	now := time.Now()
	step += state.step + drift(state.rate, now.Sub(state.since))
	state.step, state.rate, state.since = step, rate, now
}

func drift(rate float64, d time.Duration) int64 { return int64(rate * float64(d.Microseconds())) }

// Wall is the wall clock in microseconds since 1970 as the test wants it seen.
func Wall(us int64) int64 {
	state.Lock()
	defer state.Unlock()
	return us + state.step + drift(state.rate, time.Since(state.since))
}

// ways are what waysVar says.
var ways = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for way := range strings.SplitSeq(os.Getenv(waysVar), ",") {
		addr, at, _ := strings.Cut(way, "=")
		all[addr] = at
	}
	return all
})

// Way is the address at which a peer is dialled that is known by addr: a way of this node's own, on which a proxy
// knows who comes without looking into what is said.
func Way(addr string) string { return cmp.Or(ways()[addr], addr) }
