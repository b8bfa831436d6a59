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

// lossyFiles is the file system of the log and its mark in a test build. It has the fault points of the log, and keeps
// what a power failure would undo: for each file, the bytes that every write since the last sync has replaced. A
// removed file is not kept (raft-wal syncs the folder). Votes and snapshots are lossyVotes and lossySnapshots.
type lossyFiles struct {
	types.VFS

	opened time.Time  // times are relative to this
	lying  bool       // sync reports success and does nothing
	mu     sync.Mutex // not held at a fault point: a dying process takes it for good
	files  map[string]*unsynced
}

// LyingDisk makes the disk of this process report syncs of the log that it has not done. It is set before a folder is
// opened, in a test build only.
var LyingDisk bool

// LyingSnapshots does the same to snapshots.
var LyingSnapshots bool

// unsynced lists the writes of one file that are not on the disk yet. The list stays short: after writebackMax the
// kernel has written them without a sync.
type unsynced struct {
	created time.Duration // before the last sync: 0
	writes  []overwrite   // the oldest first
}

const writebackMax = 5 * time.Second

// forget removes the writes that the kernel has written.
func (u *unsynced) forget(now time.Duration) {
	if now-u.created > writebackMax {
		u.created = 0
	}
	u.writes = slices.DeleteFunc(u.writes, func(w overwrite) bool { return now-w.at > writebackMax })
}

// overwrite is the state of a file before a write.
type overwrite struct {
	at     time.Duration
	offset int64
	length int    // of the write
	old    []byte // the bytes before the write; shorter than the write if the file ended there
	size   int64  // of the file
}

func newLossyFiles(files types.VFS) *lossyFiles {
	return &lossyFiles{VFS: files, opened: time.Now(), lying: LyingDisk, files: map[string]*unsynced{}}
}

// faultyFiles adds the fault points, and the memory of unsynced writes, to files.
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
		// raft-wal's synced list of its files says by now that the other files are full: without their contents the
		// folder would be refused instead of misread.
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

// lossyFile is a file with a memory of its unsynced writes.
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

// at is a fault point of the log; the mark has none.
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

// The states in which a dying process leaves its files (fault.OnDie), besides unchanged.
const (
	dieDrop = "drop" // unsynced data is lost
	dieTear = "tear" // a part of each file's last write, and the mark, survive
)

// lose puts the files into the state that a kind of death leaves. Later writes are impossible: the lock is kept.
func (l *lossyFiles) lose(how string) error {
	if how != dieDrop && how != dieTear {
		return nil
	}
	if l.lying {
		how = dieDrop // the mark would show the loss: clients have to find it
	}
	l.mu.Lock()
	var errs []error
	now := time.Since(l.opened) // one time for all files, or the mark might be ahead of the log
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

// undo restores the bytes that the writes have replaced, the newest first; of the newest write, only the range that
// lost returns.
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

// undo restores the bytes in [from, to) of the write.
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
		size = max(size, w.offset+int64(from)) // the rest of the write may lie beyond
	}
	return f.Truncate(size)
}

func whole(length int) (from, to int) { return 0, length }

// torn returns the lost end or beginning of a write: a disk writes in any order.
func torn(length int) (from, to int) {
	cut := rand.IntN(length)
	if rand.IntN(2) == 0 {
		return cut, length
	}
	return 0, cut
}

// faultyBolt adds the fault points around whole appends to a log in bbolt, whose transactions are opaque and leave
// nothing unsynced.
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

// faultyVotes adds the memory of what a power failure would undo to a record of votes.
func faultyVotes(votes *boltstore.BoltStore, opts boltstore.Options) raft.StableStore {
	v := &lossyVotes{
		BoltStore: votes, path: opts.Path, opened: time.Now(), lying: opts.NoSync || opts.BoltOptions.NoSync,
	}
	fault.OnDie(func(how string) {
		if err := v.lose(how); err != nil {
			fmt.Fprintln(os.Stderr, "fault:", err)
		}
	})
	return v
}

// lossyVotes keeps what a power failure would undo of a record of votes that bbolt does not sync: the whole file, which
// is small, before each transaction of the last writebackMax. A transaction that is under way at a death ends first.
type lossyVotes struct {
	*boltstore.BoltStore
	path   string
	opened time.Time
	lying  bool

	mu     sync.Mutex
	before []votesBefore // the oldest first
}

