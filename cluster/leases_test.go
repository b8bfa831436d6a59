package cluster

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// lockAt takes a lock at a node, for the token t.
func (c *testCluster) lockAt(n *testNode, key, px string) resp.HeldLock {
	fence, err := strconv.ParseUint(strings.TrimPrefix(n.do("LOCK "+key+" t PX "+px), ":"), 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.HeldLock{Key: key, Token: "t", Fence: fence}
}

// leftAt is what a node says is left of a lease.
func leftAt(t *testing.T, n *testNode, l resp.HeldLock) time.Duration {
	t.Helper()
	lease := n.Leases([]resp.HeldLock{l})[0]
	if !lease.Held {
		t.Fatalf("%s: %+v", n.id, lease)
	}
	return time.Duration(lease.LeftMs) * time.Millisecond
}

// Every node knows what is left of a lease, though nobody writes: never less than there is, and little
// more.
func TestLeasesOnEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		l, start := c.lockAt(leader, "k", "60000"), time.Now()
		for range 5 {
			time.Sleep(9_500 * time.Millisecond)
			for _, n := range c.others(nil) {
				left, want := leftAt(t, n, l), time.Minute-time.Since(start)
				if left < want-time.Millisecond || left > want+c.others(nil)[0].cfg.Heartbeat {
					t.Errorf("%s says %s, want %s", n.id, left, want)
				}
			}
		}
		c.expect(leader, "RENEW k t PX 60000", ":"+strconv.FormatUint(l.Fence, 10))
		c.agree()
		for _, n := range c.others(nil) {
			if left := leftAt(t, n, l); left < 59*time.Second {
				t.Errorf("%s says %s", n.id, left)
			}
		}
		c.expect(leader, "LOCKS FORCE k REASON x", ":1")
		c.agree()
		for _, n := range c.others(nil) {
			if lease := n.Leases([]resp.HeldLock{l})[0]; lease.Held || lease.How != "forced" {
				t.Errorf("%s: %+v", n.id, lease)
			}
		}
	})
}

// A node that hears of no leader does not let leases run out: nothing is known of the log's clock then.
// What time passed without a leader is in no lease.
func TestLeasesWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		l := c.lockAt(leader, "k", "60000")
		time.Sleep(10 * time.Second)
		others := c.others(leader)
		c.kill(leader.id)
		c.kill(others[0].id)
		rest := others[1]
		time.Sleep(5 * time.Second)
		stands := leftAt(t, rest, l)
		time.Sleep(10 * time.Minute)
		if left := leftAt(t, rest, l); left != stands || left < 50*time.Second-time.Millisecond {
			t.Errorf("%s were left, and %s ten minutes later", stands, left)
		}
		c.start(others[0].id)
		again := c.leader()
		time.Sleep(time.Second)
		for _, n := range []*testNode{c.nodes[others[0].id], rest} {
			left, ttl := leftAt(t, n, l), ms(t, again.do("PTTL k"))
			if left < ttl-time.Millisecond || left > ttl+n.cfg.Heartbeat {
				t.Errorf("%s says %s, the leader %s", n.id, left, ttl)
			}
		}
	})
}

// A node that was brought up to date by a snapshot is told to look again, and finds in the history how
// a lock was lost.
func TestLeasesAfterSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		lost, kept := c.lockAt(leader, "lost", "600000"), c.lockAt(leader, "kept", "600000")
		c.agree()
		c.cut(away)
		c.expect(leader, "SET lost other", "+OK")
		var snapshot bytes.Buffer
		if err := leader.state.Image().Save(&snapshot); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Raft's goroutine, which else calls Restore, rests
		if err := away.fsm.Restore(io.NopCloser(&snapshot)); err != nil {
			t.Fatal(err)
		}
		if said := away.pub.said(); !strings.Contains(said, "DROP") {
			t.Errorf("heard %q", said)
		}
		leases := away.Leases([]resp.HeldLock{lost, kept})
		if leases[0].Held || leases[0].How != "overwritten" || !leases[1].Held {
			t.Errorf("%+v", leases)
		}
	})
}
