//go:build !linux

package target

import "errors"

func limitFiles(int, int) error {
	return errors.New("the file descriptors of another process can be limited on Linux only")
}

func memoryOf(int) (now, most int64, err error) {
	return 0, 0, errors.New("the memory of another process can be seen on Linux only")
}
