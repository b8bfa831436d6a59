package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/peer"
	"lockd/resp"
)

// figure is a figure of a node, by its name and the values of its labels.
func (n *testNode) figure(name string, labels ...string) float64 {
	for _, m := range n.Metrics() {
		for _, s := range m.Of {
			if m.Name == name && strings.Join(s.Labels, " ") == strings.Join(labels, " ") {
				return s.Value + float64(s.Count) + float64(sum(s.Counts))
			}
		}
	}
	return -1
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// A node without a majority says every ten seconds whom it misses, since when and why, and that it is not
// ready; its figures show it, too. All of that is over when the others are back.
func TestWithoutMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep)
		defer c.close()
		lead := c.leader()
		others := c.others(lead)
		log := logs[lead.id]
		c.expect(lead, "SET lock me 600000", "+OK")
		ready := func(want string) {
			t.Helper()
			if got := lead.do("INFO raft"); !strings.Contains(got, want) {
				t.Errorf("no %q in %s", want, got)
			}
		}
		ready("ready:1 ready_leader:ok ready_member:ok ready_log:ok ready_writes:ok")
		if lead.figure("lockd_leader") != 1 || lead.figure("lockd_member_up", others[0].id) != 1 || lead.figure("lockd_commit_duration_seconds") < 1 {
			t.Error("the leader does not show what it does")
		}
		for _, o := range others {
			c.kill(o.id)
		}
		time.Sleep(46 * time.Second)
		if n := log.count("there is no majority"); n != 5 {
			t.Errorf("in 46 s it was said %d times", n)
		}
		missed := fmt.Sprintf("%s (%s, for 40s: ", others[0].id, others[0].addr)
		if log.count("there is no majority", missed, others[1].id, " 3 1 4") != 1 {
			t.Errorf("no %q in %q", missed, log.said)
		}
		ready(fmt.Sprintf("ready:0 ready_leader:no leader is known: this node waits for %s (%s, for 4", others[0].id, others[0].addr))
		for name, want := range map[string]float64{
			"lockd_leader": 0, "lockd_leader_known": 0, "lockd_member_up " + lead.id: 1,
			"lockd_member_up " + others[0].id: 0, "lockd_member_lag_entries " + others[1].id: -1,
			"lockd_leader_changes_total lost deposed": 1, "lockd_log_clock_behind_seconds": -1,
		} {
			words := strings.Fields(name)
			if got := lead.figure(words[0], words[1:]...); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if lead.figure("lockd_leader_silence_seconds") < 40 {
			t.Error("the silence is not shown")
		}
		c.start(others[1].id)
		c.leader()
		time.Sleep(5 * time.Second)
		ready("ready:1 ")
		if lead.keeper.missed.list() != "" {
			t.Errorf("it still misses %s", lead.keeper.missed.list())
		}
	})
}

// The node of the client hears what its request took.
func TestTimeOfExecution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		lead.machine.slow = 3 * time.Millisecond
		for _, n := range c.nodes {
			for _, args := range []resp.Args{{"SET", "a", "1"}, {"GET", "a"}} {
				res := n.Do(t.Context(), resp.Request{Cmds: []resp.Cmd{{Args: args}}})
				if res.TookNs != int64(lead.machine.slow) {
					t.Errorf("%s at %s took %d", args[0], n.id, res.TookNs)
				}
			}
		}
	})
}

// The machine's work is counted for the family of the commands: of a write on every node, of a read where
// it is answered; and the clock stays within its limit of the leader's time while a lease runs.
func TestExecutionIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		for i := range 5 {
			c.expect(lead, fmt.Sprintf("SET k%d v 600000", i), "+OK")
			c.expect(lead, fmt.Sprintf("GET k%d", i), "$1 v")
		}
		c.agree()
		const took = "lockd_command_execution_seconds"
		var execution resp.Metric
		for _, n := range c.nodes {
			execution = n.state.Work.Metric()
			want := int64(5)
			if n == lead {
				want = 10
			}
			if len(execution.Of) != 1 || execution.Of[0].Count != want || execution.Name != took {
				t.Errorf("%s: %+v, want %d", n.id, execution, want)
			}
		}
		for range 100 {
			time.Sleep(time.Second)
			if behind := lead.figure("lockd_log_clock_behind_seconds"); behind < 0 || behind > clock.LagMax.Seconds()+1 {
				t.Fatalf("the log clock is %v s behind", behind)
			}
		}
	})
}

// A node whose writes wait for longer than LeaderWait, while none is committed, is not ready, and says so: the leader and
// the node of the clients. It is ready again with the next write, and when nobody waits.
func TestNotReadyWhileWritesAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		const stuck = "ready:0 ready_leader:ok ready_member:ok ready_log:ok ready_writes:writes have waited here for more than 3s"
		says := func(want string, nodes ...*testNode) {
			t.Helper()
			for _, n := range nodes {
				if got := n.do("INFO raft"); !strings.Contains(got, want) {
					t.Errorf("%s: no %q in %s", n.id, want, got)
				}
			}
		}
		c.expect(lead, "SET k 1", "+OK")
		time.Sleep(time.Minute) // nobody writes
		says("ready:1 ", append(others, lead)...)
		lead.requests.Proposer.Pause(t.Context())
		ctx, hangUp := context.WithCancel(t.Context())
		go others[0].doCtx(ctx, "SET k 2")
		time.Sleep(lead.cfg.LeaderWait - time.Millisecond)
		says("ready:1 ", append(others, lead)...)
		time.Sleep(10 * time.Millisecond)
		says(stuck, lead, others[0])
		says("ready:1 ", others[1])
		hangUp()
		says(stuck, others[0]) // it will come back
		time.Sleep(lead.cfg.LeaderWait)
		says("ready:1 ", others[0])
		lead.requests.Proposer.Resume()
		c.expect(lead, "SET k 3", "+OK")
		says("ready:1 ", append(others, lead)...)
	})
}

// Programs that try again are one wait, however short each of their tries is.
func TestStuckWritesThatFail(t *testing.T) {
	const patience = 3 * time.Second
	var w figures.Writes
	now := time.Hour
	fails := func(took time.Duration) {
		w.Begin(now, patience)
		now += took
		w.End(now, peer.Unknown, 0)
		now += time.Second
	}
	fails(time.Second)
	if w.Stuck(now, patience) {
		t.Error("a write that waited for a second is taken for stuck")
	}
	if fails(time.Second); !w.Stuck(now, patience) {
		t.Error("a program tries again for 4 s, and nobody hears of it")
	}
	w.Begin(now, patience)
	if w.End(now, peer.Done, 0); !w.Stuck(now, patience) {
		t.Error("a write that changes nothing counts as committed")
	}
	w.Begin(now, patience)
	if w.End(now, peer.Done, 7); w.Stuck(now, patience) {
		t.Error("a committed write does not count")
	}
	if now += time.Hour; w.Stuck(now, patience) {
		t.Error("nobody waits")
	}
	if fails(0); w.Stuck(now, patience) {
		t.Error("a write that fails after an hour without any is taken for one that waited")
	}
}
