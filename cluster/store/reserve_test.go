//go:build linux

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// smallDisk is a disk whose room a test decides; files of the log have 1 MiB on it.
type smallDisk struct {
	dir   string
	total int64
	used  int64 // by others than the ballast
}

const testFile = 1 << 20

func (d *smallDisk) space(dir string) (free, total int64, err error) {
	free = d.total - d.used
	if info, err := os.Stat(filepath.Join(dir, ballastFile)); err == nil {
		free -= info.Size()
	}
	return max(0, free), d.total, nil
}

func newSmallDisk(t *testing.T) (*smallDisk, *reserve) {
	d := &smallDisk{dir: t.TempDir(), total: 100 * testFile}
	r := newReserve(d.dir)
	r.file, r.space = testFile, d.space
	return d, r
}

// The ballast has blocks of its own. It goes when the disk is full, not before, and comes back when there is ample room;
// a disk that is nearly full is called so until then.
func TestBallast(t *testing.T) {
	d, r := newSmallDisk(t)
	for i, step := range []struct {
		left    int64 // room for the ballast and what is free, in quarters of a file of the log
		ballast bool
		short   bool
		missing int64 // likewise
	}{
		{400, true, false, 0},
		{12, true, false, 0},
		{11, true, true, 5},
		{9, true, true, 7},
		{8, false, true, 8}, // nothing is free beside it
		{3, false, true, 13},
		{12, false, true, 4},
		{15, false, true, 1},
		{16, true, false, 0},
		{12, true, false, 0},
	} {
		d.used = d.total - step.left*testFile/4
		got := r.update()
		want := Room{Free: step.left * testFile / 4, Short: step.short, Missing: step.missing * testFile / 4}
		if step.ballast {
			want.Ballast = reservedFiles * testFile
			want.Free -= want.Ballast
		}
		if got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		info, err := os.Stat(r.path())
		if (err == nil) != step.ballast {
			t.Errorf("step %d: the file: %v", i, err)
		} else if err == nil && info.Sys().(*syscall.Stat_t).Blocks*512 < reservedFiles*testFile {
			t.Errorf("step %d: the file has %d blocks", i, info.Sys().(*syscall.Stat_t).Blocks)
		}
	}
}

// A disk for a few files of the log has no room for a ballast, and is used to its end.
func TestNoBallastOnSmallDisks(t *testing.T) {
	d, r := newSmallDisk(t)
	d.total = diskFilesMin*testFile - 1
	d.used = d.total - 1
	if got := r.update(); got != (Room{Free: 1}) || r.mayWrite() != nil {
		t.Errorf("%+v, snapshots: %v", got, r.mayWrite())
	}
}

// A ballast that cannot be made is not tried each time, and leaves nothing behind.
func TestBallastThatCannotBeMade(t *testing.T) {
	_, r := newSmallDisk(t)
	if err := os.Mkdir(r.path(), 0o700); err != nil { // in its place
		t.Fatal(err)
	}
	if got := r.update(); got.Ballast != 0 || got.Short {
		t.Errorf("%+v", got)
	}
	for range ballastRetries - 1 {
		if got := r.update(); got.Ballast != 0 {
			t.Fatal("it was tried again at once")
		}
	}
	if got := r.update(); got.Ballast == 0 {
		t.Error("it was not tried again")
	}
}

// A start on a full disk takes the reserved space before it writes.
func TestStartTakesBallast(t *testing.T) {
	d, r := newSmallDisk(t)
	r.update()
	d.used = d.total - 2*testFile - testFile/2
	again := newReserve(d.dir)
	again.file, again.space = testFile, d.space
	again.begin()
	if _, err := os.Stat(r.path()); err == nil {
		t.Error("it is still there")
	}
	if got := again.update(); got.Ballast != 0 || !got.Short {
		t.Errorf("%+v", got)
	}
}

// fullVFS are files on a disk that is full while the ballast is there, or for ever.
type fullVFS struct {
	types.VFS
	ballast string
	ever    bool
}

func (v fullVFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := v.VFS.Create(dir, name, 0)
	if err != nil {
		return nil, err
	}
	if _, there := os.Stat(v.ballast); there == nil || v.ever {
		_ = f.Close()
		return nil, &os.PathError{Op: "fallocate", Path: name, Err: syscall.ENOSPC} // the file stays, as raft-wal leaves it
	}
	return f, nil
}

// The next file of the log takes the place of the ballast. If that is not enough, the node reports a full disk,
// whatever error raft-wal returns.
func TestLogTakesBallast(t *testing.T) {
	for _, ever := range []bool{false, true} {
		d, r := newSmallDisk(t)
		r.update()
		files := reservedVFS{fullVFS{fs.New(), r.path(), ever}, r}
		f, err := files.Create(d.dir, "next.wal", testFile)
		if (err != nil) != ever {
			t.Fatalf("ever: %v: %v", ever, err)
		}
		if err == nil {
			_ = f.Close()
		}
		if _, err := os.Stat(r.path()); err == nil {
			t.Error("the ballast is still there")
		}
		if !ever {
			continue
		}
		if _, err := files.Create(d.dir, "more.wal", testFile); !isFull(err) {
			t.Errorf("%v", err)
		}
		g := newGuard(Options{})
		g.reserve = r
		got := g.why(errors.New("StoreLogs: log sealed")).Error()
		if !strings.HasPrefix(got, "the disk is full, this node stops: StoreLogs: log sealed: what is stored is in order; make at least ") {
			t.Error(got)
		}
	}
}

// A process without descriptors, or space, reports that: its disk is intact.
func TestWhyStoresFail(t *testing.T) {
	g := newGuard(Options{})
	for err, want := range map[error]string{
		syscall.EIO:    "the disk cannot be trusted, this node stops: ",
		syscall.ENOSPC: "the disk is full, this node stops: ",
		syscall.EMFILE: "this process may not open another file, this node stops: ",
		syscall.ENFILE: "this process may not open another file, this node stops: ",
	} {
		for _, err := range []error{fmt.Errorf("StoreLogs: %w", err), fmt.Errorf("StoreLogs: panic: %v", err)} {
			if got := g.why(err).Error(); !strings.HasPrefix(got, want+"StoreLogs: ") {
				t.Errorf("%v: %s", err, got)
			}
		}
	}
	d := &Folder{path: "DIR"}
	if got := d.damaged(fmt.Errorf("its log: %w", syscall.EMFILE)).Error(); strings.Contains(got, "damaged") ||
		!strings.Contains(got, "the folder is in order; raise the limit of open files") {
		t.Error(got)
	}
}

// A snapshot does not take the log's space, neither at its beginning nor later, and leaves nothing behind.
func TestSnapshotsLeaveRoom(t *testing.T) {
	d, r := newSmallDisk(t)
	f := &Folder{path: d.dir, reserve: r}
	snaps, err := openSnapshots(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	create := func() (raft.SnapshotSink, error) {
		return snaps.Create(1, 7, 1, raft.Configuration{}, 1, namesOnly{})
	}
	d.used = d.total - testFile + 1
	if _, err := create(); err == nil || !strings.Contains(err.Error(), "which the log needs") {
		t.Errorf("began with %v", err)
	}
	d.used = 0
	sink, err := create()
	if err != nil {
		t.Fatal(err)
	}
	d.used = d.total - testFile + 1
	if _, err = sink.Write(bytes.Repeat([]byte{1}, snapshotSyncBytes)); err == nil || !strings.Contains(err.Error(), "which the log needs") {
		t.Errorf("went on with %v", err)
	}
	if err := sink.Cancel(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Join(d.dir, snapshotFolder))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
