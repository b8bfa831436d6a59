package main

import (
	"context"
	"io"

	"lockd/bench/etcd"
	"lockd/cmd/lockd/bench"
)

type loadCmd struct {
	bench.Config `embed:""`
}

// run measures servers that are there already, etcd among them.
func (c *loadCmd) run(ctx context.Context, stdout, progress io.Writer) error {
	c.Etcd = etcd.Dial
	return c.Run(ctx, stdout, progress)
}
