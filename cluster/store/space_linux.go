package store

import (
	"os"
	"syscall"
)

// diskSpace returns the bytes of a folder's disk that this process may still use, and the size of the disk.
func diskSpace(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := s.Frsize
	return bytesOf(s.Bavail, block), bytesOf(s.Blocks, block), nil
}

// allocate gives a file blocks of its own. The error is errors.ErrUnsupported on a file system that cannot, such as NFS
// or ZFS.
func allocate(f *os.File, size int64) error {
	for {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != syscall.EINTR {
			return err
		}
	}
}
