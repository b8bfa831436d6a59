package cluster

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/cluster/request"
	"lockd/cluster/store"
	"lockd/resp"
)

// While the leader's disk hangs another node leads, soon; nothing acknowledged is lost, and
// nothing is done twice.
func TestLeaderWithHangingDiskYields(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("its disk forgets %v", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hang(t, lost) })
		})
	}
}

func hang(t *testing.T, lost bool) {
	c := startCluster(t, 3, votesOnAnotherDisk())
	defer c.close()
	lead := c.settle()
	others := c.others(lead)
	k, stop := &counters{other: map[string]int{}}, make(chan struct{})
	for range 5 {
		k.run(others[0], stop)
		k.run(others[1], stop)
	}
	time.Sleep(time.Second)
	lead.disk.gate.close()
	began := time.Now()
	time.Sleep(100 * time.Millisecond) // what comes now is not answered by it
	for others[0].do("SET a 1") != "+OK" {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("writes went on after %v", took)
	}
	time.Sleep(3500*time.Millisecond - time.Since(began))
	if lead.lead.Held() {
		t.Error("it still leads")
	}
	if n := lead.figure("lockd_leader_changes_total", "lost", "disk"); n != 1 {
		t.Errorf("it has lost the lead to its disk %v times", n)
	}
	if lost {
		lead.disk.gate.open(errPower)
		c.kill(lead.id)
		lead.disk.gate = gate{}
		c.start(lead.id)
	} else {
		lead.disk.gate.open(nil)
	}
	time.Sleep(time.Second)
	close(stop)
	k.running.Wait()
	c.agree()
	k.judge(t, lead)
	c.expect(lead, "SET b 1", "+OK")
}

// votesOnAnotherDisk keeps Raft from a panic while a test lets the power fail.
func votesOnAnotherDisk() func(*Config) {
	disks := map[string]*raft.InmemStore{}
	return func(cfg *Config) {
		if disks[cfg.ID] == nil {
			disks[cfg.ID] = raft.NewInmemStore()
		}
		votes := disks[cfg.ID]
		withStores(cfg, func(open func() (*store.Stores, error)) (*store.Stores, error) {
			s, err := open()
			if err == nil {
				s.Stable, err = onAnotherDisk(votes)
			}
			return s, err
		})
	}
}

// A leader stays where nobody could lead in its place, and where its disk is only slow.
func TestLeaderWithSlowDiskStays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes int
		away  int // of the others
		hang  int // others whose disks hang as well
		slow  time.Duration
	}{
		{"slow", 3, 0, 0, 900 * time.Millisecond},
		{"alone", 1, 0, 0, 3 * time.Second},
		{"of two", 2, 0, 0, 3 * time.Second},
		{"a member is away", 3, 1, 0, 3 * time.Second},
		{"all disks", 3, 0, 2, 3 * time.Second},
		{"enough disks of five", 5, 1, 1, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, tt.nodes)
				defer c.close()
				lead := c.settle()
				term := lead.raft.CurrentTerm()
				hang := []*testNode{lead}
				for i, n := range c.others(lead) {
					if i < tt.away {
						c.cut(n)
					} else if i < tt.away+tt.hang {
						hang = append(hang, n)
					}
				}
				for _, n := range hang {
					n.disk.gate.close()
				}
				reply := make(chan string, 1)
				go func() { reply <- lead.do("SET a 1") }()
				time.Sleep(tt.slow)
				for _, n := range hang {
					n.disk.gate.open(nil)
				}
				if got := <-reply; got != "+OK" {
					t.Errorf("answered %q", got)
				}
				if now := lead.raft.CurrentTerm(); now != term || !lead.lead.Held() {
					t.Errorf("term %d, and %d when the disk hung; it leads: %v", now, term, lead.lead.Held())
				}
			})
		})
	}
}

// They notice also where nobody is told: a leader that yields sends nothing.
func TestYieldingLeaderIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		other := c.others(lead)[0]
		lead.disk.gate.close()
		other.disk.gate.close() // so nobody could lead in its place, and nobody is told
		reply := make(chan string, 1)
		go func() { reply <- lead.do("SET a 1") }()
		time.Sleep(1500 * time.Millisecond)
		if !lead.stores.Slow() || !lead.lead.Held() {
			t.Fatalf("its disk is slow: %v, it leads: %v", lead.stores.Slow(), lead.lead.Held())
		}
		lead.trans.yielder.yielding.Store(true)
		other.disk.gate.open(nil)
		time.Sleep(3 * time.Second)
		if lead.lead.Held() || lead.raft.State() == raft.Leader {
			t.Error("it still leads")
		}
		if c.leader() == lead {
			t.Error("it was elected again")
		}
		lead.disk.gate.open(nil)
		<-reply
		c.expect(lead, "SET a 1", "+OK")
	})
}

// narrowNetwork loses what is large on the way from one node to some of the others: heartbeats pass, and entries do not.
type narrowNetwork struct {
	peer.Network
	to *narrow
}

type narrow struct {
	mu   sync.Mutex
	open map[string]bool // by the peer address that is dialled: everything passes
	on   bool
}

