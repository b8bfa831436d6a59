//go:build faults

package fault

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// On tells whether this is a test build.
const On = true

// The environment variables of a test build.
const (
	listenVar = "LOCKD_FAULT_LISTEN" // address of the control port
	fullVar   = "LOCKD_FAULT_FULL"   // a file: while it exists, the disk has no space
	waysVar   = "LOCKD_FAULT_WAYS"   // ADDR=ADDR,...: a peer known by the first is dialled at the second
)

// own is the set of this process. Whatever strikes is told on stderr, except slow points.
var own = &Set{Die: die, Told: func(act, point string) {
	if act != ActSlow {
		fmt.Fprintf(os.Stderr, "fault: %s at %s\n", act, point)
	}
}}

var state struct {
	sync.Mutex
	step  int64     // µs added to the wall clock
	rate  float64   // by how much the wall clock is fast (0.05: 5 %)
	since time.Time // the rate counts from here
	dying []func(how string)
}

// full reports whether the write at a point finds the disk full.
func full(point string) bool {
	file := os.Getenv(fullVar)
	if file == "" || point != LogWrite && point != VoteWrite && point != SnapshotWrite {
		return false
	}
	_, err := os.Stat(file)
	return err == nil
}

// At is called at a point and returns the error of a fault there. It is safe for concurrent use. An armed point
// strikes once, unless it is slow.
func At(point string) error {
	if full(point) {
		fmt.Fprintf(os.Stderr, "fault: no space at %s\n", point)
		return syscall.ENOSPC
	}
	awaitDeath()
	return own.strike(point)
}

// awaitDeath never returns in a process that dies: that keeps the lock.
func awaitDeath() {
	state.Lock()
	defer state.Unlock()
}

// die ends the process as a kill or a power failure would.
func die(how string) {
	state.Lock() // for ever: nothing is armed, and no clock is read, any more
	for _, do := range state.dying {
		do(how)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// OnDie registers a function that damages the disk as a death of a kind (kill, drop, tear) would. While do runs,
// every goroutine that comes to a point hangs there: a caller of At must not hold locks that do takes.
func OnDie(do func(how string)) {
	state.Lock()
	defer state.Unlock()
	state.dying = append(state.dying, do)
}

// arm arms a fault at a point.
func arm(point, act string, stall time.Duration, skip int) error {
	_, err := own.Arm(point, act, stall, skip)
	return err
}

// reset disarms all points and sets the wall clock right.
func reset() {
	own.Reset()
	state.Lock()
	defer state.Unlock()
	state.step, state.rate = 0, 0
}

// setClock makes the wall clock step by µs, and from now on run fast by the fraction rate.
func setClock(step int64, rate float64) {
	state.Lock()
	defer state.Unlock()
	now := time.Now()
	step += state.step + drift(state.rate, now.Sub(state.since))
	state.step, state.rate, state.since = step, rate, now
}

func drift(rate float64, d time.Duration) int64 { return int64(rate * float64(d.Microseconds())) }

// Wall returns the wall clock in microseconds since 1970 that the test wants seen.
func Wall(us int64) int64 {
	state.Lock()
	defer state.Unlock()
	return us + state.step + drift(state.rate, time.Since(state.since))
}

// dialAddrs maps the addresses in waysVar.
var dialAddrs = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for way := range strings.SplitSeq(os.Getenv(waysVar), ",") {
		addr, at, _ := strings.Cut(way, "=")
		all[addr] = at
	}
	return all
})

// DialAddr returns the address at which to dial the peer at addr. Each node has its own for each peer, so that a proxy
// knows the caller without reading the traffic.
func DialAddr(addr string) string { return cmp.Or(dialAddrs()[addr], addr) }
