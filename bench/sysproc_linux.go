package main

import "syscall"

// sysProcAttr has the kernel kill the process when we die, however that happens, and
// keeps the terminal's Ctrl-C from it: we end it in order.
func sysProcAttr() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}, nil
}
