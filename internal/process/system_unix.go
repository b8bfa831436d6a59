//go:build unix && !linux

package process

import "syscall"

func attributes() (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{Setpgid: true}, nil }
