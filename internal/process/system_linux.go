package process

import "syscall"

func attributes() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}, nil
}
