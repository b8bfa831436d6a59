package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/wait"
	"lockd/resp"
)

// What is pushed, or freed, in the moment in which a node dies does not stay with its clients: it goes to the next who
// waits, and nothing of it is lost. After that moment the dead are passed over.
func TestDeadNodesClientsGetNothing(t *testing.T) {
	for _, victim := range []string{"leader", "follower"} {
		for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%s", victim, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { deadNodesClients(t, victim, after) })
			})
		}
	}
}

func deadNodesClients(t *testing.T, victim string, after time.Duration) {
	c := startCluster(t, 3, withKeyspace)
	defer c.close()
	dead := c.settle()
	if victim == "follower" {
		dead = c.others(dead)[0]
	}
	living := c.others(dead)[0]
	c.expect(living, "SET door alice NX PX 600000", "+OK")
	for i, line := range []string{"BLPOP jobs 0", "BLPOP jobs 0", "LOCK door bob PX 600000 WAIT 600000"} {
		c.block(dead, line)
		c.waiting(i + 1)
	}
	workers := []*blockedClient{c.block(living, "BLPOP jobs 0"), c.block(living, "BLPOP jobs 0")}
	next := c.block(living, "LOCK door carol PX 600000 WAIT 600000")
	c.waiting(6)
	c.kill(dead.id)
	time.Sleep(after)
	began := time.Now()
	c.expect(living, "UNLOCK door alice", ":1")
	c.expect(living, "RPUSH jobs 1 2", ":2")
	served := time.Now()
	c.granted(next, "carol")
	got := map[string]bool{c.answered(workers[0]): true, c.answered(workers[1]): true}
	if !got[popped("jobs", "1")] || !got[popped("jobs", "2")] {
		t.Errorf("the living got %v", got)
	}
	if took := time.Since(served); took > time.Second {
		t.Errorf("the next were served %s after the release, which took %s", took, served.Sub(began))
	}
	c.expect(living, "LLEN jobs", ":0")
	c.agree()
}

// answered waits a while for the answer of a client.
func (c *testCluster) answered(b *blockedClient) string {
	c.t.Helper()
	for range 3000 {
		if got := b.answer(); got != "" {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("a client of %s is not answered", b.node.id)
	return ""
}

// granted waits until a client is told that its token has the lock, and compares that with what the cluster says.
func (c *testCluster) granted(b *blockedClient, token string) {
	c.t.Helper()
	got := c.answered(b)
	leader := c.leader()
	if holder := leader.do("GET door"); got != ":"+c.fence(leader, "door") || !strings.HasSuffix(holder, " "+token) {
		c.t.Errorf("%s is answered %q; the lock has fence %s and is held by %q", token, got, c.fence(leader, "door"), holder)
	}
}

// What a leader serves just before it dies counts as delivered: its client may have heard of it, so nobody else is given
// it.
func TestLeaderDiesAfterServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		living := c.others(leader)[0]
		first := c.block(leader, "BLPOP jobs 0")
		c.waiting(1)
		next := c.block(living, "BLPOP jobs 0")
		c.waiting(2)
		first.then = func() { c.cut(leader) } // that it was delivered is not logged
		c.expect(leader, "RPUSH jobs 1", ":1")
		c.want(first, popped("jobs", "1"))
		c.kill(leader.id)
		time.Sleep(time.Minute)
		c.expect(living, "RPUSH jobs 2", ":1")
		c.want(next, popped("jobs", "2"))
		c.expect(living, "LLEN jobs", ":0")
		c.agree()
	})
}

// A node that is back before anybody has missed it has lost the clients of its process before, and no others: by the
// number of its start they are told from each other.
func TestClientsOfTheProcessBefore(t *testing.T) {
	for _, victim := range []string{"follower", "leader of one"} {
		t.Run(victim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { clientsOfTheProcessBefore(t, victim) })
		})
	}
}

