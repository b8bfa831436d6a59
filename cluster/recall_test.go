package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/resp"
)

// lossyNetwork breaks the connections that carry a forwarded request, as many as lose
// says, before the other side has read it: the sender sees that it was sent.
type lossyNetwork struct {
	peer.Network
	lose *atomic.Int32
}

func (l lossyNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := l.Network.Dial(addr, timeout)
	return lossyConn{conn, l.lose}, err
}

// frameForward is the kind of a frame with a forwarded request.
const frameForward = 1

type lossyConn struct {
	net.Conn
	lose *atomic.Int32
}

func (c lossyConn) Write(b []byte) (int, error) {
	if len(b) > 4 && b[4] == frameForward && c.lose.Add(-1) >= 0 {
		return len(b), c.Close()
	}
	return c.Conn.Write(b)
}

// startLossy starts three nodes; lose breaks connections to which requests are forwarded.
func startLossy(t *testing.T) (c *testCluster, lose *atomic.Int32) {
	lose = &atomic.Int32{}
	return startCluster(t, 3, func(cfg *Config) { cfg.Network = lossyNetwork{cfg.Network, lose} }), lose
}

// sameTerm checks that nobody has been elected since a leader had a term.
func (n *testNode) sameTerm(t *testing.T, term uint64) {
	t.Helper()
	if lead := n.lead.Load(); lead == nil || lead.Term != term {
		t.Errorf("%s does not lead in term %d any more", n.id, term)
	}
}

// A connection breaks with a request in it, and then with the question for it, and the
// leader goes on leading: the request is done once, soon, and who comes later does not
// notice.
func TestConnectionBreaksWithTheRequest(t *testing.T) {
	for lost := range int32(4) {
		synctest.Test(t, func(t *testing.T) {
			c, lose := startLossy(t)
			defer c.close()
			lead := c.settle()
			term := lead.lead.Load().Term
			n := c.others(lead)[0]
			c.expect(n, "SET count 0", "+OK")
			lose.Store(lost)
			start := time.Now()
			wantReply(t, fmt.Sprintf("INCR, %d broke", lost), n.ask("INCR count"), ":1")
			if took := time.Since(start); took > time.Second {
				t.Errorf("%d broke, and it took %s", lost, took)
			}
			if left := lose.Load(); left > 0 {
				t.Errorf("%d connections did not break", left)
			}
			start = time.Now()
			c.expect(n, "INCR count", ":2")
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("the next request took %s", took)
			}
			c.expect(lead, "GET count", "$1 2")
			lead.sameTerm(t, term)
			c.forgotten()
		})
	}
}

// A connection breaks when the leader has taken the request and has not made an entry of
// it yet: it is done before the question is answered, and once.
func TestConnectionBreaksBehindTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.lead.Load().Term
		n := c.others(lead)[0]
		c.expect(n, "SET count 0", "+OK")
		if !lead.requests.Proposer.Pause(t.Context()) {
			t.Fatal("the leader does not hold")
		}
		reply := n.ask("INCR count")
		time.Sleep(50 * time.Millisecond)
		c.net.Reset(n.addr, lead.addr)
		time.Sleep(50 * time.Millisecond)
		if waiting := lead.requests.Proposer.Ops(); waiting != 2 {
			t.Errorf("%d wait at the leader, want the request and the question", waiting)
		}
		if len(reply) > 0 {
			t.Errorf("answered %q", <-reply)
		}
		lead.requests.Proposer.Resume()
		wantReply(t, "INCR", reply, ":1")
		time.Sleep(time.Second)
		c.expect(lead, "GET count", "$1 1")
		lead.sameTerm(t, term)
		c.forgotten()
	})
}

// A request arrives by its old connection after the question for it came by a new one, and
// was answered: the leader does not take it any more. What was sent behind the question is
// taken.
func TestRequestArrivesBehindTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.lead.Load().Term
		n := c.others(lead)[0]
		c.expect(n, "SET count 0", "+OK")
		resume := c.net.Stall(n.addr, lead.addr)
		start := time.Now()
		reply := n.ask("INCR count")
		wantReply(t, "INCR", reply, ":1")
		if took := time.Since(start); took > leaderWaitDefault {
			t.Errorf("it took %s", took)
		}
		resume()
		synctest.Wait()
		c.expect(n, "INCR count", ":2")
		time.Sleep(time.Second)
		c.expect(lead, "GET count", "$1 2")
		lead.sameTerm(t, term)
		c.forgotten()
	})
}

// Nothing of the node arrives at the leader for a while, whose own messages arrive: the
// question waits until it can be asked.
func TestQuestionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		n := c.others(lead)[0]
		c.expect(n, "SET count 0", "+OK")
		resume := c.net.Stall(n.addr, lead.addr)
		c.net.SetCut(true, []string{n.addr}, []string{lead.addr})
		reply := n.ask("INCR count")
		time.Sleep(3 * time.Second)
		if len(reply) > 0 {
			t.Errorf("answered %q", <-reply)
		}
		c.net.Heal()
		wantReply(t, "INCR", reply, ":1")
		resume()
		time.Sleep(time.Second)
		c.expect(lead, "GET count", "$1 1")
		c.forgotten()
	})
}

