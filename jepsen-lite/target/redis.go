package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lockd/internal/freeport"
)

// redis is the control: one Redis primary with replicas, and a sentinel beside each. It is configured as safely as Redis
// can be: every write is on the primary's disk before it is answered. A node is a server and its sentinel. The parts
// share the redisFleet and implement one interface of Target each.
type redis struct {
	*redisFleet // Cluster but for Start and Stop, and Connections
	redisProcesses
	redisDisks
	redisHealth
	redisDialect
	noFaultPorts
	noBuilds
	noTools
}

// redisFleet is the nodes, and what all parts know of them.
type redisFleet struct {
	net    *Net
	names  []string
	nodes  map[string]*redisNode
	byPort map[string]string // port that a server announces -> its node
}

type redisNode struct {
	server, sentinel proc
	addr             string // where the server listens, behind the proxies
	sentinelAddr     string
	dir              string
	client           *Proxy // for clients
	peer             *Proxy // for the other servers and the sentinels; its address is announced
	sentinelPeer     *Proxy // before the sentinel; its address is announced
}

// redisMaster is the name of the primary in the sentinels.
const redisMaster = "control"

func newRedis(c Config) (Target, error) {
	if c.Binary == "" {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, fmt.Errorf("the control needs redis-server: %w", err)
		}
		c.Binary = path
	}
	t := &redisFleet{net: NewNet(), nodes: map[string]*redisNode{}, byPort: map[string]string{}}
	for i := range c.Nodes {
		if err := t.add(c, i); err != nil {
			return nil, err
		}
	}
	for i, name := range t.names {
		if err := t.configure(i, t.nodes[name]); err != nil {
			return nil, err
		}
	}
	return &redis{redisFleet: t, redisProcesses: redisProcesses{t}, redisDisks: redisDisks{t}, redisHealth: redisHealth{t}}, nil
}

// add prepares one node: its ports and its proxies.
func (t *redisFleet) add(c Config, i int) (err error) {
	addrs, err := freeport.Addrs(onlyHost, 2)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("r%d", i+1)
	n := &redisNode{
		addr: addrs[0], sentinelAddr: addrs[1],
		dir: filepath.Join(c.Dir, "data", name),
	}
	if n.client, err = newProxy(t.net, name, n.addr, anyClient); err != nil {
		return err
	}
	if n.peer, err = newProxy(t.net, name, n.addr, t.redisPeer); err != nil {
		return err
	}
	if n.sentinelPeer, err = newProxy(t.net, name, n.sentinelAddr, t.redisPeer); err != nil {
		return err
	}
	n.server = proc{
		name:       name,
		path:       c.Binary,
		processLog: processLog{logPath: filepath.Join(c.Dir, name+".log")},
		args:       []string{filepath.Join(n.dir, "redis.conf")},
	}
	n.sentinel = proc{
		name:       name + " sentinel",
		path:       c.Binary,
		processLog: processLog{logPath: filepath.Join(c.Dir, name+"-sentinel.log")},
		args:       []string{filepath.Join(n.dir, "sentinel.conf"), "--sentinel"},
	}
	t.names, t.nodes[name] = append(t.names, name), n
	t.byPort[port(n.peer.Addr())] = name
	return os.MkdirAll(n.dir, 0o755)
}

