package store

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"lockd/internal/crash"
	"lockd/resp/fault"
)

const testSegmentBytes = 64 << 10

func tryOpen(dir, kind string) (*Folder, *Stores, error) {
	d, err := OpenFolder(dir, "n1", "")
	if err != nil {
		return nil, nil, err
	}
	s, err := Open(d, Options{LogStore: kind, SegmentBytes: testSegmentBytes, Fatal: func(err error) { panic(err) }})
	if err != nil {
		_ = d.Close()
		return nil, nil, err
	}
	return d, s, nil
}

// takeSnapshot stores a snapshot of the state after an entry.
func takeSnapshot(s *Stores, index, term uint64) error {
	_, trans := raft.NewInmemTransport("n1")
	sink, err := s.Snaps.Create(1, index, term, raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}}, 1, trans)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(sink, "state after %d", index); err != nil {
		return err
	}
	return sink.Close()
}

// buildFolder makes a data folder of entries 1 to last, of which those up to the
// older of two snapshots are gone.
func buildFolder(t *testing.T, kind string, last uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	d, s, err := tryOpen(dir, kind)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Stable.SetUint64([]byte(keyCurrentTerm), 1))
	must(s.Stable.SetUint64([]byte(keyVoteTerm), 1))
	must(s.Stable.Set([]byte(keyVoteCand), []byte("n1")))
	for i := uint64(1); i <= last; i += 10 {
		must(s.Log.StoreLogs(entries(i, min(i+9, last))))
	}
	must(takeSnapshot(s, last/3, 1))
	time.Sleep(2 * time.Millisecond) // snapshots are named after the millisecond
	must(takeSnapshot(s, last/2, 1))
	must(s.Log.DeleteRange(1, last/3))
	closeTestStores(t, d, s)
	return dir
}

// checkIntact reports differences between a folder from buildFolder and its original contents.
func checkIntact(s *Stores, last uint64) error {
	if got, err := s.Log.LastIndex(); err != nil || got != last {
		return fmt.Errorf("last entry %d, %v", got, err)
	}
	if got, err := s.Log.FirstIndex(); err != nil || got != last/3+1 {
		return fmt.Errorf("first entry %d, %v", got, err)
	}
	for i := last/3 + 1; i <= last; i++ {
		var e raft.Log
		if err := s.Log.GetLog(i, &e); err != nil || string(e.Data) != fmt.Sprintf("entry %d", i) || e.Term != 1 || e.Extensions != nil {
			return fmt.Errorf("entry %d: %+v, %v", i, e, err)
		}
	}
	if n, err := s.Stable.GetUint64([]byte(keyCurrentTerm)); err != nil || n != 1 {
		return fmt.Errorf("term %d, %v", n, err)
	}
	if v, err := s.Stable.Get([]byte(keyVoteCand)); err != nil || string(v) != "n1" {
		return fmt.Errorf("vote %q, %v", v, err)
	}
	return nil
}

// A snapshot from the leader was installed and the older log removed, and the process
// died before the next entry: the log is empty, and what the mark tells of is in the
// snapshot.
func TestStoresReopenAfterInstall(t *testing.T) {
	const last, installed = 60, 100
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			dir := buildFolder(t, kind, last)
			d, s := openTestStores(t, dir, kind)
			time.Sleep(2 * time.Millisecond) // snapshots are named after the millisecond
			if err := takeSnapshot(s, installed, 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Log.DeleteRange(last/3+1, last); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)

			d, s = openTestStores(t, dir, kind)
			if err := s.Log.StoreLogs(entries(installed+1, installed+1)); err != nil {
				t.Fatal(err)
			}
			closeTestStores(t, d, s)

			d, s = openTestStores(t, dir, kind)
			defer closeTestStores(t, d, s)
			if got, err := s.Log.LastIndex(); err != nil || got != installed+1 {
				t.Errorf("the log ends at entry %d, %v", got, err)
			}
		})
	}
}

// A folder with any damaged byte, a truncated file or a missing file is refused with a sentence, or nothing stored has
// changed. There is never a panic, a hang, or an unnoticed loss.
func TestStoresDamage(t *testing.T) {
	eachDamaged(t, 150, 1, func(t *testing.T, kind, dir, what string) (opens bool) {
		d, s, err := tryOpen(dir, kind)
		if err != nil {
			if !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: refused with %q, which is no sentence about the folder", what, err)
			}
			return false
		}
		if err := checkIntact(s, damagedLast); err != nil {
			t.Errorf("%s: opened, but: %v", what, err)
		}
		closeTestStores(t, d, s)
		return true
	})
}

// damagedLast is the last entry in the folders of eachDamaged.
const damagedLast = 300

