package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"lockd/internal/logwriter"
	"lockd/resp/server"
)

// command is a subcommand of lockd with parsed flags.
type command interface {
	run(ctx context.Context, stdout, stderr io.Writer) error
}

// cli is the command line. A value is taken from the flag, else from the
// environment (LOCKD_PEER_LISTEN for --peer-listen), else from the file of
// --config, else it is the default.
type cli struct {
	Config string `help:"Read settings from this file: the flags' long names in TOML, such as listen = [\"127.0.0.1:6379\"], or lines of redis.conf, such as port 6379. Commands that ask a node take its address, TLS and password from it." placeholder:"FILE"`

	Serve   serveCmd   `cmd:"" default:"withargs" help:"Run one node (the default command)."`
	Dev     devCmd     `cmd:"" help:"Run a whole cluster in this process, to try things out."`
	Run     runCmd     `cmd:"" help:"Run a command while holding a lock. Its exit status is the command's, 75 if the lock was not acquired, 76 if it was lost."`
	Locks   locksCmd   `cmd:"" help:"Show locks: who holds them, who waits, what became of them; or end one."`
	Top     topCmd     `cmd:"" help:"Watch the locks of a cluster in a terminal."`
	Inspect inspectCmd `cmd:"" help:"Show what is in a data folder, or in a backup, and whether it is sound. Nothing is changed. Its exit status is 1 if it is damaged, 2 if it is none or in use."`
	Backup  backupCmd  `cmd:"" help:"Save the state of a running cluster to a file."`
	Restore restoreCmd `cmd:"" help:"Make a new cluster of a backup: the data folder of its first node."`
	Recover recoverCmd `cmd:"" help:"Where most nodes are lost for good: look at the data folder of one that is left, and with --yes make a new cluster of it."`
	Health  healthCmd  `cmd:"" help:"Say in a sentence whether a node can serve. The exit status is 0 if it can, else 1."`
	Members membersCmd `cmd:"" help:"Show the members of a cluster as a node sees them: a table, or a line a member where a program reads it."`
	Drain   drainCmd   `cmd:"" help:"Make a node ready to be taken away for a while: it hands over its leadership, and the others are seen to do without it. The exit status is 1 if they cannot."`
	Drill   drillCmd   `cmd:"" help:"Try the promise out: three nodes on this machine, one of them is killed, and what clients saw is told."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Settings configCmd `cmd:"" name:"config" help:"Show the settings of a node, or check them, without starting it."`
}

type logFlags struct {
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"Least severe level to log: debug, info, warn or error."`
	LogFormat string `enum:"text,json" default:"text" help:"Format of log lines: text or json."`

	level  *slog.LevelVar    // of the logger, once it exists
	writer *logwriter.Writer // of the logger, once it exists
}

// levelNamed is a level of --log-level.
func levelNamed(name string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(name)); err != nil {
		panic(err) // the flag's enum admits only levels
	}
	return level
}

// tuneFlags are the settings that serve and dev share.
type tuneFlags struct {
	Heartbeat   time.Duration `default:"500ms" help:"How long a node goes without hearing from its leader before it calls an election; heartbeats are sent at a tenth of it. The same on every node."`
	LeaderWait  time.Duration `default:"3s" help:"How long a node holds a command while there is no leader, before it answers -LOADING."`
	LogStore    string        `enum:"wal,boltdb" default:"wal" help:"Where the Raft log is kept: wal (one disk sync per append) or boltdb."`
	Requirepass string        `secret:"" help:"Password clients must give with AUTH or HELLO; better in --requirepass-file or LOCKD_REQUIREPASS, where other users of the machine do not see it." placeholder:"PASSWORD"`

	RequirepassFile string `help:"File with that password." placeholder:"FILE"`

	PubsubCount   string `enum:"cluster,node" default:"cluster" help:"Whose subscribers PUBSUB and PUBLISH count for clients of this node: those of the whole cluster, or of this node."`
	ProtectedMode string `enum:"yes,no" default:"yes" help:"Without --requirepass serve clients of this machine only: yes or no."`
}

