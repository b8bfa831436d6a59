package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// churnedBolt is a bbolt file with branches, large values and free pages, as a log
// has after a while.
func churnedBolt(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), logFile)
	s, err := openBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	next := uint64(1)
	for round := range 60 {
		var logs []*raft.Log
		for range rnd.IntN(100) + 1 {
			size := rnd.IntN(300)
			if rnd.IntN(50) == 0 {
				size = 40_000
			}
			logs = append(logs, &raft.Log{Index: next, Term: 1, Data: bytes.Repeat([]byte{byte(next)}, size)})
			next++
		}
		if err := s.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
		if round%10 == 9 {
			if err := s.DeleteRange(1, next-500); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that bbolt has written is found in order, however much it has been
// written to; bbolt's own checker agrees.
func TestCheckBoltSound(t *testing.T) {
	path := churnedBolt(t)
	if err := checkBolt(path); err != nil {
		t.Error(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := checkBolt(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// FuzzCheckBolt checks that any bbolt file is handled without a panic.
func FuzzCheckBolt(f *testing.F) {
	path := churnedBolt(f)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(8192), uint64(1))
	f.Add(uint32(16), uint64(1<<63))
	f.Add(uint32(4096*3+10), uint64(0xffff))
	f.Fuzz(func(t *testing.T, at uint32, flip uint64) {
		data := bytes.Clone(whole)
		at %= uint32(len(data))
		for i := range 8 {
			data[(int(at)+i)%len(data)] ^= byte(flip >> (8 * i))
		}
		path := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = checkBolt(path)
	})
}
