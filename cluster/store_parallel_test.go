package cluster

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// gate stands in front of a disk, and can be shut.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{} // nil: open
	broken error         // what writes answer
}

var errPower = errors.New("the power has failed")

// pass is called before each write.
func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut != nil {
		shut := g.shut
		g.mu.Unlock()
		<-shut
		g.mu.Lock()
	}
	return g.broken
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

// open lets what waits, and all that comes, be written, or fail with err.
func (g *gate) open(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut, g.broken = nil, err
}

// send has the leader take a write while its disk is shut, and waits until nothing more
// can come of it. The reply comes through the channel.
func send(lead *testNode, line string) <-chan string {
	lead.disk.gate.close()
	reply := make(chan string, 1)
	go func() { reply <- lead.do(line) }()
	time.Sleep(100 * time.Millisecond)
	return reply
}

// The others store an entry while the leader's disk still works on it. Until that is
// done nobody is answered, and no node applies it.
func TestLeaderSendsWhileItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		last, applied := lead.raft.LastIndex(), lead.appliedNow.Load()
		reply := send(lead, "SET k v")
		for _, n := range c.others(nil) {
			want := last + 1
			if n == lead {
				want = last
			}
			if got, _ := n.disk.log.LastIndex(); got != want {
				t.Errorf("%s has %d entries on its disk, want %d", n.id, got, want)
			}
			if got := n.appliedNow.Load(); got != applied {
				t.Errorf("%s has applied entry %d, which is not on the leader's disk", n.id, got)
			}
		}
		if len(reply) > 0 {
			t.Error("answered before the entry was on the leader's disk")
		}
		lead.disk.gate.open(nil)
		if got := <-reply; got != "+OK" {
			t.Errorf("SET k v: %q", got)
		}
		c.agree()
	})
}

// A leader whose machine lags behind what is committed lets the others lag, too: who hears
// of an entry there finds it in what the leader answers.
func TestOthersDoNotApplyBeforeTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		hold := make(chan struct{})
		lead.pub.mu.Lock()
		lead.pub.hold = hold
		lead.pub.mu.Unlock()
		replies := make(chan string, 2)
		for _, line := range []string{"PUBLISH news x", "SET k v"} {
			go func() { replies <- lead.do(line) }()
			time.Sleep(100 * time.Millisecond)
		}
		applied := lead.appliedNow.Load()
		if applied != lead.raft.LastIndex()-1 || lead.raft.CommitIndex() != applied+1 {
			t.Fatalf("the leader has applied %d of %d entries, %d are committed", applied, lead.raft.LastIndex(), lead.raft.CommitIndex())
		}
		for _, n := range c.others(lead) {
			if got := n.appliedNow.Load(); got != applied {
				t.Errorf("%s has applied entry %d, the leader %d", n.id, got, applied)
			}
		}
		lead.pub.mu.Lock()
		lead.pub.hold = nil
		lead.pub.mu.Unlock()
		close(hold)
		for range 2 {
			<-replies
		}
		c.agree()
	})
}

// What the leader's disk did not get may be forgotten by a majority: then no node may
// have applied it, the one that holds it included.
func TestLeaderLosesWhatItSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		has, hasNot := c.others(lead)[0], c.others(lead)[1]
		c.cut(hasNot)
		reply := send(lead, "SET k v")
		lead.disk.gate.open(errPower)
		c.kill(lead.id)
		if got := <-reply; got != "-"+resp.ErrUnknown {
			t.Errorf("SET k v: %q, want %q", got, resp.ErrUnknown)
		}
		c.net.heal()
		lead.disk.gate = gate{}
		c.start(lead.id)
		c.cut(has)
		next := c.leader(lead.id, hasNot.id)
		c.expect(next, "GET k", "_")
		c.expect(next, "SET after v", "+OK")
		c.net.heal()
		c.agree()
		c.expect(has, "GET k", "_")
	})
}

// gatedLog is a log whose appends, and only they, wait at a gate.
type gatedLog struct {
	raft.LogStore
	guard *storeGuard
	gate  *gate
}

func (l gatedLog) StoreLogs(entries []*raft.Log) error {
	if err := l.gate.pass(); err != nil {
		l.guard.fail(err)
		return err
	}
	return l.LogStore.StoreLogs(entries)
}