// port returns the port of an address.
func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// sourceIP returns the address from which node number i connects. The proxies recognize the node by it.
func sourceIP(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

// redisPeer is the caller of the proxies between nodes.
func (t *redisFleet) redisPeer(conn net.Conn) (string, []byte, error) {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	for i, name := range t.names {
		if host == sourceIP(i) {
			return name, nil, nil
		}
	}
	return Clients, nil, nil
}

// configure writes the configuration files of a node. The first node begins as primary.
func (t *redisFleet) configure(i int, n *redisNode) error {
	first := port(t.nodes[t.names[0]].peer.Addr())
	server := []string{
		"port " + port(n.addr), "bind 127.0.0.1", "protected-mode no", "dir " + n.dir, "save \"\"",
		"appendonly yes", "appendfsync always", "bind-source-addr " + sourceIP(i),
		"replica-announce-ip 127.0.0.1", "replica-announce-port " + port(n.peer.Addr()),
		"repl-diskless-sync-delay 0", "repl-timeout 5",
	}
	if i > 0 {
		server = append(server, "replicaof 127.0.0.1 "+first)
	}
	sentinel := []string{
		"port " + port(n.sentinelAddr), "bind 127.0.0.1", "protected-mode no", "dir " + n.dir,
		"bind-source-addr " + sourceIP(i),
		"sentinel announce-ip 127.0.0.1", "sentinel announce-port " + port(n.sentinelPeer.Addr()),
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d", redisMaster, first, len(t.names)/2+1),
		"sentinel down-after-milliseconds " + redisMaster + " 1000",
		"sentinel failover-timeout " + redisMaster + " 4000",
	}
	for file, lines := range map[string][]string{"redis.conf": server, "sentinel.conf": sentinel} {
		if err := os.WriteFile(filepath.Join(n.dir, file), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Nodes implements Cluster.
func (t *redisFleet) Nodes() []string { return t.names }

// Net implements Cluster.
func (t *redisFleet) Net() *Net { return t.net }

// Start implements Cluster.
func (t *redis) Start(ctx context.Context) error {
	for _, name := range t.names {
		if err := t.Restart(name); err != nil {
			return err
		}
	}
	if err := poll(ctx, 100*time.Millisecond, t.formed); err != nil {
		return err
	}
	return t.Healthy(ctx)
}

// formed returns an error until every sentinel knows all other sentinels and all replicas.
func (t *redisFleet) formed() error {
	for _, name := range t.names {
		r, err := ask(t.nodes[name].sentinelAddr, time.Second, "SENTINEL", "MASTER", redisMaster)
		if err != nil {
			return err
		}
		text := " " + strings.Join(r.Texts(), " ") + " "
		others := len(t.names) - 1
		if !strings.Contains(text, fmt.Sprintf(" num-slaves %d ", others)) ||
			!strings.Contains(text, fmt.Sprintf(" num-other-sentinels %d ", others)) {
			return errors.New("the sentinel of " + name + " does not know the others yet")
		}
	}
	return nil
}

// ask sends a command to a server on a connection of its own.
func ask(addr string, timeout time.Duration, args ...string) (Reply, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(timeout, args...)
}

// Stop implements Cluster.
func (t *redis) Stop() {
	for _, n := range t.nodes {
		n.server.kill()
		n.sentinel.kill()
		n.client.Close()
		n.peer.Close()
		n.sentinelPeer.Close()
	}
}

// Endpoint implements Connections: a client asks a sentinel for the primary.
func (t *redisFleet) Endpoint(id, attempt int) (string, string, error) {
	at := t.nodes[t.names[(id+attempt)%len(t.names)]]
	if !at.sentinel.running() {
		return "", "", errors.New("the sentinel does not run")
	}
	r, err := ask(at.sentinelAddr, askMax, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redisMaster)
	if err != nil || len(r.Elems) != 2 {
		return "", "", errors.Join(err, errors.New("the sentinel knows no primary"))
	}
	name := t.byPort[r.Elems[1].Str]
	if name == "" {
		return "", "", fmt.Errorf("no node announces port %s", r.Elems[1].Str)
	}
	return t.nodes[name].client.Addr(), name, nil
}

// Leader implements Cluster: it returns the primary that most sentinels name.
func (t *redisFleet) Leader() string {
	votes := map[string]int{}
	best := ""
	for i := range t.names {
		if _, name, err := t.Endpoint(i, 0); err == nil {
			if votes[name]++; votes[name] > votes[best] {
				best = name
			}
		}
	}
	return best
}

// redisProcesses implements Processes.
type redisProcesses struct{ *redisFleet }

// both calls do with the server and the sentinel of a node.
func (t *redisFleet) both(node string, do func(p *proc)) {
	do(&t.nodes[node].server)
	do(&t.nodes[node].sentinel)
}

// Kill implements Processes.
func (t redisProcesses) Kill(node string) { t.both(node, (*proc).kill) }

// Pause implements Processes.
func (t redisProcesses) Pause(node string) { t.both(node, func(p *proc) { p.pause(true) }) }

// Resume implements Processes.
func (t redisProcesses) Resume(node string) { t.both(node, func(p *proc) { p.pause(false) }) }

// Shutdown implements Processes.
func (t redisProcesses) Shutdown(node string) {
	t.both(node, func(p *proc) { p.end(syscall.SIGTERM, stopMax) })
}

// Restart implements Processes.
func (t redisProcesses) Restart(node string) error {
	return errors.Join(t.nodes[node].server.start(), t.nodes[node].sentinel.start())
}

// Running implements Processes.
func (t redisProcesses) Running(node string) bool { return t.nodes[node].server.alive() }

// LimitFiles implements Processes.
func (redisProcesses) LimitFiles(string, int) error { return errNoFaults }

// Memory implements Processes.
func (t redisProcesses) Memory(node string) (now, most int64, err error) {
	return t.nodes[node].server.memory()
}

// Observe implements Processes.
func (t redisProcesses) Observe(o Observer) {
	t.net.observe(o.Link)
	for name, n := range t.nodes {
		n.server.observe(func() {
			if o.Ended != nil {
				o.Ended(name)
			}
		})
	}
}

// Serving implements Cluster.
func (t *redisFleet) Serving(node string) bool {
	_, err := t.Do(node, time.Second, "PING")
	return err == nil
}

// Do implements Connections.
func (t *redisFleet) Do(node string, timeout time.Duration, args ...string) (Reply, error) {
	if !t.nodes[node].server.running() {
		return Reply{}, errNotRunning
	}
	return ask(t.nodes[node].addr, timeout, args...)
}

// Dial implements Connections.
func (t *redisFleet) Dial(node string, timeout time.Duration) (*Conn, error) {
	if !t.nodes[node].server.running() {
		return nil, errNotRunning
	}
	return Dial(t.nodes[node].addr, timeout)
}

// Connect implements Connections.
func (t *redisFleet) Connect(addr string, timeout time.Duration) (*Conn, error) {
	return Dial(addr, timeout)
}

// Knock implements Connections. Redis has one port for all.
func (t *redisFleet) Knock(node string, d Door) (net.Conn, error) {
	if d == ForPeers || d == ForHTTP {
		return nil, fmt.Errorf("Redis has no door %s", d)
	}
	return knock(onlyHost, t.nodes[node].addr, nil)
}

// Ports implements Connections. The proxies listen all the time.
func (t *redisFleet) Ports(node string) []*Proxy {
	return []*Proxy{t.nodes[node].peer, t.nodes[node].sentinelPeer}
}

// PeerAddr implements Connections. Redis has one port for all.
func (t *redisFleet) PeerAddr(node string) string { return t.nodes[node].addr }

// ID implements Cluster.
func (t *redisFleet) ID(node string) string { return node }

// Lacking implements Cluster.
func (t *redisFleet) Lacking() []string { return nil }

// redisHealth implements Health.
type redisHealth struct{ *redisFleet }

// Healthy implements Health: the primary takes a write.
func (t redisHealth) Healthy(ctx context.Context) error {
	attempt := 0
	return poll(ctx, 100*time.Millisecond, func() error {
		attempt++
		addr, node, err := t.Endpoint(0, attempt)
		if err != nil {
			return err
		}
		r, err := ask(addr, time.Second, "SET", "health", "1")
		if err == nil && r.Str != "OK" {
			err = fmt.Errorf("node %s: %s", node, r.Text())
		}
		return err
	})
}

// Converged implements Health. Redis does not promise equal states, so there is nothing to compare: lost writes show in
// the histories.
func (redisHealth) Converged(context.Context) error { return nil }

// Deaths implements Health.
func (t redisHealth) Deaths() []string {
	var all []string
	for _, name := range t.names {
		t.both(name, func(p *proc) { all = append(all, p.takeDeaths()...) })
	}
	return all
}

// Dead implements Health.
func (t redisHealth) Dead() (nodes []string) {
	for _, name := range t.names {
		if t.nodes[name].server.isDead(deadLook) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Races implements Health.
func (redisHealth) Races() []string { return nil }

// Ends implements Health. Redis logs nothing about the ends of other processes.
func (redisHealth) Ends() (e Ends) { return e }

// redisDialect implements Dialect.
type redisDialect struct{}

// NotDone implements Dialect.
func (redisDialect) NotDone(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF":
		return true
	}
	return false
}

// Unknown implements Dialect.
func (redisDialect) Unknown(string) bool { return false }

// Fence implements Dialect. Redis has no fencing tokens.
func (redisDialect) Fence(string) []string { return nil }

// LogClock implements Dialect. Each PTTL of a script reads the clock again.
func (redisDialect) LogClock() bool { return false }

// redisDisks implements Disks.
type redisDisks struct{ *redisFleet }

// Dir implements Disks.
func (t redisDisks) Dir(node string) string { return t.nodes[node].dir }

// Folder implements Disks.
func (t redisDisks) Folder(node string) Folder { return realFolder(t.Dir(node)) }

// Damage implements Disks. It only kills, since Redis would go on without the damaged data.
func (t redisDisks) Damage(node string, _ func(Folder) string) bool {
	redisProcesses(t).Kill(node)
	return false
}

// PutBack implements Disks. It only kills, since Redis would go on without its later data.
func (t redisDisks) PutBack(node, _ string) bool {
	redisProcesses(t).Kill(node)
	return false
}

// Replace implements Disks. The server starts without data.
func (t redisDisks) Replace(node string) {
	redisProcesses(t).Kill(node)
	_ = os.RemoveAll(filepath.Join(t.nodes[node].dir, "appendonlydir"))
}

// Fill implements Disks. A Redis server has no test build that could find its disk full.
func (redisDisks) Fill(string, bool) {}

var errNoFaults = errors.New("this target has no fault port")

// noFaultPorts implements FaultPorts for a server without them.
type noFaultPorts struct{}

// Fault implements FaultPorts.
func (noFaultPorts) Fault(string, string) (string, error) { return "", errNoFaults }

// Arm implements FaultPorts.
func (noFaultPorts) Arm(string, Strike) (Armed, error) { return Armed{}, errNoFaults }

// Disarm implements FaultPorts.
func (noFaultPorts) Disarm(Armed) {}

// ResetFaults implements FaultPorts.
func (noFaultPorts) ResetFaults(string) {}

// Die implements FaultPorts.
func (noFaultPorts) Die(string, Act) {}

var errNoOtherBuild = errors.New("there is no other build of this target's server")

// noBuilds implements Builds for a server of which there is one build.
type noBuilds struct{}

// SetBuild implements Builds.
func (noBuilds) SetBuild(string, string) error { return errNoOtherBuild }

// Adopt implements Builds.
func (noBuilds) Adopt(string) {}

// Logged implements Builds.
func (noBuilds) Logged(string, string) bool { return false }
