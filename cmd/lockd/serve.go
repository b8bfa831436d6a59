package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockd/cluster/peer"
	"lockd/cmd/lockd/system"
	"lockd/internal/secure"
	"lockd/resp"
	"lockd/resp/server"
)

// filesReserved are the file descriptors that a node keeps from clients, for its log, snapshots, peers and listeners
// (30 on a busy node of three, 50 of five), for up to 48 browsers, for unknown connections to the peer port, and for
// connections about to be closed.
const filesReserved = 128 + peer.UnprovenConnsMax

// clientsDefault is the number of clients for which a process asks for descriptors if --maxclients is absent: the
// default of the cluster's setting maxclients.
const clientsDefault = 10000

// run runs one node until ctx ends.
func (c *serveCmd) run(ctx context.Context, _, stderr io.Writer) error {
	log := c.logger(stderr)
	c.keepRoom = true
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // a terminal that is closed ends no node
	defer signal.Stop(hangups)
	reserved := filesReserved
	if c.used() {
		reserved += secure.HandshakesMax
	}
	most, err := system.OpenFiles.Fit(cmp.Or(c.Maxclients, clientsDefault), reserved, log)
	if err != nil {
		return usageError{err}
	}
	c.seats = server.NewSeats(most)
	warnOfFile(c.warnings, log)
	c.warnOfPeers(log)
	c.warnOfOwnAddress(log)
	i, err := start(c, log)
	if err != nil {
		return usageError{err}
	}
	defer i.stop()
	boundHeap(ctx, os.Getenv)
	log.Info("lockd "+version+" serves",
		"id", c.ID, "clients", strings.Join(c.Listen, ","), "tlsClients", strings.Join(c.TLSListen, ","),
		"advertised", c.Advertise, "peers", c.PeerListen,
		"dir", c.Dir, "cluster", orSingle(c), "sentinel", c.SentinelListen, "console", c.HTTPListen,
		"clusterProtocol", c.ClusterProtocol)
	manager := system.NewNotifier(i.node.Ready, i.move, log)
	go manager.Watch(ctx, system.WatchdogTime(log))
	go i.onHangups(ctx, c, hangups, manager)
	if c.Requirepass == "" && c.ProtectedMode == "yes" && !onLoopback(slices.Concat(c.Listen, c.TLSListen)) {
		log.Warn("protected mode: clients of other machines are refused, as there is no password: give " +
			"--requirepass, or --protected-mode no")
	}
	if err := i.enter(ctx, c); err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case <-ctx.Done():
		manager.Stopping()
		log.Info("stopping", "why", "asked to by a signal")
		return nil
	case err := <-i.failed:
		return err
	}
}

// move checks that the node makes progress, by asking for the leases of no lock. The question takes the lock of the
// machine, under which entries are applied, and needs no leader: a node that waits for other members still makes
// progress.
func (i *instance) move() { i.node.Leases(nil) }

// enter brings a new node into its cluster if no list names the founding members.
func (i *instance) enter(ctx context.Context, c *serveCmd) error {
	switch {
	case c.Join != "":
		return i.node.Join(ctx, []string{c.Join}, c.Requirepass)
	case len(c.Discover) > 0:
		return i.node.Discover(ctx, c.Requirepass)
	}
	return nil
}

// warnOfFile logs the lines of the file that have no effect.
func warnOfFile(warnings []string, log *slog.Logger) {
	for _, warning := range warnings {
		log.Warn(warning)
	}
}

// warnOfOwnAddress says where the others will not find this node: they dial what the list says, and it
// listens elsewhere.
func (c *serveCmd) warnOfOwnAddress(log *slog.Logger) {
	listed := c.members[c.ID]
	if listed == "" || mayReach(listed, c.PeerListen) {
		return
	}
	reached := c.PeerListen
	if host, port, err := net.SplitHostPort(reached); err == nil && ipOf(host).IsUnspecified() {
		listedHost, _, _ := net.SplitHostPort(listed) // mayReach has checked it
		reached = net.JoinHostPort(listedHost, port)
	}
	log.Warn("the others will not reach this node: its entry in --cluster is another address than the one at which it "+
		"listens for peers (--peer-listen, by default the port of the first --listen + 10000)",
		"listed", c.ID+"="+listed, "listens", c.PeerListen,
		"write", "--peer-listen "+listed+", or "+c.ID+"="+reached+" in --cluster on every node; or leave it where "+
			"something between passes "+listed+" on")
}

