package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
)

// atOnce is how soon after the end of a leader's process writes go on, in virtual time, in which only waits take any:
// two looks at its port, and one look more where its last connection ended late.
const atOnce = 2*lookPause + 5*time.Millisecond

// startDeaths starts a cluster that has settled.
func startDeaths(
	t *testing.T, nodes int, config ...func(*Config),
) (c *testCluster, lead *testNode, others []*testNode) {
	c = startCluster(t, nodes, config...)
	lead = c.settle()
	c.expect(lead, "SET a 0", "+OK")
	c.agree()
	time.Sleep(time.Second)
	return c, lead, c.others(lead)
}

func addrsOf(nodes ...*testNode) (addrs []string) {
	for _, n := range nodes {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// part breaks all connections between a node and others, and has both sides' dials refused.
func (c *testCluster) part(n *testNode, others ...*testNode) {
	c.net.SetRefused(true, addrsOf(n), addrsOf(others...))
	c.net.SetRefused(true, addrsOf(others...), addrsOf(n))
	for _, o := range others {
		c.net.Reset(n.addr, o.addr)
		c.net.Reset(o.addr, n.addr)
	}
}

// A leader whose process ends is replaced at once and at the first try, also where the logs of all others are equal,
// and a request that waits is done.
func TestKilledLeaderIsReplacedAtOnce(t *testing.T) {
	for name, nodes := range map[string]int{"3": 3, "5": 5, "3, with a secret": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, nodes, func(cfg *Config) {
					if name == "3, with a secret" {
						cfg.PeerSecrets = [][]byte{[]byte(testSecret)}
					}
				})
				defer c.close()
				for len(others)+1 > nodes/2+1 { // each time one less
					term, began := lead.raft.CurrentTerm(), time.Now()
					c.kill(lead.id)
					if got := others[len(others)-1].do("INCR a"); got[0] != ':' {
						t.Fatalf("answered %q", got)
					}
					if took := time.Since(began); took > atOnce {
						t.Errorf("of %d left, writes went on after %s", len(others), took)
					}
					next := c.leader()
					if now := next.raft.CurrentTerm(); now != term+1 {
						t.Errorf("of %d left, it took %d elections", len(others), now-term)
					}
					if !next.contacts.Gone(lead.id) {
						t.Error("the next leader does not know that the process has ended")
					}
					time.Sleep(time.Second)
					next.sameTerm(t, term+1)
					if n := others[0].figure("lockd_leader_changes_total", "leaderless", "silent"); n != 0 {
						t.Error("it was the silence")
					}
					lead, others = next, c.others(next)
				}
			})
		})
	}
}

// A process closes its connections before its port, and resets who dials meanwhile: that is looked at again.
func TestKilledLeaderWhosePortClosesLast(t *testing.T) {
	const late = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		term, began := lead.raft.CurrentTerm(), time.Now()
		c.net.SetResetting(true, lead.addr)
		c.kill(lead.id)
		go func() {
			time.Sleep(late)
			c.net.SetResetting(false, lead.addr)
		}()
		c.expect(others[0], "INCR a", ":1")
		if took := time.Since(began); took < late || took > atOnce+lookPause {
			t.Errorf("writes went on after %s", took)
		}
		if now := c.leader().raft.CurrentTerm(); now != term+1 {
			t.Errorf("it took %d elections", now-term)
		}
	})
}

// A leader whose process ends while others are cut off is replaced by those that are not, if they are a majority; they
// wait for the others' answers, and not long.
func TestKilledLeaderAndMembersCutOff(t *testing.T) {
	for _, away := range []int{1, 2} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, 5)
				defer c.close()
				c.net.Partition(addrsOf(others[:away]...), addrsOf(others[away:]...))
				term, began := lead.raft.CurrentTerm(), time.Now()
				c.kill(lead.id)
				if away == 2 {
					time.Sleep(5 * time.Second)
					for _, n := range others {
						if n.lead.Held() {
							t.Errorf("%s leads, and has no majority", n.id)
						}
					}
					c.net.Heal()
				}
				c.expect(others[3], "INCR a", ":1")
				if took := time.Since(began); away == 1 && took > atOnce+askMax {
					t.Errorf("writes went on after %s", took)
				}
				if now := c.leader().raft.CurrentTerm(); away == 1 && now != term+1 {
					t.Errorf("it took %d elections", now-term)
				}
			})
		})
	}
}

