package main

import (
	"context"
	"io"
	"time"

	"lockd/cmd/lockd/operate"
)

// drainCmd makes one node ready to be taken away for a while.
type drainCmd struct {
	nodeFlags `embed:""`

	Wait time.Duration `default:"30s" help:"How long to wait until the others can do without the node (default: ${default})."`
}

func (c *drainCmd) check() error {
	err := c.nodeFlags.check()
	switch {
	case err != nil:
		return err
	case len(c.Addr) > 1:
		return usagef("--addr names %d nodes: one is drained at a time", len(c.Addr))
	case c.Wait < 0:
		return usagef("--wait %s is negative", c.Wait)
	}
	return nil
}

// run prints a sentence: what the others are without the node, or why it has to stay.
func (c *drainCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	d := operate.Drain{Node: c.client("lockd-drain", c.Addr[0])}
	defer d.Node.Close()
	if done, err := d.Run(ctx, c.Wait, stdout); err != nil || done {
		return err
	}
	return exitError{status: exitFault}
}