// Bounds of --heartbeat: below, a busy machine elects for nothing; above, a dead
// leader is missed for longer than clients wait.
const (
	heartbeatMin = 100 * time.Millisecond
	heartbeatMax = 30 * time.Second
)

func (f *tuneFlags) check() (err error) {
	f.Requirepass, err = passwordOf("--requirepass", f.Requirepass, f.RequirepassFile)
	f.RequirepassFile = "" // it was read
	if f.Heartbeat < heartbeatMin || f.Heartbeat > heartbeatMax {
		err = errors.Join(err, usagef("--heartbeat %s is not between %s and %s", f.Heartbeat, heartbeatMin, heartbeatMax))
	}
	if f.LeaderWait < 0 {
		err = errors.Join(err, usagef("--leader-wait %s is negative", f.LeaderWait))
	}
	return err
}

// clusterFlags select the cluster to ask; the client commands share them.
type clusterFlags struct {
	Addr []string `help:"Nodes of the cluster; which of them answers does not matter (default: the node whose file --config names, else 127.0.0.1:6379)." placeholder:"HOST:PORT"`

	loginFlags `embed:""`
}

func (f *clusterFlags) check() error {
	if f.Addr = given(f.Addr); len(f.Addr) == 0 {
		f.Addr = []string{f.nodeAddr()}
	}
	for _, addr := range f.Addr {
		if _, _, err := splitAddr("--addr", addr); err != nil {
			return err
		}
	}
	return f.loginFlags.check()
}

// modeFlags enable the protocols by which clients find several Redis servers, Sentinel and Cluster; serve and dev
// share them.
type modeFlags struct {
	ClusterProtocol     bool   `help:"Answer clients of Redis Cluster: lockd is a cluster of one shard, its leader the master."`
	ClusterRedirect     bool   `help:"With --cluster-protocol: as a follower answer commands with keys by -MOVED and the leader's address, instead of serving them."`
	MasterName          string `default:"mymaster" help:"Name under which clients of Sentinel ask for the leader (default: ${default})." placeholder:"NAME"`
	SentinelRequirepass string `secret:"" help:"Password that clients must give at the sentinel address." placeholder:"PASSWORD"`

	SentinelRequirepassFile string `help:"File with that password." placeholder:"FILE"`
}

// check holds the flags against each other. Clients of the modes are told addresses
// instead of knowing them, so these must be some that can be reached.
func (f *modeFlags) check(advertise, sentinel string) (err error) {
	f.SentinelRequirepass, err = passwordOf("--sentinel-requirepass", f.SentinelRequirepass, f.SentinelRequirepassFile)
	if err != nil {
		return err
	}
	f.SentinelRequirepassFile = "" // it was read
	if f.ClusterRedirect && !f.ClusterProtocol {
		return usagef("--cluster-redirect needs --cluster-protocol")
	}
	if f.MasterName == "" || strings.ContainsFunc(f.MasterName, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usagef("--master-name %q is not one or more printable characters without space", f.MasterName)
	}
	if !f.ClusterProtocol && sentinel == "" {
		return nil
	}
	host, port, err := splitAddr("--advertise", advertise)
	if ip := net.ParseIP(host); err == nil && (host == "" || port == 0 || ip != nil && ip.IsUnspecified()) {
		err = usagef("--advertise is needed with --cluster-protocol and --sentinel-listen: clients are told to "+
			"connect to %s",
			advertise)
	}
	return err
}