// A leader whose process has not ended keeps leading: for less than a heartbeat timeout it makes no difference what
// else has become of its connections and of its port.
func TestLivingLeaderStays(t *testing.T) {
	const away = 350 * time.Millisecond
	for _, tt := range []struct {
		name  string
		nodes int
		fault func(c *testCluster, lead *testNode, others []*testNode)
	}{
		{"paused", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.net.SetPaused(true, lead.addr)
		}},
		{"paused, and their connections break", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.net.SetPaused(true, lead.addr)
			for _, o := range others {
				c.net.Reset(o.addr, lead.addr)
				c.net.Reset(lead.addr, o.addr)
			}
		}},
		{"cut off", 3, func(c *testCluster, lead *testNode, others []*testNode) { c.cut(lead) }},
		{"cut off, and all connections break", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.cut(lead)
			for _, o := range others {
				c.net.Reset(o.addr, lead.addr)
				c.net.Reset(lead.addr, o.addr)
			}
		}},
		{"too many have connected", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.net.SetFull(true, lead.addr)
			for _, o := range others {
				c.net.Reset(o.addr, lead.addr)
			}
		}},
		{"its port refuses, and all that was dialled there breaks", 3,
			func(c *testCluster, lead *testNode, others []*testNode) {
				c.net.SetRefused(true, addrsOf(others...), addrsOf(lead))
				for _, o := range others {
					c.net.Reset(o.addr, lead.addr)
				}
			}},
		{"its port refuses, all connections break, and it connects to the others again", 3,
			func(c *testCluster, lead *testNode, others []*testNode) {
				c.part(lead, others...)
				c.net.SetRefused(false, addrsOf(lead), addrsOf(others...))
			}},
		{"all looks like an end for a moment", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.part(lead, others...)
			time.Sleep(lookPause / 2)
			c.net.Heal()
		}},
		{"it introduces itself to one of them, while the other one looks", 3,
			func(c *testCluster, lead *testNode, others []*testNode) {
				c.part(lead, others[0])
				time.Sleep(lookPause - 5*time.Millisecond)
				c.part(lead, others[1])
				time.Sleep(lookPause - 5*time.Millisecond) // the first one has found so by now, and asks
				others[0].deaths.heard(lead.members.identity(), true)
				time.Sleep(10 * time.Millisecond) // so has the other one
				c.net.Heal()
			}},
		{"for one of them all looks like an end", 3, func(c *testCluster, lead *testNode, others []*testNode) {
			c.part(lead, others[0])
		}},
		{"for all but one", 5, func(c *testCluster, lead *testNode, others []*testNode) {
			c.part(lead, others[:3]...)
		}},
		{"for a minority, and the others are cut off from it", 5,
			func(c *testCluster, lead *testNode, others []*testNode) {
				c.part(lead, others[:2]...)
				c.net.Partition(addrsOf(others[:2]...), addrsOf(others[2:]...))
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, tt.nodes)
				defer c.close()
				term := lead.raft.CurrentTerm()
				for range 3 {
					tt.fault(c, lead, others)
					time.Sleep(away)
					c.net.Heal()
					time.Sleep(time.Second)
					for _, n := range c.others(nil) {
						if now := n.raft.CurrentTerm(); now != term {
							t.Fatalf("%s is in term %d, was in %d", n.id, now, term)
						}
					}
					lead.sameTerm(t, term)
					for _, n := range others {
						if n.contacts.Gone(lead.id) || lead.contacts.Gone(n.id) {
							t.Errorf("%s or the leader is gone", n.id)
						}
					}
				}
			})
		})
	}
}

// A port that opens and closes while clients work costs the leader nothing, nor them.
func TestFlappingPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		term, stop := lead.raft.CurrentTerm(), make(chan struct{})
		k := &counters{other: map[string]int{}}
		for _, n := range others {
			k.run(n, stop)
		}
		for range 50 {
			c.net.SetRefused(true, addrsOf(others...), addrsOf(lead))
			for _, o := range others {
				c.net.Reset(o.addr, lead.addr)
			}
			time.Sleep(45 * time.Millisecond)
			c.net.SetRefused(false, addrsOf(others...), addrsOf(lead))
			time.Sleep(5 * time.Millisecond)
		}
		close(stop)
		k.running.Wait()
		lead.sameTerm(t, term)
		if len(k.other) > 0 || k.acked == 0 {
			t.Errorf("%d acknowledged, and %v", k.acked, k.other)
		}
	})
}

