package load

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each lock is taken once, for an hour or until the moment that was asked for.
func TestTakeLocks(t *testing.T) {
	until := time.UnixMilli(1_800_000_000_123)
	for _, tt := range []struct {
		locks Locks
		lease string
	}{{Locks{Count: 1234}, "PX 3600000"}, {Locks{Count: 1234, Until: until}, "PXAT 1800000000123"}} {
		var mu sync.Mutex
		seen := map[string]int{}
		f := startFake(t, map[string]func([]string) string{"SET": func(args []string) string {
			mu.Lock()
			defer mu.Unlock()
			seen[strings.Join(args, " ")]++
			return "+OK\r\n"
		}})
		if err := tt.locks.Take(context.Background(), f.ln.Addr().String(), io.Discard); err != nil {
			t.Fatal(err)
		}
		for i := range tt.locks.Count {
			want := "SET " + tt.locks.Key(i) + " " + tt.locks.Token(i) + " NX " + tt.lease
			if seen[want] != 1 || len(tt.locks.Token(i)) != 20 {
				t.Fatalf("%d times %s", seen[want], want)
			}
		}
		if len(seen) != tt.locks.Count {
			t.Errorf("%d commands for %d locks", len(seen), tt.locks.Count)
		}
	}
}

// A lock that somebody holds already is an error.
func TestTakeLocksTaken(t *testing.T) {
	f := startFake(t, map[string]func([]string) string{"SET": func(args []string) string {
		if args[1] == (Locks{}).Key(700) {
			return "$-1\r\n"
		}
		return "+OK\r\n"
	}})
	err := Locks{Count: 1000}.Take(context.Background(), f.ln.Addr().String(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "answered SET NX PX on a free lock with nil") {
		t.Errorf("error %v", err)
	}
}

// Keys that an earlier measurement left are not written again.
func TestHasKeys(t *testing.T) {
	const keys = 10
	for _, has := range []bool{false, true} {
		var mu sync.Mutex
		written := 0
		f := startFake(t, map[string]func([]string) string{"SET": func([]string) string {
			mu.Lock()
			defer mu.Unlock()
			written++
			return "+OK\r\n"
		}})
		d := &redisDriver{target: Target{Addrs: []string{f.ln.Addr().String()}}}
		b := &measurement{cfg: &Config{HasKeys: has}, progress: io.Discard, drivers: []driver{d}, report: &Report{Targets: []TargetInfo{{}}}, filled: map[int]bool{}}
		if err := b.fill(context.Background(), 0, &workload{filled: true}, &plan{keys: keys, valueSize: testValueSize}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: keys, true: 0}[has]; written != want {
			t.Errorf("keys there: %t, and %d written, want %d", has, written, want)
		}
	}
}
