package clock

import (
	"testing"
	"time"
)

// A clock is located correctly however long answers take, and the shortest answer locates it best; a clock that was set
// is believed at once.
func TestSamples(t *testing.T) {
	c := &Members{}
	const s = int64(time.Second / time.Microsecond)
	sees := func(wall int64, before, after time.Duration, low, high int64) {
		t.Helper()
		c.record("n2", observe(wall, before, after))
		if got := c.of["n2"]; got.low != low || got.high != high {
			t.Errorf("the clock is between %d and %d, want %d and %d", got.low, got.high, low, high)
		}
	}
	// It is 100 s ahead, and answers at once, early or late.
	sees(101*s, time.Second, 2*time.Second, 99*s, 100*s)
	sees(103*s, 2*time.Second, 3*time.Second, 100*s, 100*s+200)
	sees(103*s+s/2, 3*time.Second, 4*time.Second, 100*s-200, 100*s+400)
	sees(105*s, 5*time.Second, 5*time.Second, 100*s, 100*s)
	sees(114*s, 5*time.Second, 15*time.Second, 100*s-2000, 100*s+2000)
	sees(46*s, 15*time.Second, 16*time.Second, 30*s, 31*s)
	sees(216*s, 16*time.Second, 16*time.Second, 200*s, 200*s)
}