// One node that says without reason that the leader's process has ended persuades nobody.
func TestWolf(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			c, lead, others := startDeaths(t, nodes)
			defer c.close()
			term, wolf := lead.raft.CurrentTerm(), others[0].deaths
			wolf.mu.Lock()
			l := wolf.lives[lead.id]
			wolf.mu.Unlock()
			for range 100 {
				q := &inquiry{id: lead.id, addr: lead.addr, process: lead.members.process, term: term}
				wolf.found(l, q, peer.Ended)
				if wolf.conclude(l, q) {
					t.Fatal("it is believed")
				}
				time.Sleep(time.Millisecond)
			}
			lead.sameTerm(t, term)
		})
	}
}

// Nobody stands in place of a leader that another one has replaced: who has not heard of that is told by those he asks.
func TestReplacedLeaderIsNotReplacedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		term, process := lead.raft.CurrentTerm(), lead.members.process
		c.kill(lead.id)
		c.expect(others[0], "INCR a", ":1")
		for _, n := range others {
			q := &inquiry{id: lead.id, addr: lead.addr, process: process, term: term}
			if _, agreed := n.deaths.ask(q); agreed {
				t.Errorf("%s may stand in a term that is over", n.id)
			}
			q.term = term + 1
			if _, agreed := n.deaths.ask(q); !agreed {
				t.Errorf("for %s the others deny that the process has ended", n.id)
			}
			n.deaths.standInTurn(q, []voterReport{{n.id, peer.Report{Able: true}}})
		}
		time.Sleep(time.Second)
		c.leader().sameTerm(t, term+1)
	})
}

// Who is at the port of a leader says nothing of it but a later process of the same member.
func TestPortTakenByAnotherProcess(t *testing.T) {
	const earlier = "of an earlier start"
	for _, tt := range []struct {
		name string
		who  func(lead peer.Identity) peer.Identity
	}{
		{"of another cluster, by the same name", func(lead peer.Identity) peer.Identity {
			lead.Cluster, lead.Process, lead.Starts = "another", 1, lead.Starts+1
			return lead
		}},
		{"with other data", func(lead peer.Identity) peer.Identity {
			lead.Incarnation, lead.Process, lead.Starts = "another", 1, lead.Starts+1
			return lead
		}},
		{"by another name", func(lead peer.Identity) peer.Identity {
			lead.ID, lead.Process, lead.Starts = "x", 1, lead.Starts+1
			return lead
		}},
		{earlier, func(lead peer.Identity) peer.Identity {
			lead.Process, lead.Starts = 1, lead.Starts-1
			return lead
		}},
		{"no node of lockd", nil},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", tt.name, killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, lead, others := startDeaths(t, 3)
					defer c.close()
					for _, n := range others {
						n.deaths.mu.Lock()
						n.deaths.lives[lead.id].starts = 7
						n.deaths.mu.Unlock()
					}
					mine := lead.members.identity()
					mine.Starts = 7
					term := lead.raft.CurrentTerm()
					if tt.who == nil {
						defer c.babble("x:1")()
					} else {
						who := tt.who(mine)
						stranger := c.strangerAs(who)
						defer stranger.Close()
					}
					c.net.Divert(lead.addr, "x:1")
					if killed {
						c.kill(lead.id)
					} else {
						c.part(lead, others...)
						c.net.SetRefused(false, addrsOf(others...), addrsOf(lead))
					}
					time.Sleep(350 * time.Millisecond)
					for _, n := range others {
						if now := n.raft.CurrentTerm(); now != term {
							t.Errorf("%s is in term %d, was in %d", n.id, now, term)
						}
					}
					for _, n := range others {
						n.deaths.mu.Lock()
						if l := n.deaths.lives[lead.id]; l.process != mine.Process {
							t.Errorf("%s takes the stranger for the member", n.id)
						}
						n.deaths.mu.Unlock()
					}
					c.net.Heal()
					if !killed && tt.name != earlier { // a node in memory counts no starts: that one is later than its own
						time.Sleep(time.Second)
						lead.sameTerm(t, term)
					}
				})
			})
		}
	}
}

