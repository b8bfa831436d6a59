package target

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A damaged folder is in doubt until the node has served from it. A snapshot that may be found damaged later
// keeps it in doubt until the snapshot is removed.
func TestDoubt(t *testing.T) {
	n := &lockdNode{dir: t.TempDir()}
	at := filepath.Join(n.dir, "snapshots", "1-2-3")
	for _, file := range []string{"state.bin", "meta.json"} {
		if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, file), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	step := func(what string, want bool) {
		t.Helper()
		if n.doubtful() != want {
			t.Errorf("%s: in doubt is %v", what, !want)
		}
	}
	n.answered.Store(3)
	step("at first", false)
	n.disk.hurt = 4
	step("damaged before start 4", true)
	n.answered.Store(4)
	step("start 4 serves", false)
	n.disk.damaged = []string{"1-2-3"}
	step("a damaged snapshot", true)
	if err := n.where().Folder(n.dir).RemoveSnapshot("1-2-3"); err != nil {
		t.Fatal(err)
	}
	step("the snapshot is gone", false)
	n.disk.lost = true
	step("lost", true)
}

// One bit is flipped, in the used part of the file.
func TestFlipBit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.wal")
	before := append([]byte("used"), make([]byte, 1000)...)
	for seed := range uint64(50) {
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
		offset, err := flipBit(file, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		flipped := 0
		for i := range after {
			flipped += bits.OnesCount8(after[i] ^ before[i])
		}
		if len(after) != len(before) || flipped != 1 || offset > 3 || after[offset] == before[offset] {
			t.Fatalf("%d bits, offset %d: %q", flipped, offset, after[:10])
		}
	}
}

// Snapshots are ordered by term, index and time as numbers. Unfinished ones are left out.
func TestSnapshotsByAge(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2-9-5", "2-10-4", "10-1-1", "11-7-7.tmp", "12-8-8"} {
		path := filepath.Join(dir, "snapshots", name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"state.bin", "meta.json"} {
			if name == "12-8-8" && file == "meta.json" {
				continue // it was being removed
			}
			if err := os.WriteFile(filepath.Join(path, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := realFolder(dir).Snapshots()
	if want := []string{"2-9-5", "2-10-4", "10-1-1"}; !slices.Equal(names, want) {
		t.Errorf("snapshots %q, want %q", names, want)
	}
}
