package cluster

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/record"
	"lockd/cluster/replica"
)

// ms reads an integer reply.
func ms(t *testing.T, reply string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil {
		t.Fatalf("not an integer reply: %q", reply)
	}
	return time.Duration(n) * time.Millisecond
}

// goneAt polls a key at a node until it is gone, and returns when that was seen.
func goneAt(t *testing.T, c *testCluster, key string) time.Time {
	t.Helper()
	for range 100000 {
		if c.leader().do("GET "+key) == "_" {
			return time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the key never went away")
	return time.Time{}
}

// A lease ends within a few milliseconds of its time though nobody writes, on every
// node by the same entry. That entry and one each clockLagMax is all that it costs.
func TestLeaseEndsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		time.Sleep(5 * time.Second) // the roster is complete
		start := time.Now()
		c.expect(leader, "SET lock me 30000", "+OK")
		index := leader.raft.LastIndex()
		end := goneAt(t, c, "lock")
		if held := end.Sub(start); held < 30*time.Second || held > 30*time.Second+20*time.Millisecond {
			t.Errorf("the lease of 30s lasted %s", held)
		}
		if used, want := leader.raft.LastIndex()-index, uint64(30*time.Second/clock.LagMax); used != want {
			t.Errorf("30s of lease and its end took %d entries, want %d", used, want)
		}
		c.agree()
		for _, n := range c.others(nil) {
			if !strings.HasSuffix(n.pub.said(), "expired=lock") {
				t.Errorf("%s heard %q", n.id, n.pub.said())
			}
		}
	})
}

// A failover neither ends a lease early nor gives it a new start: the time without
// a leader, and only that, is added.
func TestLeaseSurvivesFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		first := c.leader()
		start := time.Now()
		c.expect(first, "SET lock me 30000", "+OK")
		time.Sleep(20 * time.Second)
		killed := time.Now()
		c.kill(first.id)
		second := c.leader()
		without := time.Since(killed)
		left := ms(t, second.do("PTTL lock"))
		// The second leader knows what the first one said last, which may be two heartbeats before it was killed.
		if atLeast := 10 * time.Second; left < atLeast-time.Second || left > atLeast+without+2*commitTimeout {
			t.Errorf("10s before the end, and %s without a leader: PTTL says %s", without, left)
		}
		held := goneAt(t, c, "lock").Sub(start)
		if held < 30*time.Second || held > 30*time.Second+without+100*time.Millisecond {
			t.Errorf("the lease of 30s lasted %s, with %s without a leader", held, without)
		}
	})
}

