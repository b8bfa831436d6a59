package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The promise of a node without data lies beside its meta file, until the node has data (package founding).
const (
	promiseFile = "promise.json"
	promiseMax  = 64 << 10 // bytes
)

// Promise returns the line that SavePromise has stored last; nil: none. An unreadable file is damage of the folder.
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

// SavePromise replaces the stored line. It is on the disk when SavePromise returns nil.
func (d *Folder) SavePromise(line []byte) error {
	if err := replaceFile(d.path, promiseFile, withChecksum(line)); err != nil {
		return fmt.Errorf("data folder %s: %w", d.path, err)
	}
	return nil
}

// RemovePromise removes the stored line, if there is one.
func (d *Folder) RemovePromise() error {
	err := os.Remove(filepath.Join(d.path, promiseFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data folder %s: %w", d.path, err)
	}
	return nil
}