// The leader's process stands still with the request in its socket, and another one leads
// or the same one goes on.
func TestLeaderPausesWithTheRequest(t *testing.T) {
	for _, pause := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			lead := c.settle()
			n := c.others(lead)[0]
			c.expect(n, "SET count 0", "+OK")
			c.cut(lead)
			reply := n.ask("INCR count")
			time.Sleep(pause)
			c.net.Heal()
			wantReply(t, fmt.Sprintf("INCR, the leader stood still for %s", pause), reply, ":1")
			time.Sleep(2 * time.Second)
			c.expect(n, "GET count", "$1 1")
			c.forgotten()
		})
	}
}

// The leader changes, and changes back, while a request lies on its way: the question of
// the first term is refused in the others, and the request is.
func TestLeaderChangesBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		n, other := c.others(lead)[0], c.others(lead)[1]
		c.expect(n, "SET count 0", "+OK")
		resume := c.net.Stall(n.addr, lead.addr)
		reply := n.ask("INCR count")
		time.Sleep(50 * time.Millisecond)
		c.transfer(lead, other)
		c.transfer(other, lead)
		wantReply(t, "INCR", reply, ":1")
		resume()
		time.Sleep(time.Second)
		c.expect(lead, "GET count", "$1 1")
		c.forgotten()
	})
}

// Whatever becomes of the connections, each command is done exactly once and every client
// is told so, as long as the leader can be reached in the end.
func TestConnectionsBreakAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lose := startLossy(t)
		defer c.close()
		lead := c.settle()
		k := &counters{other: map[string]int{}, pause: 20 * time.Millisecond}
		stop := make(chan struct{})
		for _, n := range c.others(nil) {
			for range 2 {
				k.run(n, stop)
			}
		}
		for range 15 {
			n := c.others(lead)[rand.N(2)]
			switch rand.N(5) {
			case 0, 1:
				lose.Store(rand.N[int32](4))
			case 2, 3:
				resume := c.net.Stall(n.addr, lead.addr)
				time.Sleep(rand.N(2 * time.Second))
				resume()
			case 4:
				c.net.Reset(n.addr, lead.addr)
			}
			time.Sleep(rand.N(200 * time.Millisecond))
			if rand.N(8) == 0 {
				c.transfer(lead, n)
				lead = n
			}
		}
		close(stop)
		k.running.Wait()
		if len(k.other) > 0 {
			t.Errorf("clients heard %v", k.other)
		}
		c.agree()
		c.expect(lead, "GET count", fmt.Sprintf("$%d %d", len(fmt.Sprint(k.acked)), k.acked))
		t.Logf("%d commands", k.acked)
		c.forgotten()
	})
}

// A leader takes a recall that a peer forwards in its own term only, and then none of what
// was recalled, whichever way it comes; a request without commands of nobody is none.
func TestForwardedRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.lead.Load().Term
		forward := func(req resp.Request, from record.Origin, term uint64) peer.Outcome {
			answers := make(chan peer.Outcome, 1)
			bound := peer.Binding{Session: from.Session, Number: from.Number, Term: term}
			f := peer.Forwarded{Req: req, Binding: bound, Until: clock.After(time.Second)}
			lead.requests.Serve(f, func(a peer.Answer) { answers <- a.Outcome })
			return <-answers
		}
		incr, setnx := command("INCR", "count"), command("SETNX", "lock", "1")
		for _, step := range []struct {
			what string
			req  resp.Request
			from record.Origin
			term uint64
			want peer.Outcome
		}{
			{"a recall of an earlier term", resp.Request{}, record.Origin{Session: 1, Number: 7}, term - 1, peer.NotDone},
			{"no commands and no origin: a question for an index", resp.Request{}, record.Origin{}, term, peer.Done},
			{"before the recall", incr, record.Origin{Session: 1, Number: 6}, term, peer.Done},
			{"the recall", resp.Request{}, record.Origin{Session: 1, Number: 7}, term, peer.Done},
			{"the recall again", resp.Request{}, record.Origin{Session: 1, Number: 7}, term, peer.Done},
			{"what was recalled", incr, record.Origin{Session: 1, Number: 7}, term, peer.NotDone},
			{"what was recalled, and is tried first", setnx, record.Origin{Session: 1, Number: 5}, term, peer.NotDone},
			{"what comes later", incr, record.Origin{Session: 1, Number: 8}, term, peer.Done},
			{"the like that comes later", setnx, record.Origin{Session: 1, Number: 9}, term, peer.Done},
		} {
			if got := forward(step.req, step.from, step.term); got != step.want {
				t.Errorf("%s: %v, want %v", step.what, got, step.want)
			}
		}
		lead.lead.Store(nil) // Raft may tell of one leadership twice
		if !lead.elections.startClock(term) {
			t.Fatal("it does not lead any more")
		}
		if got := forward(incr, record.Origin{Session: 1, Number: 7}, term); got != peer.NotDone {
			t.Errorf("what was recalled, after a second start in the term: %v", got)
		}
		c.expect(lead, "GET count", "$1 2")
	})
}
