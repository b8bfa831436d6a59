//go:build unix && !linux

package target

import "syscall"

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

func sysProcAttr() (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{Setpgid: true}, nil }
