//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// errDiskFull is the error of a write for which the disk has no room.
const errDiskFull = syscall.ENOSPC

// errsNoFiles are those of a process, or a machine, that has no descriptor left.
var errsNoFiles = []error{syscall.EMFILE, syscall.ENFILE}

// tryLock takes the lock of a file without waiting for it. Its errors are the system's,
// or errLocked.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// syncFolder puts on the disk what names a folder holds.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
