package cluster

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/followers"
	"lockd/cluster/membership"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
)

// startBehind starts a cluster with a member that was brought up by the leader's snapshot and
// has the entries after it.
func startBehind(t *testing.T) (c *testCluster, lead, member *testNode) {
	c = startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB })) // raft-wal keeps what it trims for a while
	t.Cleanup(c.close)
	lead = c.settle()
	member = c.others(lead)[0]
	c.cut(member)
	for range 2 { // the log reaches back to the older snapshot
		for i := range 20 {
			c.expect(lead, fmt.Sprintf("SET k%d v", i), "+OK")
		}
		c.expect(lead, "LOCKD SNAPSHOT", "+OK")
	}
	c.expect(lead, "SET lock owner", "+OK")
	c.expect(lead, "SET lock2 owner", "+OK")
	c.net.Heal()
	time.Sleep(10 * time.Second)
	c.agree()
	if now := c.leader(); now != lead {
		t.Fatalf("%s leads and not %s", now.id, lead.id)
	}
	if member.snapshots.Exposed.Load() == 0 {
		t.Fatal("the member was not brought up by a snapshot")
	}
	return c, lead, member
}

// message is what the leader sends to a member that has its log up to prev.
func (n *testNode) message(t *testing.T, prev raft.Log, to uint64) *raft.AppendEntriesRequest {
	t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.id), Addr: []byte(n.addr)},
		Term:      n.raft.CurrentTerm(), PrevLogEntry: prev.Index, PrevLogTerm: prev.Term, LeaderCommitIndex: n.raft.CommitIndex(),
	}
	for i := prev.Index + 1; i <= to; i++ {
		e := &raft.Log{}
		if err := n.stores.Log.GetLog(i, e); err != nil {
			t.Fatal(err)
		}
		req.Entries = append(req.Entries, e)
	}
	return req
}

func newestSnapshot(t *testing.T, n *testNode) *raft.SnapshotMeta {
	t.Helper()
	snaps, err := n.stores.Snaps.List()
	if err != nil || len(snaps) == 0 {
		t.Fatalf("%s: %d snapshots, %v", n.id, len(snaps), err)
	}
	return snaps[0]
}

// resendSnapshot has the leader send its newest snapshot to a member.
func (n *testNode) resendSnapshot(t *testing.T, to *testNode) bool {
	t.Helper()
	meta, data, err := n.stores.Snaps.Open(newestSnapshot(t, n).ID)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	req := &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.id), Addr: []byte(n.addr)},
		SnapshotVersion: 1, Term: n.raft.CurrentTerm(), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
		Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size,
	}
	var resp raft.InstallSnapshotResponse
	if err := n.trans.InstallSnapshot(raft.ServerID(to.id), raft.ServerAddress(to.addr), req, &resp, data); err != nil {
		t.Error(err)
	}
	return resp.Success
}

// What a leader sends again, since the answer was lost, is agreed to by a member that has
// it, however much of its log is gone; and no snapshot takes the member backwards.
func TestResentAfterSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, member := startBehind(t)
		last := lead.raft.LastIndex()
		meta := newestSnapshot(t, lead)
		at := raft.Log{Index: meta.Index, Term: meta.Term}
		var before raft.Log
		if err := lead.stores.Log.GetLog(meta.Index-5, &before); err != nil {
			t.Fatal(err)
		}
		exposed, kept := member.snapshots.Exposed.Load(), func() uint64 { i, _ := member.stores.Log.LastIndex(); return i }
		for name, msg := range map[string]*raft.AppendEntriesRequest{
			"from the snapshot on":   lead.message(t, at, last),
			"from before it":         lead.message(t, before, last),
			"nothing but before it":  lead.message(t, before, meta.Index),
			"a part of what follows": lead.message(t, at, meta.Index+1),
		} {
			var resp raft.AppendEntriesResponse
			if err := lead.trans.replicas.Call(raft.ServerAddress(member.addr), msg, &resp); err != nil || !resp.Success || resp.LastLog != last {
				t.Errorf("%s: %+v, %v", name, resp, err)
			}
		}
		for range 3 {
			if !lead.resendSnapshot(t, member) {
				t.Error("the snapshot is refused")
			}
		}
		if member.snapshots.Exposed.Load() != exposed || kept() != last || member.state.Applied.Load() != lead.state.Applied.Load() {
			t.Errorf("the member has applied %d, its log ends at %d of %d, and it installed %d snapshots",
				member.state.Applied.Load(), kept(), last, member.snapshots.Exposed.Load()-exposed)
		}
		c.kill(lead.id) // whoever leads now, nothing is lost
		c.expect(member, "GET lock", "$5 owner")
		c.start(lead.id)
		c.expect(member, "GET lock2", "$5 owner")
		c.agree()
	})
}