func clientsOfTheProcessBefore(t *testing.T, victim string) {
	size := 3
	if victim != "follower" {
		size = 1
	}
	c := startCluster(t, size, withKeyspace, countingStarts())
	defer c.close()
	leader := c.settle()
	back := leader
	if victim == "follower" {
		back = c.others(leader)[0]
	}
	c.expect(leader, "SET door alice NX PX 600000", "+OK")
	c.block(back, "BLPOP jobs 0")
	c.block(back, "LOCK door gone PX 600000 WAIT 600000")
	c.waiting(2)
	c.kill(back.id)
	c.start(back.id)
	pop, next := c.block(back, "BLPOP jobs 0"), c.block(back, "LOCK door bob PX 600000 WAIT 600000")
	c.waiting(4)
	c.leader()
	time.Sleep(back.cfg.Heartbeat / 2)
	c.expect(c.leader(), "RPUSH jobs 1", ":1")
	c.expect(c.leader(), "UNLOCK door alice", ":1")
	served := time.Now()
	c.want(pop, popped("jobs", "1"))
	c.granted(next, "bob")
	if took := time.Since(served); took > back.cfg.Heartbeat {
		t.Errorf("the clients of the process that is there now were served after %s", took)
	}
	sessions := c.leader().state.Sessions()
	if len(sessions) != 2 || !sessions[0].Suspended || sessions[1].Suspended || sessions[0].Process != 1 || sessions[1].Process != 2 {
		t.Errorf("sessions: %+v", sessions)
	}
	c.agree()
}

// mayStall has a client wait at a node. From the call of stall until that of resume the answer of this client keeps the
// node from applying anything.
func (c *testCluster) mayStall(n *testNode) (stall, resume func()) {
	c.t.Helper()
	before, resumed := n.waiters(), make(chan struct{})
	go n.Block(c.t.Context(), resp.Cmd{Args: resp.Args{"BLPOP", "stall", "0"}}, "", nil, stuck{resumed})
	c.waiting(before + 1)
	stall = func() {
		c.t.Helper()
		c.expect(c.leader(), "RPUSH stall 1", ":1")
	}
	return stall, sync.OnceFunc(func() { close(resumed) })
}

// Clients of a node that is away for a while keep their places.
func TestPlacesAreKeptWhileANodeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away, other := c.others(leader)[0], c.others(leader)[1]
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		first, lock := c.block(away, "BLPOP list 0"), c.block(away, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(2)
		second, behind := c.block(other, "BLPOP list 0"), c.block(other, "LOCK door carol PX 600000 WAIT 600000")
		c.waiting(4)
		c.cut(away)
		time.Sleep(3 * time.Second)
		if s := leader.state.Sessions(); len(s) != 2 || !s[0].Suspended || s[1].Suspended {
			t.Errorf("sessions while the first node is away: %+v", s)
		}
		c.net.Heal()
		time.Sleep(time.Second)
		if s := leader.state.Sessions(); s[0].Suspended {
			t.Errorf("sessions when it is back: %+v", s)
		}
		c.expect(leader, "RPUSH list a", ":1")
		c.want(first, popped("list", "a"))
		c.expect(leader, "UNLOCK door alice", ":1")
		c.granted(lock, "bob")
		c.expect(leader, "RPUSH list b", ":1")
		c.want(second, popped("list", "b"))
		c.expect(leader, "UNLOCK door bob", ":1")
		c.granted(behind, "carol")
	})
}

// What comes while a node is away is there for its clients when it is back.
func TestSuspendedClientsAreServedWhenTheyAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		pop, lock := c.block(away, "BLPOP list 0"), c.block(away, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(2)
		c.cut(away)
		time.Sleep(3 * time.Second)
		c.expect(leader, "RPUSH list a", ":1")
		c.expect(leader, "UNLOCK door alice", ":1")
		c.expect(leader, "EXISTS list door", ":1")
		c.net.Heal()
		c.want(pop, popped("list", "a"))
		c.granted(lock, "bob")
	})
}

// A client whose node was away is not told of a lock that somebody else holds by now: it stands in line again.
func TestLateGrantIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.expect(leader, "SET door holder NX PX 600000", "+OK")
		alice := c.block(away, "LOCK door alice PX 3000 WAIT 600000")
		c.waiting(1)
		bob := c.block(leader, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(2)
		c.cut(away)
		c.expect(leader, "UNLOCK door holder", ":1")
		c.granted(bob, "bob")
		time.Sleep(6 * time.Second)
		c.net.Heal()
		time.Sleep(10 * time.Second)
		if got := alice.answer(); got != "" {
			t.Fatalf("alice is answered %q while bob holds the lock", got)
		}
		c.expect(leader, "UNLOCK door bob", ":1")
		c.granted(alice, "alice")
	})
}