type votesBefore struct {
	at   time.Duration
	text []byte
}

// Set implements raft.StableStore.
func (v *lossyVotes) Set(key, val []byte) error {
	return v.write(func() error { return v.BoltStore.Set(key, val) })
}

// SetUint64 implements raft.StableStore.
func (v *lossyVotes) SetUint64(key []byte, val uint64) error {
	return v.write(func() error { return v.BoltStore.SetUint64(key, val) })
}

func (v *lossyVotes) write(do func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lying {
		text, err := os.ReadFile(v.path)
		if err != nil {
			return err
		}
		v.before = append(v.unsynced(), votesBefore{time.Since(v.opened), text})
	}
	return do()
}

// unsynced returns the transactions that the kernel has not written by itself. v.mu is held.
func (v *lossyVotes) unsynced() []votesBefore {
	now := time.Since(v.opened)
	return slices.DeleteFunc(v.before, func(b votesBefore) bool { return now-b.at > writebackMax })
}

// lose puts the file into the state that a kind of death leaves. Later transactions are impossible: the lock is kept.
func (v *lossyVotes) lose(how string) error {
	v.mu.Lock()
	left := v.unsynced()
	if len(left) == 0 || how != dieDrop && how != dieTear {
		return nil
	}
	old := left[0].text
	if how == dieTear {
		old = left[rand.IntN(len(left))].text
	}
	f, err := os.OpenFile(v.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(old, 0)
	return errors.Join(err, f.Truncate(int64(len(old))))
}

// faultySnapshots adds the fault points to the writing of snapshots in a folder, and the memory of what a power failure
// would undo.
func faultySnapshots(snaps raft.SnapshotStore, dir string) raft.SnapshotStore {
	l := &lossySnapshots{dir: dir, opened: time.Now(), lying: LyingSnapshots}
	fault.OnDie(func(how string) {
		if err := l.lose(how); err != nil {
			fmt.Fprintln(os.Stderr, "fault:", err)
		}
	})
	return snapshotPoints{snaps, l}
}

// lossySnapshots keeps which snapshots a power failure would undo, of a disk that lies: those of the last writebackMax.
type lossySnapshots struct {
	dir    string
	opened time.Time
	lying  bool

	mu      sync.Mutex
	written map[string]time.Duration // by id
}

func (l *lossySnapshots) wrote(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lying {
		return
	}
	if l.written == nil {
		l.written = map[string]time.Duration{}
	}
	l.written[id] = time.Since(l.opened)
}

// lose removes unsynced snapshots, or the ends of their files. Later ones are impossible: the lock is kept.
func (l *lossySnapshots) lose(how string) error {
	l.mu.Lock()
	if how != dieDrop && how != dieTear {
		return nil
	}
	var errs []error
	for id, at := range l.written {
		folder := filepath.Join(l.dir, id)
		info, err := os.Stat(filepath.Join(folder, stateFile))
		switch {
		case time.Since(l.opened)-at > writebackMax || errors.Is(err, os.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		case how == dieTear:
			errs = append(errs, os.Truncate(filepath.Join(folder, stateFile), rand.Int64N(info.Size()+1)))
		default:
			errs = append(errs, os.RemoveAll(folder))
		}
	}
	return errors.Join(errs...)
}

type snapshotPoints struct {
	raft.SnapshotStore
	lost *lossySnapshots
}

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
	return &sinkPoints{sink, s.lost}, nil
}

type sinkPoints struct {
	raft.SnapshotSink
	lost *lossySnapshots
}

// Close implements raft.SnapshotSink: it writes the last bytes, syncs, and renames the snapshot.
func (s *sinkPoints) Close() error {
	if err := fault.At(fault.SnapshotRename); err != nil {
		return errors.Join(err, s.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	s.lost.wrote(s.ID())
	return fault.At(fault.SnapshotRenamed)
}

// segmentVar names the variable with the size of the log's files in a test build. At raft-wal's own 64 MiB a test never
// fills a file, so none is closed or removed, and entries trimmed from the newest file stay readable, so that no member
// needs a snapshot from its leader.
const segmentVar = "LOCKD_SEGMENT_BYTES"

func segmentBytes() int {
	if n, err := strconv.Atoi(os.Getenv(segmentVar)); err == nil {
		return n
	}
	return wal.DefaultSegmentSize
}
