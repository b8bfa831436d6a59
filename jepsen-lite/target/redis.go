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

// redis is the control: one Redis primary with replicas, and a sentinel beside each.
// It is set up as carefully as it can be without giving up its own promises: every
// write is on the primary's disk before it is answered. A node is a server and its
// sentinel.
type redis struct {
	noFaults
	net    *Net
	names  []string
	nodes  map[string]*redisNode
	byPort map[string]string // port that a server announces -> its node
}

type redisNode struct {
	server, sentinel proc
	addr             string // of the server, past the proxies
	sentinelAddr     string
	dir              string
	client           *Proxy // for clients
	peer             *Proxy // for the other servers and the sentinels: announced
	sentinelPeer     *Proxy // before the sentinel: announced
}

// redisMaster is the name by which sentinels know the primary.
const redisMaster = "control"

func newRedis(c Config) (Target, error) {
	if c.Binary == "" {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, fmt.Errorf("the control needs redis-server: %w", err)
		}
		c.Binary = path
	}
	t := &redis{net: NewNet(), nodes: map[string]*redisNode{}, byPort: map[string]string{}}
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
	return t, nil
}

// add prepares one node: its ports and its proxies.
func (t *redis) add(c Config, i int) (err error) {
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
		name:    name,
		path:    c.Binary,
		logPath: filepath.Join(c.Dir, name+".log"),
		args:    []string{filepath.Join(n.dir, "redis.conf")},
	}
	n.sentinel = proc{
		name:    name + " sentinel",
		path:    c.Binary,
		logPath: filepath.Join(c.Dir, name+"-sentinel.log"),
		args:    []string{filepath.Join(n.dir, "sentinel.conf"), "--sentinel"},
	}
	t.names, t.nodes[name] = append(t.names, name), n
	t.byPort[port(n.peer.Addr())] = name
	return os.MkdirAll(n.dir, 0o755)
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// sourceIP is the address from which node number i connects: that tells its
// proxies who it is.
func sourceIP(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

func (t *redis) redisPeer(conn net.Conn) (string, []byte, error) {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	for i, name := range t.names {
		if host == sourceIP(i) {
			return name, nil, nil
		}
	}
	return Clients, nil, nil
}

// configure writes the settings files of a node. The first one begins as primary.
func (t *redis) configure(i int, n *redisNode) error {
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

func (t *redis) Nodes() []string { return t.names }
func (t *redis) Net() *Net       { return t.net }

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

// formed reports whether every sentinel knows all others and all replicas.
func (t *redis) formed() error {
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

func ask(addr string, timeout time.Duration, args ...string) (Reply, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(timeout, args...)
}

func (t *redis) Stop() {
	for _, n := range t.nodes {
		n.server.kill()
		n.sentinel.kill()
		n.client.Close()
		n.peer.Close()
		n.sentinelPeer.Close()
	}
}

// Endpoint implements Target: a client asks a sentinel for the primary, as it should.
func (t *redis) Endpoint(id, attempt int) (string, string, error) {
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

// Leader implements Target: the primary that most sentinels name.
func (t *redis) Leader() string {
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

func (t *redis) both(node string, do func(p *proc)) {
	do(&t.nodes[node].server)
	do(&t.nodes[node].sentinel)
}

func (t *redis) Kill(node string)   { t.both(node, (*proc).kill) }
func (t *redis) Pause(node string)  { t.both(node, func(p *proc) { p.pause(true) }) }
func (t *redis) Resume(node string) { t.both(node, func(p *proc) { p.pause(false) }) }
func (t *redis) Shutdown(node string) {
	t.both(node, func(p *proc) { p.end(syscall.SIGTERM, 30*time.Second) })
}

func (t *redis) Restart(node string) error {
	return errors.Join(t.nodes[node].server.start(), t.nodes[node].sentinel.start())
}

// Observe implements Target.
func (t *redis) Observe(o Observer) {
	t.net.observe(o.Link)
	for name, n := range t.nodes {
		n.server.observe(func() {
			if o.Ended != nil {
				o.Ended(name)
			}
		})
	}
}

// Serving implements Target.
func (t *redis) Serving(node string) bool {
	_, err := t.Do(node, time.Second, "PING")
	return err == nil
}

// Running implements Target.
func (t *redis) Running(node string) bool { return t.nodes[node].server.alive() }

func (t *redis) Dir(node string) string { return t.nodes[node].dir }

// Do implements Target.
func (t *redis) Do(node string, timeout time.Duration, args ...string) (Reply, error) {
	if !t.nodes[node].server.running() {
		return Reply{}, errNotRunning
	}
	return ask(t.nodes[node].addr, timeout, args...)
}

// Dial implements Target.
func (t *redis) Dial(node string, timeout time.Duration) (*Conn, error) {
	if !t.nodes[node].server.running() {
		return nil, errNotRunning
	}
	return Dial(t.nodes[node].addr, timeout)
}

// Connect implements Target.
func (t *redis) Connect(addr string, timeout time.Duration) (*Conn, error) {
	return Dial(addr, timeout)
}

// Healthy implements Target: the primary takes a write.
func (t *redis) Healthy(ctx context.Context) error {
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

// Converged implements Target. Redis promises nothing that could be compared here:
// what it lost shows in the histories.
func (t *redis) Converged(context.Context) error { return nil }

// Deaths implements Target.
func (t *redis) Deaths() []string {
	var all []string
	for _, name := range t.names {
		t.both(name, func(p *proc) { all = append(all, p.takeDeaths()...) })
	}
	return all
}

// Dead implements Target.
func (t *redis) Dead() (nodes []string) {
	for _, name := range t.names {
		if t.nodes[name].server.isDead(deadLook) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Races implements Target.
func (t *redis) Races() []string { return nil }

// NotDone implements Target.
func (t *redis) NotDone(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF":
		return true
	}
	return false
}

// Unknown implements Target.
func (t *redis) Unknown(string) bool { return false }

// Fence implements Target: there is none.
func (t *redis) Fence(string) []string { return nil }

// LogClock implements Target: each PTTL of a script reads the clock anew.
func (t *redis) LogClock() bool { return false }

// noFaults is a target that has no fault port.
type noFaults struct{}

var errNoOtherBuild = errors.New("there is no other build of this target's server")

var errNoFaults = errors.New("this target has no fault port")

// SetBuild implements Target.
func (noFaults) SetBuild(string, string) error { return errNoOtherBuild }
func (noFaults) Adopt(string)                  {}
func (noFaults) Lacking() []string             { return nil }

// Said implements Target.
func (noFaults) Said(string, string) bool { return false }

// LimitFiles implements Target.
func (noFaults) LimitFiles(string, int) error { return errNoFaults }

// Fault implements Target.
func (noFaults) Fault(string, string) (string, error) { return "", errNoFaults }

// Arm implements Target.
func (noFaults) Arm(string, Strike) (Armed, error) { return Armed{}, errNoFaults }

// Disarm implements Target.
func (noFaults) Disarm(Armed) {}

// Fill implements Target.
func (noFaults) Fill(string, bool) {}

// ResetFaults implements Target.
func (noFaults) ResetFaults(string) {}

// Die implements Target.
func (noFaults) Die(string, Act) {}

// Damage implements Target: nothing is damaged, since Redis would go on without it.
func (t *redis) Damage(node string, _ func(string) string) bool {
	t.Kill(node)
	return false
}

// PutBack implements Target: nothing is put back, since Redis would go on without the rest.
func (t *redis) PutBack(node, _ string) bool {
	t.Kill(node)
	return false
}

// Replace implements Target: the server begins anew, with nothing.
func (t *redis) Replace(node string) {
	t.Kill(node)
	_ = os.RemoveAll(filepath.Join(t.nodes[node].dir, "appendonlydir"))
}

// Ports implements Target. They listen always.
func (t *redis) Ports(node string) []*Proxy {
	return []*Proxy{t.nodes[node].peer, t.nodes[node].sentinelPeer}
}

// Ends implements Target: nobody says anything.
func (t *redis) Ends() (e Ends) { return e }

// PeerAddr implements Target: the server has one port for all.
func (t *redis) PeerAddr(node string) string { return t.nodes[node].addr }

// ID implements Target.
func (t *redis) ID(node string) string { return node }