// A node that is in touch and has not applied the log for a while does not tell its client of a lease that has mostly
// run out: the lease is begun anew first.
func TestLateGrantBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		behind := c.others(leader)[0]
		c.expect(leader, "SET door holder NX PX 600000", "+OK")
		stall, resume := c.mayStall(behind)
		alice := c.block(behind, "LOCK door alice PX 10000 WAIT 600000")
		c.waiting(2)
		stall()
		c.expect(leader, "UNLOCK door holder", ":1")
		fence := c.fence(leader, "door")
		time.Sleep(8 * time.Second)
		resume()
		c.granted(alice, "alice")
		if got := c.fence(leader, "door"); got != fence {
			t.Errorf("the fence was %s, and is %s: it is the same grant", fence, got)
		}
		var left int
		if _, err := fmt.Sscanf(leader.do("PTTL door"), ":%d", &left); err != nil || left < 10_000-int(wait.AnswerAgeMax.Milliseconds()) {
			t.Errorf("alice is told of a lease of 10 s with %d ms left", left)
		}
		c.expect(behind, "UNLOCK door alice", ":1")
		time.Sleep(time.Minute)
		if sessions := behind.blocker.Sessions(); len(sessions) > 0 {
			t.Errorf("not settled: %v", sessions)
		}
	})
}

// A LOCK that finds the lock free, at a node that has not applied the log for longer than its lease, is not told of a
// lock that somebody else holds by now: it stands in line.
func TestLateGrantWithoutAWaitIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace, patientNodes)
		defer c.close()
		leader := c.settle()
		behind := c.others(leader)[0]
		stall, resume := c.mayStall(behind)
		stall()
		alice := c.block(behind, "LOCK door alice PX 3000 WAIT 600000")
		c.taken(leader, "alice")
		time.Sleep(4 * time.Second)
		c.expect(leader, "SET door bob NX PX 600000", "+OK")
		resume()
		time.Sleep(10 * time.Second)
		if got := alice.answer(); got != "" {
			t.Fatalf("alice is answered %q while bob holds the lock", got)
		}
		c.expect(leader, "UNLOCK door bob", ":1")
		c.granted(alice, "alice")
		c.settled(behind)
	})
}

// A LOCK that finds the lock free, at a node that has not applied the log for a while, is told of a lease that begins
// anew: it is the same grant.
func TestLateGrantWithoutAWaitBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace, patientNodes)
		defer c.close()
		leader := c.settle()
		behind := c.others(leader)[0]
		stall, resume := c.mayStall(behind)
		stall()
		alice := c.block(behind, "LOCK door alice PX 10000 WAIT 600000")
		c.taken(leader, "alice")
		fence := c.fence(leader, "door")
		time.Sleep(8 * time.Second)
		resume()
		c.granted(alice, "alice")
		if got := c.fence(leader, "door"); got != fence {
			t.Errorf("the fence was %s, and is %s: it is the same grant", fence, got)
		}
		var left int
		if _, err := fmt.Sscanf(leader.do("PTTL door"), ":%d", &left); err != nil || left < 10_000-int(wait.AnswerAgeMax.Milliseconds()) {
			t.Errorf("alice is told of a lease of 10 s with %d ms left", left)
		}
		c.settled(behind)
	})
}

// patientNodes has nodes wait so long for the log to say how a command has ended that the answer may come late.
func patientNodes(cfg *Config) { cfg.LeaderWait = 20 * time.Second }

// taken waits until a token holds the lock, and does not renew it.
func (c *testCluster) taken(n *testNode, token string) {
	c.t.Helper()
	for range 3000 {
		if strings.HasSuffix(n.do("GET door"), " "+token) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("%s does not hold the lock", token)
}

// settled checks, a minute later, that a node remembers no gift.
func (c *testCluster) settled(n *testNode) {
	c.t.Helper()
	time.Sleep(time.Minute)
	if sessions := n.blocker.Sessions(); len(sessions) > 0 {
		c.t.Errorf("not settled: %v", sessions)
	}
}

// A client that hangs up while its late lock is asked for again does not keep it.
func TestLateGrantOfClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		behind := c.others(leader)[0]
		c.expect(leader, "SET door holder NX PX 600000", "+OK")
		stall, resume := c.mayStall(behind)
		gone := c.block(behind, "LOCK door gone PX 600000 WAIT 600000")
		c.waiting(2)
		next := c.block(leader, "LOCK door next PX 600000 WAIT 600000")
		c.waiting(3)
		stall()
		c.expect(leader, "UNLOCK door holder", ":1")
		time.Sleep(3 * time.Second)
		gone.hangUp(false)
		resume()
		c.granted(next, "next")
	})
}

