package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/cluster/refound"
	"lockd/cluster/store"
	"lockd/resp"
)

// builds says which level each node's build can do. From level 2 on there is DOUBLE, the setting later, and INCR adds 10.
type builds map[string]int

func (b builds) config(cfg *Config) {
	m := cfg.Machine.(*testMachine)
	cfg.Version = "of " + cfg.ID
	if m.can = b[cfg.ID]; m.can >= 2 {
		m.more = append(m.more, &resp.Spec{Name: "double", Arity: 2, Flags: resp.Write, Level: 2},
			&resp.Spec{Name: "config", Arity: -2, Flags: resp.Write, ArgLevel: func(args resp.Args) (string, int) {
				return "later", 2 * strings.Count(args[2], "later")
			}})
	}
}

// change restarts a node from another build.
func (b builds) change(c *testCluster, id string, can int) {
	c.t.Helper()
	c.kill(id)
	b[id] = can
	c.start(id)
}

// level waits until every node that runs has a level in force.
func (c *testCluster) level(want int) {
	c.t.Helper()
	for range 1000 {
		reached := true
		for _, n := range c.others(nil) {
			reached = reached && n.members.level() == want
		}
		if reached {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("level %d is not in force: %s", want, c.leader().do("LOCKD LEVEL"))
}

// stays lets time pass in which the level might rise.
func (c *testCluster) stays(level int) {
	c.t.Helper()
	time.Sleep(10 * time.Second)
	c.level(level)
}

// Nodes of two builds serve together, whoever leads, and do what the older one does. What only the newer one knows is
// refused before it is logged, with the name of the node that is behind. A setting that only the newer one knows can be
// in the log, where the older one has written it: nobody stops for it.
func TestMixedLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		can := builds{"n1": 2, "n2": 2, "n3": 1}
		c := startCluster(t, 3, can.config)
		defer c.close()
		c.settle()
		for _, node := range c.others(nil) {
			node.do("LOCKD MEMBERS") // so each meets each, as nodes with a data folder do when they start
		}
		c.stays(1)
		n := 0
		for _, leads := range []string{"n1", "n3", "n2"} {
			if c.leader().id != leads {
				c.expect(c.nodes["n1"], "LOCKD TRANSFER "+leads, "+OK")
			}
			leader := c.leader()
			for _, node := range c.others(nil) {
				n++
				c.expect(node, "INCR n", fmt.Sprintf(":%d", n))
			}
			before := leader.raft.LastIndex()
			const text = "'double' comes with level 2 of the cluster, and level 1 is in force: node n3 can do level 1; nothing was executed (see LOCKD LEVEL)"
			for _, id := range []string{"n1", "n2"} {
				node := c.nodes[id]
				c.expect(node, "DOUBLE n", "-ERR "+text)
				c.expect(node, "CONFIG SET later 1", "-ERR "+strings.Replace(text, "double", "later", 1))
				c.expect(node, "CONFIG SET other 1", "+OK")
				before++
				req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "n", "0"}}, {Args: resp.Args{"DOUBLE", "n"}}}, Multi: true}
				for _, r := range node.Do(t.Context(), req).Replies {
					if !strings.Contains(r.Str, text) {
						t.Errorf("MULTI at %s: %v", id, r)
					}
				}
				var by resp.Sender
				wait := resp.Cmd{Args: resp.Args{"DOUBLE", "n"}, Spec: node.machine.more[0]}
				if r, _ := node.Block(t.Context(), wait, by, nil, nil); !strings.Contains(r.Str, text) {
					t.Errorf("a command that waits at %s: %v", id, r)
				}
			}
			if got := c.nodes["n3"].do("DOUBLE n"); !strings.HasPrefix(got, "-ERR ") { // the session says that it does not know it
				t.Errorf("at n3: %s", got)
			}
			if now := leader.raft.LastIndex(); now != before {
				t.Errorf("%d entries were logged", now-before)
			}
			c.agree()
		}
		c.expect(c.nodes["n3"], "CONFIG SET later 1", "+OK")
		c.agree()
		c.stays(1)
		c.expect(c.nodes["n3"], "LOCKD LEVEL", levels(1, "node n3 can do level 1", "n1 2 up", "n2 2 up", "n3 1 up"))
		c.expect(c.nodes["n3"], "LOCKD LEVEL 2", "-ERR level 2 cannot be in force yet: node n3 can do level 1")
		for id, highest := range can {
			want := fmt.Sprintf("$5 level :1 $6 lowest :1 $7 highest :%d $7 version $%d of %s", highest, len("of "+id), id)
			if got := c.nodes["n3"].do("LOCKD MEMBERS"); !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	})
}

