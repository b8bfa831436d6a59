package main

import (
	"context"
	"io"

	"lockd/cmd/lockd/bench"
)

type benchCmd struct {
	bench.Config `embed:""`
}

func (c *benchCmd) check() error {
	if err := c.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// run measures; see package bench.
func (c *benchCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	return c.Config.Run(ctx, stdout, stderr)
}
