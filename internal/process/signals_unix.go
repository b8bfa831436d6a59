//go:build unix

package process

import "syscall"

// Signals that stop a process, and let it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
