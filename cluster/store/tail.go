package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// tailFiler opens raft-wal's segments, and repairs a sealed tail. raft-wal seals a full segment together with the
// entries that fill it, and then begins the next one. If the process dies between the two, or during the seal, the
// segment remains the one to append to but accepts no entry: every append fails, after every restart. All its entries
// are intact.
type tailFiler struct {
	*segment.Filer
	dir   string
	files types.VFS
}

func newTailFiler(dir string, files types.VFS) *tailFiler {
	return &tailFiler{Filer: segment.NewFiler(dir, files), dir: dir, files: files}
}

// RecoverTail implements types.SegmentFiler.
func (f *tailFiler) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	tail, err := f.Filer.RecoverTail(info)
	if err != nil {
		return nil, err
	}
	sealed, _, err := tail.Sealed()
	if err == nil && !sealed {
		return tail, nil
	}
	if err = errors.Join(err, tail.Close()); err == nil {
		err = f.unseal(info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened for appending: %w", segment.FileName(info), err)
	}
	return f.Filer.RecoverTail(info)
}

// unsealFolder is the folder in which a tail is written again. A crash may leave it behind.
const unsealFolder = "unseal"

// unseal writes the entries of a sealed tail into a new file without a seal, and replaces the tail by it.
func (f *tailFiler) unseal(info types.SegmentInfo) error {
	info.MinIndex = info.BaseIndex // a file begins there, also if its first entries are trimmed
	tail, err := f.Filer.RecoverTail(info)
	if err != nil {
		return err
	}
	defer tail.Close()
	dir := filepath.Join(f.dir, unsealFolder)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	info.SizeLimit = math.MaxInt32 // not to be full this time
	next, err := segment.NewFiler(dir, noRoom{f.files}).Create(info)
	if err != nil {
		return err
	}
	if err := errors.Join(copySegment(next, tail, info.BaseIndex), next.Close()); err != nil {
		return err
	}
	name := segment.FileName(info)
	if err := os.Rename(filepath.Join(dir, name), filepath.Join(f.dir, name)); err != nil {
		return err
	}
	return errors.Join(syncFolder(f.dir), os.Remove(dir))
}

// noRoom makes files without preallocated space.
type noRoom struct{ types.VFS }

// Create implements types.VFS.
func (n noRoom) Create(dir, name string, _ uint64) (types.WritableFile, error) {
	return n.VFS.Create(dir, name, 0)
}

// copyStep is the size of the pieces, in bytes, that copySegment writes and syncs.
const copyStep = 4 << 20

// copySegment appends the entries from index on.
func copySegment(to, from types.SegmentWriter, index uint64) error {
	var batch []types.LogEntry
	size := 0
	for last := from.LastIndex(); index <= last; index++ {
		buf, err := from.GetLog(index)
		if err != nil {
			return err
		}
		batch = append(batch, types.LogEntry{Index: index, Data: append([]byte(nil), buf.Bs...)})
		size += len(buf.Bs)
		_ = buf.Close()
		if size < copyStep && index < last {
			continue
		}
		if err := to.Append(batch); err != nil {
			return err
		}
		batch, size = nil, 0
	}
	return nil
}
