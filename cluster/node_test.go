package cluster

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer"
	"lockd/resp"
)

// Three nodes elect a leader, and any of them serves any command.
func TestThreeNodesServeEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET a 1", "+OK")
		others := c.others(leader)
		c.expect(others[0], "INCR a", ":2")
		c.expect(others[1], "GET a", "$1 2")
		c.expect(others[1], "INCR a", ":3")
		c.expect(leader, "GET a", "$1 3")
		c.agree()
	})
}

// The only voter does not wait for a leader that there cannot be, at its first start
// or at a later one.
func TestAloneLeadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		for range 2 {
			began := time.Now()
			c.expect(c.nodes["n1"], "SET a 1", "+OK")
			if took := time.Since(began); took > peer.HeartbeatDefault/10 {
				t.Errorf("it served after %v", took)
			}
			c.kill("n1")
			c.start("n1")
		}
	})
}

// Beside a command about the node, the others are asked for as they would be without it: with no more rights.
func TestRightsBesideOwnCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		n := c.nodes["n1"]
		c.expect(n, "SET a 1", "+OK")
		before := len(n.machine.users)
		for _, line := range []string{"GET a", "INCR a"} {
			cmds := []resp.Cmd{{Args: resp.Args{"INFO", "server"}}, {Args: strings.Fields(line)}}
			if res := n.Do(t.Context(), resp.Request{Cmds: cmds, Partly: true, User: "alice"}); len(res.Replies) != 2 {
				t.Fatal(res)
			}
		}
		if got := n.machine.users[before:]; !slices.Equal(got, []string{"alice", "alice"}) {
			t.Errorf("the machine was asked with the rights of %q", got)
		}
	})
}

// A request that is forwarded just after an election lasts as long as the new leader's
// term, also if this node has not looked who leads since.
func TestForwardLastsTheLeadersTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		n := c.others(lead)[0]
		n.leaderWatch.mu.Lock()
		n.leaderWatch.last = leaderTerm{leader: "n9", term: 1}
		n.leaderWatch.mu.Unlock()
		ctx, cancel, ok := n.leaderWatch.termOf(t.Context(), lead.id)
		if !ok {
			t.Fatal("the leader is not known to lead")
		}
		defer cancel()
		time.Sleep(2 * termGrace)
		if ctx.Err() != nil {
			t.Error("the request ends with a term before the leader's")
		}
		if _, _, ok := n.leaderWatch.termOf(t.Context(), "n9"); ok {
			t.Error("a node that does not lead is taken for the leader")
		}
	})
}
