package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"lockd/resp/fault"
)

// Clock is where a node's time comes from. It is an interface so that a test can
// step the wall clock or hold back the monotonic one; nothing else of the package
// reads a clock.
type Clock interface {
	// Wall is the wall clock in microseconds since 1970. It may step in any
	// direction at any time: leases do not depend on it, and the time of the cluster
	// (wallClock) does on the median of the members' only.
	Wall() int64
	// Monotonic is the time since an arbitrary moment. It never goes back.
	Monotonic() time.Duration
}

// SystemClock is the Clock of the operating system.
type SystemClock struct{ start time.Time }

// NewSystemClock returns a Clock whose monotonic time starts now.
func NewSystemClock() SystemClock { return SystemClock{start: time.Now()} }

// Wall implements Clock.
func (SystemClock) Wall() int64 { return fault.Wall(time.Now().UnixMicro()) }

// Monotonic implements Clock.
func (c SystemClock) Monotonic() time.Duration { return time.Since(c.start) }

// leadership is what a leader knows while it may stamp entries: the term it leads,
// and the log clock of that term. It does not change once it is made; a node that
// loses leadership forgets it.
type leadership struct {
	term   uint64
	base   int64         // the log clock when everything older had been applied
	origin time.Duration // monotonic time at which base was taken
	from   uint64        // the entries after this one are of its term
	clock  Clock
	wall   *wallClock // of the cluster
	alone  bool       // this node was the only voter when the term began
}

// currentTerm is this node's leadership; nil while it does not lead, or not yet.
type currentTerm struct{ atomic.Pointer[leadership] }

func (t *currentTerm) held() bool { return t.Load() != nil }

// takes reports whether what is bound to a term, 0 for none, may be logged in this one.
func (l *leadership) takes(term uint64) bool {
	return term == 0 || term == l.term
}

// tick is the leader's estimate of the log clock, in milliseconds. Time in which
// nobody led is not in it, so a lease can end late by an election, never early.
func (l *leadership) tick() int64 { return l.tickAt(l.clock.Monotonic()) }

// tickAt is tick at a monotonic time.
func (l *leadership) tickAt(now time.Duration) int64 { return l.base + (now - l.origin).Milliseconds() }

// until is the time to wait until the log clock is past the deadline; an hour at
// most, as no deadline at all is a very late one.
func (l *leadership) until(deadline int64) time.Duration {
	elapsed := l.clock.Monotonic() - l.origin
	if deadline-l.base > (elapsed + idleMax).Milliseconds() {
		return idleMax
	}
	return time.Duration(deadline+1-l.base)*time.Millisecond - elapsed
}

// wallClock is the cluster's wall clock as a leader tells it: the median of the voters' clocks, which never goes back.
// Where the median jumps forward, so does the clock; where the median is behind what was told before, the clock goes
// slower until the median has caught up. All methods may be called concurrently.
type wallClock struct {
	clock  Clock
	median func() (us int64, known bool) // of the voters' clocks now; known: a majority of them was heard

	mu    sync.Mutex
	base  int64         // a time that was told, in microseconds since 1970
	since time.Duration // monotonic: when
	last  int64         // the latest time that was told
}

// slewPart says how fast the cluster's wall clock goes while it is ahead of the median of the members' clocks: at this
// part of real time. So it is right again after 8/7 of what it was ahead.
const slewPart = 8

// startWall starts the wall clock of a leader that goes on from a time, in microseconds since 1970.
func startWall(clock Clock, from int64, median func() (int64, bool)) *wallClock {
	return &wallClock{clock: clock, median: median, base: from, since: clock.Monotonic(), last: from}
}

// now is the cluster's time, in microseconds since 1970.
func (w *wallClock) now() int64 {
	now, _ := w.tell()
	return now
}

// ahead is how far the cluster's time is ahead of the median of the members' clocks; 0 if it is not known.
func (w *wallClock) ahead() time.Duration {
	_, ahead := w.tell()
	return ahead
}

func (w *wallClock) tell() (us int64, ahead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := (w.clock.Monotonic() - w.since).Microseconds()
	median, known := w.median()
	slewed := w.base + passed/slewPart
	switch {
	case !known: // it goes on like the leader's monotonic time
		w.base += passed
		w.since += time.Duration(passed) * time.Microsecond
		w.last = max(w.last, w.base)
	case median >= slewed:
		w.base, w.since = median, w.clock.Monotonic()
		w.last = max(w.last, median)
	default:
		w.last = max(w.last, slewed)
		ahead = time.Duration(w.last-median) * time.Microsecond
	}
	return w.last, ahead
}

// since is the time that has passed since a moment Raft told of.
func since(t time.Time) time.Duration { return time.Since(t) }

// after is the moment that lies d ahead, for a deadline of a connection.
func after(d time.Duration) time.Time { return time.Now().Add(d) }

// clockLagMax is how far the replicated clock may fall behind the leader's while
// leases run and nothing is written. A restart of all nodes adds as much to them,
// because only the replicated clock survives it.
const clockLagMax = 5 * time.Second

// idleMax is how long the proposer sleeps if nothing happens. Whatever changes an input of take
// also wakes the proposer.
const idleMax = time.Hour
