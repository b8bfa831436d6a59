package face

import (
	"context"
	"fmt"

	"lockd/resp"
)

// Shard is the cluster as one shard of Redis Cluster.
type Shard struct {
	*View
	MasterID string // run id
	Failed   bool   // no leader serves, for longer than a request waits for one
}

// Shard returns the shard with the addresses for the client of ctx. It has a master even before the first leader:
// clients accept no slots without a master, and every node serves every key.
func (t *Topology) Shard(ctx context.Context) Shard {
	s := Shard{View: t.Current.Load()}
	if resp.OverTLS(ctx) {
		s.View = s.overTLS()
	}
	s.Failed = s.Vacant && t.age(s.View) > t.LeaderWait
	if s.Master != nil && s.node(s.Master.Id) != nil {
		s.MasterID = s.Master.RunID
	} else if len(s.Nodes) > 0 {
		s.MasterID = s.Nodes[0].RunID
	}
	return s
}

// InOrder lists the nodes, the master first, without replicas that are down unless withDown is set.
func (s Shard) InOrder(withDown bool) []Node {
	var list []Node
	for _, p := range s.Nodes {
		if p.RunID == s.MasterID {
			list = append([]Node{p}, list...)
		} else if withDown || !p.Down {
			list = append(list, p)
		}
	}
	return list
}

// Find returns the node with a run id; nil if there is none.
func (s Shard) Find(runID string) *Node {
	for i := range s.Nodes {
		if s.Nodes[i].RunID == runID {
			return &s.Nodes[i]
		}
	}
	return nil
}

// NodeLine returns a node's line of CLUSTER NODES, without its end. A lost leader keeps its slots, since clients fail
// on a slot without a node, but has the flag fail?: of the views of several nodes, clients prefer the one with more
// healthy nodes.
func (t *Topology) NodeLine(s Shard, p Node) string {
	flags, master, link, slots := "slave", s.MasterID, "connected", ""
	switch {
	case p.RunID == s.MasterID:
		flags, master, slots = "master", "-", fmt.Sprintf(" 0-%d", resp.Slots-1)
		if s.Failed {
			flags = "master,fail?"
		}
	case p.Down:
		flags, link = "slave,fail", "disconnected"
	}
	if p.Id == string(t.Raft.Self) {
		flags = "myself," + flags
	}
	return fmt.Sprintf("%s %s:%s@%s %s %s 0 %d %d %s%s", p.RunID, p.Host, p.Port, p.bus, flags, master,
		t.LastSeen(p.Id).wall, s.Term, link, slots)
}
