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
)

// The kinds of a log (Options.LogStore).
const (
	WAL    = "wal"    // kept by raft-wal
	BoltDB = "boltdb" // kept by bbolt
)

// SnapshotsKept is how many snapshots a data folder holds: the newest and its spare.
const SnapshotsKept = 2

// What a data folder holds besides its own files (folder.go).
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

// Options tune Open and Join.
type Options struct {
	LogStore string // WAL (also if empty) or BoltDB
	// Fatal ends the process with a sentence: no store survives it. Called once at most, on any goroutine.
	Fatal        func(error)
	StallMax     time.Duration // a store call that takes longer is fatal; 0: 5 s
	CacheSize    int           // entries kept in memory, 512 at least
	SegmentBytes int           // of raft-wal's files; 0: its default
	Log          hclog.Logger  // for raft-wal and the snapshot store; nil: none
}

// Stores is where Raft keeps what must survive a crash. All methods, and those of
// what it holds, may be called concurrently, except Attach and Close.
type Stores struct {
	Log    *ParallelLog
	Stable raft.StableStore
	Snaps  raft.SnapshotStore

	// Empty says that the log has no entry and that there is no snapshot: only then
	// may the cluster be bootstrapped here. raft.HasExistingState is no substitute:
	// it says yes after a bootstrap that a crash cut short.
	Empty bool

	// Look measures the room on the disk, and keeps a part of it for the log. A node calls it once it has opened the
	// stores, and about every second from then on. nil: they are in memory. It may be replaced before they are used.
	Look func() Room

	guard   *guard
	closers []io.Closer
}

// Hooks are what the stores ask their node, and tell it. They are called from many
// goroutines, and must not wait for the stores.
type Hooks struct {
	Leads   func() bool                 // whether this node leads; nil: never
	Applied func() uint64               // the last entry that its machine has taken; nil: all
	Base    func() (index, term uint64) // of the entry that ends the snapshot Raft goes by; 0, nil: none
	Stored  func(took time.Duration)    // hears of each append to the log once it is on disk; nil: nobody does
	Now     func() time.Duration        // monotonic time, by which took is measured; required with Stored
}

// Attach lets a node hear of its stores. It is called once, before they are used.
func (s *Stores) Attach(h Hooks) {
	s.guard.stored, s.guard.now = h.Stored, h.Now
	s.Log.leads, s.Log.applied, s.Log.base = h.Leads, h.Applied, h.Base
}

// Slow reports whether an append to the log is under way that has taken longer than
// SlowAfter.
func (s *Stores) Slow() bool { return s.guard.slow.Load() > 0 }

// SlowAfter is when an append to the log counts as slow: a part of the time after which
// it ends the process.
func (s *Stores) SlowAfter() time.Duration { return s.guard.stallMax / stallTicks }

// Close releases the files. Raft must have been shut down.
func (s *Stores) Close() error {
	var errs []error
	_ = s.Log.flush() // its error is the guard's, which has told it
	s.guard.retire()
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Open opens the stores of a data folder, or makes them in a new one. What
// is damaged is refused with a sentence, before Raft could panic over it. The folder
// must stay open until they are closed.
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
	empty, err := withoutPanic(files.inspect)
	if err != nil {
		return nil, d.damaged(err)
	}
	if s, err = Join(opts, files.log, files.votes, files.snaps); err != nil {
		return nil, err
	}
	if last, _ := files.log.LastIndex(); last > files.mark { // the crash came between an append and its mark
		if err := files.log.mark.set(last); err != nil {
			return nil, d.damaged(err)
		}
	}
	s.guard.reserve, s.Look = d.reserve, d.reserve.update
	s.Empty, s.closers = empty, opened
	return s, d.noteStores(opts.LogStore)
}

// openFiles opens what there is and makes what is missing.
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
	f.votes.StableStore = votes
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

// Join puts the guard and the cache in front of bare stores, as Open does with those of
// a folder. Whoever joins others, in memory, says himself whether they are empty.
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
	return withoutPanic(func() (*boltstore.BoltStore, error) {
		return boltstore.New(boltstore.Options{
			Path:                    path,
			MsgpackUseNewTimeFormat: true,
			BoltOptions:             &bbolt.Options{Timeout: boltLockWait, FreelistType: bbolt.FreelistMapType},
		})
	})
}

// openSnapshots clears away what a crash left half-written, and opens the rest.
func openSnapshots(d *Folder, log hclog.Logger) (raft.SnapshotStore, error) {
	dir := filepath.Join(d.path, snapshotFolder)
	if err := removeUnfinished(dir); err != nil {
		return nil, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(d.path, SnapshotsKept, log)
	if err != nil {
		return nil, err
	}
	return faultySnapshots(syncedSnapshots{snaps, dir, d.reserve}), nil
}