// levels is what LOCKD LEVEL answers.
func levels(level int, waits string, members ...string) string {
	b := fmt.Sprintf("%%3 $5 level :%d $5 waits $%d %s $7 members *%d", level, len(waits), waits, len(members))
	for _, m := range members {
		var id, state string
		var highest int
		_, _ = fmt.Sscan(m, &id, &highest, &state)
		b += fmt.Sprintf(" %%4 $2 id $2 %s $6 lowest :1 $7 highest :%d $5 state $%d %s", id, highest, len(state), state)
	}
	return b
}

// Nodes go to the newer build and back, and the level stays while one of them cannot do the next, or is away. Then it
// rises by itself, and every node does what the newer build does.
func TestLevelRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		can := builds{"n1": 1, "n2": 1, "n3": 1}
		c := startCluster(t, 3, can.config)
		defer c.close()
		c.settle()
		for _, up := range []int{2, 1} {
			for _, id := range []string{"n1", "n2"} {
				can.change(c, id, up)
				c.expect(c.nodes[id], "INCR n", fmt.Sprintf(":%d", c.nodes["n3"].machine.count("n")+1))
				c.stays(1)
			}
		}
		can.change(c, "n1", 2)
		can.change(c, "n2", 2)
		c.leader()
		c.kill("n2")
		can.change(c, "n3", 2)
		c.leader()
		c.stays(1)
		c.expect(c.leader(), "LOCKD LEVEL 2", "-ERR level 2 cannot be in force yet: node n2 does not answer: start it, or remove it with LOCKD REMOVE n2")
		c.expect(c.leader(), "LOCKD LEVEL 3", "-ERR level 1 is in force, and rises by one: to 2")
		if got := c.leader().do("LOCKD LEVEL"); !strings.Contains(got, "level :1 $5 waits $68 node n2 does not answer: ") {
			t.Error(got)
		}
		c.expect(c.leader(), "INCR n", ":5")
		c.start("n2")
		for leader := c.leader(); leader.members.level() < 2; {
			time.Sleep(time.Millisecond)
		}
		for _, node := range c.others(nil) { // whether it has heard of it or not
			c.expect(node, "DOUBLE x", ":0")
			c.expect(node, "CONFIG SET later 1", "+OK")
		}
		c.level(2)
		n := 5
		for _, node := range c.others(nil) {
			n += 10
			c.expect(node, "INCR n", fmt.Sprintf(":%d", n))
			n *= 2
			c.expect(node, "DOUBLE n", fmt.Sprintf(":%d", n))
		}
		c.agree()
		leader := c.leader()
		c.expect(leader, "LOCKD LEVEL", levels(2, "", "n1 2 up", "n2 2 up", "n3 2 up"))
		c.expect(leader, "LOCKD LEVEL 2", "+OK")
		c.expect(leader, "LOCKD LEVEL 1", "-ERR level 2 is in force, and a level never falls")
		c.expect(leader, "LOCKD LEVEL 3", "-ERR level 3 cannot be in force yet: node "+leader.id+" can do levels 1 to 2")
		c.expect(leader, "LOCKD LEVEL x", "-"+resp.ErrNotInteger)
		c.expect(leader, "LOCKD LEVEL 1 2", "-"+resp.WrongArity("lockd|level").Str)
	})
}

// count is the number that a variable holds.
func (m *testMachine) count(key string) (n int) {
	defer m.enter()()
	_, _ = fmt.Sscan(m.vars[key].Value, &n)
	return n
}