// eachDamaged damages a copy of a folder, for each kind of log again and again, and has it looked at: some of them
// have to open, and some must not. what says what was damaged.
func eachDamaged(
	t *testing.T, rounds int, seed uint64, look func(t *testing.T, kind, dir, what string) (opens bool),
) {
	if testing.Short() {
		rounds = 20
	}
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			whole := buildFolder(t, kind, damagedLast)
			rnd := rand.New(rand.NewPCG(seed, seed+1))
			opened := map[bool]int{}
			for round := range rounds {
				dir := filepath.Join(t.TempDir(), "copy")
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("round %d: %s", round, damage(t, dir, rnd))
				opened[look(t, kind, dir, what)]++
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			if t.Logf("%d refused, %d intact", opened[false], opened[true]); len(opened) < 2 {
				t.Error("the damage was all of one kind: the test proves nothing")
			}
		})
	}
}

// damage changes one file of a folder and says how. The lock and the spare room of
// the log's segments are of no interest.
func damage(t *testing.T, dir string, rnd *rand.Rand) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != lockFile {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	path := files[rnd.IntN(len(files))]
	rel, _ := filepath.Rel(dir, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(data), "\x00"))
	switch kind := rnd.IntN(10); { //nolint:staticcheck // the cases are ranges
	case kind == 0:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return rel + " removed"
	case kind == 1:
		cut := rnd.IntN(len(data))
		if err := os.Truncate(path, int64(cut)); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s cut at %d of %d", rel, cut, len(data))
	case kind == 2:
		at := rnd.IntN(used)
		clear(data[at:min(at+4096, used)])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s zeroed at %d of %d", rel, at, len(data))
	default:
		at, bit := rnd.IntN(used), rnd.IntN(8)
		data[at] ^= 1 << bit
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s bit %d of byte %d of %d", rel, bit, at, len(data))
	}
}

// A folder opens again with every acknowledged entry and vote, whenever the process is killed.
func TestStoresCrash(t *testing.T) {
	if dir := os.Getenv(crash.DirEnv); dir != "" {
		appendUntilKilled(dir, os.Getenv(crash.KindEnv))
		return
	}
	rounds := 18
	if testing.Short() {
		rounds = 3
	}
	for _, kind := range []string{WAL, BoltDB} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
			for round := range rounds {
				killAfter := time.Duration(rnd.IntN(60)) * time.Millisecond
				if round%3 == 0 { // a new folder, killed while it is being made
					dir = filepath.Join(t.TempDir(), "data")
					killAfter /= 10
				}
				acked := crash.Once(t, dir, kind, func(p *os.Process) {
					time.Sleep(killAfter)
					if err := p.Kill(); err != nil {
						t.Error(err)
					}
				})
				d, s, err := tryOpen(dir, kind)
				if err != nil {
					t.Fatalf("round %d: after acknowledged entry %d: %v", round, acked, err)
				}
				last, err := s.Log.LastIndex()
				if err != nil || last < acked {
					t.Fatalf("round %d: entry %d was acknowledged, the log ends at %d, %v", round, acked, last, err)
				}
				if term, err := s.Stable.GetUint64([]byte(keyCurrentTerm)); acked > 0 && (err != nil || term < acked) {
					t.Fatalf("round %d: term %d was acknowledged, the store has %d, %v", round, acked, term, err)
				}
				closeTestStores(t, d, s)
			}
		})
	}
}

// appendUntilKilled is the killed process: it appends batches, cuts the log at both ends and takes snapshots, as Raft
// does, and reports the entries that it has stored.
func appendUntilKilled(dir, kind string) {
	check := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	check(fault.Serve())
	fmt.Println("started")
	d, s, err := tryOpen(dir, kind)
	check(err)
	defer d.Close()
	next, err := s.Log.LastIndex()
	check(err)
	for round := 0; ; round++ {
		next++
		n := next % 20
		check(s.Stable.SetUint64([]byte(keyCurrentTerm), next+n))
		check(s.Stable.SetUint64([]byte(keyVoteTerm), next))
		check(s.Stable.Set([]byte(keyVoteCand), binary.BigEndian.AppendUint64(nil, next)))
		check(s.Log.StoreLogs(entries(next, next+n)))
		next += n
		fmt.Printf("acked %d.\n", next)
		switch round % 4 {
		case 0: // a snapshot, then the log is cut at its head
			check(takeSnapshot(s, next-1, 1))
			first, err := s.Log.FirstIndex()
			check(err)
			check(s.Log.DeleteRange(first, max(next-1, 60)-60))
		case 1: // an entry that was never acknowledged is cut off again
			check(s.Log.StoreLogs(entries(next+1, next+3)))
			check(s.Log.DeleteRange(next+1, next+3))
		}
	}
}
