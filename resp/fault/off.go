//go:build !faults

package fault

// On says whether this is a test build.
const On = false

// Planted reports whether a bug was planted: never in this build.
func Planted(string) bool { return false }

// At is called at a point; its error is that of the operation. Never in this build.
func At(string) error { return nil }

// Wall is the wall clock in microseconds since 1970 as the test wants it seen.
func Wall(us int64) int64 { return us }

// WallNow is the wall clock that planted bugs read; 0 in this build, which has none.
func WallNow() int64 { return 0 }

// Chance is a number that differs from process to process, for planted bugs; 0 in
// this build, which has none.
func Chance() uint64 { return 0 }

// OnDie registers what a commanded death does to the disk. Nothing in this build.
func OnDie(func(how string)) {}

// Serve opens the control port. Nothing in this build.
func Serve() error { return nil }
