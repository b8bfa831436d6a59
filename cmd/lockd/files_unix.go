//go:build unix

package main

import "syscall"

type fileLimit = syscall.Rlimit

var systemFiles = files{
	get: func(l *fileLimit) error { return syscall.Getrlimit(syscall.RLIMIT_NOFILE, l) },
	set: func(l *fileLimit) error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, l) },
}