// strangerAs opens the port x:1 as who.
func (c *testCluster) strangerAs(who peer.Identity) *peer.Port {
	c.t.Helper()
	who.Rules, who.PeerAddr = c.nodes["n1"].members.rules, "x:1"
	return c.stranger(who, nil, nil)
}

// babble has something that is no lockd answer at an address.
func (c *testCluster) babble(addr string) (end func()) {
	c.t.Helper()
	ln, err := c.net.From(addr).Listen(addr)
	if err != nil {
		c.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("-ERR what do you want?\r\n"))
			_ = conn.Close()
		}
	})
	return func() { _ = ln.Close(); serving.Wait() }
}

// A leader whose process ends and is there again at once, or a moment later, does not lead any more.
func TestRestartedLeader(t *testing.T) {
	for _, after := range []time.Duration{0, lookPause / 2, 3 * lookPause / 2} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, 3)
				defer c.close()
				term, began := lead.raft.CurrentTerm(), time.Now()
				c.kill(lead.id)
				time.Sleep(after)
				c.start(lead.id)
				c.expect(others[0], "INCR a", ":1")
				if took := time.Since(began); took > atOnce {
					t.Errorf("writes went on after %s", took)
				}
				next := c.leader()
				if now := next.raft.CurrentTerm(); now != term+1 || next.id == lead.id {
					t.Errorf("%s leads in term %d, after %d", next.id, now, term)
				}
				time.Sleep(time.Second)
				next.sameTerm(t, term+1)
				if next.contacts.Gone(lead.id) {
					t.Error("the member that is back is gone")
				}
				c.expect(lead, "INCR a", ":2")
			})
		})
	}
}

// A leader that meets the next process of a member at once does not tell anybody to start it.
func TestRestartedFollower(t *testing.T) {
	for _, after := range []time.Duration{0, lookPause / 2} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := countingLog{mu: &sync.Mutex{}, said: map[string]int{}}
				c, lead, others := startDeaths(t, 3, func(cfg *Config) { cfg.Log = slog.New(log) })
				defer c.close()
				told := lead.tellDeaths()
				back := others[0]
				c.kill(back.id)
				time.Sleep(after)
				c.start(back.id)
				time.Sleep(time.Second)
				if got := told(); !slices.Equal(got, []string{back.id}) || lead.contacts.Gone(back.id) {
					t.Errorf("the leader was told of the ends of %q", got)
				}
				log.mu.Lock()
				defer log.mu.Unlock()
				if log.said["the process of a member has ended: start it, or look at its log"] > 0 {
					t.Error("the leader says that a member is to be started, which runs")
				}
				if n := log.said["the process of a member has ended, and its next one runs"]; n != 1 {
					t.Errorf("it says %d times that the next process of the member runs", n)
				}
			})
		})
	}
}

// A process that is heard of while it is found to have ended is not noted as one that has: its end is told later.
func TestProcessHeardOfAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		n, d := others[0], lead.deaths
		q := &inquiry{id: n.id, addr: n.addr, process: n.members.process}
		d.mu.Lock()
		l := d.lives[n.id]
		d.mu.Unlock()
		d.found(l, q, peer.Ended)
		time.Sleep(time.Millisecond)
		d.heard(n.members.identity(), true)
		d.mark(l, q)
		if lead.contacts.Gone(n.id) || d.inspect(l, q.known) {
			t.Error("it has ended, and was heard of")
		}
		told := lead.tellDeaths()
		c.kill(n.id)
		time.Sleep(2 * atOnce)
		if !lead.contacts.Gone(n.id) || len(told()) != 1 {
			t.Errorf("its end is not noted: told of %q", told())
		}
	})
}

// A member that comes with another data folder while the end of its former process is found is not gone.
func TestNewFolderWhileTheEndIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		n, d := others[0], lead.deaths
		q := &inquiry{id: n.id, addr: n.addr, process: n.members.process}
		d.mu.Lock()
		l := d.lives[n.id]
		d.mu.Unlock()
		d.found(l, q, peer.Ended)
		time.Sleep(time.Millisecond)
		next := n.members.identity()
		next.Incarnation, next.Process = "another", next.Process+1
		d.heard(next, true)
		d.mark(l, q)
		if lead.contacts.Gone(n.id) {
			t.Error("it is gone, and its next process was heard of")
		}
	})
}