// A leader of an earlier term is told of the later one, whatever he sends.
func TestOldLeaderSendsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lead, member := startBehind(t)
		req := &raft.InstallSnapshotRequest{
			RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(lead.id), Addr: []byte(lead.addr)},
			SnapshotVersion: 1, Term: lead.raft.CurrentTerm() - 1, LastLogIndex: 1, LastLogTerm: 1,
		}
		var resp raft.InstallSnapshotResponse
		err := lead.trans.InstallSnapshot(raft.ServerID(member.id), raft.ServerAddress(member.addr), req, &resp, strings.NewReader(""))
		if err != nil || resp.Success || resp.Term != lead.raft.CurrentTerm() {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// What a node stands in for is the snapshot that it goes by, and no other that lies there.
func TestRestoredSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, onDisk(t, func(*Config) {}))
		defer c.close()
		n := c.leader()
		c.expect(n, "SET a 1", "+OK")
		c.expect(n, "LOCKD SNAPSHOT", "+OK")
		meta := newestSnapshot(t, n)
		if index, term := n.snapshots.Base(); index != meta.Index || term != meta.Term || index == 0 {
			t.Errorf("entry %d of term %d, want %d of %d", index, term, meta.Index, meta.Term)
		}
		sink, err := n.stores.Snaps.Create(1, meta.Index+100, meta.Term, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
		if n.ownLog.reaches(meta.Index+100, meta.Term) {
			t.Error("the node vouches for what only lies in its folder")
		}
	})
}

// A member whose answer is lost just after it was brought up by a snapshot, and who is
// killed, catches up.
func TestRestartAfterSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, member := startBehind(t)
		meta := newestSnapshot(t, lead)
		c.kill(member.id)
		c.start(member.id)
		time.Sleep(5 * time.Second)
		exposed := member.snapshots.Exposed.Load()
		var resp raft.AppendEntriesResponse
		msg := lead.message(t, raft.Log{Index: meta.Index, Term: meta.Term}, lead.raft.LastIndex())
		if err := lead.trans.replicas.Call(raft.ServerAddress(member.addr), msg, &resp); err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
		c.agree()
		if member.snapshots.Exposed.Load() != exposed {
			t.Error("the member was brought up by a snapshot again")
		}
	})
}

// A snapshot that ends with an entry of the log tells nothing new, although the member
// does not know yet that the entry is committed; one of another history does.
func TestLogReachesSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		member := c.others(lead)[0]
		lead.disk.gate.close() // so the leader keeps the commit to itself
		defer lead.disk.gate.open(nil)
		go lead.do("SET a 1")
		synctest.Wait()
		last, term := lead.raft.LastIndex(), lead.raft.CurrentTerm()
		if applied := member.state.Applied.Load(); applied >= last || member.raft.LastIndex() != last {
			t.Errorf("the member has applied %d of %d, its log ends at %d", applied, last, member.raft.LastIndex())
		}
		for _, tt := range []struct {
			index, term uint64
			want        bool
		}{{last, term, true}, {last, term + 1, false}, {last + 1, term, false}, {member.state.Applied.Load(), term + 1, true}} {
			if got := member.ownLog.reaches(tt.index, tt.term); got != tt.want {
				t.Errorf("it reaches entry %d of term %d: %v", tt.index, tt.term, got)
			}
		}
	})
}

// An image that is older than the state is never taken for it.
func TestNoImageTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		n := c.leader()
		c.expect(n, "SET a 1", "+OK")
		var old bytes.Buffer
		if err := n.state.Image().Save(&old); err != nil {
			t.Error(err)
		}
		c.expect(n, "SET a 2", "+OK")
		if err := n.state.Restore(&old); err == nil {
			t.Error("an old image was restored")
		}
		c.expect(n, "GET a", "$1 2")
	})
}

// save has a node take a snapshot, which ends with an entry that it has applied.
func (c *testCluster) save(n *testNode) {
	c.t.Helper()
	time.Sleep(20 * time.Millisecond) // the names of snapshots have milliseconds
	c.expect(n, "SAVE", "+OK")
}

// forget has a node write a little, and forget its log up to the last of that.
func (c *testCluster) forget(n *testNode) {
	c.t.Helper()
	for range 2 {
		for i := range 5 {
			c.expect(n, fmt.Sprintf("SET a %d", i), "+OK")
		}
		c.save(n)
	}
}

