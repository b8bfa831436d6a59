package server

import (
	"time"

	"lockd/resp/server/wire"
)

// The janitor is one goroutine that checks all sessions a few times a second, which saves a goroutine or a timer for
// each connection:
//
//   - A session that has run for a whole round may be waiting in the backend. Its goroutine does not read, so it cannot
//     see that its client has hung up: the janitor asks the kernel, and ends the session's context. Invalidations of a
//     tracking client wait for the reply; the janitor sends those that need not wait.
//   - A session that has been writing for a whole round has a client that does not read: the janitor interrupts the
//     write, which then continues in parallel to reading (see wire.Outbox).
//   - A client that has been silent for longer than the setting timeout is disconnected.
//   - A table of tracked keys whose limit was lowered shrinks.
//   - A client whose lock has a third of its lease left gets a push.

// startJanitor is called with mu held.
func (s *Server) startJanitor() {
	if !s.janitor {
		s.janitor = true
		go s.runJanitor()
	}
}

func (s *Server) runJanitor() {
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	sampled := s.clock()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		s.ticks.Add(1)
		now := s.clock()
		if passed := now.Sub(sampled); passed >= 2*janitorEvery {
			s.stats.Sample(passed.Seconds())
			sampled = now
		}
		s.round()
		if s.hub.tracking.InUse() {
			s.hub.shrinkTracking()
		}
		if s.hub.holders.InUse() {
			s.hub.holders.CheckLeases(s.backend, now)
		}
	}
}

// round checks every session.
func (s *Server) round() {
	idleTicks := s.hub.settings.IdleSeconds.Load() * int64(time.Second/janitorEvery)
	for _, c := range s.clients() {
		p := c.phase.Load()
		stands := c.seen == p
		c.seen = p
		switch p % phaseKinds {
		case phaseReading:
			if idleTicks > 0 && s.ticks.Load()-c.activeAt.Load() > idleTicks && c.mayTimeOut() {
				s.log.Debug("idle client closed", "client", c.id, "addr", c.addr)
				c.kill()
			}
		case phaseRunning:
			if (stands || c.waiter.Load() != nil) && wire.HungUp(c.conn) {
				c.cancel() // soon: elements popped for a disconnected client are lost
			}
			if stands && c.trackFlags.Load() != 0 {
				s.hub.sendEarly(c)
			}
		case phaseWriting:
			if stands {
				c.out.Interrupt()
			}
		}
	}
}
