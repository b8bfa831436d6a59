//go:build !faults

package fault

// On tells whether this is a test build.
const On = false

// At is called at a point and returns the error of a fault there: never one in this build.
func At(string) error { return nil }

// Wall returns the wall clock in microseconds since 1970 that the test wants seen: us in this build.
func Wall(us int64) int64 { return us }

// DialAddr returns the address at which to dial the peer at addr: addr itself in this build.
func DialAddr(addr string) string { return addr }

// Serve opens the control port. It does nothing in this build.
func Serve() error { return nil }