// mayReach reports whether a connection to one address may arrive at a listener on the other, as far as the addresses
// tell.
func mayReach(dialled, listening string) bool {
	to, toPort, err := splitAddr("--cluster", dialled)
	at, atPort, err2 := splitAddr("--peer-listen", listening)
	if err != nil || err2 != nil || atPort == 0 {
		return true
	}
	toIP, atIP := ipOf(to), ipOf(at)
	same := toIP == nil || atIP == nil || atIP.IsUnspecified() || toIP.Equal(atIP) // a name may be any
	return toPort == atPort && same
}

// ipOf is the address that a host is; nil if it is a name that may have any.
func ipOf(host string) net.IP {
	switch host {
	case "localhost":
		return net.IPv4(127, 0, 0, 1)
	case "":
		return net.IPv4zero
	}
	return net.ParseIP(host)
}

// onHangups reads files again at each SIGHUP, until ctx ends.
func (i *instance) onHangups(ctx context.Context, c *serveCmd, hangups <-chan os.Signal, manager *system.Notifier) {
	for {
		select {
		case <-hangups:
			manager.Reloading(func() { i.reload(ctx, c) })
		case <-ctx.Done():
			return
		}
	}
}

// reload rereads everything that can change while the node runs, and logs what is in force. Invalid input is logged
// as an error and changes nothing.
func (i *instance) reload(ctx context.Context, c *serveCmd) {
	var read, kept []string
	note := func(what string, good bool) {
		if good {
			read = append(read, what)
		} else {
			kept = append(kept, what)
		}
	}
	if i.certs != nil {
		note("certificates", i.certs.Reload())
	}
	if i.peerCerts != nil {
		note("certificates of the peers", i.peerCerts.Reload())
	}
	if c.PeerSecretFile != "" {
		note("secret of the peers", i.reloadSecret(c.PeerSecretFile))
	}
	if c.logLevelNow != nil {
		note(i.reloadLogLevel(c.logLevelNow))
	}
	if c.Aclfile != "" {
		note(i.reloadUsers(ctx, c.Aclfile))
	}
	if len(read)+len(kept) == 0 {
		i.log.Info("SIGHUP is ignored: there is no file to read again; SIGTERM stops the node")
		return
	}
	i.log.Info("SIGHUP: files were read again", "read", strings.Join(read, ", "), "asBefore", strings.Join(kept, ", "))
}

// reloadLogLevel has the log level of the file of settings in force.
func (i *instance) reloadLogLevel(now func() (string, error)) (what string, good bool) {
	level, err := now()
	switch {
	case err != nil:
		i.log.Error("the file of settings is no good any more, and the log level stays: put it right, and send SIGHUP; "+
			"lockd config check says what is wrong, and the node will not start with it", "why", err)
		return "log level", false
	case level == "":
		return "log level (not of the file: a flag or a variable gives it)", false
	}
	i.server.SetLogLevel(levelNamed(level))
	return "log level " + level, true
}

// reloadMax bounds a load of users, which waits for a leader.
const reloadMax = 10 * time.Second

// reloadUsers has the users of the file take the place of all that there are, if somebody has changed the file.
func (i *instance) reloadUsers(ctx context.Context, path string) (what string, good bool) {
	ctx, cancel := context.WithTimeout(ctx, reloadMax)
	defer cancel()
	loaded, err := i.server.LoadUsers(ctx)
	switch {
	case err != nil:
		i.log.Error("the file of users is no good, or nobody leads, and the users stay: put it right, and send SIGHUP",
			"file", path, "why", err)
		return "users", false
	case !loaded:
		return "users (their file has not changed)", false
	}
	return "users", true
}

// onLoopback reports whether only this machine can reach all of the addresses.
func onLoopback(addrs []string) bool {
	for _, addr := range addrs {
		host, _, err := splitAddr("--listen", addr)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

func orSingle(c *serveCmd) string {
	switch {
	case c.Join != "":
		return "joining by " + c.Join
	case len(c.Discover) > 0:
		return fmt.Sprintf("of %d nodes at %s", c.Expect, strings.Join(c.Discover, ","))
	case len(c.Cluster) > 0:
		return strings.Join(c.Cluster, ",")
	}
	return "a single node"
}

// info returns sections for INFO of the server; nil before the instance is complete.
func (i *instance) info() []resp.Section {
	if i.server == nil {
		return nil
	}
	return append(i.server.Info(), i.tlsSection()...)
}

// sentinelInfo is the same for INFO at the sentinel address.
func (i *instance) sentinelInfo() []resp.Section {
	if i.sentinel == nil {
		return nil
	}
	return i.sentinel.Info()
}
