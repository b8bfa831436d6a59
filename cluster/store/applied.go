package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// AppliedMark remembers over restarts how far a node has applied the log: what is before it
// is committed. It is written without a sync, so after a crash of the machine it may lag behind;
// it is never ahead of the log, which is on the disk before it is applied. A nil mark notes
// nothing. Its methods must not be called concurrently, except Begin.
type AppliedMark struct {
	f     *os.File
	begin uint64
}

const appliedFile = "applied"

// OpenApplied opens the mark of a data folder, or makes it.
func OpenApplied(d *Folder) (*AppliedMark, error) {
	f, err := os.OpenFile(filepath.Join(d.path, appliedFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", d.path, err)
	}
	m := &AppliedMark{f: f}
	var text [markLen]byte
	if _, err := f.ReadAt(text[:], 0); err == nil {
		if index := binary.BigEndian.Uint64(text[:]); bytes.Equal(encodeMark(index), text[:]) {
			m.begin = index
		}
	}
	return m, nil
}

// Begin is the index as it was when the mark was opened; 0: none.
func (m *AppliedMark) Begin() uint64 {
	if m == nil {
		return 0
	}
	return m.begin
}

// Note writes down an index. If that fails the older one is there, and promises less.
func (m *AppliedMark) Note(index uint64) {
	if m != nil && index > m.begin {
		_, _ = m.f.WriteAt(encodeMark(index), 0)
	}
}

// Close closes its file.
func (m *AppliedMark) Close() error {
	if m == nil {
		return nil
	}
	return m.f.Close()
}
