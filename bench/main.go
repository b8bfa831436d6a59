// Command bench starts lockd and its peers on this machine, measures them as `lockd
// bench` does, and holds the figures against what lockd promises: `make bench-peers`
// for the ratios to its peers, `make bench-scale` for its own limits.
//
// Its law: all it starts listens on loopback, keeps its data in one temporary folder,
// and is gone when it ends, however it ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Peers peersCmd `cmd:"" help:"lockd beside etcd and Redis: the ratios, met or missed."`
	Load  loadCmd  `cmd:"" help:"Servers that run already, side by side: lockd bench, for etcd too."`
	Scale scaleCmd `cmd:"" help:"lockd by itself, and how much it bears: the limits, met or missed."`
}

// command is a subcommand after its flags were read.
type command interface {
	run(ctx context.Context, stdout, progress io.Writer) error
}

func main() {
	var c cli
	chosen := kong.Parse(
		&c,
		kong.Name("bench"),
		kong.Description("Starts lockd and its peers, and measures them."),
		kong.Vars{"limits": limitNames(limits)},
	)
	commands := map[string]command{"peers": &c.Peers, "load": &c.Load, "scale": &c.Scale}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := commands[chosen.Selected().Name].run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}
