package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/types"

	"lockd/resp"
)

// A mark is a small file that holds an index, with a checksum. It is written without a sync,
// in one piece of one sector: after a crash of the process it is exact, after one of the
// machine it may lag behind.
const markLen = 8 + checksumLen

func encodeMark(index uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, markLen), index)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, resp.CRC32C))
}

func decodeMark(text []byte) (uint64, error) {
	if len(text) != markLen || crc32.Checksum(text[:8], resp.CRC32C) != binary.BigEndian.Uint32(text[8:]) {
		return 0, errChecksum
	}
	return binary.BigEndian.Uint64(text), nil
}

// logMark is a small file that holds the index of the last entry that was stored.
// It is written after each append without a sync of its own: after a crash of the
// process it is exact, after one of the machine it may lag behind, and it is never
// ahead. A log that ends before its mark has lost entries.
type logMark struct{ f types.WritableFile }

const markFile = "mark"

// openMark opens the mark of a folder, or makes one if the folder is new.
func openMark(files types.VFS, dir string, isNew bool) (*logMark, uint64, error) {
	if isNew {
		if err := writeSynced(filepath.Join(dir, markFile), encodeMark(0)); err != nil {
			return nil, 0, err
		}
		if err := syncFolder(dir); err != nil {
			return nil, 0, err
		}
	}
	f, err := files.OpenWriter(dir, markFile)
	if err != nil {
		return nil, 0, err
	}
	m := &logMark{f: f}
	index, err := m.read()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return m, index, nil
}

func (m *logMark) read() (uint64, error) {
	text, err := io.ReadAll(io.NewSectionReader(m.f, 0, markLen+1))
	if err != nil {
		return 0, err
	}
	return decodeMark(text)
}

func (m *logMark) set(index uint64) error {
	_, err := m.f.WriteAt(encodeMark(index), 0)
	return err
}

func (m *logMark) lower(index uint64) error {
	if err := m.set(index); err != nil {
		return err
	}
	return m.f.Sync()
}

// Close implements io.Closer.
func (m *logMark) Close() error { return m.f.Close() }

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
	text := make([]byte, markLen)
	if _, err := f.ReadAt(text, 0); err == nil {
		m.begin, _ = decodeMark(text) // what cannot be read promises nothing
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
