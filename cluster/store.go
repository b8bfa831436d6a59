package cluster

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

// What a data folder holds besides its own files (datadir.go).
const (
	walFolder      = "wal"         // the log, kept by raft-wal
	walMetaFile    = "wal-meta.db" // raft-wal's list of its files
	logFile        = "log.db"      // the log, with --log-store boltdb
	votesFile      = "votes.db"    // term and vote
	snapshotFolder = "snapshots"   // the name is raft's

	snapshotsKept  = 2
	storeStallMax  = 5 * time.Second // larger than any election timeout
	logCacheMin    = 512             // entries; raft advises 4 x MaxAppendEntries at least
	boltLockWait   = time.Second
	tmpSuffix      = ".tmp"
	logStoreWAL    = "wal"
	logStoreBoltDB = "boltdb"
)

// storeOptions tune openStores.
type storeOptions struct {
	LogStore     string        // logStoreWAL (also if empty) or logStoreBoltDB
	Fatal        func(error)   // ends the process with a sentence; what a store reports here it never survives
	StallMax     time.Duration // a store call that takes longer is fatal; 0: storeStallMax
	CacheSize    int           // entries kept in memory; 0: logCacheMin
	SegmentBytes int           // of raft-wal's files; 0: its default
	Log          hclog.Logger  // for raft-wal and the snapshot store; nil: none
}

// stores is where Raft keeps what must survive a crash.
type stores struct {
	Log    *parallelLog
	Stable raft.StableStore
	Snaps  raft.SnapshotStore

	// Empty says that the log has no entry and that there is no snapshot: only then
	// may the cluster be bootstrapped here. raft.HasExistingState is no substitute:
	// it says yes after a bootstrap that a crash cut short.
	Empty bool

	guard   *storeGuard
	closers []io.Closer
}

// close releases the files. Raft must have been shut down.
func (s *stores) close() error {
	var errs []error
	_ = s.Log.flush() // its error is the guard's, which has told it
	s.guard.retire()
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// openStores opens the stores of a data folder, or makes them in a new one. What
// is damaged is refused with a sentence, before Raft could panic over it.
func openStores(d *dataDir, opts storeOptions) (s *stores, err error) {
	if opts.LogStore == "" {
		opts.LogStore = logStoreWAL
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
	empty, err := guarded(files.inspect)
	if err != nil {
		return nil, d.damaged(err)
	}
	if s, err = joinStores(opts, files.log, files.votes, files.snaps); err != nil {
		return nil, err
	}
	if last, _ := files.log.LastIndex(); last > files.mark { // the crash came between an append and its mark
		if err := files.log.mark.set(last); err != nil {
			return nil, d.damaged(err)
		}
	}
	s.Empty, s.closers = empty, opened
	return s, d.noteStores(opts.LogStore)
}

// openFiles opens what there is and makes what is missing.
func openFiles(d *dataDir, opts storeOptions, opened *closerList) (*storeFiles, error) {
	f := &storeFiles{log: &sealedLog{}}
	files := faultyFiles(fs.New())
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
	if f.snaps, err = openSnapshots(d.path, opts.Log); err != nil {
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

// joinStores puts the guard and the cache in front of the bare stores.
func joinStores(opts storeOptions, log raft.LogStore, votes raft.StableStore, snaps raft.SnapshotStore) (*stores, error) {
	guard := newStoreGuard(opts)
	cache, err := raft.NewLogCache(max(opts.CacheSize, logCacheMin), &guardedLog{guard: guard, log: log})
	if err != nil {
		return nil, err
	}
	return &stores{
		Log:    &parallelLog{LogStore: cache, guard: guard},
		Stable: &guardedVotes{guard: guard, votes: votes},
		Snaps:  watchedSnapshots{snaps, guard},
		Empty:  true,
		guard:  guard,
	}, nil
}

func openLog(files types.VFS, dir string, opts storeOptions) (raft.LogStore, error) {
	if opts.LogStore == logStoreBoltDB {
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
	return guarded(func() (raft.LogStore, error) {
		return wal.Open(dir, wal.WithLogger(opts.Log), wal.WithSegmentSize(size), wal.WithSegmentFiler(newTailFiler(dir, files)))
	})
}

func openBolt(path string) (*boltstore.BoltStore, error) {
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	return guarded(func() (*boltstore.BoltStore, error) {
		return boltstore.New(boltstore.Options{
			Path:                    path,
			MsgpackUseNewTimeFormat: true,
			BoltOptions:             &bbolt.Options{Timeout: boltLockWait, FreelistType: bbolt.FreelistMapType},
		})
	})
}

// openSnapshots clears away what a crash left half-written, and opens the rest.
func openSnapshots(dir string, log hclog.Logger) (raft.SnapshotStore, error) {
	if err := removeUnfinished(filepath.Join(dir, snapshotFolder)); err != nil {
		return nil, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err != nil {
		return nil, err
	}
	return faultySnapshots(syncedSnapshots{snaps, filepath.Join(dir, snapshotFolder)}), nil
}
