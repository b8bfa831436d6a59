package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lockd/cluster"
	"lockd/cluster/face"
	"lockd/console"
	"lockd/internal/node"
	"lockd/internal/secure"
	"lockd/resp"
	"lockd/resp/fault"
	"lockd/resp/server"
)

// A sentinel is served as a node is, which package node joins.
var _ server.Backend = (*face.Sentinel)(nil)

// An orderly stop is bounded, each part of it by itself, so that clients that cannot be
// finished with do not cost the cluster an election. Beyond that the node stops like a
// crashed one, which loses nothing that was acknowledged. The sum is below the 30 s
// after which Kubernetes kills.
const (
	clientsStopMax = 15 * time.Second // clients get the answers they wait for
	nodeStopMax    = 10 * time.Second // leadership is handed over, and what is in flight ends
)

// instance is one running node: a server over a cluster node over a machine.
type instance struct {
	log       *slog.Logger
	node      *cluster.Node
	server    *server.Server
	listeners []net.Listener // for clients without TLS
	serving   sync.WaitGroup
	failed    chan error // a listener broke

	sentinel         *server.Server // nil: the node is none
	sentinelListener net.Listener

	tlsListeners []net.Listener // for clients with it
	handshakes   *secure.Handshakes
	certs        *secure.Source     // nil: there are none
	peerCerts    *secure.Source     // nil: there are none
	unfollow     context.CancelFunc // ends what follows their files

	console      *console.Console // nil: there is none
	httpListener net.Listener
}

// start opens a node and begins to serve clients. Its errors are about what the
// operator gave: addresses, folders, the state of the data.
func start(c *serveCmd, log *slog.Logger) (*instance, error) {
	if err := fault.Serve(); err != nil {
		return nil, err
	}
	i := &instance{log: log, failed: make(chan error, 1), unfollow: func() {}}
	if err := i.openTLS(c); err != nil {
		i.closeListeners()
		return nil, err
	}
	if err := i.listen(c); err != nil {
		i.closeListeners()
		return nil, err
	}
	sentinelHub := server.NewHub()
	sentinel, err := i.sentinelConfig(c, sentinelHub)
	if err != nil {
		i.closeListeners()
		return nil, err
	}
	clientAddrs, tlsAddr := c.clientAddrs()
	i.node, i.server, err = node.Open(cluster.Config{
		ID: c.ID, Dir: c.Dir, Members: c.members, Join: c.Join != "", Discover: c.discovery(),
		PeerListen: c.PeerListen, PeerAdvertise: c.PeerAdvertise, PeerSecrets: c.secret.list, PeerCerts: i.peerCertificates(),
		PeerInsecure: c.PeerInsecure, ClientAddrs: clientAddrs, TLSAddr: tlsAddr, JoinTLS: i.joinConfig(),
		Heartbeat: c.Heartbeat, LeaderWait: c.LeaderWait, LogStore: c.LogStore, KeepRoom: c.keepRoom,
		Version: version, ClusterProtocol: c.ClusterProtocol, Sentinel: sentinel,
		Info: func() []resp.Section { return append(i.info(), c.logSection()) }, Log: log,
		Fatal: func(err error) { c.dies(log, err, os.Exit) },
	}, func(n *cluster.Node) server.Config { return i.serverConfig(c, n) })
	if err != nil {
		i.closeListeners()
		return nil, err
	}
	i.serve(i.server, append(slices.Clone(i.listeners), i.tlsListeners...)...)
	if sentinel != nil {
		i.sentinel = server.New(server.Config{
			Backend: i.node.Sentinel(), Profile: server.Sentinel, Hub: sentinelHub, Password: c.SentinelRequirepass,
			Local: map[string]string{"port": portOf(i.sentinelListener)}, Version: version, RunID: runID(), Log: log,
			Seats: c.seats,
		})
		i.serve(i.sentinel, i.sentinelListener)
	}
	if i.httpListener != nil {
		i.serveConsole(c)
	}
	return i, nil
}

// serverConfig returns the configuration of the server for the node's clients.
func (i *instance) serverConfig(c *serveCmd, n *cluster.Node) server.Config {
	cfg := server.Config{
		Password: c.Requirepass, Local: localSettings(c, i.listeners, i.tlsListeners),
		Version: version, RunID: runID(), Node: c.ID, Log: i.log, Seats: c.seats,
		ClientsMax: c.Maxclients, PubSubCount: c.PubsubCount, ACLFile: c.Aclfile,
		Protect: c.ProtectedMode == "yes", LogLevel: c.level,
	}
	if c.ClusterProtocol {
		cfg.Profile = server.Cluster
		// Clients choose their protocol by these two.
		cfg.Local["cluster-enabled"], cfg.Local["databases"] = "yes", "1"
	}
	if c.ClusterRedirect {
		cfg.Redirect = n.Redirect
	}
	return cfg
}

