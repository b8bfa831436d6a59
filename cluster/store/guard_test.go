package store

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// hookedStore is a store in memory whose writes call functions before and after;
// nil ones do nothing.
type hookedStore struct {
	*raft.InmemStore
	before, after func() error
}

func (h *hookedStore) write(do func() error) error {
	for _, step := range []func() error{h.before, do, h.after} {
		if step == nil {
			continue
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (h *hookedStore) StoreLogs(entries []*raft.Log) error {
	return h.write(func() error { return h.InmemStore.StoreLogs(entries) })
}

func (h *hookedStore) DeleteRange(first, last uint64) error {
	return h.write(func() error { return h.InmemStore.DeleteRange(first, last) })
}

func (h *hookedStore) Set(key, val []byte) error {
	return h.write(func() error { return h.InmemStore.Set(key, val) })
}

func (h *hookedStore) SetUint64(key []byte, val uint64) error {
	return h.write(func() error { return h.InmemStore.SetUint64(key, val) })
}

// fatalRecorder records the error that would have ended the process.
type fatalRecorder struct {
	mu   sync.Mutex
	said []string
}

func (f *fatalRecorder) fatal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, err.Error())
}

func (f *fatalRecorder) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.said...)
}

// guardedMem are guarded stores over one in memory.
func guardedMem(t *testing.T, opts Options, disk *hookedStore) *Stores {
	t.Helper()
	disk.InmemStore = raft.NewInmemStore()
	s, err := Join(opts, disk, disk, raft.NewInmemSnapshotStore())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every kind of write that fails, before or after the disk, is fatal, is never
// reported as a success, and nothing succeeds after it.
func TestGuardFailure(t *testing.T) {
	writes := map[string]func(*Stores) error{
		"StoreLogs":   func(s *Stores) error { return s.Log.StoreLogs(entries(1, 2)) },
		"DeleteRange": func(s *Stores) error { return s.Log.DeleteRange(1, 1) },
		"Set":         func(s *Stores) error { return s.Stable.Set([]byte("k"), []byte("v")) },
		"SetUint64":   func(s *Stores) error { return s.Stable.SetUint64([]byte("k"), 1) },
	}
	for op, write := range writes {
		for _, when := range []string{"before", "after"} {
			t.Run(op+" "+when, func(t *testing.T) {
				var rec fatalRecorder
				broken := func() error { return errors.New("input/output error") }
				disk := &hookedStore{before: broken}
				if when == "after" {
					disk = &hookedStore{after: broken}
				}
				s := guardedMem(t, Options{Fatal: rec.fatal}, disk)
				if err := write(s); err == nil {
					t.Error("a write that failed was reported as a success")
				}
				disk.before, disk.after = nil, nil
				for op, again := range writes {
					if err := again(s); err == nil {
						t.Errorf("%s succeeded after the failure", op)
					}
				}
				want := "the disk cannot be trusted, this node stops: " + op + ": input/output error"
				if got := rec.all(); len(got) != 1 || got[0] != want {
					t.Errorf("fatal: %q, want once %q", got, want)
				}
			})
		}
	}
}

// A write that hangs is fatal after stallMax, while it still hangs, and is no
// success when it returns after all.
func TestGuardStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec fatalRecorder
		hang := func() error { time.Sleep(time.Minute); return nil }
		s := guardedMem(t, Options{Fatal: rec.fatal, StallMax: 3 * time.Second}, &hookedStore{before: hang})
		result := make(chan error, 1)
		go func() { result <- s.Log.StoreLogs(entries(1, 1)) }()
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		if got := rec.all(); len(got) != 0 {
			t.Errorf("fatal too early: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := rec.all(); len(got) != 1 || !strings.Contains(got[0], "StoreLogs has not returned for 3s") {
			t.Errorf("fatal: %q", got)
		}
		if err := <-result; err == nil {
			t.Error("the write that hung was reported as a success")
		}
	})
}

// No write returns between a failure and the end of the process: Raft would panic over its error, and the stack would
// replace the reason.
func TestGuardRefusesWhenTheReasonIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exit := make(chan struct{})
		fatal := func(error) { <-exit }
		s := guardedMem(t, Options{Fatal: fatal}, &hookedStore{before: func() error { return errors.New("broken") }})
		returned := make(chan error)
		for _, write := range []func() error{
			func() error { return s.Log.StoreLogs(entries(1, 1)) },
			func() error { return s.Stable.SetUint64([]byte("CurrentTerm"), 2) },
			func() error { return s.Stable.Set([]byte(keyVoteCand), []byte("n1")) },
		} {
			go func() { returned <- write() }()
			synctest.Wait()
			select {
			case err := <-returned:
				t.Errorf("a write has returned before the reason was told: %v", err)
			default:
			}
		}
		close(exit)
		for range 3 {
			if err := <-returned; err == nil {
				t.Error("a write was reported as a success")
			}
		}
	})
}