// aheadLog is a log with two entries that its shut disk does not have yet.
func aheadLog(t *testing.T) (l *parallelLog, disk *gate, lead *bool) {
	t.Helper()
	disk, lead = &gate{}, new(bool)
	s := guardedMem(t, storeOptions{Fatal: func(error) {}}, &hookedStore{})
	l, *lead = s.Log, true
	l.LogStore = gatedLog{l.LogStore, s.guard, disk}
	l.leads = func() bool { return *lead }
	disk.close()
	for i := uint64(1); i <= 2; i++ {
		if err := l.StoreLog(&raft.Log{Index: i, Term: 1, Data: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	return l, disk, lead
}

// What is not on disk yet can be read while this node leads, and is the log's end.
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
			if got := l.committed(commit); got != want {
				t.Errorf("committed up to %d: the others hear %d, want %d", commit, got, want)
			}
		}
		disk.open(nil)
		synctest.Wait()
		if got := l.committed(2); got != 2 {
			t.Errorf("all is on disk: the others hear %d, want 2", got)
		}
	})
}

// The others hear of an entry when the machine has taken it; what a deposed leader has not
// applied keeps nothing back later.
func TestParallelLogTellsWhatIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk, lead := aheadLog(t)
		applied := uint64(0)
		l.applied = func() uint64 { return applied }
		disk.open(nil)
		synctest.Wait()
		for applied = range uint64(3) {
			if got := l.committed(2); got != applied {
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
		if got := l.committed(4); got != 2 {
			t.Errorf("entry 3 is not applied: the others hear %d, want 2", got)
		}
		*lead = false
		if err := l.StoreLog(&raft.Log{Index: 5, Term: 3}); err != nil {
			t.Fatal(err)
		}
		if got := l.committed(5); got != 5 {
			t.Errorf("the others hear %d of a later leader's entries, want 5", got)
		}
	})
}

// A single node tells nobody, and keeps no list of all that it has ever stored.
func TestParallelLogOfASingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		n := c.leader()
		for range 100 {
			c.expect(n, "SET a 1", "+OK")
		}
		n.stores.Log.mu.Lock()
		defer n.stores.Log.mu.Unlock()
		if kept := len(n.stores.Log.pending); kept > entriesInFlightMax {
			t.Errorf("%d entries are kept, want %d at most", kept, entriesInFlightMax)
		}
	})
}

// Who does not lead any more, and every other write than the proposer's, waits for the disk.
func TestParallelLogWaits(t *testing.T) {
	for name, do := range map[string]func(l *parallelLog) error{
		"an entry of Raft's own":  func(l *parallelLog) error { return l.StoreLog(&raft.Log{Index: 3, Type: raft.LogNoop}) },
		"a cut":                   func(l *parallelLog) error { return l.DeleteRange(2, 2) },
		"an entry is to be there": func(l *parallelLog) error { return l.GetLog(2, new(raft.Log)) },
		"an entry of a leader":    func(l *parallelLog) error { return l.StoreLog(&raft.Log{Index: 3, Term: 2}) },
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

// After the disk has failed nothing is taken any more, and nothing that was ahead counts.
func TestParallelLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk, _ := aheadLog(t)
		applied := make(chan bool, 2)
		for _, index := range []uint64{1, 2} {
			go func() { applied <- l.await(index) }()
		}
		disk.open(errPower)
		if got := []bool{<-applied, <-applied}; slices.Contains(got, true) {
			t.Errorf("await: %v, want false twice", got)
		}
		if err := l.StoreLog(&raft.Log{Index: 3, Term: 1}); err == nil {
			t.Error("an entry was taken after the failure")
		}
		if got := l.committed(2); got != 0 {
			t.Errorf("the others hear that %d is committed, want 0", got)
		}
	})
}

// The entry with which the newest snapshot ends is known when the log does not have it any
// more, but to a leader: he would send it.
func TestLogStandsInForSnapshot(t *testing.T) {
	s := guardedMem(t, storeOptions{Fatal: func(error) {}}, &hookedStore{})
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

// No message of Raft goes past what holds back the commit index.
func TestNoPipeline(t *testing.T) {
	pipeline, err := (&transport{}).AppendEntriesPipeline("n2", "n2:1")
	if pipeline != nil || !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("%v, %v", pipeline, err)
	}
}
