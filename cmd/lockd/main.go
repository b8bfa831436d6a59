// Command lockd is a lock server that speaks Redis's protocol and replicates
// through Raft: see the README.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"lockd/internal/logwriter"
)

// Exit statuses.
const (
	exitOK    = 0
	exitFault = 1 // the server could not go on, or refuses
	exitUsage = 2 // a wrong flag, address or file
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the whole program with its surroundings as arguments, so that tests can
// run it too. It returns the exit status.
func run(args, environ []string, stdout, stderr io.Writer) int {
	command, done, err := parse(args, environ, stdout)
	for _, problem := range each(err) {
		fmt.Fprintf(stderr, "lockd: %v\n", problem)
	}
	switch {
	case err != nil:
		return exitUsage
	case done:
		return exitOK
	}
	for _, problem := range misspelt(environ) { // a node does not start with one
		fmt.Fprintf(stderr, "lockd: warning: %v\n", problem)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if serves, ok := command.(interface {
		openLog(io.Writer) *logwriter.Writer
	}); ok {
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, syscall.SIGPIPE) // a reader of the log that goes away ends no node
		defer signal.Stop(broken)
		w := serves.openLog(stderr)
		defer w.Close(logEndMax)
		stderr = w
	}
	if err := command.run(ctx, stdout, stderr); err != nil {
		if err.Error() != "" {
			fmt.Fprintf(stderr, "lockd: %v\n", err)
		}
		return status(err)
	}
	return exitOK
}
