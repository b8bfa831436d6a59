package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errDiskFull is the error of a write for which the disk has no room.
const errDiskFull = windows.ERROR_DISK_FULL

// errsNoFiles are those of a process that has no handle left.
var errsNoFiles = []error{windows.ERROR_TOO_MANY_OPEN_FILES}

// lockAt is the byte that is locked. Windows keeps others from reading what is locked, so
// it is far behind the pid that the file holds.
const lockAt = 1 << 30

// tryLock takes the lock of a file without waiting for it. Its errors are the system's,
// or errLocked.
func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// syncFolder does nothing: Windows cannot sync a folder, whose names are in the journal of
// its file system.
func syncFolder(string) error { return nil }