const narrowBytes = 1400

func (n narrowNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := n.Network.Dial(addr, timeout)
	return &narrowConn{Conn: conn, to: n.to, addr: addr}, err
}

type narrowConn struct {
	net.Conn
	to   *narrow
	addr string
	lost atomic.Bool
}

func (c *narrowConn) Write(b []byte) (int, error) {
	c.to.mu.Lock()
	narrow := c.to.on && !c.to.open[c.addr]
	c.to.mu.Unlock()
	if narrow && len(b) > narrowBytes {
		c.lost.Store(true) // and all that is behind it
	}
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A leader that the others hear, and whose entries they do not get, lets one of them lead, soon; nothing
// acknowledged is lost, and nothing is done twice.
func TestLeaderBehindNarrowLinkResigns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes int
		open  int // others that get everything
		away  int // others that are not there
	}{
		{"three", 3, 0, 0},
		{"five", 5, 1, 0},
		{"five, one is away", 5, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, to := startNarrow(t, tt.nodes, tt.open, tt.away)
				defer c.close()
				k, stop := &counters{other: map[string]int{}}, make(chan struct{})
				for _, n := range c.others(lead)[tt.away:] {
					k.run(n, stop)
				}
				time.Sleep(time.Second)
				to.set(true)
				began := time.Now()
				last := c.others(lead)[tt.nodes-2]
				if got := last.do("SET a " + strings.Repeat("x", 2*narrowBytes)); got != "+OK" {
					t.Errorf("answered %q", got)
				}
				if took := time.Since(began); took > 2500*time.Millisecond {
					t.Errorf("it was written after %v", took)
				}
				time.Sleep(time.Second)
				if lead.lead.Held() {
					t.Error("it still leads")
				}
				if n := lead.figure("lockd_leader_changes_total", "lost", "resigned"); n != 1 {
					t.Errorf("it has resigned %v times", n)
				}
				to.set(false)
				c.net.Heal()
				close(stop)
				k.running.Wait()
				c.agree()
				k.judge(t, lead)
			})
		})
	}
}

// A leader stays where nobody could do better.
func TestLeaderBehindNarrowLinkStays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes int
		open  int
		away  int
	}{
		{"one gets everything", 3, 1, 0},
		{"of two", 2, 0, 0},
		{"a member is away", 3, 0, 1},
		{"too few of five", 5, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, to := startNarrow(t, tt.nodes, tt.open, tt.away)
				defer c.close()
				term := lead.raft.CurrentTerm()
				to.set(true)
				reply := make(chan string, 1)
				go func() { reply <- lead.do("SET a " + strings.Repeat("x", 2*narrowBytes)) }()
				time.Sleep(4 * time.Second)
				to.set(false)
				if got := <-reply; got != "+OK" {
					t.Errorf("answered %q", got)
				}
				lead.sameTerm(t, term)
			})
		})
	}
}

// A leader that leads on and gets nothing to a majority says that nobody knows what became of it: after CommitWaitMax,
// and the time for which its log may still show that.
func TestLeaderThatCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, to := startNarrow(t, 3, 0, 1)
		defer c.close()
		term := lead.raft.CurrentTerm()
		to.set(true)
		began := time.Now()
		c.expect(lead, "SET a "+strings.Repeat("x", 2*narrowBytes), "-"+resp.ErrUnknown)
		if took := time.Since(began) - request.CommitWaitMax - leaderWaitDefault; took.Abs() > 100*time.Millisecond {
			t.Errorf("its client is told %s too late", took)
		}
		lead.sameTerm(t, term)
		to.set(false)
		c.expect(lead, "INCR b", ":1")
	})
}

// narrow are the links of a node of startNarrow.
func (n *testNode) narrow() *narrow { return n.Node.cfg.Network.(narrowNetwork).to }

func (n *narrow) set(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = on
}

// startNarrow starts a cluster whose leader has narrow links, but for so many others behind those that are away.
func startNarrow(t *testing.T, nodes, open, away int) (*testCluster, *testNode, *narrow) {
	c := startCluster(t, nodes, func(cfg *Config) {
		cfg.Network = narrowNetwork{cfg.Network, &narrow{open: map[string]bool{}}}
	})
	lead := c.settle()
	for i, n := range c.others(lead) {
		if i < away {
			c.cut(n)
		} else if i < away+open {
			lead.narrow().open[n.addr] = true
		}
	}
	time.Sleep(2 * time.Second)
	return c, lead, lead.narrow()
}

// judge compares what was acknowledged with what was done.
func (k *counters) judge(t *testing.T, n *testNode) {
	t.Helper()
	var count, unknown int
	if _, err := fmt.Sscanf(n.do("GET count"), "$%d %d", new(int), &count); err != nil {
		t.Fatal(err)
	}
	for _, times := range k.other {
		unknown += times
	}
	if count < k.acked || count > k.acked+unknown {
		t.Errorf("%d were acknowledged and %v answered otherwise, and %d were done", k.acked, k.other, count)
	}
}
