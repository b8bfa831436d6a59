package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"

	"github.com/hashicorp/raft"
)

// contactsOf are those of a leader of two others that answer heartbeats.
func contactsOf(heartbeat time.Duration) (c *contacts, voters []raft.Server) {
	core := newCore(Config{ID: "n1", Heartbeat: heartbeat, Clock: clock.NewSystem()})
	for _, id := range []raft.ServerID{"n1", "n2", "n3"} {
		voters = append(voters, raft.Server{ID: id})
	}
	return &contacts{core: core}, voters
}

// hear has the others answer heartbeats for a while, and reports whether they could have done without the leader.
func (c *contacts) hear(voters []raft.Server, d time.Duration, busy bool) (unserved bool) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(c.cfg.Heartbeat / 10) {
		unserved = unserved || c.unserved(2, voters) != nil
		c.answered("n2", busy)
		c.answered("n3", busy)
	}
	return unserved || c.unserved(2, voters) != nil
}

// A delivery is late when its time is over, which is that in which the member is heard and not busy.
func TestDeliveryIsLate(t *testing.T) {
	entries := func(size int) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: 2, Entries: []*raft.Log{{Data: []byte(strings.Repeat("x", size))}}}
	}
	for _, tt := range []struct {
		name      string
		heartbeat time.Duration
		size      int
		begin     func(c *contacts, voters []raft.Server) bool
		limit     time.Duration // from then on
	}{
		{"small", 500 * time.Millisecond, 10, nil, answerPatience + secondTryMin},
		{"of a mebibyte", 500 * time.Millisecond, 1 << 20, nil, 2*time.Second + secondTryMin},
		{"larger than messages are", 500 * time.Millisecond, 2 * messageBytes, nil, 2*peerTimeout + secondTryMin},
		{"the leader was stopped", 5 * time.Second, 10, func(c *contacts, voters []raft.Server) bool {
			time.Sleep(4 * time.Second)
			return c.unserved(2, voters) != nil
		}, 2500 * time.Millisecond},
		{"disks hang", 500 * time.Millisecond, 10, func(c *contacts, voters []raft.Server) bool {
			return c.hear(voters, 10*time.Second, true)
		}, answerPatience + secondTryMin},
		{"replication of an older term ends late", 500 * time.Millisecond, 10,
			func(c *contacts, voters []raft.Server) bool {
				late := c.hear(voters, time.Second, false)
				c.sending("n2", &raft.AppendEntriesRequest{Term: 1})
				c.delivered("n2", 1, true)
				return late
			}, answerPatience + secondTryMin - time.Second},
		{"after a leader that resigned", 500 * time.Millisecond, 10, func(c *contacts, voters []raft.Server) bool {
			c.called(true)
			c.sending("n2", entries(10))
			return false
		}, answerPatience + secondTryMin + peerTimeout},
		{"a slow link has carried something", 500 * time.Millisecond, 10, func(c *contacts, voters []raft.Server) bool {
			late := c.hear(voters, answerPatience+secondTryMin, false)
			time.Sleep(time.Millisecond)
			c.delivered("n2", 2, true)
			c.sending("n2", entries(10))
			return late
		}, answerPatience + secondTryMin + peerTimeout},
		{"nothing came of a message", 500 * time.Millisecond, 10, func(c *contacts, voters []raft.Server) bool {
			late := c.hear(voters, answerPatience+secondTryMin, false)
			time.Sleep(time.Millisecond)
			c.delivered("n2", 2, false)
			c.sending("n2", entries(10))
			return late
		}, answerPatience + secondTryMin},
		{"that was long ago", 500 * time.Millisecond, 10, func(c *contacts, voters []raft.Server) bool {
			c.called(true)
			c.delivered("n2", 2, true)
			c.delivered("n3", 2, true)
			late := c.hear(voters, patientMax, false)
			c.sending("n2", entries(10))
			c.sending("n3", entries(10))
			return late
		}, answerPatience + secondTryMin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, voters := contactsOf(tt.heartbeat)
				c.hear(voters, tt.heartbeat, false)
				c.sending("n2", entries(tt.size))
				c.sending("n3", entries(tt.size))
				if tt.begin != nil && tt.begin(c, voters) {
					t.Error("it is late before its time")
				}
				if c.hear(voters, tt.limit, false) {
					t.Errorf("it is late within %s", tt.limit)
				}
				if !c.hear(voters, tt.heartbeat/2, false) {
					t.Errorf("it is not late after %s", tt.limit+tt.heartbeat/2)
				}
			})
		})
	}
}

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
				time.Sleep(restHeartbeats * lead.cfg.Heartbeat)
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
			return from.trans.callElection(raft.Server{ID: raft.ServerID(to.id), Address: raft.ServerAddress(to.addr)}, from.addr)
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
