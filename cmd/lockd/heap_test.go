package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// A small heap is left to Go's default; the larger it is, the smaller the share of it
// that may be garbage, down to a bound.
func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 100}, {mib, 100}, {48 * mib, 100}, {49 * mib, 95}, {60 * mib, 80}, {96 * mib, 50},
		{120 * mib, 40}, {137 * mib, 35}, {200 * mib, 35}, {10_000 * mib, 35}, {1 << 62, 35},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("%d MiB alive: %d %%, want %d", c.live/mib, got, c.want)
		}
	}
	for live := uint64(0); live < 400*mib; live += mib {
		if gcPercent(live+mib) > gcPercent(live) {
			t.Errorf("%d MiB more leave more room for garbage than %d", (live+mib)/mib, live/mib)
		}
	}
}

// A large heap is collected earlier, until the program ends. If the operator has configured collection, nothing
// changes.
func TestBoundHeap(t *testing.T) {
	ballast := make([]byte, 256<<20) // nothing of it is touched, so it takes no memory
	runtime.GC()
	for _, c := range []struct {
		name string
		env  map[string]string
		want int
	}{
		{"default", nil, wastePercent},
		{"GOGC", map[string]string{"GOGC": "100"}, defaultPercent},
		{"GOMEMLIMIT", map[string]string{"GOMEMLIMIT": "1GiB"}, defaultPercent},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := debug.SetGCPercent(defaultPercent)
				defer debug.SetGCPercent(before)
				ctx, stop := context.WithCancel(t.Context())
				boundHeap(ctx, func(name string) string { return c.env[name] })
				time.Sleep(2 * heapLookEvery)
				if got := percentNow(); got != c.want {
					t.Errorf("%d %%, want %d", got, c.want)
				}
				stop()
				synctest.Wait()
				if got := percentNow(); got != defaultPercent {
					t.Errorf("%d %% are left behind", got)
				}
			})
		})
	}
	runtime.KeepAlive(ballast)
}

// percentNow reads the runtime's setting.
func percentNow() int {
	now := debug.SetGCPercent(defaultPercent)
	debug.SetGCPercent(now)
	return now
}