// A level comes by one step after the other, and a member without a vote counts as well.
func TestLevelOfNonvoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		can := builds{"n1": 3, "n4": 1}
		c := startCluster(t, 1, can.config)
		defer c.close()
		c.level(3)
		can["n1"] = 1
		c.kill("n1")
		n := c.nodes["n1"]
		if err := c.tryStart("n1"); err == nil {
			c.stopsOver(n, "level 2 is in force in this cluster, and this lockd can do level 1: start a newer one on node n1")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		can := builds{"n1": 1}
		c := startCluster(t, 1, can.config)
		defer c.close()
		leader := c.settle()
		c.add("n4") // it does not run
		if got := leader.do("LOCKD ADD n4 n4:1"); !strings.Contains(got, "does not answer") {
			t.Fatal(got)
		}
		can.change(c, "n1", 2)
		c.leader("n1")
		c.stays(1)
		c.expect(c.nodes["n1"], "LOCKD REMOVE n4", "+OK")
		c.level(2)
	})
}

// A node of an older build that comes back after the level has risen stops with a sentence, whether its own log
// says so or not, and so does a new one that joins. The others serve.
func TestOldBuildAfterTheRise(t *testing.T) {
	for _, knows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			can := builds{"n1": 2, "n2": 2, "n3": 2, "n4": 1}
			if !knows {
				can["n3"] = 1
			}
			c := startCluster(t, 3, can.config)
			defer c.close()
			c.settle()
			old := c.nodes["n3"]
			if knows {
				c.level(2)
				c.expect(c.leader(), "INCR n", ":10")
				c.agree()
			} else { // it said that it could, and was gone when the level rose
				c.kill("n3")
				leader := c.leader()
				e := &record.Entry{Kind: record.Roster, Term: leader.lead.Load().Term, Change: membership.Change{Level: 2}}
				if f := leader.raft.ApplyLog(raft.Log{Data: record.Append(nil, e)}, time.Second); f.Error() != nil {
					t.Fatal(f.Error())
				}
				c.expect(leader, "INCR n", ":10")
				c.start("n3")
			}
			if knows {
				can.change(c, "n3", 1)
			}
			c.stopsOver(old, "level 2 is in force")
			if got := old.members.level(); got > 1 {
				t.Errorf("it has applied level %d", got)
			}
			c.expect(c.leader("n1", "n2"), "INCR m", ":10")
			if knows {
				c.add("n4", can.config)
				c.start("n4")
				if got := c.leader("n1", "n2").do("LOCKD ADD n4 n4:1"); !strings.Contains(got, "is a member now") {
					t.Error(got)
				}
				c.stopsOver(c.nodes["n4"], "level 2 is in force")
			}
			can.change(c, "n3", 2) // its data are kept
			c.expect(old, "GET m", "$2 10")
		})
	}
}

// What an entry does follows from the level at its place in the log: a replay, a restart from a snapshot of either
// level and an installed snapshot give the state that those have who lived through it.
func TestReplayAcrossLevels(t *testing.T) {
	for _, saved := range []string{"never", "before", "after"} {
		t.Run(saved, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				can := builds{"n1": 2, "n2": 2, "n3": 1, "n4": 2}
				disk := onDisk(t, func(cfg *Config) { cfg.LogStore = store.BoltDB })
				c := startCluster(t, 3, disk, can.config)
				defer c.close()
				c.settle()
				all := func(line string) {
					for _, n := range c.others(nil) {
						c.expect(n, line, "+OK")
					}
				}
				for i := range 5 {
					c.expect(c.leader(), "INCR n", fmt.Sprintf(":%d", i+1))
				}
				if saved != "never" {
					c.agree()
					all("LOCKD SNAPSHOT")
				}
				can.change(c, "n3", 2)
				c.level(2)
				for i := range 5 {
					c.expect(c.leader(), "INCR n", fmt.Sprintf(":%d", 10*i+15))
				}
				if saved == "after" {
					c.agree()
					all("LOCKD SNAPSHOT")
					c.expect(c.leader(), "SET more 1", "+OK")
					c.agree()
					all("LOCKD SNAPSHOT")
				}
				c.agree()
				for _, id := range []string{"n1", "n2", "n3"} {
					c.kill(id)
				}
				for _, id := range []string{"n1", "n2", "n3"} {
					c.start(id)
				}
				c.leader()
				c.level(2)
				c.agree()
				c.expect(c.leader(), "INCR n", ":65")
				c.add("n4", disk, can.config)
				c.start("n4")
				c.expect(c.leader("n1", "n2", "n3"), "LOCKD ADD n4 n4:1", "+OK")
				c.expect(c.nodes["n4"], "INCR n", ":75")
				c.agree()
				if saved == "after" { // an older build does not even open its own snapshot
					can["n1"] = 1
					c.kill("n1")
					err := c.tryStart("n1")
					if err == nil || !strings.Contains(err.Error(), "level 2 is in force in this cluster, and this lockd can do level 1: start a newer one on node n1") {
						t.Errorf("an older build on a folder of level 2: %v", err)
					}
				}
			})
		})
	}
}

