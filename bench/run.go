package main

import (
	"context"
	"io"
	"strings"

	"lockd/bench/load"
	"lockd/internal/login"
)

type runCmd struct {
	load.Config `embed:""`
	login.Flags `embed:""`
}

// check reads the login of clients. --tls turns all targets of Redis's protocol into rediss://.
func (c *runCmd) check() (err error) {
	for i, target := range c.Target {
		if c.TLS && strings.Contains(target, "redis://") {
			c.Target[i] = strings.Replace(target, "redis://", "rediss://", 1)
		}
	}
	for _, target := range c.Target {
		c.TLS = c.TLS || strings.Contains(target, "rediss://")
	}
	tls, err := c.Flags.Check()
	if err != nil {
		return err
	}
	c.Login = load.Login{User: c.User, Password: c.Auth, TLS: tls}
	return c.Config.Check()
}

// run measures servers that are there already.
func (c *runCmd) run(ctx context.Context, stdout, progress io.Writer) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	return c.Run(ctx, stdout, progress)
}
