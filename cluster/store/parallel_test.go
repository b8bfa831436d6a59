package store

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

var errPower = errors.New("the power has failed")

// gate stands in front of a disk until it is opened, once.
type gate struct {
	opened chan struct{}
	broken error // what writes answer
}

// pass is called before each write.
func (g *gate) pass() error {
	<-g.opened
	return g.broken
}

// open lets the waiting and all later writes pass, or fail with err.
func (g *gate) open(err error) {
	g.broken = err
	close(g.opened)
}

// aheadLog is a log with two entries that its shut disk does not have yet.
func aheadLog(t *testing.T) (l *ParallelLog, disk *gate, lead *bool) {
	t.Helper()
	disk, lead = &gate{opened: make(chan struct{})}, new(bool)
	l, *lead = guardedMem(t, Options{Fatal: func(error) {}}, &hookedStore{before: disk.pass}).Log, true
	l.leads = func() bool { return *lead }
	for i := uint64(1); i <= 2; i++ {
		if err := l.StoreLog(&raft.Log{Index: i, Term: 1, Data: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	return l, disk, lead
}

// A leader can read entries that are not on disk yet, and they are the log's end.
func TestParallelLogReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk, _ := aheadLog(t)
		for i := uint64(1); i <= 2; i++ {
			var e raft.Log
			if err := l.GetLog(i, &e); err != nil || e.Index != i || e.Data[0] != byte(i) {
				t.Errorf("entry %d: %+v, %v", i, e, err)
			}
		}
		if last, err := l.LastIndex(); err != nil || last != 2 {
			t.Errorf("the log ends at %d (%v), want 2", last, err)
		}
		for commit, want := range map[uint64]uint64{0: 0, 1: 0, 2: 0} {
			if got := l.Committed(commit); got != want {
				t.Errorf("committed up to %d: the others hear %d, want %d", commit, got, want)
			}
		}
		disk.open(nil)
		synctest.Wait()
		if got := l.Committed(2); got != 2 {
			t.Errorf("all is on disk: the others hear %d, want 2", got)
		}
	})
}

// Followers learn of an entry when the machine has applied it; entries that a deposed leader has not applied hold
// nothing back later.
func TestParallelLogTellsWhatIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk, lead := aheadLog(t)
		applied := uint64(0)
		l.applied = func() uint64 { return applied }
		disk.open(nil)
		synctest.Wait()
		for applied = range uint64(3) {
			if got := l.Committed(2); got != applied {
				t.Errorf("%d are applied: the others hear %d", applied, got)
			}
		}
		applied = 2
		for _, e := range []*raft.Log{{Index: 3, Term: 1}, {Index: 4, Term: 2, Type: raft.LogNoop}} {
			if err := l.StoreLog(e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := l.Committed(4); got != 2 {
			t.Errorf("entry 3 is not applied: the others hear %d, want 2", got)
		}
		*lead = false
		if err := l.StoreLog(&raft.Log{Index: 5, Term: 3}); err != nil {
			t.Fatal(err)
		}
		if got := l.Committed(5); got != 5 {
			t.Errorf("the others hear %d of a later leader's entries, want 5", got)
		}
	})
}

// A single node tells no follower, and does not list all entries that it has ever stored.
func TestParallelLogOfASingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := guardedMem(t, Options{Fatal: func(error) {}}, &hookedStore{}).Log
		applied := uint64(0)
		l.leads, l.applied = func() bool { return true }, func() uint64 { return applied }
		for applied < 100 {
			if err := l.StoreLog(&raft.Log{Index: applied + 1, Term: 1}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			applied++
		}
		if kept := len(l.pending); kept > 1 {
			t.Errorf("%d entries are kept, want one at most", kept)
		}
	})
}

// The writes of a node that no longer leads, and all others but the proposer's, wait for the disk.
func TestParallelLogWaits(t *testing.T) {
	for name, do := range map[string]func(l *ParallelLog) error{
		"an entry of Raft's own":  func(l *ParallelLog) error { return l.StoreLog(&raft.Log{Index: 3, Type: raft.LogNoop}) },
		"a cut":                   func(l *ParallelLog) error { return l.DeleteRange(2, 2) },
		"an entry is to be there": func(l *ParallelLog) error { return l.GetLog(2, new(raft.Log)) },
		"an entry of a leader":    func(l *ParallelLog) error { return l.StoreLog(&raft.Log{Index: 3, Term: 2}) },
	} {
		for _, failure := range []error{nil, errPower} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, disk, lead := aheadLog(t)
					*lead = name == "an entry of Raft's own" || name == "a cut"
					ended := make(chan error, 1)
					go func() { ended <- do(l) }()
					synctest.Wait()
					if len(ended) > 0 {
						t.Fatalf("returned (%v) while the disk works", <-ended)
					}
					disk.open(failure)
					if err := <-ended; (err != nil) != (failure != nil) {
						t.Errorf("%v, want an error only if the disk fails (%v)", err, failure)
					}
				})
			})
		}
	}
}

// After the disk has failed no entry is accepted, and entries that were ahead do not count.
func TestParallelLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk, _ := aheadLog(t)
		applied := make(chan bool, 2)
		for _, index := range []uint64{1, 2} {
			go func() { applied <- l.Await(index) }()
		}
		disk.open(errPower)
		if got := []bool{<-applied, <-applied}; slices.Contains(got, true) {
			t.Errorf("await: %v, want false twice", got)
		}
		if err := l.StoreLog(&raft.Log{Index: 3, Term: 1}); err == nil {
			t.Error("an entry was taken after the failure")
		}
		if got := l.Committed(2); got != 0 {
			t.Errorf("the others hear that %d is committed, want 0", got)
		}
	})
}

// The last entry of the newest snapshot is known after it has left the log, except to a leader, which would send it.
func TestLogStandsInForSnapshot(t *testing.T) {
	s := guardedMem(t, Options{Fatal: func(error) {}}, &hookedStore{})
	leads := false
	s.Log.leads = func() bool { return leads }
	s.Log.base = func() (index, term uint64) { return 7, 3 }
	var e raft.Log
	if err := s.Log.GetLog(7, &e); err != nil || e.Index != 7 || e.Term != 3 {
		t.Errorf("the end of the snapshot: %+v, %v", e, err)
	}
	for _, i := range []uint64{6, 8} {
		if err := s.Log.GetLog(i, &e); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d: %+v, %v", i, e, err)
		}
	}
	leads = true
	if err := s.Log.GetLog(7, &e); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("to a leader: %+v, %v", e, err)
	}
}