// loseAnswer has the connections between two nodes break, while what one has answered the
// other is under way.
func (c *testCluster) loseAnswer(from, to *testNode) {
	c.net.SetCut(true, []string{from.addr}, []string{to.addr})
	time.Sleep(100 * time.Millisecond)
	c.net.Reset(from.addr, to.addr)
	c.net.Reset(to.addr, from.addr)
	c.net.SetCut(false, []string{from.addr}, []string{to.addr})
}

// A member was brought up by a snapshot, and its answer to the first entry after that is
// lost. It keeps the entry, whatever is sent again: it may be on no other node that lives.
func TestAnswerAfterInstallIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB }))
		defer c.close()
		lead := c.settle()
		member, third := c.others(lead)[0], c.others(lead)[1]
		c.cut(member)
		c.forget(lead)
		c.net.Heal()
		time.Sleep(5 * time.Second)
		if c.agree(); member.snapshots.Exposed.Load() != 1 {
			t.Fatalf("the member installed %d snapshots", member.snapshots.Exposed.Load())
		}
		c.net.SetCut(true, []string{member.addr}, []string{lead.addr})
		c.expect(lead, "SET lock me", "+OK")
		last := lead.raft.LastIndex()
		time.Sleep(followers.Timeout + 500*time.Millisecond)
		c.net.Heal()
		time.Sleep(2 * time.Second)
		if has, err := member.stores.Log.LastIndex(); has < last || err != nil || member.snapshots.Exposed.Load() != 1 {
			t.Errorf("its log ends at %d of %d (%v), and it has installed %d snapshots", has, last, err, member.snapshots.Exposed.Load())
		}
		c.kill(lead.id)
		c.expect(third, "GET lock", "$2 me")
		c.expect(member, "SET more 1", "+OK")
	})
}

// A member has saved twice with nothing written between, so that its log is as short as it
// can be, and the answer to the next entry is lost. The leader's older snapshot takes
// nothing away, also if the member starts again without what the leader has.
func TestSaveTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB }))
		defer c.close()
		lead := c.settle()
		member, third := c.others(lead)[0], c.others(lead)[1]
		for range 2 {
			c.expect(lead, "SET b 1", "+OK")
			c.save(lead)
		}
		c.agree()
		c.cut(third)
		c.expect(lead, "SET lock me", "+OK")
		time.Sleep(time.Second)
		for range 2 {
			c.save(member)
		}
		meta := newestSnapshot(t, member)
		if first, err := member.stores.Log.FirstIndex(); first != meta.Index || err != nil {
			t.Errorf("the log begins at %d (%v), the snapshots end at %d", first, err, meta.Index)
		}
		c.net.SetCut(true, []string{member.addr}, []string{lead.addr})
		answer := make(chan string, 1)
		go func() { answer <- lead.do("SET y 1") }()
		c.loseAnswer(member, lead)
		if got := <-answer; got != "+OK" || member.snapshots.Exposed.Load() != 0 {
			t.Errorf("answered %q, and the member installed %d snapshots", got, member.snapshots.Exposed.Load())
		}
		c.kill(lead.id)
		c.kill(member.id)
		c.start(member.id)
		c.net.Heal()
		c.expect(third, "GET lock", "$2 me")
		c.expect(third, "GET y", "$1 1")
	})
}

// A snapshot may end with an entry of Raft's own, which is applied nowhere. What is sent
// again from before it is known all the same.
func TestResentOverBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB }))
		defer c.close()
		lead := c.settle()
		member := c.others(lead)[0]
		var before raft.Log
		if err := lead.stores.Log.GetLog(lead.raft.LastIndex(), &before); err != nil {
			t.Fatal(err)
		}
		if err := lead.raft.Barrier(0).Error(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range 2 {
			c.save(member)
		}
		if meta := newestSnapshot(t, member); meta.Index != lead.raft.LastIndex() || member.state.Applied.Load() >= meta.Index {
			t.Fatalf("the snapshot ends at %d, the log at %d, applied is %d", meta.Index, lead.raft.LastIndex(), member.state.Applied.Load())
		}
		// The member's log is cut once more, as an install would.
		if err := member.stores.Log.DeleteRange(1, lead.raft.LastIndex()); err != nil {
			t.Fatal(err)
		}
		var resp raft.AppendEntriesResponse
		if err := lead.trans.replicas.Call(raft.ServerAddress(member.addr), lead.message(t, before, lead.raft.LastIndex()), &resp); err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
		c.expect(lead, "SET a 1", "+OK")
		c.agree()
	})
}

// growingMachine is a largeMachine once it is told.
type growingMachine struct {
	Machine
	large *atomic.Bool
}