// Builds that differ at a level that is not in force serve together, and never have it in force.
func TestOtherRulesAtTheNextLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		can := builds{"n1": 2, "n2": 2, "n3": 2}
		other := func(cfg *Config) {
			if cfg.ID == "n3" {
				m := cfg.Machine.(*testMachine)
				m.more = append(m.more, &resp.Spec{Name: "triple", Arity: 2, Flags: resp.Write, Level: 2})
			}
		}
		c := startCluster(t, 3, can.config, other)
		defer c.close()
		c.settle()
		c.stays(1)
		for i, n := range c.others(nil) {
			c.expect(n, "INCR n", fmt.Sprintf(":%d", i+1))
		}
		if got := c.leader().do("LOCKD LEVEL 2"); !strings.Contains(got, "has other rules for level 2") {
			t.Error(got)
		}
	})
}

// A node that finds a level beyond its own in the log stops before it does anything at it, whatever was said of it.
func TestLevelBeyond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "INCR n", ":1")
		e := &record.Entry{Kind: record.Roster, Term: leader.lead.Load().Term, Change: membership.Change{Level: 2}}
		leader.raft.ApplyLog(raft.Log{Data: record.Append(nil, e)}, time.Second)
		c.stopsOver(leader, "level 2 is in force in this cluster, and this lockd can do level 1: start a newer one on node "+leader.id)
		if got := leader.members.level(); got != 1 {
			t.Errorf("level %d is in force there", got)
		}
	})
}

// A new cluster that is made of an old state has its level, and only a lockd that can do it makes one.
func TestRecoverKeepsTheLevel(t *testing.T) {
	var dir string
	disk := onDisk(t, func(cfg *Config) { dir = cfg.Dir })
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, builds{"n1": 2}.config, disk)
		c.level(2)
		c.expect(c.leader(), "INCR n", ":10")
		c.close()
	})
	inspect := func(can int) (*testForkable, error) {
		machine := newTestForkable()
		machine.can = can
		in, err := refound.Inspect(dir, machine)
		if err != nil {
			t.Fatal(err)
		}
		return machine, in.Damage
	}
	for _, recovered := range []bool{false, true} {
		if recovered {
			machine := newTestForkable()
			machine.can = 2
			r := refound.Fork{Dir: dir, Machine: machine, PeerAddr: "n1:1", Hold: time.Minute, FenceAbove: new(uint64(1000))}
			if _, _, err := refound.Recover(r); err != nil {
				t.Fatal(err)
			}
		}
		if machine, err := inspect(2); err != nil || machine.level != 2 || machine.vars["n"].Value != "10" {
			t.Errorf("recovered %v: level %d, %v, %v", recovered, machine.level, machine.vars, err)
		}
		if _, err := inspect(1); err == nil || !strings.Contains(err.Error(), "level 2 is in force") {
			t.Errorf("recovered %v: an older build: %v", recovered, err)
		}
	}
}