type serveCmd struct {
	ID            string   `default:"n1" help:"This node's name in the cluster (default: ${default})." placeholder:"NAME"`
	Listen        []string `default:"127.0.0.1:6379" help:"Address for clients; may be given more than once (default: ${default})." placeholder:"HOST:PORT"`
	Unixsocket    string   `help:"Path of a Unix socket for clients." placeholder:"PATH"`
	PeerListen    string   `help:"Address for the other nodes (default: that of the first --listen, the port + 10000; on loopback where there is no secret)." placeholder:"HOST:PORT"`
	Advertise     string   `help:"Client address as others reach it (default: the first --listen)." placeholder:"HOST:PORT"`
	PeerAdvertise string   `help:"Peer address as the other nodes reach it; a name is resolved again on each dial (default: this node's entry in --cluster, else --peer-listen)." placeholder:"HOST:PORT"`
	Dir           string   `default:"lockd-data" help:"Data folder (default: ${default})." placeholder:"DIR"`
	Cluster       []string `help:"All founding nodes with their peer addresses, the same list on every node (absent: a single node)." placeholder:"n1=HOST:PORT,n2=HOST:PORT,n3=HOST:PORT"`
	Expect        int      `help:"With --discover: how many empty nodes found the cluster, the same on every node." placeholder:"N"`
	Discover      []string `help:"Where the other nodes may be, instead of --cluster: an empty node founds a cluster with --expect others that it finds there, or joins the one that it finds; all addresses of a name, or single ones, with the peer port." placeholder:"dns:NAME:PORT"`
	Join          string   `help:"Client address of any member of a running cluster that this new, empty node shall join; one of TLS with tls:// before it." placeholder:"HOST:PORT"`

	Aclfile string `help:"File of users, as Redis writes it: ACL LOAD has them take the place of all users of the cluster, ACL SAVE writes it. It is not read at start: the users are in the replicated state." placeholder:"FILE"`

	PeerSecretFile string `help:"File with the cluster's secret, the same on every node: peers then speak TLS, and accept only nodes that prove that they know it. LOCKD_PEER_SECRET may hold the secret itself. Without a secret peers are on loopback. A second line holds another secret that is accepted too, while you change the secret." placeholder:"FILE"`

	PeerTLSCertFile   string `name:"peer-tls-cert-file" help:"Certificate of this node for its peers, beside the secret or instead of it, for its id or the host of its peer address." placeholder:"FILE"`
	PeerTLSKeyFile    string `name:"peer-tls-key-file" help:"Its private key." placeholder:"FILE"`
	PeerTLSCACertFile string `name:"peer-tls-ca-cert-file" help:"Authorities that the peers' certificates are of." placeholder:"FILE"`

	Maxclients int64 `help:"Most clients of this node, for which descriptors are asked of the system (default: the cluster's setting maxclients, which is 10000 until CONFIG SET changes it)." placeholder:"N"`

	PeerInsecure bool `help:"Without a secret: let peers be on other machines all the same. Whoever reaches the peer port can then read and change everything."`

	SentinelListen string `help:"Address at which this node also answers clients as a Redis Sentinel." placeholder:"HOST:PORT"`
	HTTPListen     string `name:"http-listen" help:"Address of the console for browsers, and of /livez, /readyz and /metrics; beyond loopback only with --requirepass." placeholder:"HOST:PORT"`

	tlsFlags  `embed:""`
	modeFlags `embed:""`
	tuneFlags `embed:""`
	logFlags  `embed:""`

	anyHTTPPort bool // is taken if that of --http-listen cannot be

	members map[string]string // --cluster, parsed: id -> peer address
	seats   *server.Seats     // what the process has descriptors for; nil: no bound
	secret  peerSecret

	warnings []string // of lines of the file without an effect
	keepRoom bool     // of the disk for the log: the folder is to stay

	logLevelNow func() (string, error) // by the file, now; nil: not needed
}

// clientsFlagMax bounds --maxclients, as Redis bounds the setting.
const clientsFlagMax = 1<<32 - 1

