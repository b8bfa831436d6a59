// Package strict is for tests alone: it holds upper bounds on real time, which a machine
// that has other work too may miss although lockd is right.
package strict

import (
	"os"
	"testing"
	"time"
)

// Times reports whether the tests hold lockd to real times: LOCKD_STRICT_TIMES=1 says so,
// on a machine that does nothing else.
func Times() bool { return os.Getenv("LOCKD_STRICT_TIMES") == "1" }

// AtMost says that what took longer than it may: as an error if times are strict, else in
// the log of the test.
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
