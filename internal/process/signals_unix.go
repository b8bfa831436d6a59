//go:build unix

package process

import "syscall"

// The signals that pause and continue a process.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
