package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	boltstore "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"

	"lockd/resp/fault"
)

// The kinds of a log (Options.LogStore).
const (
	WAL    = "wal"    // kept by raft-wal
	BoltDB = "boltdb" // kept by bbolt
)

// SnapshotsKept is the number of snapshots in a data folder: the newest and its spare.
const SnapshotsKept = 2

// The files of a data folder besides those of folder.go.
const (
	walFolder      = "wal"         // the log, kept by raft-wal
	walMetaFile    = "wal-meta.db" // raft-wal's list of its files
	logFile        = "log.db"      // the log, with --log-store boltdb
	votesFile      = "votes.db"    // term and vote
	snapshotFolder = "snapshots"   // the name is raft's

	stallMaxDefault = 5 * time.Second // larger than any election timeout
	logCacheMin     = 512             // entries; raft advises 4 x MaxAppendEntries at least
	boltLockWait    = time.Second
	tmpSuffix       = ".tmp"
)

// Options tune Open, OpenBare and Join.
type Options struct {
	LogStore string // WAL (also if empty) or BoltDB
	// Fatal ends the process, with the error for the operator. It is called at most once, on any goroutine.
	Fatal        func(error)
	StallMax     time.Duration // a store call that takes longer is fatal; 0: 5 s
	CacheSize    int           // entries kept in memory, 512 at least
	SegmentBytes int           // of raft-wal's files; 0: its default
	Log          hclog.Logger  // for raft-wal and the snapshot store; nil: none
	Faults       *fault.Set    // of a simulated node; nil in a process
}

// Stores holds Raft's log, votes and snapshots. Its methods, and those of its fields, may be called concurrently,
// except Attach and Close.
type Stores struct {
	Log    *ParallelLog
	Stable raft.StableStore
	Snaps  raft.SnapshotStore

	// Empty: there is no entry and no snapshot. Only then may the cluster be bootstrapped here. raft.HasExistingState
	// is no substitute: it returns true after an interrupted bootstrap.
	Empty bool

	// MeasureSpace measures the space on the disk, and reserves a part of it for the log. A node calls it after opening
	// the stores, and then about every second. nil: the stores are in memory. It may be replaced before they are used.
	MeasureSpace func() Room

	guard   *guard
	closers []io.Closer
}

// Hooks are functions of the node that the stores call, from many goroutines. They must not wait for the stores.
type Hooks struct {
	Leads   func() bool                 // reports whether this node leads; nil: never
	Applied func() uint64               // returns the last entry that the machine has applied; nil: all are
	Base    func() (index, term uint64) // returns the last entry of the snapshot that Raft goes by; 0, nil: none
	Stored  func(took time.Duration)    // hears of each append to the log once it is on disk; nil: ignored
	Now     func() time.Duration        // returns monotonic time, for took; required with Stored
}

// Attach connects the stores to their node. It is called once, before they are used.
func (s *Stores) Attach(h Hooks) {
	s.guard.stored, s.guard.now = h.Stored, h.Now
	s.Log.leads, s.Log.applied, s.Log.base = h.Leads, h.Applied, h.Base
}

// Slow reports whether an append to the log has been running for longer than SlowAfter.
func (s *Stores) Slow() bool { return s.guard.slow.Load() > 0 }

// SlowAfter returns the time after which an append to the log counts as slow: a fraction of the time after which it
// ends the process.
func (s *Stores) SlowAfter() time.Duration { return s.guard.stallMax / stallTicks }

