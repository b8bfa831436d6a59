//go:build !unix

package main

import (
	"errors"
	"syscall"
)

func sysProcAttr() (*syscall.SysProcAttr, error) {
	return nil, errors.New("servers are ended by SIGTERM, which this system does not have")
}
