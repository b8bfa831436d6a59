package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// openTestStores opens the stores of a data folder; a fatal error fails the test.
func openTestStores(t testing.TB, dir, kind string) (*Folder, *Stores) {
	t.Helper()
	d, err := OpenFolder(dir, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(d, Options{LogStore: kind, Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		_ = d.Close()
		t.Fatal(err)
	}
	return d, s
}

func closeTestStores(t testing.TB, d *Folder, s *Stores) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func entries(from, to uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d", i)})
	}
	return logs
}

// A folder opens with another size of the files of its log than it was made with: lockd serve takes over what lockd dev
// has left, and the other way round. Files that are there keep theirs.
func TestFilesOfAnotherSize(t *testing.T) {
	const each = 40
	dir, last := filepath.Join(t.TempDir(), "data"), uint64(0)
	for _, size := range []int{testSegmentBytes, 4 * testSegmentBytes, 0, testSegmentBytes} {
		d, err := OpenFolder(dir, "n1", "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(d, Options{SegmentBytes: size, Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
		if err != nil {
			t.Fatalf("with files of %d bytes: %v", size, err)
		}
		if err := s.Stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil {
			t.Fatal(err)
		}
		for range each {
			last++
			e := &raft.Log{Index: last, Term: 1, Type: raft.LogCommand, Data: make([]byte, testSegmentBytes/7)}
			e.Data[0] = byte(last)
			if err := s.Log.StoreLogs([]*raft.Log{e}); err != nil {
				t.Fatal(err)
			}
		}
		for i := uint64(1); i <= last; i++ {
			var e raft.Log
			if err := s.Log.GetLog(i, &e); err != nil || len(e.Data) != testSegmentBytes/7 || e.Data[0] != byte(i) {
				t.Fatalf("with files of %d bytes, entry %d: %d bytes, %v", size, i, len(e.Data), err)
			}
		}
		closeTestStores(t, d, s)
	}
	files, err := filepath.Glob(filepath.Join(dir, walFolder, "*.wal"))
	if err != nil || len(files) < 8 {
		t.Errorf("%d files, %v: the log was to have some of each size", len(files), err)
	}
}

// Stored data is there after a reopening.
func TestStoresReopen(t *testing.T) {
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			d, s := openTestStores(t, dir, kind)
			if !s.Empty {
				t.Error("new stores are not empty")
			}
			if err := s.Log.StoreLogs(entries(1, 5)); err != nil {
				t.Fatal(err)
			}
			if err := s.Stable.SetUint64([]byte("CurrentTerm"), 3); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)

			d, s = openTestStores(t, dir, kind)
			defer closeTestStores(t, d, s)
			var e raft.Log
			if err := s.Log.GetLog(5, &e); err != nil || string(e.Data) != "entry 5" {
				t.Errorf("entry 5: %q, %v", e.Data, err)
			}
			if term, err := s.Stable.GetUint64([]byte("CurrentTerm")); err != nil || term != 3 {
				t.Errorf("term %d, %v", term, err)
			}
			if s.Empty {
				t.Error("stores with entries are empty")
			}
		})
	}
}

// A snapshot that cannot be written to its end leaves nothing behind: the disk may be full.
func TestFailedSnapshotLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	snaps, err := openSnapshots(&Folder{path: dir}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(raft.SnapshotSink) error{"closed": raft.SnapshotSink.Close, "cancelled": raft.SnapshotSink.Cancel} {
		sink, err := snaps.Create(1, 7, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write([]byte("something")); err != nil {
			t.Fatal(err)
		}
		// The place of the description is taken, and the file is closed: neither can be written.
		meta := filepath.Join(dir, snapshotFolder, sink.ID()+tmpSuffix, "meta.json")
		if err := errors.Join(os.Remove(meta), os.Mkdir(meta, 0o700)); err != nil {
			t.Fatal(err)
		}
		_ = end(sink)
		if left, err := os.ReadDir(filepath.Join(dir, snapshotFolder)); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
}
