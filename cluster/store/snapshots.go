package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// syncedSnapshots syncs snapshots while they are written. Raft syncs each once, at its end: the syncs of the log would
// then wait for hundreds of megabytes. A snapshot is not begun in the last space of the disk, which the log needs.
type syncedSnapshots struct {
	raft.SnapshotStore
	dir     string
	reserve *reserve
}

const (
	snapshotSyncBytes = 1 << 20
	stateFile         = "state.bin" // raft.FileSnapshotStore's name for it
)

// Create implements raft.SnapshotStore.
func (s syncedSnapshots) Create(
	version raft.SnapshotVersion,
	index, term uint64,
	members raft.Configuration,
	membersIndex uint64,
	trans raft.Transport,
) (raft.SnapshotSink, error) {
	if err := s.reserve.mayWrite(); err != nil {
		return nil, err
	}
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
	if err != nil {
		return nil, errors.Join(err, removeUnfinished(s.dir))
	}
	file, err := os.OpenFile(filepath.Join(s.dir, sink.ID()+tmpSuffix, stateFile), os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return &syncedSink{SnapshotSink: sink, file: file, dir: s.dir, reserve: s.reserve}, nil
}

// watchedSnapshots ends the process if the disk hangs when a leader's snapshot begins: Raft's main goroutine writes it
// (Installing). The node's own snapshots may wait.
type watchedSnapshots struct {
	raft.SnapshotStore
	guard *guard
}

// Create implements raft.SnapshotStore.
func (s watchedSnapshots) Create(
	version raft.SnapshotVersion,
	index, term uint64,
	members raft.Configuration,
	membersIndex uint64,
	trans raft.Transport,
) (raft.SnapshotSink, error) {
	if s.guard.installing.Load() { // no other snapshot is written then
		defer s.guard.watch("InstallSnapshot").stop()
	}
	return s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
}

// Installing watches a leader's snapshot that Raft reads from in and writes, until done is called: it ends the process
// if the disk does not accept it. Raft's main goroutine writes it, and would hang with the disk, while another
// goroutine answers heartbeats. One snapshot is installed at a time, and no other is written meanwhile.
func (s *Stores) Installing(in io.Reader) (watched io.Reader, done func()) {
	r := &watchedReader{in: in, guard: s.guard}
	s.guard.installing.Store(true)
	return r, func() {
		s.guard.installing.Store(false)
		r.rest()
	}
}

type watchedReader struct {
	in    io.Reader
	guard *guard
	wrote *watchdog // of the write of the last Read's bytes
}

// Read implements io.Reader.
func (r *watchedReader) Read(b []byte) (int, error) {
	r.rest()
	n, err := r.in.Read(b)
	if err == nil {
		r.wrote = r.guard.watch("InstallSnapshot")
	}
	return n, err
}

// rest ends the watch.
func (r *watchedReader) rest() {
	if r.wrote != nil {
		r.wrote.stop()
		r.wrote = nil
	}
}

// removeUnfinished removes incomplete snapshots. There is at most one at a time, which the library leaves behind on a
// full disk.
func removeUnfinished(dir string) error {
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range left {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

type syncedSink struct {
	raft.SnapshotSink
	file    *os.File // the file of the sink, opened a second time
	dir     string
	dirty   int // bytes since the last sync
	reserve *reserve
}

// Write implements io.Writer.
func (s *syncedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	if s.dirty += n; err == nil && s.dirty >= snapshotSyncBytes {
		s.dirty = 0
		err = errors.Join(s.file.Sync(), s.reserve.mayWrite())
	}
	return n, err
}

// Close implements raft.SnapshotSink.
func (s *syncedSink) Close() error {
	err := errors.Join(s.SnapshotSink.Close(), s.closeFile())
	if err != nil {
		err = errors.Join(err, removeUnfinished(s.dir))
	}
	return err
}

// Cancel implements raft.SnapshotSink.
func (s *syncedSink) Cancel() error {
	return errors.Join(s.SnapshotSink.Cancel(), s.closeFile(), removeUnfinished(s.dir))
}

// closeFile may be called twice, since a sink may be closed twice.
func (s *syncedSink) closeFile() error {
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
