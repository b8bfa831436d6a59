package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"lockd/cmd/lockd/drill"
)

// drillCmd tries the promise out with processes of this binary.
type drillCmd struct {
	Keep  bool          `help:"Keep the folder with data and logs of the nodes."`
	Lease time.Duration `default:"10s" help:"Lease of the lock (default: ${default})."`
	Work  time.Duration `default:"3s" help:"How long clients work before and after each thing that happens (default: ${default})."`
}

// drillLeaseMin is the least lease of a drill: a shorter one could end while this machine has other work.
const drillLeaseMin = time.Second

func (c *drillCmd) check() error {
	if c.Lease < drillLeaseMin {
		return usagef("--lease %s is less than %s", c.Lease, drillLeaseMin)
	}
	if c.Work < 0 {
		return usagef("--work %s is negative", c.Work)
	}
	return nil
}

// run runs a drill and prints its steps. The folder is kept if asked for, or if the promise was broken.
func (c *drillCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockd-drill-")
	if err != nil {
		return err
	}
	d := drill.Drill{
		Program: program, Environ: withoutSettings(os.Environ()), Dir: dir, Lease: c.Lease, Work: c.Work, Out: stdout,
	}
	err = d.Run(ctx)
	if ctx.Err() != nil {
		err = exitError{status: exitFault, why: "the drill was not finished: all its processes were ended"}
	}
	if c.Keep || errors.As(err, &drill.BrokenError{}) {
		fmt.Fprintf(stdout, "Data and logs of the nodes are in %s.\n", dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// withoutSettings is an environment without what would be a setting of a node.
func withoutSettings(environ []string) (rest []string) {
	settings := flagVariables()
	settings["LOCKD_PEER_SECRET"] = true
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !settings[name] {
			rest = append(rest, variable)
		}
	}
	return rest
}
