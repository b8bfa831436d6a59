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

// A mark is a small file with an index and its checksum. It is written without a sync, within one sector: after a crash
// of the process it is exact, after a crash of the machine it may lag behind.
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

// logMark holds the index of the last stored entry. It is written after each append, so it is never ahead of the log. A
// log that ends before its mark has lost entries.
type logMark struct{ f MarkFile }

// MarkFile is the file of a mark. Sync returns once what was written is on the disk.
type MarkFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

const markFile = "mark"

// openMark opens the mark of a folder, or makes it if the folder is new.
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

// AppliedMark remembers over restarts the index up to which a node has applied the log, and which therefore is
// committed. It may lag behind after a crash of the machine, and is never ahead of the log, which is on the disk before
// it is applied. A nil mark does nothing. Its methods must not be called concurrently, except Begin.
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
		m.begin, _ = decodeMark(text) // an unreadable mark reads as 0
	}
	return m, nil
}

// Begin returns the index at the time when the mark was opened; 0: none.
func (m *AppliedMark) Begin() uint64 {
	if m == nil {
		return 0
	}
	return m.begin
}

// Note stores an index. If that fails, the older one remains, which is lower.
func (m *AppliedMark) Note(index uint64) {
	if m != nil && index > m.begin {
		_, _ = m.f.WriteAt(encodeMark(index), 0)
	}
}

// Close closes the file.
func (m *AppliedMark) Close() error {
	if m == nil {
		return nil
	}
	return m.f.Close()
}
