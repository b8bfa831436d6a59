package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
)

// The tests below have a leader that is not one any more, and does not know it, or messages of it that come late.

// stand has a node stand for election at once, in the name of the leader that it knows.
func (n *testNode) stand(leader *testNode) {
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.id), Addr: []byte(leader.addr),
	}}
	answers := make(chan raft.RPCResponse, 1)
	go n.trans.ask(raft.RPC{Command: req, RespChan: answers}, answers)
}

// becomesLeader waits until a node leads, while others may believe that they do.
func (c *testCluster) becomesLeader(n *testNode) {
	c.t.Helper()
	for range 1000 {
		if n.lead.Held() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatalf("%s does not lead", n.id)
}

// entry is an entry of a node's log.
func (n *testNode) entry(t *testing.T, index uint64) (e raft.Log) {
	t.Helper()
	if err := n.stores.Log.GetLog(index, &e); err != nil {
		t.Fatalf("entry %d of %s: %v", index, n.id, err)
	}
	return e
}

// append is a message of a leader's Raft to another node: entries behind one, and how far they are committed.
func (n *testNode) append(prev raft.Log, commit uint64, entries ...*raft.Log) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.id), Addr: []byte(n.addr)},
		Term:      n.raft.CurrentTerm(), PrevLogEntry: prev.Index, PrevLogTerm: prev.Term, LeaderCommitIndex: commit,
		Entries: entries,
	}
}

// A leader whose Raft hangs in its disk does not hear that another one leads. It answers no read: who is asked says a
// later term.
func TestHungLeaderAnswersNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		c.expect(old, "SET a 1", "+OK")
		c.agree() // any of the others may be elected
		next := c.others(old)[0]
		old.disk.gate.close()
		go func() { _ = old.raft.Barrier(0).Error() }()
		time.Sleep(20 * time.Millisecond)
		next.stand(old)
		c.becomesLeader(next)
		c.expect(next, "SET a 2", "+OK")
		if !old.lead.Held() {
			t.Fatal("the old leader knows already")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got := old.doCtx(ctx, "GET a"); got == "$1 1" {
			t.Errorf("the old leader answers %q", got)
		}
		old.disk.gate.open(nil)
		c.agree()
	})
}

// A node that has voted for another one confirms no round of the term before, though a member that has not heard of the
// election says that this is its term: its own vote must not count for both.
func TestVoterConfirmsNoEarlierTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		next, third := c.others(old)[0], c.others(old)[1]
		c.expect(old, "SET a 1", "+OK")
		c.agree() // any of the others may be elected
		lead := old.lead.Load()
		c.net.Partition([]string{third.addr}, []string{next.addr})
		next.stand(old)
		c.becomesLeader(next)
		c.expect(next, "SET a 2", "+OK")
		if third.raft.CurrentTerm() != lead.Term || old.raft.CurrentTerm() == lead.Term {
			t.Fatalf("terms: old %d, third %d, before %d", old.raft.CurrentTerm(), third.raft.CurrentTerm(), lead.Term)
		}
		if old.requests.Reader.Confirm(lead) {
			t.Error("a round of the term before is confirmed")
		}
		if !next.requests.Reader.Confirm(next.lead.Load()) {
			t.Error("a round of the new term is not confirmed")
		}
	})
}

// A leader that was cut off sends its entry to a member that has applied another one in its place: it is not told that
// the member has it.
func TestOldLeaderIsNotAgreedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		next, third := c.others(old)[0], c.others(old)[1]
		c.expect(old, "SET a 1", "+OK")
		c.agree() // any of the others may be elected
		c.cut(old)
		reply := old.ask("SET a lost")
		time.Sleep(10 * time.Millisecond)
		next.stand(old)
		c.becomesLeader(next)
		c.expect(next, "SET b 2", "+OK")
		time.Sleep(30 * time.Millisecond)
		own := old.entry(t, old.raft.LastIndex())
		if own.Index > third.state.Applied.Load() || old.raft.CurrentTerm() >= third.raft.CurrentTerm() {
			t.Fatalf("entry %d of term %d, and the member has applied %d of term %d", own.Index, old.raft.CurrentTerm(),
				third.state.Applied.Load(), third.raft.CurrentTerm())
		}
		said, _ := third.trans.respond(old.append(old.entry(t, own.Index-1), 0, &own), make(chan raft.RPCResponse, 1))
		if said.Response.(*raft.AppendEntriesResponse).Success {
			t.Error("the member agrees to an entry that it has not")
		}
		c.net.Heal()
		<-reply
		time.Sleep(5 * time.Second)
		c.goOn()
	})
}