// A session that lapses between a gift and its claim, as its node is away for so long: what was given was taken back
// before, the claim is refused, and the clients stand in line again, in another session. There they are served once.
func TestSessionLapsesBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.expect(leader, "SET door holder NX PX 600000", "+OK")
		pop, lock := c.block(away, "BLPOP list 0"), c.block(away, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(2)
		c.cut(away)
		c.expect(leader, "RPUSH list a", ":1")
		c.expect(leader, "UNLOCK door holder", ":1")
		if gifts := leader.state.Gifts(1, 0); len(gifts) != 2 {
			t.Fatalf("given: %v", gifts)
		}
		time.Sleep(time.Minute)
		if s := leader.state.Sessions(); len(s) > 0 {
			t.Fatalf("sessions after a minute: %+v", s)
		}
		c.expect(leader, "EXISTS list door", ":1")
		if got := pop.answer() + lock.answer(); got != "" {
			t.Fatalf("answered %q by a node that has heard of nothing", got)
		}
		c.net.Heal()
		c.want(pop, popped("list", "a"))
		c.granted(lock, "bob")
		time.Sleep(time.Minute)
		for session := range uint64(5) {
			if gifts := leader.state.Gifts(session, 0); len(gifts) > 0 {
				t.Errorf("not settled: %v", gifts)
			}
		}
		c.kill(away.id)
		time.Sleep(time.Minute)
		c.expect(leader, "LLEN list", ":0")
		c.expect(leader, "GET door", "$3 bob")
	})
}

// What was delivered is settled, and is never taken back: not when the node dies, nor by anything else.
func TestDeliveredStaysDelivered(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * wait.KeepEvery} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, withKeyspace)
			defer c.close()
			leader := c.settle()
			dies := c.others(leader)[0]
			c.expect(leader, "SET door holder NX PX 600000", "+OK")
			pop, lock := c.block(dies, "BLPOP list 0"), c.block(dies, "LOCK door bob PX 600000 WAIT 600000")
			c.waiting(2)
			c.expect(leader, "RPUSH list a", ":1")
			c.expect(leader, "UNLOCK door holder", ":1")
			c.want(pop, popped("list", "a"))
			c.granted(lock, "bob")
			time.Sleep(after)
			if gifts := leader.state.Gifts(1, 0); (len(gifts) > 0) != (after == 0) {
				t.Errorf("%s after it was delivered %v is not settled", after, gifts)
			}
			c.kill(dies.id)
			time.Sleep(time.Minute)
			c.expect(leader, "LLEN list", ":0")
			c.expect(leader, "GET door", "$3 bob")
			if gifts := leader.state.Gifts(1, 0); after > 0 && len(gifts) > 0 {
				t.Errorf("remembered: %v", gifts)
			}
		})
	}
}

// A call whose session is over before it was asked for is not kept, and costs no entries.
func TestCallOfSessionThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 5, withKeyspace)
		defer c.close()
		lead := c.leader()
		node := c.others(lead)[0]
		c.want(c.block(node, "BLPOP a 1"), "_")
		c.cut(node)
		c.block(node, "BLPOP b 2")
		time.Sleep(100 * time.Millisecond)
		c.kill(lead.id) // with what was on its way to it
		time.Sleep(20 * time.Second)
		c.net.Heal()
		time.Sleep(time.Minute)
		from := c.leader().raft.LastIndex()
		time.Sleep(time.Minute)
		if node.blocker.Waits() || c.leader().raft.LastIndex() != from {
			t.Errorf("a call is kept; %d entries in an idle minute", c.leader().raft.LastIndex()-from)
		}
	})
}

// A leader that is not heard of any more by the others grants no claim: it is not known what they have done.
func TestCutOffLeaderGrantsNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		pop := c.block(leader, "BLPOP list 0")
		c.waiting(1)
		c.cut(leader)
		time.Sleep(20 * time.Millisecond)
		other := c.leader(c.others(leader)[0].id, c.others(leader)[1].id)
		c.expect(other, "RPUSH list a", ":1")
		c.want(c.block(other, "BLPOP list 5"), popped("list", "a"))
		if got := pop.answer(); got != "" {
			t.Errorf("a client of the leader that is cut off is answered %q", got)
		}
	})
}