// Close releases the files. Raft must have been shut down.
func (s *Stores) Close() error {
	var errs []error
	_ = s.Log.flush() // the guard has reported its error
	s.guard.retire()
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Open opens the stores of a data folder, or makes them in a new one. It refuses damaged stores with an error for the
// operator, before Raft could panic over them. The folder must stay open until the stores are closed.
func Open(d *Folder, opts Options) (s *Stores, err error) {
	if opts.LogStore == "" {
		opts.LogStore = WAL
	}
	if opts.Log == nil {
		opts.Log = hclog.NewNullLogger()
	}
	if err := d.checkStores(opts.LogStore); err != nil {
		return nil, err
	}
	var opened closerList
	defer func() {
		if err != nil {
			opened.closeAll()
		}
	}()
	files, err := openFiles(d, opts, &opened)
	if err != nil {
		return nil, d.damaged(err)
	}
	if s, err = files.join(opts); err != nil {
		return nil, d.damaged(err)
	}
	s.guard.reserve, s.MeasureSpace = d.reserve, d.reserve.update
	s.closers = opened
	return s, d.recordStores(opts.LogStore)
}

// Bare groups the stores of a disk, below checksums and guard, with the file of the log's mark, which is empty on a new
// disk.
type Bare struct {
	Log   raft.LogStore
	Votes raft.StableStore
	Snaps raft.SnapshotStore
	Mark  MarkFile
}

// OpenBare opens the stores of a disk that is no folder, with the checks of Open: what is stored has checksums, and
// damage is refused.
func OpenBare(opts Options, b Bare) (*Stores, error) {
	files := &bareStores{
		log:   &checkedLog{LogStore: b.Log, mark: &logMark{f: b.Mark}, faults: opts.Faults},
		votes: checkedVotes{b.Votes}, snaps: b.Snaps,
	}
	var err error
	if _, atEnd := b.Mark.ReadAt(make([]byte, 1), 0); errors.Is(atEnd, io.EOF) {
		err = files.log.mark.set(0)
	}
	if err == nil {
		files.mark, err = files.log.mark.read()
	}
	if err != nil {
		return nil, fmt.Errorf("the mark of its log: %w", err)
	}
	return files.join(opts)
}

// join checks the stores against each other, and wraps them.
func (f *bareStores) join(opts Options) (*Stores, error) {
	empty, err := withoutPanic(f.inspect)
	if err != nil {
		return nil, err
	}
	s, err := Join(opts, f.log, f.votes, f.snaps)
	if err != nil {
		return nil, err
	}
	s.Empty = empty
	if last, _ := f.log.LastIndex(); last > f.mark { // a crash came between an append and its mark
		return s, f.log.mark.set(last)
	}
	return s, nil
}

// openFiles opens existing files and makes missing ones.
func openFiles(d *Folder, opts Options, opened *closerList) (*bareStores, error) {
	f := &bareStores{log: &checkedLog{}}
	files := faultyFiles(reservedVFS{fs.New(), d.reserve})
	log, err := openLog(files, d.path, opts)
	if err != nil {
		return nil, fmt.Errorf("its log: %w", err)
	}
	*opened = append(*opened, log.(io.Closer))
	f.log.LogStore = log
	votes, err := openBolt(filepath.Join(d.path, votesFile))
	if err != nil {
		return nil, fmt.Errorf("its record of votes: %w", err)
	}
	*opened = append(*opened, votes)
	f.votes.StableStore = faultyVotes(votes, boltOptions(filepath.Join(d.path, votesFile)))
	if f.log.mark, f.mark, err = openMark(files, d.path, d.meta.LogStore == ""); err != nil {
		return nil, fmt.Errorf("the mark of its log: %w", err)
	}
	*opened = append(*opened, f.log.mark)
	if f.snaps, err = openSnapshots(d, opts.Log); err != nil {
		return nil, fmt.Errorf("its snapshots: %w", err)
	}
	return f, nil
}

type closerList []io.Closer

func (l closerList) closeAll() {
	for _, c := range l {
		_ = c.Close()
	}
}

// Join wraps unguarded stores in the guard and the cache, as Open does for those of a folder. A caller with other
// stores, in memory, sets Empty itself.
func Join(opts Options, log raft.LogStore, votes raft.StableStore, snaps raft.SnapshotStore) (*Stores, error) {
	guard := newGuard(opts)
	cache, err := raft.NewLogCache(max(opts.CacheSize, logCacheMin), &guardedLog{guard: guard, log: log})
	if err != nil {
		return nil, err
	}
	return &Stores{
		Log:    &ParallelLog{log: cache, guard: guard},
		Stable: &guardedVotes{guard: guard, votes: votes},
		Snaps:  watchedSnapshots{snaps, guard},
		Empty:  true,
		guard:  guard,
	}, nil
}

func openLog(files types.VFS, dir string, opts Options) (raft.LogStore, error) {
	if opts.LogStore == BoltDB {
		log, err := openBolt(filepath.Join(dir, logFile))
		if err != nil {
			return nil, err
		}
		return faultyBolt(log), nil
	}
	dir = filepath.Join(dir, walFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkBolt(filepath.Join(dir, walMetaFile)); err != nil {
		return nil, err
	}
	size := opts.SegmentBytes
	if size <= 0 {
		size = segmentBytes()
	}
	return withoutPanic(func() (raft.LogStore, error) {
		return wal.Open(
			dir,
			wal.WithLogger(opts.Log),
			wal.WithSegmentSize(size),
			wal.WithSegmentFiler(newTailFiler(dir, files)),
		)
	})
}

func openBolt(path string) (*boltstore.BoltStore, error) {
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	return withoutPanic(func() (*boltstore.BoltStore, error) { return boltstore.New(boltOptions(path)) })
}

// boltOptions returns the options of each file of bbolt. Each transaction is synced.
func boltOptions(path string) boltstore.Options {
	return boltstore.Options{
		Path:                    path,
		MsgpackUseNewTimeFormat: true,
		BoltOptions:             &bbolt.Options{Timeout: boltLockWait, FreelistType: bbolt.FreelistMapType},
	}
}

// openSnapshots removes incomplete snapshots after a crash, and opens the others.
func openSnapshots(d *Folder, log hclog.Logger) (raft.SnapshotStore, error) {
	dir := filepath.Join(d.path, snapshotFolder)
	if err := removeUnfinished(dir); err != nil {
		return nil, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(d.path, SnapshotsKept, log)
	if err != nil {
		return nil, err
	}
	return faultySnapshots(syncedSnapshots{snaps, dir, d.reserve}, dir), nil
}
