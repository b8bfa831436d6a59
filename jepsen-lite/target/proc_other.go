//go:build !unix

package target

import (
	"errors"
	"syscall"
)

// No process is started that could be sent them.
const (
	sigStop syscall.Signal = -1
	sigCont syscall.Signal = -1
)

func sysProcAttr() (*syscall.SysProcAttr, error) {
	return nil, errors.New("nodes are paused by SIGSTOP and ended by SIGTERM, which this system does not have")
}