// A connection that has ended is looked into, although another node asks meanwhile about another process.
func TestEndOfConnectionIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		n, d := others[0], lead.deaths
		d.mu.Lock()
		l := d.lives[n.id]
		q := &inquiry{id: n.id, addr: n.addr, process: n.members.process + 1}
		l.inquiry, l.again = q, true
		l.waiting = []asker{{n.members.process, func(peer.Report) {}}}
		d.mu.Unlock()
		d.end(l, q)
		d.mu.Lock()
		if l.inquiry == nil || !l.inquiry.asked || !l.again {
			t.Errorf("the next inquiry is %+v, and the end of the connection is to be looked into: %v", l.inquiry, l.again)
		}
		d.mu.Unlock()
		time.Sleep(time.Second)
		if d.inspect(l, func(l *life) bool { return l.inquiry != nil || l.again || len(l.waiting) > 0 }) {
			t.Error("it is not over")
		}
	})
}

// What a leader has sent before its process ended is stored first: it may be what a majority has.
func TestKilledLeaderAndSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		term := lead.raft.CurrentTerm()
		slow := others[0]
		slow.disk.gate.close()
		lead.do("SET b 1")
		began := time.Now()
		c.kill(lead.id)
		time.Sleep(200 * time.Millisecond)
		slow.disk.gate.open(nil)
		c.expect(others[1], "INCR a", ":1")
		if took := time.Since(began); took > 200*time.Millisecond+looksMax*lookPause+atOnce {
			t.Errorf("writes went on after %s", took)
		}
		if now := c.leader().raft.CurrentTerm(); now != term+1 {
			t.Errorf("it took %d elections", now-term)
		}
	})
}

// A leader that stops in order hands over, and there is no second election when its process has ended.
func TestStoppedLeaderElectsOnce(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			c, lead, others := startDeaths(t, nodes)
			defer c.close()
			term, began := lead.raft.CurrentTerm(), time.Now()
			if err := lead.Close(t.Context()); err != nil {
				t.Error(err)
			}
			c.net.Kill(lead.addr)
			lead.Node = nil
			c.expect(others[0], "INCR a", ":1")
			if took := time.Since(began); took > lookPause {
				t.Errorf("writes went on after %s", took)
			}
			time.Sleep(time.Second)
			c.leader().sameTerm(t, term+1)
		})
	}
}

// The leader knows at once that a follower's process has ended, says so once, and nobody waits for it, until it is
// back.
func TestDeadFollower(t *testing.T) {
	for name, nodes := range map[string]int{"3": 3, "5": 5, "3, with a secret": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, nodes, func(cfg *Config) {
					if name == "3, with a secret" {
						cfg.PeerSecrets = [][]byte{[]byte(testSecret)}
					}
				})
				defer c.close()
				told := lead.tellDeaths()
				dead := others[0]
				for times := 1; times <= 2; times++ {
					c.kill(dead.id)
					time.Sleep(2 * atOnce) // the others look when they are asked
					if !lead.contacts.Gone(dead.id) {
						t.Error("the leader does not know it")
					}
					if got := told(); !slices.Equal(got, slices.Repeat([]string{dead.id}, times)) {
						t.Errorf("it was told of %q", got)
					}
					began := time.Now()
					if next, err := lead.elections.successor(t.Context(), ""); err != nil || string(next.ID) == dead.id {
						t.Errorf("%s is to lead next: %v", next.ID, err)
					}
					for _, m := range lead.members.survey(t.Context()) {
						if gone := m.err == errGone; gone != (string(m.ID) == dead.id) {
							t.Errorf("%s was asked: %v", m.ID, m.err)
						}
					}
					c.expect(lead, "GET a", "$1 0")
					if took := time.Since(began); took > 0 {
						t.Errorf("the others were waited for through %s", took)
					}
					time.Sleep(2 * time.Second)
					c.start(dead.id)
					time.Sleep(2 * replicatePause)
					if lead.contacts.Gone(dead.id) {
						t.Error("it is gone for ever")
					}
					c.expect(dead, "GET a", "$1 0")
				}
			})
		})
	}
}

