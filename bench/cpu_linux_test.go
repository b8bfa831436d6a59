package main

import (
	"testing"
	"time"
)

// The name of a program may hold anything.
func TestCPUOf(t *testing.T) {
	const stat = "812 (a ) b) S 1 812 812 0 -1 4194560 3021 0 7 0 123 45 9 9 20 0 8 0 1107 1265 5 18446744073709551615"
	if took, err := cpuOf(stat); err != nil || took != 1680*time.Millisecond {
		t.Errorf("%v, %v; want 1.68s", took, err)
	}
	for _, bad := range []string{"", "812 (a) S 1", "812 (a) S 1 812 812 0 -1 4194560 3021 0 7 0 x 45 9"} {
		if took, err := cpuOf(bad); err == nil {
			t.Errorf("%q has taken %v", bad, took)
		}
	}
}

// A busy process uses processor time, and asking about an ended one is an error.
func TestMeter(t *testing.T) {
	p := behave(t, testFarm(t), "serve")
	if err := p.await(t.Context(), connects(p.addr)); err != nil {
		t.Fatal(err)
	}
	if _, err := meter([]*proc{p})(); err != nil {
		t.Error(err)
	}
	p.Kill()
	if took, err := meter([]*proc{p})(); err == nil {
		t.Errorf("a process that is gone has taken %v", took)
	}
}
