package clustertest

import (
	"sync"
	"time"
)

// Clock is the clocks of a machine: the wall clock, and the monotonic one. Both go on when processes end. They are
// right, and run at the speed of virtual time, until they are told otherwise. All methods may be called concurrently.
//
// Timers of a node follow virtual time at any drift. So a node beyond DriftPromised differs from a real one, whose
// timers are early or late by the drift.
type Clock struct {
	mu    sync.Mutex
	wall  offset
	ticks offset // of the monotonic clock
}

// DriftPromised bounds, as a part, the drift of a machine's clocks against true time that lockd copes with: two clocks
// differ by 200 ppm then.
const DriftPromised = 100e-6

// offset computes the lead of a clock over virtual time.
type offset struct {
	by    time.Duration // at the time since
	drift float64       // by how much it runs fast from then on, as a part
	since time.Time
}

func (o offset) at(now time.Time) time.Duration {
	return o.by + time.Duration(o.drift*float64(max(0, now.Sub(o.since))))
}

// run sets the drift from now on.
func (o *offset) run(drift float64) {
	now := time.Now()
	*o = offset{by: o.at(now), drift: drift, since: now}
}

func newClock() *Clock { return &Clock{} }

// Step steps the wall clock, forward or back.
func (c *Clock) Step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall.by += by
}

// Drift makes both clocks of the machine run fast by a part, or slow if it is negative, from now on: 0.0001 is 100 ppm.
// 0 is the speed of virtual time.
func (c *Clock) Drift(part float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall.run(part)
	c.ticks.run(part)
}

// DriftWall does the same to the wall clock alone.
func (c *Clock) DriftWall(part float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall.run(part)
}

// Right sets the wall clock right, and ends all drift. The monotonic clock keeps what it has gained.
func (c *Clock) Right() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = offset{}
	c.ticks.run(0)
}

// Ahead returns by how much the wall clock is ahead of virtual time.
func (c *Clock) Ahead() time.Duration { return c.aheadAt(time.Now()) }

func (c *Clock) aheadAt(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall.at(now)
}

// gained returns by how much the monotonic clock has been ahead of virtual time.
func (c *Clock) gained(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticks.at(now)
}

// processClock is the clock of one process. It stands still while the process is paused.
type processClock struct {
	clock *Clock
	p     *Process
	start time.Time
}

// Wall implements clock.Clock.
func (c processClock) Wall() int64 {
	now := c.p.now()
	return now.Add(c.clock.aheadAt(now)).UnixMicro()
}

// Monotonic implements clock.Clock.
func (c processClock) Monotonic() time.Duration {
	now := c.p.now()
	return now.Sub(c.start) + c.clock.gained(now)
}
