//go:build unix

package system

import "syscall"

type rlimit = syscall.Rlimit

// OpenFiles is the limit of this process.
var OpenFiles = FileLimit{
	get: func(l *rlimit) error { return syscall.Getrlimit(syscall.RLIMIT_NOFILE, l) },
	set: func(l *rlimit) error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, l) },
}
