//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// errDiskFull is the error of a write to a full disk.
const errDiskFull = syscall.ENOSPC

// errsNoFiles are the errors of a process, or a machine, without a free descriptor.
var errsNoFiles = []error{syscall.EMFILE, syscall.ENFILE}

// tryLock locks a file without waiting. It returns errLocked, or an error of the system.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// syncFolder syncs the names in a folder.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
