package clock

import (
	"testing"
	"time"
)

// Time counts between the first message of a leader and the last moment at which it is known to have led, once, and
// never before the last entry.
func TestLed(t *testing.T) {
	var l Led
	ran := func(want time.Duration) {
		t.Helper()
		if got := l.Ran(); got != want*time.Second {
			t.Errorf("it ran %v, want %v", got, want*time.Second)
		}
	}
	heard := func(term uint64, now, sure time.Duration, want time.Duration) {
		t.Helper()
		l.Heard(term, now*time.Second, sure*time.Second)
		ran(want)
	}
	l.Restart(10 * time.Second)
	ran(0)
	heard(1, 12, 0, 0) // the first message
	heard(1, 14, 12, 0)
	heard(1, 30, 15, 3) // it was under way for long
	heard(1, 31, 14, 3) // another connection
	heard(2, 40, 0, 3)
	heard(1, 41, 39, 3) // the former leader
	heard(2, 44, 42, 5)
	l.Restart(50 * time.Second)
	ran(0)
	heard(2, 51, 49, 0)
	heard(2, 53, 52, 2)
	heard(3, 51, 0, 2) // noted late
	heard(3, 55, 54, 4)
	l.Restart(53 * time.Second) // noted late, too
	heard(3, 57, 56, 2)
}
