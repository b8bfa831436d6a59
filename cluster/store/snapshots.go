package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// syncedSnapshots has snapshots synced while they are written. Raft syncs each once, at its
// end: the syncs of the log would then wait for hundreds of megabytes. And none of them takes
// the last space of the disk, which is the log's.
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

// watchedSnapshots ends the process where the disk does not let a leader's snapshot begin:
// that is Raft's main goroutine as well (Installing). One of the node's own may wait.
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
	if s.guard.installing.Load() { // then no other is written
		defer s.guard.watch("InstallSnapshot").stop()
	}
	return s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
}

// Installing watches a leader's snapshot that Raft reads from in and writes, until done is
// called: it ends the process where the disk does not take what was read. Raft's main
// goroutine writes it, and the node would hang beside a disk that hangs, while its heartbeats
// are answered. One is installed at a time, and no other snapshot is written beside it.
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
	wrote *watchdog // of what the last Read gave
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

// removeUnfinished removes snapshots that were not written to their end. There is at most
// one at a time, and the library leaves it where the disk is full.
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
	file    *os.File // the one that the sink writes to, opened once more
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

// closeFile may be called twice, as a sink may be closed twice.
func (s *syncedSink) closeFile() error {
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
