package store

import (
	"os"
	"syscall"
)

// diskSpace is how many bytes the disk of a folder has left for this process, and has in all.
func diskSpace(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := s.Frsize
	return bytesOf(s.Bavail, block), bytesOf(s.Blocks, block), nil
}

// allocate gives a file blocks of its own. The error is errors.ErrUnsupported where the file system
// cannot, such as NFS or ZFS.
func allocate(f *os.File, size int64) error {
	for {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != syscall.EINTR {
			return err
		}
	}
}