// A follower that is heard of again is not gone, whatever was found, and when its process ends it is.
func TestGoneFollowerIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		n, d := others[0], lead.deaths
		q := &inquiry{id: n.id, addr: n.addr, process: n.members.process}
		d.mu.Lock()
		l := d.lives[n.id]
		d.mu.Unlock()
		d.found(l, q, peer.Ended)
		d.mark(l, q)
		if !lead.contacts.Gone(n.id) {
			t.Fatal("it is not gone")
		}
		c.net.Reset(lead.addr, n.addr)
		time.Sleep(time.Second)
		if lead.contacts.Gone(n.id) {
			t.Error("it is gone, and was heard of")
		}
		told := lead.tellDeaths()
		c.kill(n.id)
		time.Sleep(2 * atOnce)
		if !lead.contacts.Gone(n.id) || len(told()) != 1 {
			t.Errorf("it is not gone: told of %q", told())
		}
	})
}

// tellDeaths has a node note of whose end it is told.
func (n *testNode) tellDeaths() (told func() []string) {
	var mu sync.Mutex
	var ids []string
	n.deaths.mu.Lock()
	defer n.deaths.mu.Unlock()
	n.deaths.gone = func(id string) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	}
}

// A follower that is silent, or whose port refuses, is not gone.
func TestLivingFollowerIsNotGone(t *testing.T) {
	for name, fault := range map[string]func(c *testCluster, lead, n *testNode){
		"paused":  func(c *testCluster, _, n *testNode) { c.net.SetPaused(true, n.addr) },
		"cut off": func(c *testCluster, _, n *testNode) { c.cut(n) },
		"parted from the leader": func(c *testCluster, lead, n *testNode) {
			c.part(lead, n)
		},
		"its port refuses": func(c *testCluster, lead, n *testNode) {
			for _, o := range c.others(n) {
				c.net.SetRefused(true, addrsOf(o), addrsOf(n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, lead, others := startDeaths(t, 3)
				defer c.close()
				told := lead.tellDeaths()
				fault(c, lead, others[0])
				time.Sleep(3 * time.Second)
				if lead.contacts.Gone(others[0].id) || len(told()) > 0 {
					t.Error("it is gone")
				}
				c.net.Heal()
			})
		})
	}
}

// A node that begins to lead knows that the leader before it is gone, and soon finds out who else is.
func TestNextLeaderKnowsWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 5)
		defer c.close()
		dead := others[0]
		told := map[string]func() []string{}
		for _, n := range others[1:] {
			told[n.id] = n.tellDeaths()
		}
		c.kill(dead.id)
		time.Sleep(time.Second)
		c.kill(lead.id)
		next := c.leader()
		if !next.contacts.Gone(lead.id) {
			t.Error("the leader before it is not gone")
		}
		time.Sleep(2 * atOnce)
		if got := told[next.id](); !next.contacts.Gone(dead.id) || !slices.Equal(got, []string{dead.id}) {
			t.Errorf("the follower that was killed before is not gone: told of %q", got)
		}
	})
}

// Of those that agree the one with the longest log stands first; who may not stand has no turn.
func TestTurns(t *testing.T) {
	of := func(id string, term, index uint64, able, short bool) voterReport {
		return voterReport{id, peer.Report{LastTerm: term, LastIndex: index, Able: able, Short: short}}
	}
	reports := []voterReport{
		of("n1", 2, 9, true, false), of("n2", 3, 7, true, true), of("n3", 3, 8, false, false), of("n4", 3, 7, true, false),
		of("n5", 3, 7, true, false),
	}
	for id, want := range map[string]int{"n1": 3, "n2": 2, "n3": -1, "n4": 0, "n5": 1, "n6": -1} {
		if turn, ok := turnOf(id, reports); turn != want || ok != (want >= 0) {
			t.Errorf("the turn of %s is %d, %v; want %d", id, turn, ok, want)
		}
	}
}

// Where the first in turn does not stand the next one does, a step later.
func TestNextInTurnStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lead, others := startDeaths(t, 3)
		defer c.close()
		began := time.Now()
		others[0].deaths.mu.Lock()
		others[0].deaths.trans = &transport{ // whose Raft takes nothing
			core: others[0].core, stores: others[0].stores, contacts: others[0].contacts, yielder: others[0].trans.yielder,
			requests: make(chan raft.RPC), closed: others[0].trans.closed,
		}
		others[0].deaths.mu.Unlock()
		c.kill(lead.id)
		c.expect(others[0], "INCR a", ":1")
		if took := time.Since(began); took < standStep || took > standStep+2*atOnce {
			t.Errorf("writes went on after %s", took)
		}
		if next := c.leader(); next != others[1] {
			t.Errorf("%s leads", next.id)
		}
	})
}
