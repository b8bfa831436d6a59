// Package node joins the parts of one node: a server for clients, over a node of the cluster, over a machine with Lua.
// A process and a simulated node are joined here in the same way. The package decides nothing else: flags, listeners
// and signals belong to cmd/lockd, simulated networks and disks to clustertest.
package node

import (
	"lockd/cluster"
	"lockd/keyspace"
	"lockd/luavm"
	"lockd/resp/server"
)

// The implementations of interfaces that live with their users.
var (
	_ server.Backend    = (*cluster.Node)(nil)
	_ cluster.Machine   = (*keyspace.Machine)(nil)
	_ cluster.Publisher = (*server.Hub)(nil)
	_ cluster.Clients   = (*server.Hub)(nil)
	_ keyspace.Scripts  = (*luavm.VM)(nil)
)

// Open opens a node of a cluster with a new machine, and makes the server of its clients, which serves nobody yet. Open
// sets the machine, publisher and clients of back itself, and the backend and hub of what front returns. It calls front
// once the node is open. The errors are those of cluster.Open.
func Open(back cluster.Config, front func(*cluster.Node) server.Config) (*cluster.Node, *server.Server, error) {
	hub := server.NewHub() // first: the node publishes to it while it replays its log
	back.Machine, back.Publisher, back.Clients = keyspace.New(luavm.New()), hub, hub
	n, err := cluster.Open(back)
	if err != nil {
		return nil, nil, err
	}
	cfg := front(n)
	cfg.Backend, cfg.Hub = n, hub
	return n, server.New(cfg), nil
}