// A panic of a store is an error like any other.
func TestGuardPanic(t *testing.T) {
	var rec fatalRecorder
	s := guardedMem(t, Options{Fatal: rec.fatal}, &hookedStore{before: func() error { panic("page 7 freed twice") }})
	if err := s.Log.StoreLogs(entries(1, 1)); err == nil {
		t.Error("success")
	}
	if got := rec.all(); len(got) != 1 || !strings.Contains(got[0], "page 7 freed twice") {
		t.Errorf("fatal: %q", got)
	}
}

// dyingVotes is a stable store of which nothing reaches the disk after some writes.
type dyingVotes struct {
	*raft.InmemStore
	writesLeft int
}

var errDied = errors.New("the process has died")

func (d *dyingVotes) alive() bool { d.writesLeft--; return d.writesLeft >= 0 }

func (d *dyingVotes) Set(k, v []byte) error {
	if !d.alive() {
		return errDied
	}
	return d.InmemStore.Set(k, append([]byte{}, v...))
}

func (d *dyingVotes) SetUint64(k []byte, n uint64) error {
	if !d.alive() {
		return errDied
	}
	return d.InmemStore.SetUint64(k, n)
}

// A crash in the middle of storing a vote must not let the candidate of an older
// vote win without a look at its log (raft#661). The raw store shows the bug, the
// guarded one the cure, wherever the crash falls.
func TestTornVote(t *testing.T) {
	for _, tc := range []struct {
		name    string
		guarded bool
		writes  int // that reach the disk
		granted bool
	}{
		{"raw, torn", false, 1, true},
		{"guarded, died before", true, 0, false},
		{"guarded, died after emptying", true, 1, false},
		{"guarded, died after the term", true, 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := &dyingVotes{InmemStore: raft.NewInmemStore(), writesLeft: 100}
			var votes raft.StableStore = disk
			if tc.guarded {
				votes = &guardedVotes{guard: newGuard(Options{Fatal: func(error) {}}), votes: disk}
			}
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			vote := func(term uint64, who string) error { // as raft's persistVote does
				if err := votes.SetUint64([]byte(keyVoteTerm), term); err != nil {
					return err
				}
				return votes.Set([]byte(keyVoteCand), []byte(who))
			}
			must(vote(4, "stale"))
			must(votes.SetUint64([]byte(keyCurrentTerm), 5))
			disk.writesLeft = tc.writes
			if err := vote(5, "fresh"); err == nil {
				t.Fatal("the crash did not happen")
			}
			disk.writesLeft = 100
			var restarted raft.StableStore = disk
			if tc.guarded {
				restarted = &guardedVotes{guard: newGuard(Options{Fatal: func(error) {}}), votes: disk}
			}
			if got := askVote(t, restarted, "stale", 5); got != tc.granted {
				t.Errorf("vote granted to a candidate with an older log: %v, want %v", got, tc.granted)
			}
		})
	}
}

// askVote starts a node with a log of two entries and these votes, and asks it for
// its vote for a candidate without any.
func askVote(t *testing.T, votes raft.StableStore, candidate string, term uint64) bool {
	t.Helper()
	log := raft.NewInmemStore()
	if err := log.StoreLogs([]*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{
			{ID: "n", Address: "n"}, {ID: raft.ServerID(candidate), Address: raft.ServerAddress(candidate)},
		}})},
		{Index: 2, Term: 3, Type: raft.LogNoop},
	}); err != nil {
		t.Fatal(err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID, conf.LogOutput = "n", io.Discard
	_, trans := raft.NewInmemTransport("n")
	r, err := raft.NewRaft(conf, &raft.MockFSM{}, log, votes, raft.NewInmemSnapshotStore(), trans)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	}()
	_, asker := raft.NewInmemTransport(raft.ServerAddress(candidate))
	asker.Connect("n", trans)
	var answer raft.RequestVoteResponse
	err = asker.RequestVote("n", "n", &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(candidate), Addr: []byte(candidate)},
		Term:      term,
	}, &answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Granted
}

// The guarded stores answer an absent key and an absent entry in the words that
// Raft compares.
func TestGuardAbsent(t *testing.T) {
	dir := t.TempDir()
	d, s := openTestStores(t, dir, WAL)
	defer closeTestStores(t, d, s)
	if _, err := s.Stable.Get([]byte("x")); fmt.Sprint(err) != "not found" {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.Stable.GetUint64([]byte("x")); fmt.Sprint(err) != "not found" {
		t.Errorf("GetUint64: %v", err)
	}
	if err := s.Log.GetLog(9, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("GetLog: %v", err)
	}
}

// A process that was stopped for longer than a write may take finds its watchdog
// due the moment it goes on. That is one check, and no stall; a disk that hangs is
// looked at several times in vain.
func TestPausedProcessIsNoStall(t *testing.T) {
	var fatal error
	g := newGuard(Options{StallMax: time.Hour, Fatal: func(err error) { fatal = err }})
	w := g.watch("StoreLogs")
	w.check() // the timer, late by any amount
	if fatal != nil {
		t.Fatalf("stopped after one check: %v", fatal)
	}
	for range stallTicks - 1 {
		w.check()
	}
	if fatal == nil || !strings.Contains(fatal.Error(), "StoreLogs has not returned for 1h") {
		t.Fatalf("a write that hangs for good: %v", fatal)
	}
}
