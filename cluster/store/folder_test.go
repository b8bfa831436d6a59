package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"lockd/internal/testfile"
)

// Each folder that cannot be used is refused with a sentence that names it and
// says what to do.
func TestFolderRefusals(t *testing.T) {
	made := func(t *testing.T, dir string) {
		d, s := openTestStores(t, dir, WAL)
		closeTestStores(t, d, s)
	}
	write := func(t *testing.T, path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remake := func(t *testing.T, dir string, change func(*Meta)) {
		made(t, dir)
		text, err := os.ReadFile(filepath.Join(dir, metaFile))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := decodeMeta(text)
		if err != nil {
			t.Fatal(err)
		}
		change(&meta)
		write(t, filepath.Join(dir, metaFile), string(encodeMeta(meta)))
	}
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"newer format", func(t *testing.T, dir string) { remake(t, dir, func(m *Meta) { m.Format = 2 }) },
			`data folder DIR was written by a newer lockd (format 2, this is 1): start that version, or name another folder`},
		{"development build's", func(t *testing.T, dir string) { remake(t, dir, func(m *Meta) { m.Program = "lockd data folder" }) },
			`data folder DIR was written by a development build before 0.1.0, whose data do not open: name another folder`},
		{"other node", func(t *testing.T, dir string) { remake(t, dir, func(m *Meta) { m.ID = "n7" }) },
			`data folder DIR belongs to node "n7", not to "n1"`},
		{"other log store", func(t *testing.T, dir string) { remake(t, dir, func(m *Meta) { m.LogStore = BoltDB }) },
			`data folder DIR keeps its log in boltdb, not in wal`},
		{"another program's", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "dump.rdb"), "REDIS") },
			`folder DIR is not lockd's: it holds "dump.rdb"; name an empty or a new folder`},
		{"another program's meta", func(t *testing.T, dir string) { write(t, filepath.Join(dir, metaFile), `{"format":1}`) },
			`data folder DIR is damaged: lockd.json: it does not describe a lockd data folder (nothing was repaired`},
		{"empty meta", func(t *testing.T, dir string) { made(t, dir); write(t, filepath.Join(dir, metaFile), "") },
			`data folder DIR is damaged: lockd.json: unreadable: `},
		{"huge meta", func(t *testing.T, dir string) {
			made(t, dir)
			write(t, filepath.Join(dir, metaFile), strings.Repeat(" ", metaMax+1))
		}, `data folder DIR is damaged: lockd.json: larger than 65536 bytes`},
		{"altered meta", func(t *testing.T, dir string) {
			made(t, dir)
			text, _ := os.ReadFile(filepath.Join(dir, metaFile))
			write(t, filepath.Join(dir, metaFile), strings.Replace(string(text), `"n1"`, `"n2"`, 1))
		}, `data folder DIR is damaged: lockd.json: its checksum does not match`},
		{"meta missing", func(t *testing.T, dir string) { made(t, dir); os.Remove(filepath.Join(dir, metaFile)) },
			`data folder DIR is damaged: lockd.json is missing, but there is wal`},
		{"votes missing", func(t *testing.T, dir string) { made(t, dir); os.Remove(filepath.Join(dir, votesFile)) },
			`data folder DIR is damaged: votes.db: `},
		{"votes empty", func(t *testing.T, dir string) { made(t, dir); write(t, filepath.Join(dir, votesFile), "") },
			`data folder DIR is damaged: votes.db: it is empty`},
		{"log missing", func(t *testing.T, dir string) { made(t, dir); os.RemoveAll(filepath.Join(dir, walFolder)) },
			`data folder DIR is damaged: wal: `},
		{"log emptied", func(t *testing.T, dir string) {
			d, s := openTestStores(t, dir, WAL)
			if err := s.Log.StoreLogs(entries(1, 9)); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)
			os.RemoveAll(filepath.Join(dir, walFolder))
			os.Mkdir(filepath.Join(dir, walFolder), 0o700)
		}, `data folder DIR is damaged: the log ends at entry 0, but entry 9 had been stored`},
		{"old votes", func(t *testing.T, dir string) {
			d, s := openTestStores(t, dir, WAL)
			if err := s.Log.StoreLogs([]*raft.Log{{Index: 1, Term: 4}}); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)
		}, `data folder DIR is damaged: the record of votes has term 0, but there is an entry of term 4 and a vote of term 0`},
		{"snapshot missing", func(t *testing.T, dir string) {
			d, s := openTestStores(t, dir, WAL)
			if err := s.Stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Log.StoreLogs(entries(1, 9)); err != nil {
				t.Fatal(err)
			}
			if err := s.Log.DeleteRange(1, 4); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)
		}, `data folder DIR is damaged: the log begins at entry 5, but the newest readable snapshot ends at entry 0`},
		{"is a file", func(t *testing.T, dir string) { os.Remove(dir); write(t, dir, "") },
			`data folder DIR cannot be made: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tc.make(t, dir)
			d, s, err := tryOpen(dir, WAL)
			if err == nil {
				closeTestStores(t, d, s)
				t.Fatal("opened")
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A folder belongs to one process: a second one is told which process has it. Only its owner can read the folder.
func TestFolderLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := OpenFolder(dir, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenFolder(dir, "n1", "")
	want := "data folder " + dir + " is in use by another lockd process (pid " + strings.TrimSpace(readFile(t, filepath.Join(dir, lockFile))) + ")"
	if err == nil || err.Error() != want {
		t.Errorf("second open: %v, want %s", err, want)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenFolder(dir, "n1", ""); err != nil {
		t.Fatalf("after close: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A folder keeps its incarnation and its cluster; a new one is a new incarnation.
func TestFolderIdentity(t *testing.T) {
	open := func(dir string) Meta {
		t.Helper()
		d, err := OpenFolder(dir, "n1", "")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.SetCluster("c1"); err != nil {
			t.Fatal(err)
		}
		return d.meta
	}
	one, other := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
	first := open(one)
	if again := open(one); again.ID != first.ID || again.Incarnation != first.Incarnation || again.Starts != first.Starts+1 || again.Tokens[:tokenLen] != first.Tokens || again.Cluster != "c1" || again.Incarnation == "" {
		t.Errorf("reopened: %+v, want %+v", again, first)
	}
	if open(other).Incarnation == first.Incarnation {
		t.Error("two folders of one incarnation")
	}
}

// A bootstrap that a crash cut short can be done again; raft alone would take the
// folder for one that has been set up, and wait for a leader for ever.
func TestStoresInterruptedBootstrap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, s := openTestStores(t, dir, WAL)
	if err := s.Stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil { // BootstrapCluster's first write
		t.Fatal(err)
	}
	closeTestStores(t, d, s)
	d, s = openTestStores(t, dir, WAL)
	defer closeTestStores(t, d, s)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.LogOutput = "n1", io.Discard
	_, trans := raft.NewInmemTransport("n1")
	err := raft.BootstrapCluster(conf, s.Log, s.Stable, s.Snaps, trans, raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}})
	if err != nil || !s.Empty {
		t.Errorf("bootstrap: %v (empty: %v)", err, s.Empty)
	}
}

// A crash between the installation of a snapshot and the removal of the older log
// leaves a log that ends before the snapshot: raft-wal would take no further entry.
func TestStoresInterruptedInstall(t *testing.T) {
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			d, s := openTestStores(t, dir, kind)
			if err := s.Stable.SetUint64([]byte(keyCurrentTerm), 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Log.StoreLogs(entries(1, 9)); err != nil {
				t.Fatal(err)
			}
			if err := takeSnapshot(s, 50, 1); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)
			for range 2 {
				d, s = openTestStores(t, dir, kind)
				last, err := s.Log.LastIndex()
				if err != nil {
					t.Fatal(err)
				}
				next := max(last, 50) + 1
				if err := s.Log.StoreLogs(entries(next, next)); err != nil {
					t.Errorf("the entry after the snapshot: %v", err)
				}
				closeTestStores(t, d, s)
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Version 1 of the meta file is read for ever, and is the one that is written. Until a release has the version the file
// may be rewritten, with go test ./cluster/store -run FolderOfVersion1 -rewrite; afterwards a change is version 2.
func TestFolderOfVersion1(t *testing.T) {
	want := Meta{
		Program: metaProgram, Format: 1, ID: "n1", Incarnation: "INCARNATION", Cluster: "CLUSTER", Arch: "amd64", LogStore: WAL,
		Number: 3, History: History{Starts: 2, Tokens: "AAAAAAAAAABBBBBBBBBB"},
	}
	text := testfile.Compare(t, filepath.Join("testdata", "v1", metaFile), encodeMeta(want))
	if got, err := decodeMeta(text); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// FuzzMeta checks that any meta file is read or refused.
func FuzzMeta(f *testing.F) {
	f.Add(encodeMeta(Meta{Program: metaProgram, Format: 1, ID: "n1"}))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"program":"lockd data","format":1}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		meta, err := decodeMeta(text)
		if err == nil && meta.Format <= folderFormat && meta.Program != metaProgram {
			t.Errorf("took %q", text)
		}
	})
}

// A data folder may lie in folders that are not there yet, and be named from where
// the process runs.
func TestFolderIsMadeWithThoseAbove(t *testing.T) {
	t.Chdir(t.TempDir())
	d, err := OpenFolder(filepath.Join("a", "b", "data"), "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(filepath.Join("file", "data"), "n1", ""); err == nil || !strings.Contains(err.Error(), "cannot be made") {
		t.Errorf("a folder in a file: %v", err)
	}
}

// A full disk is never called damage: an operator that then removed the folder would lose intact data.
func TestFullDiskIsNoDamage(t *testing.T) {
	d := &Folder{path: "DIR"}
	for _, err := range []error{
		fmt.Errorf("its log: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}),
		errors.New("panic: write x: no space left on device"),
	} {
		got := d.damaged(err).Error()
		if strings.Contains(got, "is damaged") || !strings.Contains(got, "the folder is in order; make at least ") || !strings.Contains(got, " MiB of space") {
			t.Errorf("%v: %s", err, got)
		}
	}
}
