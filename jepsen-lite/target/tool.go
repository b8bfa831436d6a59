package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockd/internal/process"
)

// Tools are the commands that the server's program has for operators, and clusters beside the one under test that are
// made by them.
type Tools interface {
	// Tool runs a command to its end, or until ctx ends, and returns its exit status and what it printed.
	Tool(ctx context.Context, args ...string) (status int, said string, err error)
	// StartTool starts a command whose output is appended to a log. The kernel kills it when this program dies.
	StartTool(log string, args ...string) (Program, error)
	// Reach returns the flags by which a command asks nodes: through the proxies, as clients do, or directly.
	Reach(direct bool, nodes ...string) []string
	// NewSingle prepares a cluster of one node in a folder that a command has made, or will make.
	NewSingle(id, dir string) (*Single, error)
}

// Program is a command that was started.
type Program struct{ *process.Process }

// End ends the command with SIGTERM, or after patience with SIGKILL, and waits until it is gone.
func (p Program) End(patience time.Duration) { p.Stop(syscall.SIGTERM, patience) }

// errNoTools is the error of a target whose program has no such commands.
var errNoTools = errors.New("the server of this target has no commands for operators")

// lockdTools implements Tools.
type lockdTools struct {
	fleet  *fleet
	builds *lockdBuilds
}

// Tool implements Tools.
func (t lockdTools) Tool(ctx context.Context, args ...string) (status int, said string, err error) {
	return t.fleet.net.on().Run(ctx, process.Command{Path: t.builds.path(OwnBuild), Args: args})
}

// StartTool implements Tools.
func (t lockdTools) StartTool(log string, args ...string) (Program, error) {
	p, err := process.Command{
		Name: "lockd " + args[0], Path: t.builds.path(OwnBuild), Args: args, Env: os.Environ(), Log: log,
	}.Start()
	return Program{p}, err
}

// Reach implements Tools.
func (t lockdTools) Reach(direct bool, nodes ...string) []string {
	var addrs []string
	for _, name := range nodes {
		n := t.fleet.nodes[name]
		if direct {
			addrs = append(addrs, n.addr)
		} else {
			addrs = append(addrs, n.client.Addr())
		}
	}
	return append([]string{"--addr", strings.Join(addrs, ",")}, t.fleet.tls.clientFlags()...)
}

// NewSingle implements Tools.
func (t lockdTools) NewSingle(id, dir string) (*Single, error) {
	host := t.fleet.net.on()
	addrs, err := host.Addrs(onlyHost, 2)
	if err != nil {
		return nil, err
	}
	return &Single{
		PeerAddr: addrs[1],
		host:     host,
		addr:     addrs[0],
		tls:      t.fleet.tls.config(),
		command: process.Command{
			Name: "single " + id, Path: t.builds.path(OwnBuild), Log: filepath.Clean(dir) + ".log",
			Args: slices.Concat([]string{"serve", "--id", id, "--dir", dir, "--peer-listen", addrs[1], "--http-listen", ""},
				t.fleet.tls.flags(addrs[0], addrs[0])),
		},
	}, nil
}

// Single is a cluster of one node beside the cluster under test. Its log is beside its folder.
type Single struct {
	PeerAddr string // where it listens for peers, of which it has none

	host    Host
	addr    string
	tls     *tls.Config
	command process.Command
	process Process // nil: it was not started
}

// Start starts the node. It does not wait until the node serves.
func (s *Single) Start() (err error) {
	s.process, err = s.host.Start(s.command)
	return err
}

// Do sends a command to the node.
func (s *Single) Do(timeout time.Duration, args ...string) (Reply, error) {
	select {
	case <-s.process.Ended():
		return Reply{}, fmt.Errorf("%w: see %s", errNotRunning, s.command.Log)
	default:
	}
	c, err := dial(s.host, s.addr, timeout, s.tls)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(timeout, args...)
}

// Stop ends the node.
func (s *Single) Stop() {
	if s.process != nil {
		s.process.Signal(syscall.SIGKILL)
		<-s.process.Ended()
	}
}

// noTools implements Tools for a server whose program has no such commands.
type noTools struct{}

// Tool implements Tools.
func (noTools) Tool(context.Context, ...string) (int, string, error) { return 0, "", errNoTools }

// StartTool implements Tools.
func (noTools) StartTool(string, ...string) (Program, error) { return Program{}, errNoTools }

// Reach implements Tools.
func (noTools) Reach(bool, ...string) []string { return nil }

// NewSingle implements Tools.
func (noTools) NewSingle(string, string) (*Single, error) { return nil, errNoTools }