// Time without a leader does not count for a lease, whatever a node has heard in that time that leads next.
func TestLeaseStandsStillWithoutLeader(t *testing.T) {
	const lease, ran, without = 30 * time.Second, 23 * time.Second, 10 * time.Second
	const words = 300 * time.Millisecond // two messages of a leader come in this time
	const poll = 10 * time.Millisecond
	for name, of := range map[string]struct {
		led  time.Duration // at most, meanwhile
		kill bool          // the first leader ends; otherwise it is cut off, like the others
		next func(c *testCluster, first, second, third *testNode) *testNode
	}{
		"an election fails": {0, true, func(c *testCluster, _, second, third *testNode) *testNode {
			if !third.grantsVote(c.t, second, third.raft.LastIndex()) {
				c.t.Fatal("it gives no vote")
			}
			second.follows(c.t, third)
			c.net.Heal()
			return third
		}},
		"a leader ends before its first entry": {words, true, func(c *testCluster, first, second, third *testNode) *testNode {
			third.disk.gate.close()
			second.follows(c.t, third)
			third.follows(c.t, second)
			c.net.Heal()
			second.stands()
			time.Sleep(words)
			if second.raft.State() != raft.Leader || second.lead.Held() {
				c.t.Fatalf("the next leader is in state %s", second.raft.State())
			}
			c.kill(second.id)
			third.disk.gate.open(nil)
			c.start(first.id)
			return third
		}},
		"messages arrive late": {0, false, func(c *testCluster, first, second, third *testNode) *testNode {
			c.net.SetCut(false, []string{first.addr}, []string{third.addr})
			synctest.Wait()
			if leader, _ := third.raft.LeaderWithID(); string(leader) != first.addr {
				c.t.Fatalf("it follows %q", leader)
			}
			first.follows(c.t, third)
			second.follows(c.t, third)
			c.net.Heal()
			return third
		}},
		"the former leader leads again": {0, false, func(c *testCluster, first, second, third *testNode) *testNode {
			for _, n := range []*testNode{first, second, third} {
				n.follows(c.t, first)
			}
			c.net.Heal()
			return first
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3)
				defer c.close()
				first := c.settle()
				others := c.others(first)
				c.expect(first, "SET lock me "+strconv.FormatInt(lease.Milliseconds(), 10), "+OK")
				time.Sleep(ran)
				if of.kill {
					c.kill(first.id)
				}
				for _, n := range c.others(nil) {
					c.cut(n)
				}
				time.Sleep(without)
				next := of.next(c, first, others[0], others[1])
				for !next.lead.Held() {
					next.stands()
					time.Sleep(poll)
				}
				left := ms(t, next.do("PTTL lock"))
				if least := lease - ran - of.led - poll; left < least || left > lease-ran+words {
					t.Errorf("%v of the lease were left, and at most %v of the %v after that with a leader: PTTL says %v",
						lease-ran, of.led, without, left)
				}
			})
		})
	}
}

// stands has a node stand for election now, if it follows.
func (n *testNode) stands() { n.trans.elect(func() bool { return true }) }

// follows makes a node a follower in the next term, which has no leader yet, as a vote that it refuses to another one.
func (n *testNode) follows(t *testing.T, other *testNode) {
	t.Helper()
	if n.grantsVote(t, other, 0) {
		t.Fatalf("%s votes for a node without a log", n.id)
	}
}

// grantsVote asks a node for its vote in the next term in the name of another one, which has a log up to index, and
// does not hear the answer.
func (n *testNode) grantsVote(t *testing.T, to *testNode, index uint64) bool {
	t.Helper()
	answers := make(chan raft.RPCResponse, 1)
	last, _ := n.ownLog.last()
	n.trans.requests <- raft.RPC{RespChan: answers, Command: &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(to.id), Addr: []byte(to.addr)},
		Term:      n.raft.CurrentTerm() + 1, LastLogIndex: index, LastLogTerm: last,
	}}
	answer := <-answers
	vote, ok := answer.Response.(*raft.RequestVoteResponse)
	return ok && answer.Error == nil && vote.Granted
}

// A restart of all nodes adds to a lease the time in which they were down, and at
// most clockLagMax: that long ago the clock was written to the log.
func TestLeaseSurvivesRestartOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		start := time.Now()
		c.expect(c.leader(), "SET lock me 30000", "+OK")
		time.Sleep(19 * time.Second)
		down := time.Now()
		for _, n := range c.others(nil) {
			c.kill(n.id)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id)
		}
		c.leader()
		without := time.Since(down)
		held := goneAt(t, c, "lock").Sub(start)
		if held < 30*time.Second+without-time.Second || held > 30*time.Second+without+clock.LagMax+100*time.Millisecond {
			t.Errorf("the lease of 30s lasted %s, with %s without a leader", held, without)
		}
	})
}

