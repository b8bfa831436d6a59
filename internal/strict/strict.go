// Package strict is for tests only: it checks upper bounds on real time, which a busy machine may miss although lockd
// is right.
package strict

import (
	"os"
	"testing"
	"time"
)

// Times reports whether tests enforce bounds on real time: LOCKD_STRICT_TIMES=1 demands it, on an otherwise idle
// machine.
func Times() bool { return os.Getenv("LOCKD_STRICT_TIMES") == "1" }

// AtMost reports that what took longer than most: as an error if times are strict, else in the log of the test.
func AtMost(t testing.TB, what string, took, most time.Duration) {
	t.Helper()
	switch {
	case took <= most:
	case Times():
		t.Errorf("%s: %v, at most %v are well", what, took, most)
	default:
		t.Logf("%s: %v, at most %v are well on a machine that does nothing else", what, took, most)
	}
}
