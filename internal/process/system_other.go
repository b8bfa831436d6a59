//go:build !unix

package process

import (
	"errors"
	"syscall"
)

func attributes() (*syscall.SysProcAttr, error) {
	return nil, errors.New("servers are paused by SIGSTOP and ended by SIGTERM, which this system does not have")
}

// No process is ever started here, so they are never sent.
const (
	sigStop syscall.Signal = -1
	sigCont syscall.Signal = -1
)
