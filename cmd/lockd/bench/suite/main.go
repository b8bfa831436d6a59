// Command suite starts lockd and its peers on this machine, measures them by package
// bench, and holds the figures against what lockd promises: `make bench-peers`.
//
// Its law: all it starts listens on loopback, keeps its data in one temporary folder,
// and is gone when it ends, however it ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Peers peersCmd `cmd:"" help:"lockd beside etcd and Redis: the ratios, met or missed."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("suite"), kong.Description("Starts lockd and its peers, and measures them."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := c.Peers.run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	}
}
