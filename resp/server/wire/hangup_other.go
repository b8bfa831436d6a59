//go:build !unix

package wire

// asksKernel tells whether hungUp works on this system.
const asksKernel = false

// hungUp is not available: a client that hung up is noticed when its session reads or writes again.
func hungUp(uintptr) bool { return false }