type devCmd struct {
	Nodes  int    `default:"3" help:"Number of nodes."`
	Listen string `default:"127.0.0.1:7001" help:"Client address of the first node; the others take the ports after it, peers those ports + 10000 (default: ${default})." placeholder:"HOST:PORT"`
	Dir    string `help:"Data folder (default: a temporary one, removed at the end)." placeholder:"DIR"`

	SentinelListen string `help:"Address at which the first node also answers clients as a Redis Sentinel; the others take the ports after it." placeholder:"HOST:PORT"`
	HTTPListen     string `name:"http-listen" default:"127.0.0.1:7080" help:"Address of the first node's console for browsers, or another port if that is taken; empty: there is none (default: ${default})." placeholder:"HOST:PORT"`

	modeFlags `embed:""`
	tuneFlags `embed:""`
	logFlags  `embed:""`

	warnings []string // of lines of the file without an effect
}

// peerPortOffset is added to a client port for the default peer port.
const peerPortOffset = 10000

// usageError is a mistake in a flag, an address or a file: exit status 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError is an error with an exit status.
type exitError struct {
	status int
	why    string // "": there is nothing to say
}

func (e exitError) Error() string { return e.why }

// status is the exit status for an error of a command.
func status(err error) int {
	var exit exitError
	switch {
	case errors.As(err, &usageError{}):
		return exitUsage
	case errors.As(err, &exit):
		return exit.status
	}
	return exitFault
}

// parse reads the command line. done is true when it was only asked for help. The error is a join of all that
// is wrong.
func parse(args, environ []string, stdout io.Writer) (cmd command, done bool, err error) {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-v") { // as of redis-server
		args = []string{"version"}
	}
	given := newSettings(args, environ)
	for {
		c, kctx, err := read(given, stdout)
		switch {
		case kctx == nil && err == nil:
			return nil, true, nil
		case err == nil:
			cmd, err := c.selected(kctx, given)
			problems := given.all()
			for _, problem := range each(err) {
				problems = append(problems, given.located(problem))
			}
			return cmd, false, errors.Join(problems...)
		case !given.leaveOut(err):
			return nil, false, errors.Join(append(given.all(), err)...)
		}
	}
}

// read parses the command line with kong. It returns neither context nor error if help was asked for and printed.
func read(given *settings, stdout io.Writer) (*cli, *kong.Context, error) {
	c, exited := &cli{}, false
	parser, err := kong.New(c,
		kong.Name("lockd"),
		kong.Description("A lock server that speaks Redis's protocol and replicates through Raft."),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { exited = true }),
		kong.Resolvers(given),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, nil, err
	}
	kctx, err := parser.Parse(given.args)
	switch {
	case exited:
		return nil, nil, nil
	case err != nil:
		return nil, nil, unknownCommand(given.args, err, parser.Model)
	}
	return c, kctx, nil
}

// unknownCommand names the command that was meant: kong takes a word that it does not know for an argument of
// the default command, which has none.
func unknownCommand(args []string, err error, model *kong.Application) error {
	var of *kong.ParseError
	word, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	if !ok || !errors.As(err, &of) || of.Context.Selected() != model.DefaultCmd || slices.Contains(args, "serve") {
		return err
	}
	var known []string
	for _, child := range model.Children {
		known = append(known, child.Name)
	}
	if best := nearest(word, known); edits(word, best) <= len(best)/2 {
		return fmt.Errorf("unknown command %s, did you mean %q?", word, best)
	}
	return fmt.Errorf("unknown command %s: lockd --help lists them", word)
}

// selected returns the selected command, or an error that lists the problems of its settings.
func (c *cli) selected(kctx *kong.Context, given *settings) (command, error) {
	name, rest, _ := strings.Cut(kctx.Command(), " ")
	switch name {
	case "locks":
		return asClient(&c.Locks, given, func() error { return c.Locks.check(rest) })
	case "run":
		return asClient(&c.Run, given, c.Run.check)
	case "top":
		return asClient(&c.Top, given, c.Top.check)
	case "backup":
		return asClient(&c.Backup, given, c.Backup.check)
	case "health":
		return asClient(&c.Health, given, c.Health.check)
	case "members":
		return asClient(&c.Members, given, c.Members.check)
	case "drain":
		return asClient(&c.Drain, given, c.Drain.check)
	case "drill":
		return &c.Drill, c.Drill.check()
	case "inspect":
		return &c.Inspect, nil
	case "restore":
		return &c.Restore, c.Restore.check()
	case "recover":
		return &c.Recover, c.Recover.check()
	case "version":
		return c.Version, nil
	case "dev":
		c.Dev.warnings = given.warnings()
		return &c.Dev, given.withEnviron(c.Dev.check())
	case "config":
		if rest == "show" {
			c.Settings.Show.Node.take(given)
			return &c.Settings.Show, given.withEnviron(c.Settings.Show.check(kctx, given))
		}
		c.Settings.Check.Node.take(given)
		return &c.Settings.Check, given.withEnviron(c.Settings.Check.Node.check())
	}
	c.Serve.take(given)
	return &c.Serve, given.withEnviron(c.Serve.check())
}

