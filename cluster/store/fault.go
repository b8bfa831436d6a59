//go:build faults

package store

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	boltstore "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/types"

	"lockd/resp/fault"
)

// lossyFiles is the file system of the log, and of its mark, in a test build. It
// has the fault points of the log, and it remembers what a failure of the power
// would undo: for each file, the bytes that every write since the last sync has
// replaced. Not remembered is what is on the disk when the call returns: a removed
// file (raft-wal syncs the folder), bbolt's transactions, whole snapshots.
type lossyFiles struct {
	types.VFS

	opened time.Time  // moments count from here
	lying  bool       // it says that it has synced, and has not
	mu     sync.Mutex // not held at a fault point: a dying process takes it for good
	files  map[string]*unsynced
}

// LyingDisk has the disk of this process lie. It is set before a folder is opened, in a
// test build only.
var LyingDisk bool

// unsynced is what is not on the disk yet of one file. It is a short list: after
// writebackMax the kernel has written by itself what nobody has synced.
type unsynced struct {
	created time.Duration // before the last sync: 0
	writes  []overwrite   // the oldest first
}

const writebackMax = 5 * time.Second

// forget forgets what the kernel has written.
func (u *unsynced) forget(now time.Duration) {
	if now-u.created > writebackMax {
		u.created = 0
	}
	u.writes = slices.DeleteFunc(u.writes, func(w overwrite) bool { return now-w.at > writebackMax })
}

// overwrite is how a file was before a write.
type overwrite struct {
	at     time.Duration
	offset int64
	length int    // of the write
	old    []byte // what was there; shorter than the write where the file ended
	size   int64  // of the file
}

func newLossyFiles(files types.VFS) *lossyFiles {
	return &lossyFiles{VFS: files, opened: time.Now(), lying: LyingDisk, files: map[string]*unsynced{}}
}

// faultyFiles puts the points and the memory of losses in front of files.
func faultyFiles(files types.VFS) types.VFS {
	l := newLossyFiles(files)
	fault.OnDie(func(how string) {
		if err := l.lose(how); err != nil {
			fmt.Fprintln(os.Stderr, "fault:", err)
		}
	})
	return l
}

// Create implements types.VFS.
func (l *lossyFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	if l.lying {
		// raft-wal's list of files, which is synced, says by now that the others are
		// full: without what they hold the folder would be refused, not read wrongly.
		l.files = map[string]*unsynced{}
	}
	path := filepath.Join(dir, name)
	l.files[path] = &unsynced{created: time.Since(l.opened)}
	return &lossyFile{WritableFile: f, all: l, path: path}, nil
}

// OpenWriter implements types.VFS.
func (l *lossyFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &lossyFile{WritableFile: f, all: l, path: filepath.Join(dir, name)}, nil
}

// Delete implements types.VFS.
func (l *lossyFiles) Delete(dir, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, filepath.Join(dir, name))
	return l.VFS.Delete(dir, name)
}

// lossyFile is a file that remembers.
type lossyFile struct {
	types.WritableFile
	all  *lossyFiles
	path string
}

// WriteAt implements types.WritableFile.
func (f *lossyFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.at(fault.LogWrite); err != nil {
		return 0, err
	}
	n, err := f.write(p, offset)
	if err != nil {
		return n, err
	}
	return n, f.at(fault.LogWritten)
}

// Sync implements types.WritableFile.
func (f *lossyFile) Sync() error {
	if err := f.at(fault.LogSync); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	return f.at(fault.LogSynced)
}

// at is a fault point of the log, which the mark is no part of.
func (f *lossyFile) at(point string) error {
	if isMark(f.path) {
		return nil
	}
	return fault.At(point)
}

func isMark(path string) bool { return filepath.Base(path) == markFile }

func (f *lossyFile) write(p []byte, offset int64) (int, error) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return 0, err
	}
	old := make([]byte, len(p))
	n, err := f.WritableFile.ReadAt(old, offset)
	if err != nil && err != io.EOF {
		return 0, err
	}
	u, now := f.all.files[f.path], time.Since(f.all.opened)
	if u == nil {
		u = &unsynced{}
		f.all.files[f.path] = u
	}
	u.forget(now)
	u.writes = append(u.writes, overwrite{at: now, offset: offset, length: len(p), old: old[:n], size: info.Size()})
	return f.WritableFile.WriteAt(p, offset)
}

