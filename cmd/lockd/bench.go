package main

import (
	"context"
	"io"
	"strings"

	"lockd/cmd/lockd/bench"
)

type benchCmd struct {
	bench.Config `embed:""`
	loginFlags   `embed:""`
}

func (c *benchCmd) check() error {
	all := c.TLS
	for i, target := range c.Target {
		if all && strings.Contains(target, "redis://") {
			c.Target[i] = strings.Replace(target, "redis://", "rediss://", 1)
		}
		c.TLS = c.TLS || strings.Contains(target, "rediss://")
	}
	if err := c.loginFlags.check(); err != nil {
		return err
	}
	c.Login = bench.Login{User: c.User, Password: c.Auth, TLS: c.secured}
	if err := c.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// run measures; see package bench.
func (c *benchCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	return c.Config.Run(ctx, stdout, stderr)
}
