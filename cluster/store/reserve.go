package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/raft-wal/types"
)

// The room on a disk is counted in files of the log, as each is made at its full size (segmentBytes).
const (
	reservedFiles = 2  // that the ballast keeps room for: as many as a start may need
	spareFiles    = 1  // that must fit beside the ballast, or the disk is nearly full
	amplyFiles    = 1  // more until it is not any more
	diskFilesMin  = 16 // a disk for fewer has no ballast, and is never called nearly full
	leastParts    = 4  // when less than this part of a file is left the ballast goes: votes need room as well

	ballastFile    = "ballast"
	ballastRetries = 60 // looks between two tries to make it
)

// Room is what is left of the disk of a data folder. The zero value: nothing is known.
type Room struct {
	Free    int64 // bytes that this process may still use, the ballast not among them
	Ballast int64 // bytes of the ballast; 0: it is gone, or was never made
	Short   bool  // the disk is nearly full: the state should not grow
	Missing int64 // bytes to free until it is not any more
}

// reserve keeps a part of a disk for the log by a file, the ballast, that gives way to it. Snapshots, and whatever
// else fills the disk, do not get that part: so when a disk is full there is time, in which locks are released and
// renewed, for somebody to make room. All methods may be called concurrently; those of a nil reserve do nothing.
type reserve struct {
	dir   string
	file  int64 // bytes of a file of the log
	space func(dir string) (free, total int64, err error)

	mu      sync.Mutex
	ballast int64
	short   bool
	full    bool // a file of the log could not be made
	pause   int  // looks until the ballast is tried again
}

func newReserve(dir string) *reserve {
	r := &reserve{dir: dir, file: int64(segmentBytes()), space: diskSpace}
	if info, err := os.Stat(r.path()); err == nil {
		r.ballast = info.Size()
	}
	return r
}

func (r *reserve) path() string { return filepath.Join(r.dir, ballastFile) }

// begin gives the ballast up where a start may not get along without it.
func (r *reserve) begin() {
	if free, _, err := r.space(r.dir); err == nil && free < r.file {
		r.release()
	}
}

// update measures the room, makes the ballast where there is room for it, and gives it up where there is none.
func (r *reserve) update() Room {
	if r == nil {
		return Room{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free, total, err := r.space(r.dir)
	if err != nil || total < diskFilesMin*r.file {
		return Room{Free: free}
	}
	if free < r.file/leastParts && r.drop() {
		free, _, _ = r.space(r.dir)
	}
	room, ample := free+r.ballast, (reservedFiles+spareFiles+amplyFiles)*r.file
	if r.short = room < ample-amplyFiles*r.file || r.short && room < ample; r.short {
		return Room{Free: free, Ballast: r.ballast, Short: true, Missing: ample - room}
	}
	r.full = false
	free -= r.make()
	return Room{Free: free, Ballast: r.ballast}
}

// make makes the ballast, if there is none. It returns its bytes if it was made. mu is held.
func (r *reserve) make() int64 {
	if r.pause--; r.ballast > 0 || r.pause > 0 {
		return 0
	}
	size := reservedFiles * r.file
	if err := r.allocate(size); err != nil {
		_ = os.Remove(r.path())
		r.pause = ballastRetries
		return 0
	}
	r.ballast = size
	return size
}

// allocate makes a file of blocks that are its own, without writing them.
func (r *reserve) allocate(size int64) error {
	f, err := os.OpenFile(r.path(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, size), f.Close())
}

// release gives the ballast up, and reports whether there was one.
func (r *reserve) release() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop()
}

// drop is release. mu is held.
func (r *reserve) drop() bool {
	if r.ballast == 0 || os.Remove(r.path()) != nil {
		return false
	}
	r.ballast, r.short, r.pause = 0, true, 0
	return true
}

// mayWrite is an error if what is left of the disk is the log's.
func (r *reserve) mayWrite() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free, total, err := r.space(r.dir)
	if err != nil || total < diskFilesMin*r.file || free >= r.file/leastParts && free+r.ballast >= r.file {
		return nil
	}
	return fmt.Errorf("the disk has %d MiB left, which the log needs", free>>20)
}

// missing is how many MiB somebody must free before a start is sure to succeed.
func (r *reserve) missing() int64 {
	need := reservedFiles * int64(segmentBytes())
	if r != nil {
		if free, _, err := r.space(r.dir); err == nil {
			need = max(need-free, 1<<20)
		}
	}
	return (need + 1<<20 - 1) >> 20
}

// noteFull records that a file of the log could not be made: what fails after that fails for it, whatever its error.
func (r *reserve) noteFull() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = true
}

func (r *reserve) isFull() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full
}

// reservedVFS are files of the log, which may take the place of the ballast.
type reservedVFS struct {
	types.VFS
	reserve *reserve
}

// Create implements types.VFS.
func (v reservedVFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := v.VFS.Create(dir, name, size)
	if err == nil || !isFull(err) {
		return f, err
	}
	_ = os.Remove(filepath.Join(dir, name)) // what there was room for
	if !v.reserve.release() {
		v.reserve.noteFull()
		return nil, err
	}
	return v.VFS.Create(dir, name, size)
}

// isFull reports whether an error is that of a disk that is full. Not all that pass it on wrap it.
func isFull(err error) bool {
	return errors.Is(err, errDiskFull) || strings.Contains(err.Error(), errDiskFull.Error())
}

// isStarved reports whether a process has no descriptor left for a file.
func isStarved(err error) bool {
	for _, e := range errsNoFiles {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// bytesOf is a number of blocks in bytes.
func bytesOf(blocks uint64, size int64) int64 {
	if size <= 0 || blocks > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(blocks) * size
}
