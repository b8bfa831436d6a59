package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// Who asks for what is taken is refused without an entry, at the leader and elsewhere; what
// is free is taken through the log.
func TestRefusedWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SETNX a 1", ":1")
		last := leader.raft.LastIndex()
		for range 10 {
			c.expect(leader, "SETNX a 2", ":0")
			c.expect(c.others(leader)[0], "SETNX a 2", ":0")
		}
		if now := leader.raft.LastIndex(); now != last {
			t.Errorf("%d entries for requests that change nothing", now-last)
		}
		c.expect(c.others(leader)[1], "SETNX b 1", ":1")
		c.expect(leader, "GET a", "$1 1")
	})
}

// A leader that was deposed refuses nobody: what is taken there may be free by now.
func TestDeposedLeaderDoesNotRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.leader()
		c.expect(old, "SET a 1 2000", "+OK")
		c.cut(old)
		answer := make(chan string, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			answer <- old.doCtx(ctx, "SETNX a old")
		}()
		select {
		case got := <-answer:
			if got == ":0" {
				t.Fatal("a leader that nobody hears refuses")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no answer at all")
		}
		time.Sleep(5 * time.Second) // the lease ends on the other side
		others := c.others(old)
		c.expect(c.leader(others[0].id, others[1].id), "SETNX a new", ":1")
	})
}

// What a command calls is looked up once by each node that sees it: by who reads it from a
// client, from a peer or out of the log. The leader reads it out of the log, too.
func TestFoundOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		follower := c.others(leader)[0]
		for _, n := range []*testNode{leader, follower} {
			spec, _ := leader.machine.Find(resp.Args{"SETNX", "k", "v"})
			for _, other := range c.others(nil) {
				other.machine.finds.Store(0)
			}
			n.Do(t.Context(), resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SETNX", n.id, "v"}, Spec: spec}}})
			c.agree()
			for _, other := range c.others(nil) {
				want := int64(1)
				if other == leader && n == follower {
					want = 2 // from its peer, and from the log
				}
				if got := other.machine.finds.Load(); got != want {
					t.Errorf("asked at %s (%s leads), %s looked it up %d times, want %d", n.id, leader.id, other.id, got, want)
				}
			}
		}
	})
}

// What was taken when a request came, and is free when leadership is confirmed, is taken
// through the log.
func TestTriedAndFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "SET free old 30", "+OK")
		c.cut(leader)
		reply := make(chan string, 1)
		go func() { reply <- leader.do("SETNX free 1") }()
		time.Sleep(60 * time.Millisecond) // it waits for the others, and the lease ends
		c.net.Heal()
		if got := <-reply; got != ":1" {
			t.Errorf("got %q", got)
		}
		c.expect(leader, "GET free", "$1 1")
		c.agree()
	})
}

// Of those who try for the same thing at once one is logged. The others look again when
// it has its answer, whatever that is, and one of them is next.
func TestOneRivalAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		for _, o := range c.others(leader) {
			o.disk.gate.close()
		}
		const rivals, rounds = 20, 3
		replies := make(chan string, rivals)
		for i := range rivals {
			go func() { replies <- c.others(nil)[i%3].do("SET lock mine NX PX 60000") }()
		}
		other := make(chan string, 1)
		go func() { other <- leader.do("SET another mine NX") }()
		time.Sleep(time.Second) // all have come as far as they can
		if logged := leader.requests.Proposer.Ops(); logged != 2 {
			t.Errorf("%d requests are in the log or wait for it, want one for each lock", logged)
		}
		for _, o := range c.others(leader) {
			o.disk.gate.open(nil)
		}
		got := map[string]int{}
		for range rivals {
			got[<-replies]++
		}
		if got["+OK"] != 1 || got["_"] != rivals-1 || <-other != "+OK" {
			t.Errorf("%v", got)
		}
		if n := leader.requests.Reader.Claimed(); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}
