package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"lockd/cmd/lockd/hold"
)

// runCmd runs a program while it holds a lock.
type runCmd struct {
	Lock  string        `required:"" help:"Key of the lock." placeholder:"KEY"`
	Px    time.Duration `default:"30s" help:"Lease of the lock; a third of it passes between renewals (default: ${default})."`
	Wait  time.Duration `default:"1m" help:"How long to wait in line for the lock (default: ${default})."`
	Grace time.Duration `default:"10s" help:"Time from SIGTERM to SIGKILL for the command when the lock is lost. If no server answers, the lease outlasts SIGKILL by a tenth of itself, a second at most (default: ${default})."`

	Shared bool `help:"Share the lock with others that run with --shared; a run without it waits for all of them."`
	Limit  int  `help:"Share the lock among at most N holders, all with the same N (default: hold it alone)." placeholder:"N"`

	clusterFlags `embed:""`

	Command []string `arg:"" passthrough:"" help:"The command and its arguments, behind --."`
}

func (c *runCmd) check() error {
	if err := c.clusterFlags.check(); err != nil {
		return err
	}
	if c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	switch {
	case len(c.Command) == 0:
		return usagef("there is no command behind --")
	case c.Px < runLeaseMin:
		return usagef("--px %s is less than %s", c.Px, runLeaseMin)
	case c.Limit < 0:
		return usagef("--limit %d is negative", c.Limit)
	case c.Shared && c.Limit > 0:
		return usagef("--shared and --limit are two kinds of lock")
	case c.Wait < 0:
		return usagef("--wait %s is negative", c.Wait)
	case c.Grace < 0 || c.Grace > c.graceMax():
		return usagef("--grace %s is not between 0s and %s, which is half of --px %s without the last %s: the lock could "+
			"not be renewed in time", c.Grace, c.graceMax(), c.Px, hold.Margin(c.Px))
	}
	return nil
}

// graceMax bounds --grace: the other half of the lease is for renewals.
func (c *runCmd) graceMax() time.Duration { return c.Px/2 - hold.Margin(c.Px) }

// runLeaseMin is the least --px.
const runLeaseMin = time.Second

// holder returns a holder of the lock with a random token.
func (c *runCmd) holder() *hold.Holder {
	host, _ := os.Hostname() // "" will do
	name := fmt.Sprintf("lockd-run:%s:%d", host, os.Getpid())
	return hold.New(&hold.Cluster{
		Addrs: c.Addr, User: c.User, Password: c.Auth, TLS: c.secured, Name: name,
		Key: c.Lock, Token: rand.Text() + "@" + name, Lease: c.Px, Options: c.options(),
	}, c.Px)
}

// options returns the options of LOCK that share the lock with other holders.
func (c *runCmd) options() []string {
	switch {
	case c.Shared:
		return []string{"SHARED"}
	case c.Limit > 0:
		return []string{"LIMIT", strconv.Itoa(c.Limit)}
	}
	return nil
}

// run runs the command while the lock is held; the status is that of package hold.
func (c *runCmd) run(_ context.Context, stdout, stderr io.Writer) error {
	err := (&hold.Command{
		Holder: c.holder(), Lock: c.Lock, Wait: c.Wait, Grace: c.Grace, Args: c.Command, Stdout: stdout, Stderr: stderr,
	}).Run()
	var end hold.EndError
	if errors.As(err, &end) {
		return exitError{end.Status, end.Why}
	}
	return err
}
