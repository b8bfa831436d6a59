//go:build unix

package main

import "syscall"

// filesMax is how many files this process may have open; unlimited, if it has no limit.
func filesMax() (int, error) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return int(min(files.Cur, unlimited)), err
}
