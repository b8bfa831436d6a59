//go:build !race

package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/founding"
	"lockd/cluster/peer"
)

// The race detector is not asked about this test: Raft 1.7.3 replaces what it knows of a member whose address changes
// (startStopReplication) while it reads the id in it, without the lock (updateLastAppended). The id is the same before
// and after. Elsewhere a member is not reached before its address has changed.

// Nodes that have all promised to found a cluster come back at other addresses before one has founded it: they found it,
// and find each other. So do they where all move later.
func TestAllMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 0)
		defer c.close()
		ids, disk := []string{"n1", "n2", "n3"}, onDisk(t, nil)
		var at []string
		p := peer.Promise{Round: 1}
		for _, id := range ids {
			c.add(id, disk, func(cfg *Config) {
				discovering(3)(cfg)
				cfg.Discover.Addrs = func(context.Context) ([]string, error) { return at, nil }
			})
			c.start(id)
			p.Members = append(p.Members, peer.Founder{ID: id, Incarnation: c.nodes[id].members.incarnation, PeerAddr: id + ":1"})
		}
		for _, id := range ids {
			if err := c.nodes[id].members.search.Keep(p); err != nil {
				t.Fatal(err)
			}
			c.kill(id)
		}
		for turn := range 2 {
			at = nil
			for _, id := range ids {
				c.nodes[id].addr = fmt.Sprintf("%s:%d", id, turn+2)
				at = append(at, c.nodes[id].addr)
			}
			for _, id := range ids {
				c.start(id)
				n := c.nodes[id]
				go func() { _ = n.Discover(t.Context(), "") }()
			}
			time.Sleep(30 * time.Second)
			leader := c.leader()
			c.expect(leader, fmt.Sprintf("SET turn %d", turn), "+OK")
			c.agree()
			time.Sleep(5 * time.Second)
			for _, s := range leader.raft.Servers() {
				if string(s.Address) != c.nodes[string(s.ID)].addr {
					t.Errorf("turn %d: %s is known at %s, not at %s", turn, s.ID, s.Address, c.nodes[string(s.ID)].addr)
				}
			}
			if got := leader.members.identity().Cluster; got != founding.ClusterOf(p) {
				t.Errorf("turn %d: cluster %s, not %s", turn, got, founding.ClusterOf(p))
			}
			for _, id := range ids {
				c.kill(id)
			}
		}
	})
}