// From the moment in which a leader has decided to take something back, its node is not allowed to tell of it, though
// the entry that takes it back is not logged yet. What a node was allowed to tell is not taken back.
func TestClaimAndReturnExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		node := c.others(leader)[0]
		stall, resume := c.mayStall(node)
		defer resume()
		c.block(node, "BLPOP second 0")
		c.waiting(2)
		stall()
		c.expect(leader, "RPUSH second 2", ":1")
		lead, claims := leader.lead.Load(), leader.requests.Reader.Claims
		gifts := leader.state.Gifts(1, lead.From)
		if len(gifts) != 2 {
			t.Fatalf("gifts: %v", gifts)
		}
		allowed := func(id resp.BlockID) bool {
			return claims.Judge(lead, resp.BlockClaiming([]resp.BlockID{id}, nil).Block).Elems[0].Int == resp.ClaimGranted
		}
		if !allowed(gifts[0]) {
			t.Error("nothing was taken back, and a claim is refused")
		}
		if got := claims.Refuse(lead, 1); len(got) != 1 || got[0] != gifts[1] {
			t.Errorf("taken back: %v of %v", got, gifts)
		}
		if !allowed(gifts[0]) || allowed(gifts[1]) {
			t.Error("what is taken back may be told")
		}
		if allowed(resp.BlockID{Session: 1, Number: 77}) {
			t.Error("what was never given may be told")
		}
	})
}

// What a leader has refused to let a node tell, and then does not take back, as its entry is not logged, is not lost: the
// node gives it back, and its client asks again.
func TestRefusalThatIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		node := c.others(leader)[0]
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		stall, resume := c.mayStall(node)
		defer resume()
		pop, lock := c.block(node, "BLPOP list 0"), c.block(node, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(3)
		stall()
		c.expect(leader, "RPUSH list a", ":1")
		c.expect(leader, "UNLOCK door alice", ":1")
		lead, claims := leader.lead.Load(), leader.requests.Reader.Claims
		if got := claims.Refuse(lead, 1); len(got) != 3 {
			t.Fatalf("taken back: %v", got)
		}
		resume()
		c.want(pop, popped("list", "a"))
		c.granted(lock, "bob")
	})
}

// A token that leaves by UNLOCK before its client is told of the grant has left: the LOCK is answered nil, and the lock
// is free for others.
func TestTokenLeavesBeforeTheClaim(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refused bool // the leader has decided to take the grant back
		away    time.Duration
	}{{name: "at once"}, {name: "refused", refused: true}, {name: "late", away: 3 * time.Second}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3, withKeyspace)
				defer c.close()
				leader := c.settle()
				node := c.others(leader)[0]
				c.expect(leader, "SET door alice NX PX 600000", "+OK")
				stall, resume := c.mayStall(node)
				defer resume()
				bob := c.block(node, "LOCK door bob PX 600000 WAIT 600000")
				c.waiting(2)
				stall()
				c.expect(leader, "UNLOCK door alice", ":1")
				if lead := leader.lead.Load(); tc.refused && len(leader.requests.Reader.Claims.Refuse(lead, 1)) != 2 {
					t.Fatal("the leader takes nothing back")
				}
				c.expect(leader, "UNLOCK door bob", ":1")
				time.Sleep(tc.away)
				resume()
				c.want(bob, "_")
				c.waiting(0)
				c.expect(leader, "GET door", "_")
				time.Sleep(time.Minute)
				if sessions := node.blocker.Sessions(); len(sessions) > 0 {
					t.Errorf("not settled: %v", sessions)
				}
			})
		})
	}
}

// A grant that was late twice is settled like any other.
func TestLateGrantTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		node := c.others(leader)[0]
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		stall, resume := c.mayStall(node)
		again, resumeAgain := c.mayStall(node)
		bob := c.block(node, "LOCK door bob PX 600000 WAIT 600000")
		c.waiting(3)
		stall()
		c.expect(leader, "UNLOCK door alice", ":1")
		time.Sleep(3 * time.Second)
		again()
		resume()
		time.Sleep(3 * time.Second)
		if got := bob.answer(); got != "" {
			t.Fatalf("answered %q by a node that applies nothing", got)
		}
		resumeAgain()
		c.granted(bob, "bob")
		time.Sleep(time.Minute)
		if sessions := node.blocker.Sessions(); len(sessions) > 0 {
			t.Errorf("not settled: %v", sessions)
		}
	})
}
