package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/store"
	"lockd/resp"
)

// ask runs a command line at a node; the reply comes through the channel.
func (n *testNode) ask(line string) <-chan string {
	reply := make(chan string, 1)
	go func() { reply <- n.do(line) }()
	return reply
}

// wantReply waits for the reply to a command.
func wantReply(t *testing.T, what string, reply <-chan string, want string) {
	t.Helper()
	if got := <-reply; got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// transfer has another node lead.
func (c *testCluster) transfer(from, to *testNode) {
	c.t.Helper()
	c.expect(from, "LOCKD TRANSFER "+to.id, "+OK")
	if c.leader(to.id) != to {
		c.t.Fatalf("%s does not lead", to.id)
	}
}

// forgotten checks that no node keeps a request whose client has its answer.
func (c *testCluster) forgotten() {
	c.t.Helper()
	synctest.Wait()
	for _, n := range c.others(nil) {
		if left := n.requests.Attempts.Open(); left > 0 {
			c.t.Errorf("%s keeps %d requests", n.id, left)
		}
	}
}

// A leader dies when a majority has the entry and nobody an answer: a follower's client
// hears what the command did, from its own node.
func TestLeaderDiesBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		c.expect(lead, "SET count 41", "+OK")
		lead.disk.gate.close()
		reply := others[0].ask("INCR count")
		time.Sleep(100 * time.Millisecond)
		if last, _ := others[1].disk.log.LastIndex(); last != lead.raft.LastIndex() || len(reply) > 0 {
			t.Fatal("the others do not have the entry, or it was answered")
		}
		c.net.Kill(lead.addr)
		lead.disk.gate.open(errPower)
		start := time.Now()
		c.kill(lead.id)
		wantReply(t, "INCR", reply, ":42")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the answer took %s", took)
		}
		c.expect(others[1], "GET count", "$2 42")
		c.forgotten()
	})
}

// A leader dies and the entry is on its disk alone: the request is executed once, by the
// next leader, and not again when the dead one is back.
func TestLeaderDiesWithTheEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		c.net.SetCut(true, []string{lead.addr}, []string{others[0].addr, others[1].addr})
		last := lead.raft.LastIndex()
		reply := others[0].ask("INCR count")
		time.Sleep(100 * time.Millisecond)
		if stored, _ := lead.disk.log.LastIndex(); stored != last+1 {
			t.Fatalf("the leader has stored up to entry %d, want %d", stored, last+1)
		}
		c.kill(lead.id)
		c.net.Heal()
		wantReply(t, "INCR", reply, ":1")
		c.start(lead.id)
		c.agree()
		c.expect(others[1], "GET count", "$1 1")
		c.forgotten()
	})
}

// A leader that is cut off and deposed finds in the new leader's log what became of its
// own clients' requests: one that nobody else had is tried again, one that the others
// stored is done.
func TestDeposedLeadersClients(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			lead := c.settle()
			others := c.others(lead)
			for _, o := range others {
				c.net.SetCut(true, []string{o.addr}, []string{lead.addr})
				c.net.SetCut(!stored, []string{lead.addr}, []string{o.addr})
			}
			start := time.Now()
			reply := lead.ask("INCR count")
			c.leader(others[0].id, others[1].id)
			if stored {
				c.expect(others[0], "GET count", "$1 1")
			}
			c.expect(others[0], "SET other v", "+OK")
			// It has waited for longer than for a leader, and is tried again nevertheless.
			time.Sleep(leaderWaitDefault + 200*time.Millisecond - time.Since(start))
			c.net.Heal()
			wantReply(t, fmt.Sprintf("INCR, stored %v", stored), reply, ":1")
			c.agree()
			c.expect(others[1], "GET count", "$1 1")
			c.forgotten()
		})
	}
}

// The leader lives, and its answer is lost: the follower's client hears it from the log.
func TestAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		away := c.others(lead)[0]
		c.net.SetCut(true, []string{lead.addr}, []string{away.addr})
		reply := away.ask("INCR count")
		time.Sleep(2 * time.Second) // away has given up its connection
		if len(reply) > 0 {
			t.Errorf("answered %q", <-reply)
		}
		start := time.Now()
		c.kill(away.id)
		wantReply(t, "a node that stops", reply, "-"+resp.ErrUnknown)
		if took := time.Since(start); took > time.Second {
			t.Errorf("a node that stops has its client wait %s", took)
		}
		c.net.Heal()
		c.start(away.id)
		c.settle()

		c.net.SetCut(true, []string{lead.addr}, []string{away.addr})
		reply = away.ask("INCR count")
		time.Sleep(2 * time.Second)
		c.net.Heal()
		wantReply(t, "INCR", reply, ":2")
		c.expect(lead, "GET count", "$1 2")
		c.forgotten()
	})
}

// A node that does not hear of the log for LeaderWait does not know what became of a
// request, and says so.
func TestDoubtEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		away := c.others(lead)[0]
		for _, o := range c.others(away) {
			c.net.SetCut(true, []string{o.addr}, []string{away.addr})
		}
		start := time.Now()
		wantReply(t, "INCR", away.ask("INCR count"), "-"+resp.ErrUnknown)
		if took := time.Since(start); took < leaderWaitDefault || took > leaderWaitDefault+3*time.Second {
			t.Errorf("told after %s", took)
		}
		c.net.Heal()
		c.expect(lead, "GET count", "$1 1")
		c.forgotten()
	})
}

// A client that hangs up while its request is in doubt is not waited for.
func TestDoubtfulClientHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		c.cut(lead)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		lead.doCtx(ctx, "INCR count")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		c.forgotten()
	})
}