func (m growingMachine) Snapshot() func(io.Writer) error {
	if m.large.Load() {
		return largeMachine{m.Machine}.Snapshot()
	}
	return m.Machine.Snapshot()
}

// A leader's snapshot and one of the member's own are not made at a time: the one that
// ends last would be what Raft goes by, and votes by.
func TestInstallPreemptsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var large atomic.Bool
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) {
			cfg.LogStore, cfg.Machine = store.BoltDB, growingMachine{cfg.Machine, &large}
		}))
		defer c.close()
		lead := c.settle()
		member := c.others(lead)[0]
		c.cut(member)
		c.forget(lead)
		large.Store(true)
		own := make(chan string, 1)
		go func() { own <- member.do("LOCKD SNAPSHOT") }()
		time.Sleep(100 * time.Millisecond)
		c.net.Heal()
		if got := <-own; !strings.Contains(got, snapshot.ErrPreempted.Error()) {
			t.Errorf("its own snapshot was answered %q", got)
		}
		time.Sleep(5 * time.Second)
		meta := newestSnapshot(t, lead)
		if index, _ := member.snapshots.Base(); index < meta.Index || member.snapshots.Exposed.Load() == 0 {
			t.Errorf("it goes by a snapshot up to %d, the leader's reaches to %d", index, meta.Index)
		}
	})
}

// A leader that falls silent while a member installs its snapshot does not keep that member
// from voting.
func TestSnapshotOfSilentLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB }))
		defer c.close()
		lead, member := c.installSlowly()
		c.cut(lead)
		c.net.SetRate(0)
		began := time.Now()
		var rest []string
		for _, o := range c.others(lead) {
			rest = append(rest, o.id)
		}
		c.expect(c.leader(rest...), "SET b 1", "+OK")
		if took := time.Since(began); took > followers.Timeout+2*time.Second {
			t.Errorf("writes went on after %v", took)
		}
		c.net.Heal()
		c.expect(member, "GET b", "$1 1")
		c.agree()
	})
}

// installSlowly has a member install a snapshot of the leader that is ten seconds on its way.
func (c *testCluster) installSlowly() (lead, member *testNode) {
	c.t.Helper()
	lead = c.settle()
	member = c.others(lead)[0]
	c.cut(member)
	for i := range 10 {
		c.expect(lead, fmt.Sprintf("SET k%d %s", i, strings.Repeat("x", 128<<10)), "+OK")
	}
	c.forget(lead)
	c.net.SetRate(128 << 10)
	c.net.Heal()
	for tries := 0; member.snapshots.Installs.Load() == 0; tries++ {
		if tries == 1000 {
			c.t.Fatal("no snapshot is installed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second)
	return lead, member
}

// gatedSnapshots is a snapshot store on a disk that may hang.
type gatedSnapshots struct {
	raft.SnapshotStore
	begin, disk *gate // of making one, and of writing a piece of it
}

func (s gatedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if err := s.begin.pass(); err != nil {
		return nil, err
	}
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, trans)
	return gatedSink{sink, s.disk}, err
}

type gatedSink struct {
	raft.SnapshotSink
	disk *gate
}

func (s gatedSink) Write(b []byte) (int, error) {
	if err := s.disk.pass(); err != nil {
		return 0, err
	}
	return s.SnapshotSink.Write(b)
}

// stallMax is how long startOnGatedDisks bears with a disk.
const stallMax = 5 * time.Second

// startOnGatedDisks starts three nodes whose snapshots are on disks that may hang.
func startOnGatedDisks(t *testing.T) (c *testCluster, disks map[string]gatedSnapshots) {
	t.Helper()
	disks = map[string]gatedSnapshots{}
	c = startCluster(t, 3, func(cfg *Config) {
		snaps, err := raft.NewFileSnapshotStoreWithLogger(t.TempDir(), store.SnapshotsKept, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		disk, fatal := gatedSnapshots{snaps, &gate{}, &gate{}}, cfg.Fatal
		disks[cfg.ID] = disk
		withStores(cfg, func(func() (*store.Stores, error)) (*store.Stores, error) {
			opts := store.Options{Fatal: fatal, StallMax: stallMax}
			s, err := store.Join(opts, raft.NewInmemStore(), raft.NewInmemStore(), disk)
			if err == nil {
				s.Empty = true
			}
			return s, err
		})
	}, votesOnAnotherDisk())
	return c, disks
}

// A disk that hangs before the first byte of a leader's snapshot ends the process as well;
// one of the node's own may wait for it.
func TestInstallBeginsOnHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disks := startOnGatedDisks(t)
		defer c.close()
		lead := c.settle()
		for _, m := range c.others(lead) {
			disks[m.id].begin.close()
			defer disks[m.id].begin.open(nil)
			m.snapshots.Ask()
		}
		time.Sleep(stallMax + time.Second)
		for _, m := range c.others(lead) {
			if said := m.stopped(); said != "" || len(m.snapshots.Busy) == 0 {
				t.Errorf("over a snapshot of its own it said %q", said)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, disks := startOnGatedDisks(t)
		defer c.close()
		for _, m := range c.others(c.settle()) {
			disks[m.id].begin.close()
			defer disks[m.id].begin.open(nil)
		}
		lead, member := c.installSlowly()
		time.Sleep(stallMax + time.Second)
		if said := member.stopped(); !strings.Contains(said, "InstallSnapshot has not returned") {
			t.Errorf("it said %q", said)
		}
		c.expect(lead, "SET a 1", "+OK")
	})
}

// A disk that hangs while a leader's snapshot is written ends the process, as one that does
// not take the log; a network that is slow does not.
func TestInstallOnHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disks := startOnGatedDisks(t)
		defer c.close()
		lead, member := c.installSlowly()
		time.Sleep(2 * time.Second)
		if member.snapshots.Installs.Load() == 0 || member.stopped() != "" {
			t.Fatalf("while the snapshot is under way it says %q", member.stopped())
		}
		disks[member.id].disk.close()
		time.Sleep(stallMax + time.Second)
		if said := member.stopped(); !strings.Contains(said, "InstallSnapshot") {
			t.Errorf("it said %q", said)
		}
		disks[member.id].disk.open(nil)
		c.expect(lead, "SET a 1", "+OK")
	})
}

