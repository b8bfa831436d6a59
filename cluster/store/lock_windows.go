package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errDiskFull is the error of a write to a full disk.
const errDiskFull = windows.ERROR_DISK_FULL

// errsNoFiles is the error of a process without a free handle.
var errsNoFiles = []error{windows.ERROR_TOO_MANY_OPEN_FILES}

// lockAt is the locked byte. Windows prevents others from reading locked bytes, so it lies far behind the pid in the
// file.
const lockAt = 1 << 30

// tryLock locks a file without waiting. It returns errLocked, or an error of the system.
func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// syncFolder does nothing: Windows cannot sync a folder, whose names are in the journal of its file system.
func syncFolder(string) error { return nil }