// asker is a command that asks a cluster.
type asker interface {
	command
	ofNode(file *configFile)
}

// asClient gives a client the settings of a node's file.
func asClient(cmd asker, given *settings, check func() error) (command, error) {
	cmd.ofNode(given.file)
	return cmd, check()
}

// withEnviron joins what is wrong with the settings of a node with what is wrong with the environment.
func (s *settings) withEnviron(err error) error {
	return errors.Join(append(misspelt(s.environ), err)...)
}

// each are the errors that were joined to one.
func each(err error) (list []error) {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // a join itself, not what is wrapped
	if !ok {
		if err != nil {
			list = append(list, err)
		}
		return list
	}
	for _, err := range joined.Unwrap() {
		list = append(list, each(err)...)
	}
	return list
}

// take takes what is no flag.
func (c *serveCmd) take(given *settings) {
	c.secret.env, c.secret.inEnv = given.env("LOCKD_PEER_SECRET")
	c.warnings = given.warnings()
	if given.file != nil {
		c.logLevelNow = given.logLevelNow
	}
}

// check joins what is wrong: first what each setting says by itself, then how they go together.
func (c *serveCmd) check() error {
	c.Listen = given(c.Listen)
	var membersErr error
	c.members, membersErr = parseMembers(c.Cluster)
	if err := errors.Join(c.tuneFlags.check(), checkID(c.ID), c.checkAddrs(), c.checkClients(), membersErr, c.checkDiscover(),
		c.readSecret(), c.checkPeerTLS(), c.checkTLS()); err != nil {
		return err
	}
	if err := c.fillAddrs(); err != nil {
		return err
	}
	return errors.Join(c.checkConsole(), c.modeFlags.check(c.Advertise, c.SentinelListen))
}

