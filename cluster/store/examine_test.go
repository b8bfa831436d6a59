package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// content hashes the contents of a folder: names, sizes, times, and the bytes too if they are asked for.
func content(t *testing.T, dir string, bytes bool) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.Size(), info.ModTime())
		if !bytes || !e.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A sound folder is read whole, and nothing in it is changed.
func TestExamine(t *testing.T) {
	const last = 300
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			dir := buildFolder(t, kind, last)
			before := content(t, dir, true)
			x, err := Examine(dir)
			if err != nil || x.Damage != nil {
				t.Fatal(err, x.Damage)
			}
			if x.Meta.ID != "n1" || x.First != last/3 && x.First != last/3+1 || x.Last != last || x.Term != 1 || x.VoteFor != "n1" ||
				x.VotedIn != 1 || len(x.Snapshots) != 2 || x.Snapshots[0].Index != last/2 || x.Marked != last || x.LastTerm != 1 {
				t.Errorf("%+v", x)
			}
			next := uint64(last/2 + 1)
			err = x.Entries(last/2, func(l *raft.Log) error {
				if want := entries(next, next)[0]; l.Index != next || !bytes.Equal(l.Data, want.Data) || !bytes.Equal(l.Extensions, want.Extensions) {
					t.Errorf("entry %d is %d %q", next, l.Index, l.Data)
				}
				next++
				return nil
			})
			if err != nil || next != last+1 {
				t.Errorf("read up to %d: %v", next, err)
			}
			meta, body, err := x.OpenSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if err != nil || string(text) != fmt.Sprintf("state after %d", last/2) || meta.Index != last/2 {
				t.Errorf("snapshot of %d: %q, %v", meta.Index, text, err)
			}
			_ = body.Close()
			if _, _, err := tryOpen(dir, kind); err == nil {
				t.Error("a node starts on a folder that is looked at")
			}
			x.Close()
			if after := content(t, dir, true); after != before {
				t.Error("the folder was changed")
			}
			if err := os.Remove(filepath.Join(dir, lockFile)); err != nil { // as in a copy
				t.Fatal(err)
			}
			if x, err = Examine(dir); err != nil || x.Damage != nil {
				t.Error(err, x.Damage)
			}
			x.Close()
		})
	}
}

// Examine finds the same damage as a start, whatever happened to a file, and changes nothing.
func TestExamineSaysWhatOpenSays(t *testing.T) {
	eachDamaged(t, 40, 3, func(t *testing.T, kind, dir, what string) (opens bool) {
		before := content(t, dir, false)
		x, err := Examine(dir)
		if err == nil {
			err = x.Damage
			x.Close()
		}
		if content(t, dir, false) != before {
			t.Errorf("%s: the folder was changed", what)
		}
		d, s, openErr := tryOpen(dir, kind)
		if openErr == nil {
			closeTestStores(t, d, s)
		}
		if (err == nil) != (openErr == nil) {
			t.Errorf("%s: Examine says %v, a start %v", what, err, openErr)
		}
		return openErr == nil
	})
}

// A foreign folder, one in use, and a newer one are told apart from damage.
func TestExamineRefuses(t *testing.T) {
	dir := buildFolder(t, WAL, 10)
	d, err := OpenFolder(dir, "n1", "arch")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Examine(dir); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("in use: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(`{"program":"lockd data","format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Examine(dir); !errors.Is(err, ErrNewer) {
		t.Errorf("newer: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(`{"program":"lockd data folder","format":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Examine(dir); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "was written by a development build before 0.1.0") {
		t.Errorf("of a development build: %v", err)
	}
	foreign := t.TempDir()
	if _, err := Examine(foreign); !errors.Is(err, ErrForeign) {
		t.Errorf("empty: %v", err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "dump.rdb"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Examine(foreign); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "dump.rdb") {
		t.Errorf("foreign: %v", err)
	}
	if _, err := Examine(filepath.Join(foreign, "dump.rdb")); !errors.Is(err, ErrForeign) {
		t.Errorf("a file: %v", err)
	}
	if _, err := Examine(filepath.Join(foreign, "nothing")); err == nil {
		t.Error("nothing is there")
	}
}

// A folder is made whole or not at all.
func TestFound(t *testing.T) {
	first := InitialState{
		ID: "n1", Arch: "arch", PeerAddr: "n1:1", Cluster: "new", Index: 7,
		Write: func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err },
	}
	for _, kind := range []string{WAL, BoltDB} {
		dir := filepath.Join(t.TempDir(), "a", "data")
		first.LogStore = kind
		if err := CreateFolder(dir, first); err != nil {
			t.Fatal(err)
		}
		x, err := Examine(dir)
		if err != nil || x.Damage != nil || x.Meta.Cluster != "new" || x.Term != 1 || x.Snapshots[0].Index != 7 {
			t.Fatalf("%+v, %v", x, err)
		}
		x.Close()
		d, s, err := tryOpen(dir, kind)
		if err != nil || s.Empty {
			t.Fatal(err)
		}
		if err := s.Log.StoreLogs(entries(8, 9)); err != nil {
			t.Error(err)
		}
		closeTestStores(t, d, s)
		if err := CreateFolder(dir, first); err == nil {
			t.Error("a folder with data was replaced")
		}
	}
	failing, dir := first, filepath.Join(t.TempDir(), "data")
	failing.Write = func(io.Writer) error { return errors.New("no") }
	if err := CreateFolder(dir, failing); err == nil {
		t.Error("a state that cannot be written")
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.MkdirAll(filepath.Join(dir+restoring, "rest"), 0o700); err != nil { // of a crash
		t.Fatal(err)
	}
	if err := CreateFolder(dir, first); err != nil {
		t.Error(err)
	}
}
