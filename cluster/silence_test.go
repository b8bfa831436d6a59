package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A node drops its subscribers once no leader has led for LeaderWait, as far as this node can know, whatever else it has
// heard meanwhile. The others count on that (clients.Asker).
func TestSubscribersWithoutLeader(t *testing.T) {
	for name, hears := range map[string]func(c *testCluster, first, second, third *testNode){
		"nothing is heard": func(*testCluster, *testNode, *testNode, *testNode) {},
		"it gives its vote": func(c *testCluster, _, second, third *testNode) {
			if !third.grantsVote(c.t, second, third.raft.LastIndex()) {
				c.t.Fatal("it gives no vote")
			}
		},
		"a message arrives late": func(c *testCluster, first, _, third *testNode) {
			c.net.SetCut(false, []string{first.addr}, []string{third.addr})
			synctest.Wait()
			if leader, _ := third.raft.LeaderWithID(); string(leader) != first.addr {
				c.t.Fatalf("it follows %q", leader)
			}
			c.net.SetCut(true, []string{first.addr}, []string{third.addr})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3)
				defer c.close()
				first := c.settle()
				second, third := c.others(first)[0], c.others(first)[1]
				time.Sleep(time.Second)
				drops := func() int { return strings.Count(third.pub.said(), "DROP") }
				before := drops()
				for _, n := range c.others(nil) {
					c.cut(n)
				}
				wait, heartbeat := third.cfg.LeaderWait, third.cfg.Heartbeat
				time.Sleep(wait - heartbeat/2)
				hears(c, first, second, third)
				if drops() > before {
					t.Error("the subscribers were dropped at once")
				}
				time.Sleep(heartbeat)
				if silent := third.leaderWatch.silence(); silent < wait || silent > wait+heartbeat {
					t.Errorf("no leader was heard for %v, it says %v", wait+heartbeat/2, silent)
				}
				if drops() == before {
					t.Error("the subscribers are kept")
				}
			})
		})
	}
}

// The waiters of a leader that was cut off are passed over as soon as the next leader leads, although that one has given
// its vote to another node meanwhile.
func TestWaitersOfSilentLeaderAfterVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		first := c.settle()
		second, third := c.others(first)[0], c.others(first)[1]
		c.block(first, "BLPOP jobs 0")
		c.waiting(1)
		time.Sleep(time.Second)
		for _, n := range c.others(nil) {
			c.cut(n)
		}
		time.Sleep(3 * first.cfg.Heartbeat)
		if !second.grantsVote(t, third, second.raft.LastIndex()) {
			t.Fatal("it gives no vote")
		}
		c.net.SetCut(false, addrsOf(second, third), addrsOf(second, third))
		second.leads()
		if s := second.state.Sessions(); len(s) != 1 || !s[0].Suspended {
			t.Errorf("the sessions when it leads: %+v", s)
		}
	})
}

// The waiters of a leader that lost its leadership and lives keep their turn: it has answered the next leader, which
// asked for its vote.
func TestWaitersOfFormerLeaderThatVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		first := c.settle()
		second, third := c.others(first)[0], c.others(first)[1]
		c.block(first, "BLPOP jobs 0")
		c.waiting(1)
		time.Sleep(time.Second)
		for _, n := range c.others(nil) {
			c.cut(n)
		}
		time.Sleep(3 * first.cfg.Heartbeat)
		c.net.Heal()
		first.disk.gate.close() // it answers no entry
		defer first.disk.gate.open(nil)
		third.disk.gate.close()
		go func() {
			time.Sleep(10 * time.Millisecond) // all votes have come
			third.disk.gate.open(nil)
		}()
		second.leads()
		if s := second.state.Sessions(); len(s) != 1 || s[0].Suspended {
			t.Errorf("the sessions when it leads: %+v", s)
		}
	})
}

// leads has a node stand for election until it leads, and has looked who is there.
func (n *testNode) leads() {
	for !n.lead.Held() {
		n.stands()
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
}

// The waiters of a new member keep their turn, also before the roster has it.
func TestWaitersOfNewMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		leader.keeper.changing <- struct{}{} // the keeper waits, as for a change of the members that takes long
		defer func() { <-leader.keeper.changing }()
		for _, id := range []string{"n4", "n5"} {
			c.add(id, withKeyspace)
			c.start(id)
			if err := leader.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id+":1"), 0, 0).Error(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if _, known := leader.members.roster.Load().Members["n5"]; known {
			t.Fatal("the roster has it")
		}
		c.block(c.nodes["n5"], "BLPOP jobs 0")
		c.waiting(1)
		time.Sleep(time.Second)
		if s := leader.state.Sessions(); len(s) != 1 || s[0].Suspensions > 0 {
			t.Errorf("the sessions: %+v", s)
		}
	})
}
