package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/request"
	"lockd/resp"
)

// A leader that is cut off does not know what became of a write it has proposed,
// and says so; a node that never got rid of it says that nothing was done. Neither
// is told as a failure of the command.
func TestCutOffLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.leader()
		c.expect(old, "SET a 1", "+OK")
		c.cut(old)
		c.expect(old, "SET a 2", "-"+resp.ErrUnknown)
		c.expect(old, "SET a 3", "-"+resp.ErrNotDone)
		c.expect(old, "GET a", "-"+resp.ErrNotDone)
		var ids []string
		for _, n := range c.others(old) {
			ids = append(ids, n.id)
		}
		c.expect(c.leader(ids...), "GET a", "$1 1")
		c.net.Heal()
		c.expect(old, "GET a", "$1 1")
		c.agree()
	})
}

// A failover looks like latency: clients of the nodes that live see no error.
func TestFailoverIsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET a 1", "+OK")
		other := c.others(leader)[0]
		c.kill(leader.id)
		start := time.Now()
		c.expect(other, "INCR a", ":2")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the failover took %s", took)
		}
	})
}

// Without a majority a node answers, after a while, that nothing was executed, in
// words after which clients try again.
func TestNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		for _, n := range c.others(leader) {
			c.kill(n.id)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		c.expect(leader, "SET a 1", "-LOADING lockd has no leader at the moment: nothing was executed, try again")
		if took := time.Since(start); took < 3*time.Second || took > 3200*time.Millisecond {
			t.Errorf("it waited %s for a leader", took)
		}
	})
}

// A client that hangs up is not waited for.
func TestClientHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.cut(leader)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		leader.doCtx(ctx, "SET a 1")
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("Do returned %s after its client had gone", took-50*time.Millisecond)
		}
	})
}

// counters has clients of every given node increment a counter until stop; it
// returns how many were acknowledged, and every other answer.
type counters struct {
	mu      sync.Mutex
	running sync.WaitGroup
	acked   int
	other   map[string]int
	pause   time.Duration // between two requests of a client; 0: 3 ms
}

func (k *counters) run(n *testNode, stop <-chan struct{}) {
	k.running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			reply := n.do("INCR count")
			k.mu.Lock()
			if strings.HasPrefix(reply, ":") {
				k.acked++
			} else {
				k.other[reply]++
			}
			k.mu.Unlock()
			time.Sleep(cmp.Or(k.pause, 3*time.Millisecond))
		}
	})
}

// A leader that stops hands over first: no client of another node sees any error,
// and nothing is done twice or lost.
func TestCloseOfLeaderIsSeamless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		others := c.others(leader)
		k := &counters{other: map[string]int{}}
		stop := make(chan struct{})
		for range 5 {
			k.run(others[0], stop)
			k.run(others[1], stop)
		}
		time.Sleep(time.Second)
		start := time.Now()
		if err := leader.Close(t.Context()); err != nil {
			t.Error(err)
		}
		leader.Node = nil
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %s", took)
		}
		time.Sleep(time.Second)
		close(stop)
		k.running.Wait()
		if len(k.other) > 0 {
			t.Errorf("clients saw %v", k.other)
		}
		c.expect(others[0], "GET count", fmt.Sprintf("$%d %d", len(fmt.Sprint(k.acked)), k.acked))
	})
}

// A leader that stops while it cannot reach a member does not wait for it: as long as its
// process is there and answers nothing, the rest may have no majority.
func TestCloseOfLeaderWithMemberAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		away, next := c.others(leader)[0], c.others(leader)[1]
		c.cut(away)
		time.Sleep(500 * time.Millisecond)
		c.expect(next, "SET a 1", "+OK")
		start := time.Now()
		if err := leader.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("Close took %s", took)
		}
		leader.Node = nil
		c.start(leader.id)
		c.expect(next, "SET a 2", "+OK")
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("the next write was answered after %s", took)
		}
	})
}

// Through kills and partitions no acknowledged write is lost, none is done twice,
// and what is in doubt is at most what was called unknown.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		k := &counters{other: map[string]int{}}
		for round := range 4 {
			leader := c.leader()
			stop := make(chan struct{})
			for _, n := range c.others(nil) {
				if n != leader || round%2 == 0 {
					k.run(n, stop)
				}
			}
			time.Sleep(500 * time.Millisecond)
			if round%2 == 0 {
				c.cut(leader)
				time.Sleep(3 * time.Second)
				c.net.Heal()
			} else {
				c.kill(leader.id)
				time.Sleep(3 * time.Second)
				c.start(leader.id)
			}
			close(stop)
			k.running.Wait()
		}
		unknown := k.other["-"+resp.ErrUnknown]
		delete(k.other, "-"+resp.ErrUnknown)
		delete(k.other, "-"+resp.ErrNotDone)
		if len(k.other) > 0 {
			t.Errorf("clients saw %v", k.other)
		}
		c.agree()
		var count int
		fmt.Sscanf(c.leader().do("GET count"), "$%d %d", new(int), &count)
		if count < k.acked || count > k.acked+unknown {
			t.Errorf("%d acknowledged, %d unknown, but the counter is at %d", k.acked, unknown, count)
		}
		t.Logf("%d acknowledged, %d unknown", k.acked, unknown)
	})
}