// A vote is given to a node, not to whoever has its address later in the same term.
func TestVoteIsForANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		voter, other := c.others(lead)[0], c.others(lead)[1]
		term := lead.raft.CurrentTerm() + 10
		for _, tt := range []struct {
			id      string
			lastLog uint64
			granted bool
		}{
			{other.id, 1000, true}, {lead.id, 1, false}, {other.id, 1000, true}, // its answer was lost
		} {
			req := &raft.RequestVoteRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(tt.id), Addr: []byte("moved:1")},
				Term:      term, LastLogIndex: tt.lastLog, LastLogTerm: tt.lastLog, LeadershipTransfer: true,
			}
			var resp raft.RequestVoteResponse
			err := lead.trans.NetworkTransport.RequestVote(raft.ServerID(voter.id), raft.ServerAddress(voter.addr), req, &resp)
			if err != nil || resp.Granted != tt.granted {
				t.Errorf("%s: %+v, %v", tt.id, resp, err)
			}
		}
	})
}

// A log that goes another way than a snapshot of the leader, and past it, ends the
// process before Raft forgets that the log is gone; the next start finishes.
func TestInstallOverLongerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB }))
		defer c.close()
		lead := c.settle()
		member, next := c.others(lead)[0], c.others(lead)[1]
		c.kill(member.id)
		// Twice, as the first message of a leader's term is kept for the member whatever he
		// forgets: it has to begin where the member's log goes another way already.
		for _, to := range []*testNode{next, lead} {
			c.expect(lead, "LOCKD TRANSFER "+to.id, "+OK")
			lead = c.leader(to.id)
			c.forget(lead)
		}
		addStray(t, member, newestSnapshot(t, lead).Index+3)
		// What the leader before had under way for the member would cut the stray entries off.
		time.Sleep(2 * followers.Timeout)
		c.start(member.id)
		time.Sleep(5 * time.Second)
		if said := member.stopped(); !strings.Contains(said, errRestart.Error()) {
			t.Fatalf("it said %q", said)
		}
		c.kill(member.id)
		c.start(member.id)
		c.agree()
		c.expect(lead, "SET b 1", "+OK")
		c.agree()
	})
}

// addStray puts entries of a term that nobody else knows at the end of a node's log.
func addStray(t *testing.T, n *testNode, to uint64) {
	t.Helper()
	cfg := Config{ID: n.id}
	n.config(&cfg)
	dir, err := store.OpenFolder(cfg.Dir, n.id, membership.OwnArch)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s, err := store.Open(dir, store.Options{LogStore: cfg.LogStore, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	last, err := s.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	term, err := s.Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		t.Fatal(err)
	}
	for i := last + 1; i <= to; i++ {
		if err := s.Log.StoreLog(&raft.Log{Index: i, Term: term, Type: raft.LogBarrier}); err != nil {
			t.Fatal(err)
		}
	}
}
