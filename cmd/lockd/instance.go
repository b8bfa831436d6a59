package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"lockd/cluster"
	"lockd/keyspace"
	"lockd/luavm"
	"lockd/resp/fault"
	"lockd/resp/server"
)

// The joints of the house: each interface lives with its user, and here is who
// implements it.
var (
	_ server.Backend    = (*cluster.Node)(nil)
	_ cluster.Machine   = (*keyspace.Machine)(nil)
	_ cluster.Publisher = (*server.Hub)(nil)
	_ keyspace.Scripts  = (*luavm.VM)(nil)
)

// stopMax bounds an orderly stop: beyond it the node stops like a crashed one,
// which loses nothing that was acknowledged.
const stopMax = 15 * time.Second

// instance is one running node: a server over a cluster node over a machine.
type instance struct {
	log       *slog.Logger
	node      *cluster.Node
	server    *server.Server
	listeners []net.Listener
	serving   sync.WaitGroup
	failed    chan error // a listener broke
}

// start opens a node and begins to serve clients. Its errors are about what the
// operator gave: addresses, folders, the state of the data.
func start(c *serveCmd, log *slog.Logger) (*instance, error) {
	if err := fault.Serve(); err != nil {
		return nil, err
	}
	i := &instance{log: log, failed: make(chan error, 1)}
	if err := i.listen(c); err != nil {
		return nil, err
	}
	// The hub comes first: the node publishes to it while it replays its log.
	hub := server.NewHub()
	var err error
	i.node, err = cluster.Open(cluster.Config{
		ID: c.ID, Dir: c.Dir, Members: c.members, Join: c.Join != "",
		PeerListen: c.PeerListen, PeerAdvertise: c.PeerAdvertise, ClientAddrs: []string{c.Advertise},
		Heartbeat: c.Heartbeat, LeaderWait: c.LeaderWait, LogStore: c.LogStore, Version: version,
		Machine: keyspace.New(luavm.New()), Publisher: hub,
		Info: i.info, Log: log,
	})
	if err != nil {
		i.closeListeners()
		return nil, err
	}
	i.server = server.New(server.Config{
		Backend: i.node, Hub: hub, Password: c.Requirepass, Local: localSettings(c, i.listeners),
		Version: version, RunID: runID(), Log: log,
	})
	i.serve()
	return i, nil
}

// listen opens the client addresses.
func (i *instance) listen(c *serveCmd) error {
	for _, addr := range c.Listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			i.closeListeners()
			return fmt.Errorf("--listen %s: %w", addr, cause(err))
		}
		i.listeners = append(i.listeners, l)
	}
	if c.Unixsocket == "" {
		return nil
	}
	if info, err := os.Lstat(c.Unixsocket); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(c.Unixsocket) // left by a process that was killed; if it is in use, Listen says so
	}
	l, err := net.Listen("unix", c.Unixsocket)
	if err != nil {
		i.closeListeners()
		return fmt.Errorf("--unixsocket %s: %w", c.Unixsocket, cause(err))
	}
	i.listeners = append(i.listeners, l)
	return nil
}

// cause strips the wrapping that repeats the address.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (i *instance) serve() {
	for _, l := range i.listeners {
		i.serving.Go(func() {
			if err := i.server.Serve(l); !errors.Is(err, server.ErrServerClosed) {
				select {
				case i.failed <- fmt.Errorf("listener %s: %w", l.Addr(), err):
				default:
				}
			}
		})
	}
}

// stop ends the node in order: clients get the answers they wait for, then
// leadership is handed over, then Raft stops.
func (i *instance) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	if err := i.server.Shutdown(ctx); err != nil {
		i.log.Warn("some clients were cut off", "why", err)
	}
	i.serving.Wait()
	if err := i.node.Close(ctx); err != nil {
		i.log.Warn("the node did not stop in order", "why", err)
	}
}

func (i *instance) closeListeners() {
	for _, l := range i.listeners {
		l.Close()
	}
}

// localSettings are the values of CONFIG GET that belong to this node alone.
func localSettings(c *serveCmd, listeners []net.Listener) map[string]string {
	var hosts []string
	port := "0"
	for _, l := range listeners {
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			hosts = append(hosts, addr.IP.String())
			if port == "0" {
				port = fmt.Sprint(addr.Port)
			}
		}
	}
	return map[string]string{
		"port": port, "bind": strings.Join(hosts, " "), "unixsocket": c.Unixsocket, "dir": c.Dir,
	}
}

// runID names this run of the process, as Redis's run_id does.
func runID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
