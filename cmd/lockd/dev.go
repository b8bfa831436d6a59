package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"lockd/cmd/lockd/system"
	"lockd/resp/server"
)

// run runs a cluster of several nodes in this process until ctx ends.
func (c *devCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	boundHeap(ctx, os.Getenv)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // closing its terminal ends a development server
	defer stop()
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "lockd-dev-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		c.Dir = dir
	}
	log := c.logger(stderr)
	warnOfFile(c.warnings, log)
	var running []*instance
	defer func() {
		for _, i := range running {
			i.stop()
		}
	}()
	failed := make(chan error, c.Nodes)
	nodes, err := c.plan()
	if err != nil {
		return err
	}
	most, err := system.OpenFiles.Fit(clientsDefault, len(nodes)*filesReserved, log)
	if err != nil {
		return usageError{err}
	}
	seats := server.NewSeats(most)
	for _, n := range nodes {
		n.seats = seats
		i, err := start(n, log.With("node", n.ID))
		if err != nil {
			return usageError{err}
		}
		running = append(running, i)
		go func() { failed <- <-i.failed }()
	}
	fmt.Fprintf(stdout, "%d nodes, data in %s, clients on %s%s\n", c.Nodes, c.Dir, addrs(nodes), modes(nodes))
	if l := running[0].httpListener; l != nil {
		fmt.Fprintf(stdout, "console at http://%s/\n", l.Addr())
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// plan lays out the nodes: ids n1, n2 ..., ports one after the other.
func (c *devCmd) plan() ([]*serveCmd, error) {
	host, port, err := splitAddr("--listen", c.Listen)
	if err != nil {
		return nil, err
	}
	var list []string
	peers := loopbackHost(c.Listen, host)
	for i := range c.Nodes {
		list = append(list, fmt.Sprintf("n%d=%s", i+1, net.JoinHostPort(peers, strconv.Itoa(port+i+peerPortOffset))))
	}
	var nodes []*serveCmd
	for i := range c.Nodes {
		id := fmt.Sprintf("n%d", i+1)
		n := &serveCmd{
			ID: id, Listen: []string{net.JoinHostPort(host, strconv.Itoa(port+i))},
			Dir: filepath.Join(c.Dir, id), Cluster: list, modeFlags: c.modeFlags, tuneFlags: c.tuneFlags,
			logFlags: c.logFlags,
		}
		if i == 0 {
			n.HTTPListen, n.anyHTTPPort = c.HTTPListen, true
		}
		if c.SentinelListen != "" {
			host, first, err := splitAddr("--sentinel-listen", c.SentinelListen)
			if err != nil {
				return nil, err
			}
			n.SentinelListen = net.JoinHostPort(host, strconv.Itoa(first+i))
		}
		if err := n.check(); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func addrs(nodes []*serveCmd) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Listen...)
	}
	return strings.Join(all, ", ")
}

// modes says in which other ways the nodes are reached.
func modes(nodes []*serveCmd) string {
	text := ""
	if nodes[0].ClusterProtocol {
		text += " (Redis Cluster)"
	}
	if nodes[0].SentinelListen != "" {
		var sentinels []string
		for _, n := range nodes {
			sentinels = append(sentinels, n.SentinelListen)
		}
		text += ", sentinels of " + nodes[0].MasterName + " on " + strings.Join(sentinels, ", ")
	}
	return text
}
