package clustertest

import (
	"context"
	"time"

	"lockd/resp"
)

// Node is a machine of the cluster, with its disk and clock, and the process on it, if one runs.
type Node struct {
	machine *machine
	cluster *Cluster
	client  *Client // calls Do; nil: none
}

// death returns why the process has ended itself, or nil.
func (n *Node) death() error {
	if p := n.machine.last(); p != nil {
		return p.why()
	}
	return nil
}

// leads reports whether the node leads, a majority confirms it, and the cluster has at least others other voters.
func (n *Node) leads(others int) bool {
	r := n.ask("ROLE")
	if len(r.Elems) != 3 || r.Elems[0].Str != "master" || len(r.Elems[2].Elems) < others {
		return false
	}
	return n.ask("EXISTS", "key").Kind == resp.KindInt && n.ask("ROLE").Elems[0].Str == "master"
}

// askMax bounds, in virtual time, each request that the harness itself sends to a node.
const askMax = time.Second

// ask has a node run a command for the harness, which is no client.
func (n *Node) ask(args ...string) resp.Reply {
	node := n.machine.world.Node(n.machine.ID)
	if node == nil {
		return resp.Reply{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	res := node.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: args}}})
	if len(res.Replies) == 0 {
		return resp.Reply{}
	}
	return res.Replies[0]
}