// A leader says of a message without entries that no more is committed than what it stands behind: what comes next may
// be another's with the member, which would take that for committed.
func TestCommitEndsWithTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		next := c.others(old)[0]
		c.expect(old, "SET a 1", "+OK")
		c.agree() // any of the others may be elected
		c.cut(old)
		reply := old.ask("SET a lost")
		time.Sleep(10 * time.Millisecond)
		next.stand(old)
		c.becomesLeader(next)
		c.expect(next, "SET b 2", "+OK")
		own := old.entry(t, old.raft.LastIndex())
		before, commit := old.entry(t, own.Index-1), next.raft.CommitIndex()
		if commit < own.Index || old.state.Applied.Load() >= own.Index {
			t.Fatalf("entry %d, committed %d, applied %d", own.Index, commit, old.state.Applied.Load())
		}
		c.net.Heal()
		var said raft.AppendEntriesResponse
		err := next.trans.AppendEntries(raft.ServerID(old.id), raft.ServerAddress(old.addr), next.append(before, commit), &said)
		if err != nil || !said.Success {
			t.Fatalf("the message that is to be tried: %v, %+v", err, said)
		}
		<-reply
		time.Sleep(5 * time.Second)
		c.goOn()
	})
}

// goOn reports nodes that have stopped, or do not agree.
func (c *testCluster) goOn() {
	c.t.Helper()
	for _, n := range c.others(nil) {
		if why := n.stopped(); why != "" {
			c.t.Fatalf("%s has stopped: %.150s", n.id, why)
		}
	}
	c.agree()
}

// The log clock of a term starts only while this node leads in that very term: a barrier that was reached in another one
// says nothing.
func TestClockStartsInItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		lead := leader.lead.Load()
		start := func(n *testNode, term uint64) bool {
			n.lead.Store(nil)
			return n.elections.startClock(term)
		}
		for _, term := range []uint64{lead.Term - 1, lead.Term + 1} {
			if start(leader, term) || leader.lead.Held() {
				t.Errorf("the clock of term %d starts in term %d", term, lead.Term)
			}
		}
		if follower := c.others(leader)[0]; start(follower, lead.Term) || follower.lead.Held() {
			t.Error("the clock starts at a node that does not lead")
		}
		if !start(leader, lead.Term) || leader.lead.Load().Term != lead.Term {
			t.Error("the clock of the present term does not start")
		}
		c.expect(leader, "SET a 1", "+OK")
	})
}

// hookedClock is a node's clock that does something before it tells the time for the first time.
type hookedClock struct {
	clock.Clock
	first func()
}

func (c *hookedClock) Monotonic() time.Duration {
	if do := c.first; do != nil {
		c.first = nil
		do()
	}
	return c.Clock.Monotonic()
}

// The log clock of a term does not start if the term is over by the time when a majority has confirmed it, though this
// node leads again, nor at a node that must not lead any more.
func TestClockStartsWhileItsTermLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		term := leader.raft.CurrentTerm()
		starts := func(meanwhile func(*core)) bool {
			hook := &hookedClock{Clock: leader.clock}
			cfg := leader.cfg
			cfg.Clock = hook
			own := newCore(cfg)
			own.raft, hook.first = leader.raft, func() { meanwhile(own) }
			e := elections{core: own, state: leader.state, requests: leader.requests, clocks: leader.elections.clocks}
			return e.startClock(term) || own.lead.Held()
		}
		if !starts(func(*core) {}) {
			t.Error("the clock of the present term does not start")
		}
		if starts(func(own *core) { own.broken.Store(true) }) {
			t.Error("the clock starts at a node that must not lead")
		}
		again := func(*core) {
			other, answers := c.others(leader)[0], make(chan raft.RPCResponse, 1)
			leader.trans.requests <- raft.RPC{RespChan: answers, Command: &raft.RequestVoteRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(other.id), Addr: []byte(other.addr)},
				Term:      term + 1, LeadershipTransfer: true,
			}}
			<-answers
			leader.stands()
			for range 1000 {
				if leader.raft.State() == raft.Leader && leader.raft.CurrentTerm() > term {
					return
				}
				time.Sleep(time.Millisecond)
			}
			t.Error("it does not lead again")
		}
		if starts(again) {
			t.Errorf("the clock of term %d starts in term %d", term, leader.raft.CurrentTerm())
		}
		c.goOn()
	})
}

// A leader knows who led before it, and when that was heard last; and what it has led itself counts as time with a
// leader.
func TestLeaderKnowsWhoLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		c.expect(old, "SET a 1", "+OK")
		c.agree() // any of the others may be elected
		next := c.others(old)[0]
		time.Sleep(5 * time.Second)
		before := next.clock.Monotonic()
		next.stand(old)
		c.becomesLeader(next)
		lead := next.lead.Load()
		if lead.Former != old.id || lead.Heard > lead.Origin || before-lead.Heard > time.Second {
			t.Errorf("%q led before %s, heard at %s, which leads since %s", lead.Former, next.id, lead.Heard, lead.Origin)
		}
		c.expect(next, "SET a 2", "+OK")
		time.Sleep(5 * time.Second)
		next.elections.stoppedLeading(lead)
		if ran := next.state.Led.Ran(); ran < 4*time.Second || ran > 6*time.Second {
			t.Errorf("of 5 s in which it led, %s count", ran)
		}
	})
}