// A read never returns what was overwritten before it began, also from a leader
// that has been cut off and does not know, whatever answers are still under way.
func TestReadsAreNeverStale(t *testing.T) {
	for delay := time.Duration(0); delay <= 3*time.Second; delay += 150 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			old := c.leader()
			c.expect(old, "SET a 1", "+OK")
			time.Sleep(delay % (500 * time.Millisecond))
			c.cut(old)
			var ids []string
			for _, n := range c.others(old) {
				ids = append(ids, n.id)
			}
			c.expect(c.leader(ids...), "SET a 2", "+OK")
			replies := make(chan string, 1)
			go func() { replies <- old.do("GET a") }()
			time.Sleep(delay)
			c.net.Heal()
			if reply := <-replies; reply != "$1 2" && reply != "-"+resp.ErrNotDone {
				t.Errorf("healed after %s: the old leader answered %q", delay, reply)
			}
		})
	}
}

// A leader that is cut off answers no read, not even at once.
func TestCutOffLeaderReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.leader()
		c.expect(old, "SET a 1", "+OK")
		c.cut(old)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if reply := old.doCtx(ctx, "GET a"); reply == "$1 1" {
				t.Fatal("it answered a read without asking anybody")
			}
			cancel()
		}
	})
}

// A request that is too large is refused before anything is done with it.
func TestRequestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		n := c.leader()
		if got := n.do("SET a " + strings.Repeat("x", record.RequestBytesMax)); got != "-"+request.TooLarge {
			t.Errorf("got %.200q", got)
		}
		c.expect(n, "GET a", "_")
	})
}

// What the machine leaves of a request goes on in other entries, whichever node has
// the client: each command is executed once, and answered in its place.
func TestWhatIsLeftGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		for _, n := range c.nodes {
			n.mu.Lock()
			n.machine.most = 2
			n.mu.Unlock()
		}
		ctx := t.Context()
		for _, n := range []*testNode{leader, c.others(leader)[0]} {
			key := "n" + n.id
			incr, get := "INCR "+key, "GET "+key
			if got := n.doCtx(ctx, incr, incr, incr, incr, incr); got != ":1 | :2 | :3 | :4 | :5" {
				t.Errorf("a run of writes: %s", got)
			}
			if got := n.doCtx(ctx, get, get, get, "GET none"); got != "$1 5 | $1 5 | $1 5 | _" {
				t.Errorf("a run of reads: %s", got)
			}
		}
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() { leader.doCtx(ctx, "INCR sum", "INCR sum", "INCR sum") })
		}
		clients.Wait()
		c.expect(leader, "GET sum", "$2 60")
	})
}

// Another node's request that waits for longer than that node does is not begun, write or
// read: its client has long been told that nobody knows.
func TestDesertedForwardIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		answers := make(chan peer.Outcome, 2)
		forward := func(line string) {
			req := command(strings.Fields(line)...)
			leader.requests.Serve(peer.Forwarded{Req: req, Until: clock.After(time.Second)}, func(a peer.Answer) { answers <- a.Outcome })
		}
		leader.requests.Proposer.Pause(t.Context())
		forward("SET late 1")
		time.Sleep(2 * time.Second)
		leader.requests.Proposer.Resume()
		if o := <-answers; o != peer.NotDone {
			t.Errorf("the late write: %v", o)
		}
		c.expect(leader, "GET late", "_")
		forward("SET soon 1")
		if o := <-answers; o != peer.Done {
			t.Errorf("a write in time: %v", o)
		}
	})
}

// A run with a command whose arguments are wrong does the rest, in its order, and logs nothing else. In a MULTI the
// machine answers each command in its place.
func TestWrongArgumentsAreAnsweredHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		for _, n := range []*testNode{c.leader(), c.others(c.leader())[0]} {
			before := n.do("LOCKD INDEX")
			if got := n.do("SET WRONG 1"); got != "-"+resp.ErrSyntax {
				t.Errorf("%s: %s", n.id, got)
			}
			if after := n.do("LOCKD INDEX"); after != before {
				t.Errorf("%s: the log has gone on from %s to %s", n.id, before, after)
			}
			got := n.doCtx(t.Context(), "SET a 1", "SET WRONG 1", "LOCKD INDEX", "INCR a", "GET a")
			if parts := strings.Split(got, " | "); len(parts) != 5 || parts[0] != "+OK" || parts[1] != "-"+resp.ErrSyntax ||
				parts[3] != ":2" || parts[4] != "$1 2" {
				t.Errorf("%s: %s", n.id, got)
			}
		}
		multi := resp.Request{Multi: true, Cmds: []resp.Cmd{{Args: resp.Args{"SET", "WRONG", "1"}}}}
		if r := c.leader().Do(t.Context(), multi).Replies[0]; r.Str != "OK" {
			t.Error("the machine was not asked:", r.Str)
		}
	})
}
