//go:build !unix

package target

import "syscall"

// No process is started that could be sent them.
const (
	sigStop syscall.Signal = -1
	sigCont syscall.Signal = -1
)
