//go:build unix && !linux

package main

import "syscall"

func sysProcAttr() (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{Setpgid: true}, nil }
