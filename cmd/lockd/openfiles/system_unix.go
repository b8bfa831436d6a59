//go:build unix

package openfiles

import "syscall"

type rlimit = syscall.Rlimit

// System is the limit of this process.
var System = Limit{
	get: func(l *rlimit) error { return syscall.Getrlimit(syscall.RLIMIT_NOFILE, l) },
	set: func(l *rlimit) error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, l) },
}
