// Package clock tells a node's time. It is the one place in cluster that reads a clock.
//
//	clock.go         the clocks of the machine, behind an interface
//	term.go          the log clock of a leader, by which leases end, and the leadership that it belongs to
//	led.go           the time for which a leader was heard since the last entry
//	last.go          which leader was heard last
//	wall.go          the wall clock of the cluster, as a leader computes it
//	memberclocks.go  the wall clocks of the members, whose median it is
//	error_*.go       the possible error of this machine's wall clock
//
// A lease is measured on the log clock, which only entries of the log advance: a leader continues from the last applied
// tick, and adds its own monotonic time. Wall clocks only determine the time that clients see, and the end of a lease
// that ends at a time of day.
package clock

import (
	"time"

	"lockd/resp/fault"
)

// Clock tells the time of one node. It is an interface so that a test can step the wall clock, or delay the monotonic
// one.
type Clock interface {
	// Wall returns the wall clock in microseconds since 1970. It may step in any direction at any time: leases do not
	// depend on it, and the time of the cluster depends only on the median of all members' clocks.
	Wall() int64
	// Monotonic returns the time since an arbitrary moment. It never goes back.
	Monotonic() time.Duration
}

// System is the Clock of the operating system.
type System struct{ start time.Time }

// NewSystem returns a Clock whose monotonic time starts now.
func NewSystem() System { return System{start: time.Now()} }

// Wall implements Clock.
func (System) Wall() int64 { return fault.Wall(time.Now().UnixMicro()) }

// Monotonic implements Clock.
func (c System) Monotonic() time.Duration { return time.Since(c.start) }

// Since returns the time since a moment that Raft has reported.
func Since(t time.Time) time.Duration { return time.Since(t) }

// After returns the moment d from now, for a connection's deadline.
func After(d time.Duration) time.Time { return time.Now().Add(d) }
