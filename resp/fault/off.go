//go:build !faults

package fault

// On says whether this is a test build.
const On = false

// At is called at a point; its error is that of the operation. Never in this build.
func At(string) error { return nil }

// Wall is the wall clock in microseconds since 1970 as the test wants it seen.
func Wall(us int64) int64 { return us }

// Way is the address at which a peer is dialled that is known by addr: in this build addr itself.
func Way(addr string) string { return addr }

// Serve opens the control port. Nothing in this build.
func Serve() error { return nil }
