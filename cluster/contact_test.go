package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/followers"

	"github.com/hashicorp/raft"
)

// Who resigned leaves it to others to stand for election, for a while, or until the next leader hands over to it.
func TestRestAfterResigning(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, lead, to := startNarrow(t, 3, 0, 0)
			defer c.close()
			stands := func() error {
				return lead.trans.RequestPreVote("n9", "n9:1", &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
			}
			if err := stands(); err == errResigned {
				t.Error("it rests, and has not resigned")
			}
			to.set(true)
			if got := c.others(lead)[0].do("SET a " + strings.Repeat("x", 2*narrowBytes)); got != "+OK" {
				t.Errorf("answered %q", got)
			}
			to.set(false)
			if err := stands(); err != errResigned {
				t.Errorf("it stands for election: %v", err)
			}
			if asked {
				next := c.leader()
				if err := next.elections.handOver(t.Context(), lead.id); err != nil {
					t.Error(err)
				}
				if c.leader() != lead {
					t.Error("it was asked to lead, and does not")
				}
			} else {
				time.Sleep(followers.RestHeartbeats * lead.cfg.Heartbeat)
			}
			if err := stands(); err == errResigned {
				t.Errorf("it rests for ever, asked to lead: %v", asked)
			}
		})
	}
}

// The next leader, whose links are good at first, resigns as soon when they are not.
func TestResigningAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, _ := startNarrow(t, 3, 0, 0)
		defer c.close()
		for range 3 {
			lead.narrow().set(true)
			began := time.Now()
			if got := c.others(lead)[0].do("SET a " + strings.Repeat("x", 2*narrowBytes)); got != "+OK" {
				t.Errorf("answered %q", got)
			}
			if took := time.Since(began); took > 2500*time.Millisecond {
				t.Errorf("it was written after %v", took)
			}
			lead.narrow().set(false)
			time.Sleep(time.Second)
			lead = c.leader()
		}
	})
}

// Where no link carries an entry leadership does not go round, and when the links do, it is stored.
func TestResigningEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, _ := startNarrow(t, 3, 0, 0)
		defer c.close()
		for _, n := range c.others(nil) {
			n.narrow().set(true)
		}
		term, replies := lead.raft.CurrentTerm(), make(chan string)
		for _, n := range c.others(nil) {
			go func() { replies <- n.do("SET a " + strings.Repeat("x", 2*narrowBytes)) }()
		}
		time.Sleep(9 * time.Second)
		if now := lead.raft.CurrentTerm(); now != term+2 {
			t.Errorf("after 9 s it is term %d, %d at the beginning: want two more", now, term)
		}
		for _, n := range c.others(nil) {
			n.narrow().set(false)
		}
		for range c.others(nil) {
			<-replies
		}
		c.expect(c.leader(), "SET a 1", "+OK")
		c.agree()
	})
}

// Where links carry an entry slowly leadership moves once at most, and then there is time for it.
func TestSlowLinksCarryEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.raft.CurrentTerm()
		c.net.SetRate(150_000)
		large := "SET a " + strings.Repeat("x", 600<<10)
		_ = lead.do(large) // the way to another leader may be too long for it
		if got := c.leader().do(large); got != "+OK" {
			t.Errorf("answered %q", got)
		}
		if now := lead.raft.CurrentTerm(); now != term+1 {
			t.Errorf("it took %d elections", now-term)
		}
		c.net.SetRate(0)
		time.Sleep(time.Second) // what is on its way arrives before the network ends
	})
}

// A message to stand for election that comes late deposes nobody.
func TestLateCallForElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		term := lead.raft.CurrentTerm()
		call := func(from, to *testNode) error {
			return from.trans.yielder.callElection(raft.Server{ID: raft.ServerID(to.id), Address: raft.ServerAddress(to.addr)}, from.addr)
		}
		for _, to := range []*testNode{lead, others[1]} {
			if err := call(others[0], to); err == nil || err.Error() != errOtherLeads.Error() {
				t.Errorf("%s, to %s: %v", others[0].id, to.id, err)
			}
		}
		time.Sleep(time.Second)
		lead.sameTerm(t, term)
		if err := call(lead, others[1]); err != nil {
			t.Errorf("from the leader: %v", err)
		}
		time.Sleep(time.Second)
		if next := c.leader(); next != others[1] {
			t.Errorf("%s leads", next.id)
		}
	})
}
