package loglimit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A key is logged once a minute, with how many were suppressed; of too many keys none more is.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limiter
		expect := func(key string, wantN int, wantOK bool) {
			t.Helper()
			if n, ok := l.Allow(key); n != wantN || ok != wantOK {
				t.Errorf("%q: %d, %v; want %d, %v", key, n, ok, wantN, wantOK)
			}
		}
		expect("a", 0, true)
		expect("a", 0, false)
		expect("b", 0, true)
		time.Sleep(every - time.Millisecond)
		expect("a", 0, false)
		time.Sleep(time.Millisecond)
		expect("a", 2, true)
		expect("a", 0, false)
		for i := range keysMax - 2 {
			expect(strconv.Itoa(i), 0, true)
		}
		expect("c", 0, true) // in the place of b
		expect("d", 0, false)
		time.Sleep(every)
		expect("d", 0, true)
	})
	now := time.Now()
	l := Limiter{Clock: func() time.Time { return now }}
	l.Allow("")
	if now = now.Add(every); !func() bool { _, ok := l.Allow(""); return ok }() {
		t.Error("the clock is not asked")
	}
}