// A node that is brought up by a snapshot does not know whether the entries it replaces
// had the request: it neither waits for it nor tries it again.
func TestSnapshotInPlaceOfTheEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.SnapshotEntries, cfg.LogStore = 20, store.BoltDB }))
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		away := others[0]
		c.net.SetCut(true, []string{lead.addr, others[1].addr}, []string{away.addr})
		// What is logged first after the cut is sent again and again, and arrives in the end.
		c.expect(lead, "SET first v", "+OK")
		synctest.Wait()
		reply := away.ask("INCR count")
		time.Sleep(10 * time.Millisecond)
		c.expect(lead, "GET count", "$1 1")
		for range 200 {
			c.expect(lead, "SET k v", "+OK")
			synctest.Wait()
		}
		time.Sleep(2 * time.Second) // it is in doubt
		c.transfer(lead, others[1])
		c.expect(others[1], "SET later v", "+OK")
		c.net.Heal()
		wantReply(t, "INCR", reply, "-"+resp.ErrUnknown)
		c.agree()
		c.expect(lead, "GET count", "$1 1")
		c.forgotten()
	})
}

// A request lies on its way to a leader that is deposed, and arrives when that one leads
// again. Its node has learned from the log of the term between that it was not done, and
// has tried it again: it is executed once.
func TestForwardAfterReelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		origin, other := c.others(lead)[0], c.others(lead)[1]
		c.expect(origin, "SET count 0", "+OK") // there is a connection
		c.net.SetCut(true, []string{origin.addr}, []string{lead.addr})
		reply := origin.ask("INCR count")
		time.Sleep(50 * time.Millisecond)
		c.transfer(lead, other)
		wantReply(t, "INCR", reply, ":1")
		c.transfer(other, lead)
		c.net.Heal()
		time.Sleep(time.Second)
		c.expect(other, "GET count", "$1 1")
		c.forgotten()
	})
}

// The same of a request that waits in the leader's own queue.
func TestQueueOutlivesAReign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.lead.Load().Term
		queue := func(term uint64) (done bool) {
			return lead.requests.ProposeIn(t.Context(), &clock.Leadership{Term: term}, command("INCR", "count"))
		}
		if queue(term - 1) {
			t.Error("bound to an earlier term, and done")
		}
		answers := make(chan peer.Outcome, 1)
		late := peer.Forwarded{Req: command("INCR", "count"), Binding: peer.Binding{Term: term - 1}, Until: clock.After(time.Second)}
		lead.requests.Serve(late, func(a peer.Answer) { answers <- a.Outcome })
		if o := <-answers; o != peer.NotDone {
			t.Errorf("a forward that is bound to an earlier term: %v", o)
		}
		if !queue(term) {
			t.Error("bound to this term, and not done")
		}
		c.expect(lead, "GET count", "$1 1")
	})
}

// A new leader shows every machine its term at once, also where nobody writes.
func TestNewTermIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		c.kill(lead.id)
		next := c.leader()
		time.Sleep(10 * time.Millisecond)
		for _, n := range c.others(nil) {
			var last raft.Log
			if err := n.stores.Log.GetLog(n.state.Applied.Load(), &last); err != nil {
				t.Fatal(err)
			}
			if want := next.lead.Load().Term; last.Term != want {
				t.Errorf("%s has applied an entry of term %d last, the leader's is %d", n.id, last.Term, want)
			}
		}
	})
}

// What an entry tells is told before the reply to the request that did it, on the node
// that has the client, if somebody listens there; but no longer than for a leader. Who
// is refused has no entry to wait for.
func TestReplyComesAfterTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		n := c.others(lead)[0]
		c.expect(n, "SETNX taken 1", ":1")
		n.pub.mu.Lock()
		hold := make(chan struct{})
		n.pub.hold = hold
		n.pub.mu.Unlock()
		reply := n.ask("PUBLISH news 1")
		time.Sleep(time.Second)
		if len(reply) > 0 {
			t.Error("the reply came before the message")
		}
		start := time.Now()
		c.expect(n, "SETNX taken 2", ":0")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("a refusal waited %s", took)
		}
		wantReply(t, "PUBLISH, the message hangs", n.ask("PUBLISH news 2"), ":0")
		if took := time.Since(start); took < leaderWaitDefault || took > leaderWaitDefault+100*time.Millisecond {
			t.Errorf("the reply was held for %s", took)
		}
		wantReply(t, "PUBLISH", reply, ":0")
		n.pub.mu.Lock()
		n.pub.deaf = true
		n.pub.mu.Unlock()
		start = time.Now()
		c.expect(n, "PUBLISH news 3", ":0")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("nobody listens, and the reply waited %s", took)
		}
		n.pub.mu.Lock()
		n.pub.hold = nil
		n.pub.mu.Unlock()
		close(hold)
		c.agree()
		c.forgotten()
	})
}

// A request that was left partly for another entry goes on under a new number, whoever
// answers for the part.
func TestRestOfADoubtfulRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		for _, n := range c.nodes {
			n.mu.Lock()
			n.machine.most = 2
			n.mu.Unlock()
		}
		n := c.others(lead)[0]
		lead.disk.gate.close()
		reply := make(chan string, 1)
		go func() { reply <- n.doCtx(context.Background(), "INCR count", "INCR count", "INCR count") }()
		time.Sleep(100 * time.Millisecond)
		c.net.Kill(lead.addr)
		lead.disk.gate.open(errPower)
		c.kill(lead.id)
		wantReply(t, "three commands", reply, ":1 | :2 | :3")
		c.expect(n, "GET count", "$1 3")
	})
}
