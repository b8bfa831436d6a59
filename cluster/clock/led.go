package clock

import (
	"sync"
	"time"
)

// Led counts the time for which there certainly was a leader since the last entry was applied here that set the log
// clock. Leases ran on in that time without writes, so the next leader continues from there. The time between two
// leaders does not count, nor does the time after the last moment at which a leader is known to have led. The zero
// value has heard no leader. All methods may be called concurrently.
type Led struct {
	mu    sync.Mutex
	term  uint64        // of the leader that was heard last
	until time.Duration // monotonic: ran counts the time before
	ran   time.Duration
}

// Restart counts from now on: an entry has set the log clock.
func (l *Led) Restart(now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.ran = max(l.until, now), 0
}

// Heard records that the leader of a term was heard at now, and that it led at a moment not before sure; 0: that is not
// known of any moment. Nothing is counted for a leader that was heard before the last one.
func (l *Led) Heard(term uint64, now, sure time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case term > l.term:
		l.term, l.until = term, max(l.until, now)
	case term == l.term && sure > l.until: // it has led since it was first heard, and at sure
		l.ran += sure - l.until
		l.until = sure
	}
}

// Ran returns the time for which there certainly was a leader since Restart. It never exceeds the time that has passed.
func (l *Led) Ran() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran
}
