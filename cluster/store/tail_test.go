package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// A segment of raft-wal that was being sealed, or had been, when the process died
// takes entries again, and has lost none that was acknowledged.
func TestSealedTail(t *testing.T) {
	const first, last = 6, 30
	for name, seal := range map[string]func(s *Stores) error{
		"full": func(s *Stores) error {
			more := entries(last+1, last+3)
			for _, e := range more {
				e.Data = bytes.Repeat([]byte("x"), testSegmentBytes/2)
			}
			return s.Log.StoreLogs(more)
		},
		"cut": func(s *Stores) error { return s.Log.DeleteRange(last, last) },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
			withLog(t, before, func(s *Stores) error {
				return errors.Join(
					s.Stable.SetUint64([]byte(keyCurrentTerm), 1),
					s.Log.StoreLogs(entries(1, last)),
					takeSnapshot(s, first-1, 1),
					s.Log.DeleteRange(1, first-1),
				)
			})
			copyFolder(t, after, before)
			withLog(t, after, seal)
			for _, torn := range tornSegments(t, before, after) {
				dir := filepath.Join(t.TempDir(), "data")
				copyFolder(t, dir, before)
				if err := os.WriteFile(filepath.Join(dir, torn.path), torn.data, 0o600); err != nil {
					t.Fatal(err)
				}
				var next uint64
				withLog(t, dir, func(s *Stores) (err error) {
					if next, err = s.Log.LastIndex(); err != nil || next < last {
						t.Fatalf("%s: the log ends at %d, %v", torn.what, next, err)
					}
					next++
					return s.Log.StoreLogs(entries(next, next))
				})
				withLog(t, dir, func(s *Stores) error {
					for _, i := range []uint64{first, last, next} {
						var e raft.Log
						if err := s.Log.GetLog(i, &e); err != nil || string(e.Data) != fmt.Sprintf("entry %d", i) {
							t.Fatalf("%s: entry %d: %q, %v", torn.what, i, e.Data, err)
						}
					}
					if begin, err := s.Log.FirstIndex(); err != nil || begin != first {
						t.Fatalf("%s: the log begins at %d, %v", torn.what, begin, err)
					}
					return nil
				})
			}
		})
	}
}

// withLog opens the stores of a folder for a while.
func withLog(t *testing.T, dir string, do func(*Stores) error) {
	t.Helper()
	d, s, err := tryOpen(dir, WAL)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(s); err != nil {
		t.Error(err)
	}
	closeTestStores(t, d, s)
}

func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// tornSegment is a file of the log, part of the way from before to after.
type tornSegment struct {
	what, path string
	data       []byte
}

// tornSegments are the states in which a crash may leave the one segment that is in
// both folders: the new bytes up to a point, or from there on.
func tornSegments(t *testing.T, before, after string) []tornSegment {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(before, walFolder, "*.wal"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	path, err := filepath.Rel(before, paths[0])
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(after, path))
	if err != nil {
		t.Fatal(err)
	}
	was = append(was, make([]byte, max(0, len(is)-len(was)))...)
	from, to := 0, len(is)
	for was[from] == is[from] {
		from++
	}
	for was[to-1] == is[to-1] {
		to--
	}
	const steps = 24
	var states []tornSegment
	for i := range steps + 1 {
		cut := from + (to-from)*i/steps
		states = append(states,
			tornSegment{fmt.Sprintf("%d bytes of %d", cut-from, to-from), path, append(append([]byte{}, is[:cut]...), was[cut:]...)},
			tornSegment{fmt.Sprintf("all but %d bytes of %d", cut-from, to-from), path, append(append([]byte{}, was[:cut]...), is[cut:]...)})
	}
	return states
}
