package clock

import (
	"sync"
	"time"
)

// Wall is the cluster's wall clock as a leader tells it: the median of the voters' clocks, except that it never goes
// back. If the median jumps forward, so does the clock; if the median falls behind the clock, the clock runs slower
// until the median has caught up. All methods may be called concurrently.
type Wall struct {
	clock  Clock
	median func() (us int64, known bool) // of the voters' clocks now; known: a majority of them was heard

	mu    sync.Mutex
	base  int64         // a time that was told, in microseconds since 1970
	since time.Duration // monotonic time at which base was told
	last  int64         // the latest time that was told
}

// SlewPart divides the speed of the cluster's wall clock while it is ahead of the median of the members' clocks. The
// clock is right again after 8/7 of the time by which it was ahead.
const SlewPart = 8

// StartWall returns the wall clock of a leader, which continues from a time in microseconds since 1970.
func StartWall(clock Clock, from int64, median func() (int64, bool)) *Wall {
	return &Wall{clock: clock, median: median, base: from, since: clock.Monotonic(), last: from}
}

// Now returns the cluster's time, in microseconds since 1970.
func (w *Wall) Now() int64 {
	now, _ := w.tell()
	return now
}

// Ahead returns the time by which the cluster's clock is ahead of the median of the members' clocks; 0 if that is not
// known.
func (w *Wall) Ahead() time.Duration {
	_, ahead := w.tell()
	return ahead
}

func (w *Wall) tell() (us int64, ahead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := (w.clock.Monotonic() - w.since).Microseconds()
	median, known := w.median()
	slewed := w.base + passed/SlewPart
	switch {
	case !known: // it follows the leader's monotonic time
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
