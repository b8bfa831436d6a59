package clock

import (
	"testing"
	"time"
)

// What is known of the leader before this node is of the latest term, once, and of no earlier one that is noted late.
func TestLastLeader(t *testing.T) {
	var l LastLeader
	led := func(term uint64, former string, heard time.Duration) {
		t.Helper()
		if id, at := l.Led(term); id != former || at != heard {
			t.Errorf("before term %d %q led, heard at %d; want %q at %d", term, id, at, former, heard)
		}
	}
	sure := func(want time.Duration) {
		t.Helper()
		if got := l.Sure(); got != want {
			t.Errorf("a leader led at %d; want %d", got, want)
		}
	}
	led(1, "", 0)
	sure(0)
	l.Heard(2, "n2", 10, 0)
	sure(0)
	l.Heard(2, "n2", 20, 10)
	l.Heard(2, "n2", 19, 9) // another connection
	sure(10)
	l.Heard(3, "n3", 30, 0)
	l.Heard(2, "n2", 31, 29) // noted late
	sure(29)
	led(4, "n3", 30)
	led(5, "", 0)
	l.Heard(4, "n3", 50, 40) // noted late
	led(6, "", 0)
	sure(40)
}
