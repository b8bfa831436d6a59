package target

import "syscall"

// Signals that stop a process, and let it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// sysProcAttr has the kernel kill the process when we die, however that happens.
func sysProcAttr() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}, nil
}
