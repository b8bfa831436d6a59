package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/resp"
)

// readyLagMax is how many entries a node may be behind what it knows to be committed and still be ready.
const readyLagMax = 1000

// Ready says of each condition of serving why it is not met, and for whom this node waits; "": it is met. No disk
// and no other node is asked. Any goroutine may call it.
func (n *Node) Ready() []resp.Field {
	leader, member, log := "", "", ""
	_, id := n.raft.LeaderWithID()
	if id == "" {
		leader = "no leader is known" + n.keeper.missed.sentence()
	}
	conf := n.raft.GetConfiguration()
	commit, applied := n.raft.CommitIndex(), n.state.appliedNow.Load()
	switch {
	case conf.Error() != nil || !slices.ContainsFunc(conf.Configuration().Servers, n.isSelf):
		member = "this node is no member of the cluster yet, or any more: " +
			cmp.Or(n.members.search.waitsFor(), "it waits for LOCKD ADD")
	case conf.Index() > commit:
		member = fmt.Sprintf("the members of entry %d are not known to be agreed on: this node waits for %s",
			conf.Index(), leaderOr(id))
	}
	switch {
	case commit == 0:
		log = "this node does not know yet what is committed: it waits for " + leaderOr(id)
	case commit > applied+readyLagMax:
		log = fmt.Sprintf("this node is %d entries behind", commit-applied)
	}
	return []resp.Field{{Name: "leader", Value: leader}, {Name: "member", Value: member}, {Name: "log", Value: log}}
}

func (n *Node) isSelf(s raft.Server) bool { return string(s.ID) == n.cfg.ID }

func leaderOr(id raft.ServerID) string {
	if id == "" {
		return "a leader"
	}
	return string(id) + ", which leads"
}

// readyFields are the checks as INFO shows them.
func (n *Node) readyFields() []resp.Field {
	ready := resp.Field{Name: "ready", Value: "1"}
	var fields []resp.Field
	for _, c := range n.Ready() {
		said := "ok"
		if c.Value != "" {
			said, ready.Value = peer.OneLine(c.Value, waitTextMax), "0"
		}
		fields = append(fields, resp.Field{Name: "ready_" + c.Name, Value: said})
	}
	return append([]resp.Field{ready}, fields...)
}

const waitTextMax = 1024 // bytes of a sentence
