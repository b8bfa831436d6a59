package main

import (
	"context"
	"io"
	"os"
	"strings"

	"lockd/resp"
)

// run runs one node until ctx ends.
func (c *serveCmd) run(ctx context.Context, _, stderr io.Writer) error {
	boundHeap(ctx, os.Getenv)
	log := c.logger(stderr)
	var err error
	if c.seats, err = systemFiles.seats(1, log); err != nil {
		return usageError{err}
	}
	i, err := start(c, log)
	if err != nil {
		return usageError{err}
	}
	defer i.stop()
	log.Info("lockd "+version+" serves", "id", c.ID, "clients", strings.Join(c.Listen, ","), "advertised", c.Advertise,
		"peers", c.PeerListen, "dir", c.Dir, "cluster", orSingle(c), "sentinel", c.SentinelListen, "clusterProtocol", c.ClusterProtocol)
	if c.Join != "" {
		if err := i.node.Join(ctx, c.Join, c.Requirepass); err != nil && ctx.Err() == nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		log.Info("stopping", "why", "asked to by a signal")
		return nil
	case err := <-i.failed:
		return err
	}
}

func orSingle(c *serveCmd) string {
	switch {
	case c.Join != "":
		return "joining by " + c.Join
	case len(c.Cluster) > 0:
		return strings.Join(c.Cluster, ",")
	}
	return "a single node"
}

// info is what the server knows for INFO; nothing before there is one.
func (i *instance) info() []resp.Section {
	if i.server == nil {
		return nil
	}
	return i.server.Info()
}

// sentinelInfo is the same for INFO at the sentinel address.
func (i *instance) sentinelInfo() []resp.Section {
	if i.sentinel == nil {
		return nil
	}
	return i.sentinel.Info()
}