// checkAddrs checks the addresses that were given.
func (c *serveCmd) checkAddrs() error {
	var problems []error
	if len(c.Listen)+len(given(c.TLSListen)) == 0 {
		problems = append(problems, usagef("--listen is empty"))
	}
	if c.Join != "" && len(c.Cluster) > 0 {
		problems = append(problems, usagef(
			"--join and --cluster exclude each other: a new node joins, the founding nodes are listed"))
	}
	addrs := [][2]string{
		{"--join", strings.TrimPrefix(c.Join, tlsJoinScheme)}, {"--advertise", c.Advertise}, {"--peer-listen", c.PeerListen},
		{"--peer-advertise", c.PeerAdvertise}, {"--sentinel-listen", c.SentinelListen}, {"--http-listen", c.HTTPListen},
	}
	for _, addr := range c.Listen {
		addrs = append(addrs, [2]string{"--listen", addr})
	}
	for _, addr := range addrs {
		if addr[1] == "" {
			continue
		}
		if _, _, err := splitAddr(addr[0], addr[1]); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// checkClients checks --maxclients as Redis checks the setting.
func (c *serveCmd) checkClients() error {
	if c.Maxclients < 0 || c.Maxclients > clientsFlagMax {
		return usagef("--maxclients %d is not between 1 and %d", c.Maxclients, int64(clientsFlagMax))
	}
	return nil
}

// sentinelAddr returns the address at which clients reach the sentinel: the node's host with the sentinel's port.
func (c *serveCmd) sentinelAddr() (string, error) {
	host, _, err := splitAddr("--advertise", c.Advertise)
	if err != nil {
		return "", err
	}
	_, port, err := splitAddr("--sentinel-listen", c.SentinelListen)
	return net.JoinHostPort(host, strconv.Itoa(port)), err
}

// fillAddrs gives the addresses that were left out their defaults.
func (c *serveCmd) fillAddrs() error {
	first := append(slices.Clone(c.Listen), c.TLSListen...)[0]
	if c.PeerListen == "" {
		host, port, err := splitAddr("--listen", first)
		if err != nil {
			return err
		}
		if port+peerPortOffset > 65535 {
			return usagef("--listen port %d + %d is no port: give --peer-listen", port, peerPortOffset)
		}
		if len(c.secret.list) == 0 && c.PeerTLSCertFile == "" && !c.PeerInsecure {
			host = loopbackHost(first, host) // a wide address for clients does not open the port of peers
		}
		c.PeerListen = net.JoinHostPort(host, strconv.Itoa(port+peerPortOffset))
	}
	if err := c.fillTLSAddrs(c.Advertise != ""); err != nil {
		return err
	}
	if c.Advertise == "" {
		c.Advertise = c.Listen[0]
	}
	if len(c.members) > 0 {
		listed, ok := c.members[c.ID]
		if !ok {
			return usagef("--cluster does not list this node's --id %q", c.ID)
		}
		if c.PeerAdvertise == "" {
			c.PeerAdvertise = listed
		}
	}
	if c.PeerAdvertise == "" {
		c.PeerAdvertise = c.PeerListen
	}
	return c.checkFound()
}

func (c *devCmd) check() error {
	if err := c.tuneFlags.check(); err != nil {
		return err
	}
	if c.Nodes < 1 || c.Nodes > devNodesMax {
		return usagef("--nodes %d is not between 1 and %d", c.Nodes, devNodesMax)
	}
	_, port, err := splitAddr("--listen", c.Listen)
	if err != nil {
		return err
	}
	if port == 0 || port+c.Nodes+peerPortOffset > 65535 {
		return usagef("--listen port %d leaves no room for %d nodes and their peer ports", port, c.Nodes)
	}
	if c.SentinelListen == "" {
		return nil
	}
	_, first, err := splitAddr("--sentinel-listen", c.SentinelListen)
	if err == nil && (first == 0 || first+c.Nodes > 65536) {
		err = usagef("--sentinel-listen port %d leaves no room for %d nodes", first, c.Nodes)
	}
	return err
}

// devNodesMax bounds dev --nodes.
const devNodesMax = 9

// idMax bounds a node's name, in bytes.
const idMax = 64

func checkID(id string) error {
	if id == "" || len(id) > idMax ||
		strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '=' }) {
		return usagef("node id %q is not 1 to %d printable characters without space, comma and equals sign", id, idMax)
	}
	return nil
}

// parseMembers reads id=host:port,... of --cluster.
func parseMembers(list []string) (map[string]string, error) {
	members := map[string]string{}
	addrs := map[string]string{}
	for _, item := range list {
		id, addr, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found {
			return nil, usagef("--cluster %q is not of the form id=host:port", item)
		}
		if err := checkID(id); err != nil {
			return nil, err
		}
		if _, _, err := splitAddr("--cluster", addr); err != nil {
			return nil, err
		}
		if members[id] != "" {
			return nil, usagef("--cluster lists node %q twice", id)
		}
		if other := addrs[addr]; other != "" {
			return nil, usagef("--cluster gives nodes %q and %q the same address %s", other, id, addr)
		}
		members[id], addrs[addr] = addr, id
	}
	return members, nil
}

// splitAddr checks host:port of the named flag.
func splitAddr(flag, addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, usagef("%s %q is not of the form host:port", flag, addr)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, usagef("%s %q: port %q is not between 0 and 65535", flag, addr, text)
	}
	return host, port, nil
}