func (f *lossyFile) sync() error {
	if f.all.lying {
		return nil
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if err := f.WritableFile.Sync(); err != nil {
		return err
	}
	delete(f.all.files, f.path)
	return nil
}

// How a dying process leaves its files (fault.OnDie), besides as they are.
const (
	dieDrop = "drop" // what was not synced is lost
	dieTear = "tear" // of each file's last write a part is there, and the mark
)

// lose brings the files into the state that such a death leaves. Nothing is
// written to them any more: the lock is kept.
func (l *lossyFiles) lose(how string) error {
	if how != dieDrop && how != dieTear {
		return nil
	}
	if l.lying {
		how = dieDrop // the mark would give it away: the clients shall find it
	}
	l.mu.Lock()
	var errs []error
	now := time.Since(l.opened) // the same for all, or the mark might know more than the log
	for path, u := range l.files {
		u.forget(now)
		switch {
		case how == dieDrop && u.created > 0:
			errs = append(errs, os.Remove(path))
		case how == dieDrop:
			errs = append(errs, undo(path, u.writes, whole))
		case !isMark(path):
			errs = append(errs, undo(path, u.writes, torn))
		}
	}
	return errors.Join(errs...)
}

// undo puts back what the writes have replaced, the newest first; of that one only
// what lost says.
func undo(path string, writes []overwrite, lost func(length int) (from, to int)) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := len(writes) - 1; i >= 0; i-- {
		from, to := lost(writes[i].length)
		if err := writes[i].undo(f, from, to); err != nil {
			return err
		}
		lost = whole
	}
	return nil
}

// undo puts back what was there instead of the bytes from, up to to, of the write.
func (w overwrite) undo(f *os.File, from, to int) error {
	if from < len(w.old) {
		if _, err := f.WriteAt(w.old[from:min(to, len(w.old))], w.offset+int64(from)); err != nil {
			return err
		}
	}
	if to < w.length {
		return nil
	}
	size := w.size
	if from > 0 {
		size = max(size, w.offset+int64(from)) // what is left of the write may lie beyond
	}
	return f.Truncate(size)
}

func whole(length int) (from, to int) { return 0, length }

// torn loses the end of a write or its beginning: a disk writes in any order.
func torn(length int) (from, to int) {
	cut := rand.IntN(length)
	if rand.IntN(2) == 0 {
		return cut, length
	}
	return 0, cut
}

// faultyBolt puts the points around whole appends to a log in bbolt: nothing can
// look into its transactions, and no append is unsynced outside of one.
func faultyBolt(log *boltstore.BoltStore) raft.LogStore { return boltPoints{log} }

type boltPoints struct{ *boltstore.BoltStore }

// StoreLogs implements raft.LogStore.
func (b boltPoints) StoreLogs(entries []*raft.Log) error {
	return between([]string{fault.LogWrite, fault.LogSync}, []string{fault.LogWritten, fault.LogSynced}, func() error {
		return b.BoltStore.StoreLogs(entries)
	})
}

// between runs do between fault points, up to the first error.
func between(before, after []string, do func() error) error {
	for _, point := range before {
		if err := fault.At(point); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	for _, point := range after {
		if err := fault.At(point); err != nil {
			return err
		}
	}
	return nil
}

// faultySnapshots puts the points into the making of snapshots.
func faultySnapshots(snaps raft.SnapshotStore) raft.SnapshotStore { return snapshotPoints{snaps} }

type snapshotPoints struct{ raft.SnapshotStore }

// Create implements raft.SnapshotStore.
func (s snapshotPoints) Create(
	version raft.SnapshotVersion,
	index, term uint64,
	members raft.Configuration,
	membersIndex uint64,
	trans raft.Transport,
) (raft.SnapshotSink, error) {
	if err := fault.At(fault.SnapshotWrite); err != nil {
		return nil, err
	}
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
	if err != nil {
		return nil, err
	}
	return &sinkPoints{SnapshotSink: sink}, nil
}

type sinkPoints struct{ raft.SnapshotSink }

// Close implements raft.SnapshotSink. It writes the last bytes, syncs them and
// gives the snapshot its name, all in one.
func (s *sinkPoints) Close() error {
	if err := fault.At(fault.SnapshotRename); err != nil {
		return errors.Join(err, s.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return fault.At(fault.SnapshotRenamed)
}

// segmentVar gives a test build the size of the files of its log. At raft-wal's own
// 64 MiB a test never fills one, so none is ever closed, or removed; and what was
// trimmed from the head of the newest one can still be read, so that no member needs
// a snapshot from its leader.
const segmentVar = "LOCKD_SEGMENT_BYTES"

func segmentBytes() int {
	if n, err := strconv.Atoi(os.Getenv(segmentVar)); err == nil {
		return n
	}
	return wal.DefaultSegmentSize
}
