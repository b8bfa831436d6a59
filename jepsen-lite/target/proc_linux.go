package target

import "syscall"

// sysProcAttr has the kernel kill the process when we die, however that happens.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
