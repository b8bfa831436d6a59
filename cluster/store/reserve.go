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

// Space is counted in files of the log, each of which is made at its full size (segmentBytes).
const (
	reservedFiles = 2  // size of the ballast: as many as a start may need
	spareFiles    = 1  // that must fit beside the ballast, or the disk is nearly full
	amplyFiles    = 1  // further ones that must fit until the disk is no longer nearly full
	diskFilesMin  = 16 // a smaller disk has no ballast, and is never nearly full
	leastParts    = 4  // below 1/leastParts of a file the ballast is deleted: votes need space as well

	ballastFile    = "ballast"
	ballastRetries = 60 // updates between two attempts to make it
)

// Room is the space on the disk of a data folder. The zero value means unknown.
type Room struct {
	Free    int64 // bytes that this process may still use, without the ballast
	Ballast int64 // bytes of the ballast; 0: there is none
	Short   bool  // the disk is nearly full: the state should not grow
	Missing int64 // bytes to free until it is no longer Short
}

// reserve reserves space on a disk for the log by a file, the ballast, which is deleted when the log needs the space.
// Snapshots, and other users of the disk, cannot use that space: so when the disk is full, locks can still be released
// and renewed while the operator frees space. All methods may be called concurrently; those of a nil reserve do
// nothing.
type reserve struct {
	dir   string
	file  int64 // bytes of a file of the log
	space func(dir string) (free, total int64, err error)

	mu      sync.Mutex
	ballast int64
	short   bool
	full    bool // a file of the log could not be made
	pause   int  // updates until the ballast is made again
}

func newReserve(dir string) *reserve {
	r := &reserve{dir: dir, file: int64(segmentBytes()), space: diskSpace}
	if info, err := os.Stat(r.path()); err == nil {
		r.ballast = info.Size()
	}
	return r
}

func (r *reserve) path() string { return filepath.Join(r.dir, ballastFile) }

// begin deletes the ballast if a start may need its space.
func (r *reserve) begin() {
	if free, _, err := r.space(r.dir); err == nil && free < r.file {
		r.release()
	}
}

// update measures the space. It makes the ballast if there is space for it, and deletes it if there is too little left.
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

// make makes the ballast, if there is none. It returns the bytes that it took. mu is held.
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

// allocate makes a file with blocks of its own, without writing them.
func (r *reserve) allocate(size int64) error {
	f, err := os.OpenFile(r.path(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, size), f.Close())
}

// release deletes the ballast, and reports whether there was one.
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

// mayWrite returns an error if the log needs the rest of the disk.
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

// missing returns the MiB to free before a start certainly succeeds.
func (r *reserve) missing() int64 {
	need := reservedFiles * int64(segmentBytes())
	if r != nil {
		if free, _, err := r.space(r.dir); err == nil {
			need = max(need-free, 1<<20)
		}
	}
	return (need + 1<<20 - 1) >> 20
}

// recordFull records that a file of the log could not be made: later failures are due to that, whatever their errors.
func (r *reserve) recordFull() {
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

// reservedVFS is the file system of the log, whose files may take the place of the ballast.
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
	_ = os.Remove(filepath.Join(dir, name)) // the part for which there was space
	if !v.reserve.release() {
		v.reserve.recordFull()
		return nil, err
	}
	return v.VFS.Create(dir, name, size)
}

// isFull reports whether an error is that of a full disk. Not every library wraps it.
func isFull(err error) bool {
	return errors.Is(err, errDiskFull) || strings.Contains(err.Error(), errDiskFull.Error())
}

// isStarved reports whether an error is that of a process without a free descriptor.
func isStarved(err error) bool {
	for _, e := range errsNoFiles {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// bytesOf returns the bytes of a number of blocks.
func bytesOf(blocks uint64, size int64) int64 {
	if size <= 0 || blocks > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(blocks) * size
}
