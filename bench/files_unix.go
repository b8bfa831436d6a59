//go:build unix

package main

import "syscall"

// filesMax returns the limit of this process's open files, or unlimited.
func filesMax() (int, error) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return int(min(files.Cur, unlimited)), err
}
