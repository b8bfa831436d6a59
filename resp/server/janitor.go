package server

import (
	"log/slog"
	"sync"
	"time"

	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// janitor checks all clients a few times a second, in one goroutine, which saves a goroutine or a timer for each
// connection:
//
//   - A session that has run for a whole round may be waiting in the backend. Its goroutine does not read, so it cannot
//     see that its client has hung up: the janitor asks the kernel, and ends the session's context. Invalidations of a
//     tracking client wait for the reply; the janitor sends those that need not wait.
//   - A session that has been writing for a whole round has a client that does not read: the janitor interrupts the
//     write, which then continues in parallel to reading (see wire.Outbox).
//   - A client that has been silent for longer than the setting timeout is disconnected.
//   - A table of tracked keys whose limit was lowered shrinks.
//   - A client whose lock has a third of its lease left gets a push.
type janitor struct {
	clients *registry
	hub     *Hub
	backend Backend
	totals  *stats.Totals
	clock   Clock
	log     *slog.Logger

	starts, stops sync.Once
	stop          chan struct{}
}

// start starts the goroutine, if it does not run yet.
func (j *janitor) start() { j.starts.Do(func() { go j.run() }) }

// end ends it.
func (j *janitor) end() { j.stops.Do(func() { close(j.stop) }) }

func (j *janitor) run() {
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	sampled := j.clock()
	for {
		select {
		case <-j.stop:
			return
		case <-ticker.C:
		}
		j.clients.ticks.Add(1)
		now := j.clock()
		if passed := now.Sub(sampled); passed >= 2*janitorEvery {
			j.totals.Sample(passed.Seconds())
			sampled = now
		}
		j.round()
		if j.hub.tracking.InUse() {
			j.hub.shrinkTracking()
		}
		if j.hub.holders.InUse() {
			j.hub.holders.CheckLeases(j.backend, now)
		}
	}
}

// round checks every client.
func (j *janitor) round() {
	idleTicks := j.hub.settings.IdleSeconds.Load() * int64(time.Second/janitorEvery)
	for _, c := range j.clients.list() {
		p := c.phase.Load()
		stands := c.seen == p
		c.seen = p
		switch p % phaseKinds {
		case phaseReading:
			if idleTicks > 0 && j.clients.ticks.Load()-c.activeAt.Load() > idleTicks && c.mayTimeOut() {
				j.log.Debug("idle client closed", "client", c.id, "addr", c.addr)
				c.kill()
			}
		case phaseRunning:
			if (stands || c.waiter.Load() != nil) && wire.HungUp(c.conn) {
				c.cancel() // soon: elements popped for a disconnected client are lost
			}
			if stands && c.trackFlags.Load() != 0 {
				j.hub.sendEarly(c)
			}
		case phaseWriting:
			if stands {
				c.out.Interrupt()
			}
		}
	}
}