// A follower that was brought up to date by a snapshot and then leads does not end
// leases early: the time it was away is in the snapshot's clock already.
func TestLeaseSurvivesSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		away := c.others(leader)[0]
		c.expect(leader, "SET before 1", "+OK")
		time.Sleep(2 * time.Second)
		c.cut(away)
		var snapshot bytes.Buffer
		time.Sleep(20 * time.Second)
		start := time.Now()
		c.expect(leader, "SET lock me 10000", "+OK")
		if err := leader.state.Image().Save(&snapshot); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Raft's goroutine, which else calls Restore, rests
		// What Raft does on InstallSnapshot, without the log being trimmed first.
		if err := away.fsm.Restore(io.NopCloser(&snapshot)); err != nil {
			t.Fatal(err)
		}
		tick, _ := away.state.GoOn()
		ran := time.Duration(tick-away.machine.Tick()) * time.Millisecond
		if passed := time.Since(start); ran > passed {
			t.Errorf("the clock would go on %s after the snapshot's, of which %s have passed", ran, passed)
		}
	})
}

// Steps of the wall clock, in either direction, at the leader or at the node that
// leads next, change nothing about a lease.
func TestLeaseIgnoresWallClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			first := c.leader()
			for _, n := range c.others(first) {
				n.clock.stepWall(-step)
			}
			start := time.Now()
			c.expect(first, "SET lock me 10000", "+OK")
			first.clock.stepWall(step)
			c.expect(first, "SET other x", "+OK")
			time.Sleep(5 * time.Second)
			killed := time.Now()
			c.kill(first.id)
			c.leader()
			without := time.Since(killed)
			held := goneAt(t, c, "lock").Sub(start)
			if held < 10*time.Second || held > 10*time.Second+without+100*time.Millisecond {
				t.Errorf("step %s: the lease of 10s lasted %s", step, held)
			}
		})
	}
}

// When nothing happens the log does not grow: not in an hour.
func TestIdleHourLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, forHours)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET a 1", "+OK")
		time.Sleep(10 * time.Second) // the roster is complete
		index, term := leader.raft.LastIndex(), leader.raft.CurrentTerm()
		time.Sleep(time.Hour)
		if now := leader.raft.LastIndex(); now != index {
			t.Errorf("the log grew from %d to %d entries", index, now)
		}
		if now := leader.raft.CurrentTerm(); now != term {
			t.Errorf("there was an election: term %d became %d", term, now)
		}
	})
}

// An entry that was stamped under another term than the one it is logged in does
// nothing, on any node: its clock may run ahead.
func TestStaleStampIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET lock me 30000", "+OK")
		e := record.Entry{Kind: record.Batch, Term: leader.raft.CurrentTerm() - 1, Tick: 1 << 40}
		f := leader.raft.Apply(record.Append(nil, &e), 0)
		if err := f.Error(); err != nil {
			t.Fatal(err)
		}
		if did := f.Response().(*replica.Applied); !did.Void {
			t.Errorf("it is not void: %+v", did)
		}
		c.agree()
		for _, n := range c.others(nil) {
			if tick := n.machine.Tick(); tick > time.Minute.Milliseconds() {
				t.Errorf("%s took the clock of a void entry: tick %d", n.id, tick)
			}
		}
		c.expect(leader, "GET lock", "$2 me")
	})
}

// A committed entry that cannot be read stops every node with a sentence, before
// anything is applied after it: the leader first, and the others under the next one.
func TestUnreadableEntryStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		others := c.others(leader)
		c.expect(leader, "SET a 1", "+OK")
		_ = leader.raft.Apply([]byte("not an entry"), 0).Error()
		stopped := func(n *testNode) {
			t.Helper()
			if !strings.Contains(n.stopped(), "unreadable log entry: its checksum does not match: this node stops before it differs from the others") {
				t.Errorf("%s said %q", n.id, n.stopped())
			}
			if n.lead.Held() {
				t.Errorf("%s still leads", n.id)
			}
		}
		time.Sleep(10 * time.Second)
		stopped(leader)
		for _, n := range others {
			if n.stopped() != "" {
				t.Errorf("%s has heard of a commit that the leader could not apply: %s", n.id, n.stopped())
			}
		}
		c.kill(leader.id) // as its process ends
		time.Sleep(10 * time.Second)
		stopped(others[0])
		stopped(others[1])
	})
}
