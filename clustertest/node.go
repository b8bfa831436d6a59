package clustertest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"lockd/cluster"
	"lockd/cluster/clock"
	"lockd/cluster/peer/peertest"
	"lockd/internal/node"
	"lockd/resp"
	"lockd/resp/server"
)

// Node is a machine of the cluster, with its disk and clock, and the process on it, if one runs.
type Node struct {
	cluster *Cluster
	id      string
	disk    *disk
	clock   *machineClock
	process *process              // nil: none
	client  *Client               // calls Do; nil: none
	joins   bool                  // not a founding member
	wiped   int                   // how often the disk was replaced
	died    atomic.Pointer[error] // why a process has ended itself
}

// process is a running node: the parts that cmd/lockd joins, too.
type process struct {
	node   *cluster.Node
	server *server.Server
	served chan struct{} // closed when the listener has ended
	ended  atomic.Bool   // it sends nothing any more, and writes nothing
}

func (n *Node) peerAddr() string   { return n.id + ":16379" }
func (n *Node) clientAddr() string { return n.id + ":6379" }

// runID is the run_id of all nodes.
const runID = "0123456789012345678901234567890123456789"

func (n *Node) start() error {
	c, p := n.cluster, &process{served: make(chan struct{})}
	members := map[string]string{}
	for _, m := range c.nodes {
		if !m.joins {
			members[m.id] = m.peerAddr()
		}
	}
	if n.joins {
		members = nil
	}
	log := logger(n.id)
	back := cluster.Config{
		ID: n.id, Members: members, Join: n.joins, PeerListen: n.peerAddr(), ClientAddrs: []string{n.clientAddr()},
		KeepRoom: true,
		Disk:     mount{n.disk, &p.ended},
		Clock:    processClock{clock.NewSystem(), n.clock},
		Network:  processNetwork{c.peers.From(n.peerAddr()), &p.ended},
		Info:     func() []resp.Section { return p.server.Info() },
		Log:      log, Version: "test",
		Fatal: func(err error) {
			if !p.ended.Swap(true) {
				n.died.Store(&err)
				n.cutOff()
			}
		},
	}
	for _, tune := range c.tune {
		tune(&back)
	}
	var err error
	p.node, p.server, err = node.Open(back, func(*cluster.Node) server.Config {
		return server.Config{Version: "test", RunID: runID, Node: n.id, Log: log}
	})
	if err != nil {
		return err
	}
	l, err := c.clients.From(n.clientAddr()).Listen(n.clientAddr())
	if err != nil {
		return errors.Join(err, p.node.Close(context.Background()))
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // it ends with the process
	}()
	n.process = p
	return nil
}

// vanish ends the process as seen from outside, at once: nothing that it still does reaches the network or the disk.
// power selects a power failure instead of kill -9.
func (n *Node) vanish(power bool) {
	n.process.ended.Store(true)
	if power {
		n.disk.losePower()
	}
	n.cutOff()
	n.hangUp()
}

// cutOff ends all connections of the node.
func (n *Node) cutOff() {
	n.cluster.peers.Kill(n.peerAddr())
	n.cluster.clients.Kill(n.clientAddr())
}

// death returns why the process has ended itself, or nil.
func (n *Node) death() error {
	if why := n.died.Load(); why != nil {
		return *why
	}
	return nil
}

// stop ends the goroutines of a process, its clients first, each part within most. With 0 it ends them at once.
func (n *Node) stop(most time.Duration) {
	p := n.process
	within := func(do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		_ = do(ctx) // what does not end in time is cut off
	}
	within(p.server.Shutdown)
	within(p.node.Close)
	<-p.served
}

// processNetwork is the network of one process. Dialling fails once the process has ended.
type processNetwork struct {
	peertest.View
	ended *atomic.Bool
}

// Dial implements peer.Network.
func (v processNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	if v.ended.Load() {
		return nil, os.ErrDeadlineExceeded
	}
	conn, err := v.View.Dial(addr, timeout)
	if err == nil && v.ended.Load() {
		_ = conn.Close()
		return nil, syscall.ECONNRESET
	}
	return conn, err
}