// What a message says is committed is in it or before it, and what the leader's own disk has yet to take is not said to
// be committed.
func TestCommitIsBoundToTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		c.expect(lead, "SET a 1", "+OK")
		c.agree()
		last := lead.entry(t, lead.raft.LastIndex())
		for _, tt := range []struct {
			entries      int
			commit, want uint64 // behind last
		}{{0, 0, 0}, {0, 4, 0}, {3, 0, 0}, {3, 2, 2}, {3, 3, 3}, {3, 4, 3}} {
			var entries []*raft.Log
			for i := range tt.entries {
				entries = append(entries, &raft.Log{Index: last.Index + 1 + uint64(i), Term: last.Term})
			}
			args := lead.append(last, last.Index+tt.commit, entries...)
			if lead.trans.bound(args); args.LeaderCommitIndex != last.Index+tt.want {
				t.Errorf("%d entries, %d committed: it says %d", tt.entries, tt.commit, args.LeaderCommitIndex-last.Index)
			}
		}
		lead.disk.gate.close()
		defer lead.disk.gate.open(nil)
		go lead.do("SET a 2")
		synctest.Wait()
		own := lead.entry(t, lead.raft.LastIndex())
		args := lead.append(last, own.Index, &own)
		if lead.trans.bound(args); own.Index != last.Index+1 || args.LeaderCommitIndex != last.Index {
			t.Errorf("entry %d is said to be committed, and entry %d is not on the disk", args.LeaderCommitIndex, own.Index)
		}
	})
}

// A message is answered for Raft only if this node has all of it: the log from its beginning, or no entry at all. A
// heartbeat is Raft's, and so is what stands behind a gap, or behind all that is here.
func TestWhichMessagesAreAnsweredForRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		c.expect(lead, "SET a 1", "+OK")
		c.agree()
		n := c.others(lead)[0]
		has := n.state.Applied.Load()
		for _, tt := range []struct {
			what        string
			behind      uint64
			first, last uint64 // entries; 0: none
			answered    bool
		}{
			{"a heartbeat", 0, 0, 0, false}, {"no entry, behind the first", 1, 0, 0, true},
			{"no entry, behind one before the last", has - 1, 0, 0, true}, {"no entry, behind the last", has, 0, 0, false},
			{"the first entry", 0, 1, 1, true}, {"the whole log", 0, 1, has, true}, {"behind a gap", has - 1, has + 2, has + 2, false},
		} {
			var entries []*raft.Log
			for i := tt.first; i <= tt.last && i > 0; i++ {
				entries = append(entries, &raft.Log{Index: i, Term: lead.raft.CurrentTerm()})
			}
			req := lead.append(raft.Log{Index: tt.behind, Term: lead.raft.CurrentTerm()}, has, entries...)
			answer := n.trans.ownLog.skipApplied(req)
			if (answer != nil) != tt.answered || req.PrevLogEntry != tt.behind || len(req.Entries) != len(entries) {
				t.Errorf("%s: %+v, behind %d with %d entries", tt.what, answer, req.PrevLogEntry, len(req.Entries))
			}
		}
	})
}

// Of a message that comes again a node answers for what it has applied, and for nothing more: the rest is Raft's, which
// writes it before it says that it has it.
func TestOnlyWhatIsAppliedIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		c.expect(lead, "SET a 1", "+OK")
		c.expect(lead, "SET a 2", "+OK")
		c.agree()
		n := c.others(lead)[0]
		has := n.state.Applied.Load()
		for _, tt := range []struct {
			first, last, left uint64 // entries of the message, and the first one that is left to Raft; 0: none
		}{
			{has, has, 0}, {has - 1, has, 0}, {has, has + 1, has + 1}, {has - 1, has + 2, has + 1}, {has + 1, has + 1, has + 1},
		} {
			var entries []*raft.Log
			for i := tt.first; i <= tt.last; i++ {
				entries = append(entries, &raft.Log{Index: i, Term: lead.raft.CurrentTerm()})
			}
			req := lead.append(raft.Log{Index: tt.first - 1, Term: lead.raft.CurrentTerm()}, has, entries...)
			answer := n.trans.ownLog.skipApplied(req)
			switch {
			case tt.left == 0 && (answer == nil || !answer.Success):
				t.Errorf("%d to %d of %d: %+v", tt.first, tt.last, has, answer)
			case tt.left > 0 && (answer != nil || req.Entries[0].Index != tt.left || req.PrevLogEntry != tt.left-1):
				t.Errorf("%d to %d of %d: %+v, entry %d is left, behind %d", tt.first, tt.last, has, answer,
					req.Entries[0].Index, req.PrevLogEntry)
			}
		}
	})
}

// Every node hears an index by which all is applied that was acknowledged before, from the leader, and a leader without a
// majority gives none.
func TestConfirmedIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.settle()
		for i, n := range c.nodes {
			c.expect(c.others(n)[0], "SET a 1", "+OK")
			done := c.leader().state.Applied.Load()
			if index, ok := n.requests.ConfirmedIndex(t.Context()); !ok || index < done {
				t.Errorf("node %v: index %d, %v, and entry %d is acknowledged", i, index, ok, done)
			}
		}
		c.cut(old)
		if index, ok := old.requests.ConfirmedIndex(t.Context()); ok {
			t.Errorf("a leader that is cut off says %d", index)
		}
	})
}
