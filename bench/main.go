// Command bench measures servers, and checks every reply: bench run measures running servers, bench peers lockd beside
// etcd and Redis, and bench scale lockd's own limits. The last two start their servers on this machine, and compare the
// results with the promises of lockd.
//
// Its law: every server that it starts listens on loopback, keeps its data in one temporary folder, and ends with it,
// however it ends.
//
// Go's own benchmarks are separate: `make bench-compare` compares them with those of a commit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Run   runCmd   `cmd:"" help:"Servers that run already, side by side: lockd, Redis, etcd."`
	Peers peersCmd `cmd:"" help:"lockd beside etcd and Redis: the ratios, met or missed."`
	Scale scaleCmd `cmd:"" help:"lockd by itself, and how much it bears: the limits, met or missed."`
}

// command is a subcommand after its flags were read.
type command interface {
	run(ctx context.Context, stdout, progress io.Writer) error
}

// Exit statuses.
const (
	exitOK    = 0
	exitFault = 1 // something could not be measured
	exitUsage = 2 // a wrong flag
)

// usageError is a mistake in a flag.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run is the whole program with its surroundings as arguments, so that tests can run it too. It returns the exit
// status.
func run(args, environ []string, stdout, stderr io.Writer) int {
	chosen, err := parse(args, environ, stdout)
	if err == nil && chosen != nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = chosen.run(ctx, stdout, stderr)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usageError{}):
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return exitFault
}

// parse returns the command that the arguments select, or neither command nor error if help was asked for and
// printed.
func parse(args, environ []string, stdout io.Writer) (command, error) {
	var c cli
	helped := false
	parser, err := kong.New(
		&c,
		kong.Name("bench"),
		kong.Description("Measures lock servers side by side. Every reply is checked."),
		kong.Vars{"limits": limitNames(limits)},
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, err
	}
	chosen, err := parser.Parse(args)
	switch {
	case helped:
		return nil, nil
	case err != nil:
		return nil, usageError{err}
	}
	if c.Run.Auth == "" {
		c.Run.Auth = variable(environ, "LOCKD_PASSWORD")
	}
	return map[string]command{"run": &c.Run, "peers": &c.Peers, "scale": &c.Scale}[chosen.Selected().Name], nil
}

// variable is the value of a variable of the environment; "": it has none.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}
