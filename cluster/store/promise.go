package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// What a node without data has promised to others lies beside its meta file until it has data.
const (
	promiseFile = "promise.json"
	promiseMax  = 64 << 10 // bytes
)

// Promise is what SavePromise has stored last; nil: nothing. One that cannot be read is damage of the folder.
func (d *Folder) Promise() ([]byte, error) {
	text, err := readFileMax(filepath.Join(d.path, promiseFile), promiseMax)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if err == nil && !bytes.Equal(text, withChecksum(line)) {
		err = errChecksum
	}
	if err != nil {
		return nil, d.damaged(fmt.Errorf("%s: %w", promiseFile, err))
	}
	return line, nil
}

// SavePromise stores a line in place of the last one. It is on the disk when SavePromise returns nil.
func (d *Folder) SavePromise(line []byte) error {
	if err := replaceFile(d.path, promiseFile, withChecksum(line)); err != nil {
		return fmt.Errorf("data folder %s: %w", d.path, err)
	}
	return nil
}

// RemovePromise removes it; there may be none.
func (d *Folder) RemovePromise() error {
	err := os.Remove(filepath.Join(d.path, promiseFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data folder %s: %w", d.path, err)
	}
	return nil
}
