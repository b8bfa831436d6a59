package cluster

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// gate stands in front of a disk, and can be shut.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{} // nil: open
	broken error         // what writes answer
}

var errPower = errors.New("the power has failed")

// pass is called before each write.
func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut != nil {
		shut := g.shut
		g.mu.Unlock()
		<-shut
		g.mu.Lock()
	}
	return g.broken
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

// open lets what waits, and all that comes, be written, or fail with err.
func (g *gate) open(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut, g.broken = nil, err
}

// send has the leader take a write while its disk is shut, and waits until nothing more
// can come of it. The reply comes through the channel.
func send(lead *testNode, line string) <-chan string {
	lead.disk.gate.close()
	reply := make(chan string, 1)
	go func() { reply <- lead.do(line) }()
	time.Sleep(100 * time.Millisecond)
	return reply
}

// The others store an entry while the leader's disk still works on it. Until that is
// done nobody is answered, and no node applies it.
func TestLeaderSendsWhileItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		last, applied := lead.raft.LastIndex(), lead.state.Applied.Load()
		reply := send(lead, "SET k v")
		for _, n := range c.others(nil) {
			want := last + 1
			if n == lead {
				want = last
			}
			if got, _ := n.disk.log.LastIndex(); got != want {
				t.Errorf("%s has %d entries on its disk, want %d", n.id, got, want)
			}
			if got := n.state.Applied.Load(); got != applied {
				t.Errorf("%s has applied entry %d, which is not on the leader's disk", n.id, got)
			}
		}
		if len(reply) > 0 {
			t.Error("answered before the entry was on the leader's disk")
		}
		lead.disk.gate.open(nil)
		if got := <-reply; got != "+OK" {
			t.Errorf("SET k v: %q", got)
		}
		c.agree()
	})
}

// A leader whose machine lags behind what is committed lets the others lag, too: who hears
// of an entry there finds it in what the leader answers.
func TestOthersDoNotApplyBeforeTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		hold := make(chan struct{})
		lead.pub.mu.Lock()
		lead.pub.hold = hold
		lead.pub.mu.Unlock()
		replies := make(chan string, 2)
		for _, line := range []string{"PUBLISH news x", "SET k v"} {
			go func() { replies <- lead.do(line) }()
			time.Sleep(100 * time.Millisecond)
		}
		applied := lead.state.Applied.Load()
		if applied != lead.raft.LastIndex()-1 || lead.raft.CommitIndex() != applied+1 {
			t.Fatalf("the leader has applied %d of %d entries, %d are committed", applied, lead.raft.LastIndex(), lead.raft.CommitIndex())
		}
		for _, n := range c.others(lead) {
			if got := n.state.Applied.Load(); got != applied {
				t.Errorf("%s has applied entry %d, the leader %d", n.id, got, applied)
			}
		}
		lead.pub.mu.Lock()
		lead.pub.hold = nil
		lead.pub.mu.Unlock()
		close(hold)
		for range 2 {
			<-replies
		}
		c.agree()
	})
}

// What the leader's disk did not get may be forgotten by a majority: then no node may
// have applied it, the one that holds it included.
func TestLeaderLosesWhatItSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET before v", "+OK")
		c.agree()
		has, hasNot := c.others(lead)[0], c.others(lead)[1]
		c.cut(hasNot)
		reply := send(lead, "SET k v")
		lead.disk.gate.open(errPower)
		c.kill(lead.id)
		if got := <-reply; got != "-"+resp.ErrUnknown {
			t.Errorf("SET k v: %q, want %q", got, resp.ErrUnknown)
		}
		c.cut(has) // before it is heard: with what it holds it could lead
		c.net.Partition([]string{has.addr}, []string{lead.addr})
		c.net.SetCut(false, []string{hasNot.addr}, []string{lead.addr})
		c.net.SetCut(false, []string{lead.addr}, []string{hasNot.addr})
		lead.disk.gate = gate{}
		c.start(lead.id)
		next := c.leader(lead.id, hasNot.id)
		c.expect(next, "GET k", "_")
		c.expect(next, "SET after v", "+OK")
		c.net.Heal()
		c.agree()
		c.expect(has, "GET k", "_")
	})
}

// No message of Raft goes past what holds back the commit index.
func TestNoPipeline(t *testing.T) {
	pipeline, err := (&transport{}).AppendEntriesPipeline("n2", "n2:1")
	if pipeline != nil || !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("%v, %v", pipeline, err)
	}
}
