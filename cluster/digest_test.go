package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/keyspace"
	"lockd/resp"
)

// flippedMachine is a machine that once stores another digit than the others.
type flippedMachine struct{ *keyspace.Machine }

func (m flippedMachine) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	for i, req := range reqs {
		if args := req.Cmds[0].Args; args[0] == "SET" && args[2] == "700" {
			reqs[i].Cmds = []resp.Cmd{{Args: resp.Args{"SET", args[1], "701"}}}
		}
	}
	return m.Machine.Apply(at, reqs)
}

// A node that computes something else than the others is stopped by the next write; if it led,
// the others are, and the one of them that leads after their restart stops it.
func TestDigestStopsWhoDiffers(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("leads=", leads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3, withKeyspace, func(cfg *Config) {
					if cfg.ID == "n3" {
						cfg.Machine = flippedMachine{keyspace.New(nil)}
					}
				})
				defer c.close()
				c.settle()
				odd, others := c.nodes["n3"], []*testNode{c.nodes["n1"], c.nodes["n2"]}
				to := "n1"
				if leads {
					to = "n3"
				}
				c.expect(c.leader(), "LOCKD TRANSFER "+to, "+OK")
				leader := c.leader(to)
				c.expect(leader, "SET a 699", "+OK")
				time.Sleep(time.Second)
				for _, n := range c.others(nil) {
					if n.stopped() != "" {
						t.Fatalf("%s stops too early: %q", n.id, n.stopped())
					}
				}
				c.expect(leader, "SET a 700", "+OK")
				c.expect(leader, "SET b 1", "+OK")
				const want = "this node, or the one that led then, has done something else with the same log"
				if !leads {
					c.stopsOver(odd, want)
					c.expect(leader, "GET a", "$3 700")
					return
				}
				for _, n := range others {
					c.stopsOver(n, want)
				}
				for _, n := range others {
					c.again(n)
				}
				for range 20 { // while it leads they stop, and are started
					if leader := c.leader(); leader != odd {
						break
					}
					c.kill(odd.id)
					c.leader("n1", "n2")
					c.start(odd.id)
				}
				c.expect(c.leader("n1", "n2"), "SET c 1", "+OK")
				c.expect(c.leader("n1", "n2"), "SET c 2", "+OK")
				c.stopsOver(odd, want)
				for _, n := range others {
					if n.stopped() != "" {
						t.Errorf("%s said %q", n.id, n.stopped())
					}
				}
				c.expect(c.leader("n1", "n2"), "GET a", "$3 700")
			})
		})
	}
}

// Nothing that is not a difference is taken for one: leaders that change, void entries, ticks,
// snapshots that are installed, restarts, what is left for another entry.
func TestDigestNeverWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.SnapshotEntries = 20 }), withKeyspace)
		defer c.close()
		c.settle()
		for round := range 3 {
			leader := c.leader()
			others := c.others(leader)
			c.kill(others[0].id)
			for i := range 60 {
				c.expect(leader, fmt.Sprintf("SET r%dk%d v PX %d", round, i, 500+i), "+OK")
			}
			big := resp.Request{}
			for range 300 {
				big.Cmds = append(big.Cmds, resp.Cmd{Args: resp.Args{"SET", "big", strings.Repeat("x", 4000)}}, resp.Cmd{Args: resp.Args{"APPEND", "big", "y"}})
			}
			if res := leader.Do(t.Context(), big); res.Replies[len(res.Replies)-1].Int != 4001 {
				t.Fatal(res.Replies[len(res.Replies)-1])
			}
			c.start(others[0].id)
			switch round % 3 {
			case 0:
				c.expect(leader, "LOCKD TRANSFER", "+OK")
			case 1:
				c.net.Partition([]string{leader.addr}, []string{others[0].addr, others[1].addr})
				go leader.do("SET lost 1")
				time.Sleep(3 * time.Second)
				c.expect(c.leader(others[0].id, others[1].id), "SET a 1", "+OK")
				c.net.Heal()
			case 2:
				for _, n := range c.others(nil) {
					c.kill(n.id)
				}
				for _, id := range []string{"n1", "n2", "n3"} {
					c.start(id)
				}
			}
			c.leader()
			c.agree()
			time.Sleep(time.Second)
		}
		c.agree()
		for _, n := range c.others(nil) {
			if n.stopped() != "" || n.state.Digest.Load() == nil {
				t.Errorf("%s said %q", n.id, n.stopped())
			}
		}
	})
}
