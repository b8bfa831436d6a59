package cluster

import (
	"context"

	"lockd/resp"
)

// nodeCommand is how a row of the node table runs.
type nodeCommand struct {
	run      func(context.Context, *Node, resp.Args) resp.Reply
	onLeader bool // forwarded to the leader
}

// The protocols, with the commands that are about the node or the cluster and not
// about data.
var (
	standalone = &protocol{
		rows: resp.NewTable(
			lockdRows,
			infoRows,
			clusterRows(func(nodeCommand) nodeCommand { return always(resp.Err(resp.ErrNotCluster)) }),
		),
		enabled: "0", notDone: resp.ErrNotDone,
	}
	redisCluster = &protocol{
		rows:    resp.NewTable(lockdRows, infoRows, clusterRows(func(c nodeCommand) nodeCommand { return c })),
		enabled: "1", notDone: resp.ErrClusterDown,
	}
)

func here(run func(context.Context, *Node, resp.Args) resp.Reply) nodeCommand {
	return nodeCommand{run: run}
}

func onLeader(run func(context.Context, *Node, resp.Args) resp.Reply) nodeCommand {
	return nodeCommand{run: run, onLeader: true}
}

// always answers with the same reply.
func always(r resp.Reply) nodeCommand {
	return here(func(context.Context, *Node, resp.Args) resp.Reply { return r })
}

// number reads an integer argument of a command that has no other errors.
func number(s string) (int64, *resp.Reply) {
	n, ok := resp.ParseInt(s)
	if !ok {
		r := resp.Err(resp.ErrNotInteger)
		return 0, &r
	}
	return n, nil
}