// sentinelConfig is nil where the node is no sentinel.
func (i *instance) sentinelConfig(c *serveCmd, hub *server.Hub) (*face.SentinelConfig, error) {
	if c.SentinelListen == "" {
		return nil, nil
	}
	addr, err := c.sentinelAddr()
	return &face.SentinelConfig{
		Addr: addr, TLS: c.TLSSentinel, Master: c.MasterName, Publisher: hub, Info: i.sentinelInfo,
	}, err
}

// listen opens the client addresses. After an error some of them are open.
func (i *instance) listen(c *serveCmd) error {
	for _, addr := range c.Listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("--listen %s: %w", addr, cause(err))
		}
		i.listeners = append(i.listeners, l)
	}
	for _, addr := range c.TLSListen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("--tls-listen %s: %w", addr, cause(err))
		}
		i.tlsListeners = append(i.tlsListeners, i.secured(c, l, true))
	}
	if c.SentinelListen != "" {
		l, err := net.Listen("tcp", c.SentinelListen)
		if err != nil {
			return fmt.Errorf("--sentinel-listen %s: %w", c.SentinelListen, cause(err))
		}
		i.sentinelListener = i.secured(c, l, c.TLSSentinel)
	}
	if c.HTTPListen != "" {
		l, err := listenHTTP(c)
		if err != nil {
			return err
		}
		i.httpListener = i.secured(c, l, c.TLSHTTP)
	}
	if c.Unixsocket == "" {
		return nil
	}
	if info, err := os.Lstat(c.Unixsocket); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(c.Unixsocket) // left by a killed process; if it is in use, Listen fails
	}
	l, err := net.Listen("unix", c.Unixsocket)
	if err != nil {
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

func (i *instance) serve(s *server.Server, listeners ...net.Listener) {
	for _, l := range listeners {
		i.serving.Go(func() {
			if err := s.Serve(l); !errors.Is(err, server.ErrServerClosed) {
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
func (i *instance) stop() { i.stopWithin(clientsStopMax, nodeStopMax) }

func (i *instance) stopWithin(clientsMax, nodeMax time.Duration) {
	i.endClients(clientsMax)
	ctx, cancel := context.WithTimeout(context.Background(), nodeMax)
	defer cancel()
	if err := i.node.Close(ctx); err != nil {
		i.log.Info("the node did not stop in order, which loses nothing that was acknowledged", "why", err)
	}
}

// endClients stops both servers at the same time, so that a slow client of one does not shorten the time of the
// other's clients.
func (i *instance) endClients(most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if i.sentinel != nil {
		i.serving.Go(func() { _ = i.sentinel.Shutdown(ctx) }) // its clients ask another one
	}
	if i.console != nil {
		i.serving.Go(func() { i.console.Shutdown(ctx) }) // its questions are clients of the server
	}
	i.unfollow()
	if err := i.server.Shutdown(ctx); err != nil {
		i.log.Info("some clients were cut off", "why", err)
	}
	i.serving.Wait()
}

func (i *instance) closeListeners() {
	i.unfollow()
	for _, l := range slices.Concat(i.listeners, i.tlsListeners) {
		l.Close()
	}
	if i.sentinelListener != nil {
		i.sentinelListener.Close()
	}
	if i.httpListener != nil {
		i.httpListener.Close()
	}
}

// localSettings are the values of CONFIG GET that belong to this node alone.
func localSettings(c *serveCmd, listeners, secured []net.Listener) map[string]string {
	var hosts []string
	port := "0"
	for _, l := range listeners {
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			hosts = append(hosts, addr.IP.String())
			if port == "0" {
				port = portOf(l)
			}
		}
	}
	all := tlsSettings(c, secured)
	maps.Copy(all, map[string]string{
		"port": port, "bind": strings.Join(hosts, " "), "unixsocket": c.Unixsocket, "dir": c.Dir,
	})
	return all
}

// portOf is the port of a TCP listener.
func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// runID names this run of the process, as Redis's run_id does.
func runID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
