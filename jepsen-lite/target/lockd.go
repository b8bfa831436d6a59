package target

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// lockd is a cluster of lockd processes. Its parts share the fleet and implement one interface of Target each; parts
// with state of their own are pointers.
type lockd struct {
	*fleet // Cluster but for Start and Stop, and Connections
	lockdProcesses
	lockdDisks
	lockdFaults
	*lockdBuilds
	lockdTools
	lockdHealth
	lockdDialect
}

// fleet is the nodes, and what all parts know of them.
type fleet struct {
	net       *Net
	names     []string
	nodes     map[string]*lockdNode
	tls       *tlsSetup // nil: connections are not encrypted
	ways      []*Proxy  // with TLS: one for each ordered pair of nodes
	strangers string    // host from which Knock connects
	newest    newestSnapshot
}

// newLockdOver makes a cluster of a fleet and of the binaries of its builds.
func newLockdOver(f *fleet, paths map[string]string) *lockd {
	builds := &lockdBuilds{fleet: f, paths: paths}
	return &lockd{
		fleet:          f,
		lockdProcesses: lockdProcesses{f},
		lockdDisks:     lockdDisks{f},
		lockdFaults:    lockdFaults{f},
		lockdBuilds:    builds,
		lockdTools:     lockdTools{f, builds},
		lockdHealth:    lockdHealth{f},
	}
}

// lockdNode is a node: its process, its addresses, its proxies and its data folder.
type lockdNode struct {
	proc
	addr      string // where it listens for clients, behind the proxy
	peerAddr  string // where it listens for peers, behind the proxy
	faultAddr string // of the fault port
	httpAddr  string // of the pages for browsers
	common    []string
	client    *Proxy
	peer      *Proxy
	answered  atomic.Int64 // number of the last start that has answered a client

	mu         LongLock // held while the node is started, stopped or armed
	id, dir    string
	generation int
	disk       disk
	otherBuild bool   // its next process is of OtherBuild
	former     bool   // of FormerBuild
	full       bool   // its disk is full
	fullFile   string // a test build finds its disk full while this file exists
}

// newLockd prepares a cluster. Every node announces the address of its peer proxy, so the list of members is the same
// on all nodes.
func newLockd(c Config) (Target, error) { return newLockdOn(thisMachine{}, rand.Int64N, c) }

// On prepares a cluster of lockd on another host than this machine. chance returns a random number below n, for the
// chances of the links.
func On(h Host, chance func(n int64) int64, c Config) (Target, error) {
	return newLockdOn(h, chance, c)
}

func newLockdOn(h Host, chance func(n int64) int64, c Config) (Target, error) {
	host, strangers, peer := onlyHost, onlyHost, caller(lockdPeer)
	if h == (Host)(thisMachine{}) {
		host, strangers = ownHost(), ownHost()
	}
	addrs, err := h.Addrs(host, 4*c.Nodes)
	if err != nil {
		return nil, err
	}
	builds := map[string]string{OwnBuild: c.Binary}
	maps.Copy(builds, c.Builds)
	f := &fleet{net: newNetOn(h, chance), nodes: map[string]*lockdNode{}, strangers: strangers}
	if c.TLS {
		peer = refuseAll
		if f.tls, err = newTLSSetup(filepath.Join(c.Dir, "tls"), host); err != nil {
			return nil, err
		}
	}
	for i := range c.Nodes {
		if err := f.add(c, i, addrs, peer); err != nil {
			return nil, err
		}
	}
	if f.tls != nil {
		if err := f.openWays(); err != nil {
			return nil, err
		}
	}
	var members []string
	for _, name := range f.names {
		members = append(members, name+"="+f.nodes[name].peer.Addr())
	}
	for _, n := range f.nodes {
		n.refuseUntilStarted()
		n.setClusterArgs("--cluster", strings.Join(members, ","))
	}
	return newLockdOver(f, builds), os.MkdirAll(filepath.Join(c.Dir, "data"), 0o755)
}

// add adds node number i. addrs are the addresses of all nodes, by purpose: clients, peers, fault port, HTTP.
func (f *fleet) add(c Config, i int, addrs []string, peer caller) (err error) {
	name := fmt.Sprintf("n%d", i+1)
	at := func(purpose int) string { return addrs[purpose*c.Nodes+i] }
	n := &lockdNode{
		addr:      at(0),
		peerAddr:  at(1),
		faultAddr: at(2),
		httpAddr:  at(3),
		id:        name,
		dir:       filepath.Join(c.Dir, "data", name),
		fullFile:  filepath.Join(c.Dir, "data", name+".full"),
	}
	if n.client, err = newProxy(f.net, name, n.addr, anyClient); err != nil {
		return err
	}
	if n.peer, err = newProxy(f.net, name, n.peerAddr, peer); err != nil {
		return err
	}
	n.proc = proc{name: name, path: c.Binary, processLog: processLog{logPath: filepath.Join(c.Dir, name+".log"), host: f.net.host}}
	n.doors, n.peerDoor = []*Proxy{n.client, n.peer}, n.peer
	n.env = []string{
		faultListenVar + "=" + n.faultAddr,
		fullVar + "=" + n.fullFile,
		fmt.Sprintf("%s=%d", segmentVar, segmentBytes),
	}
	n.common = slices.Concat([]string{"serve", "--peer-listen", n.peerAddr, "--peer-advertise", n.peer.Addr(),
		"--http-listen", n.httpAddr},
		f.tls.flags(n.addr, n.client.Addr()), c.Args)
	f.names, f.nodes[name] = append(f.names, name), n
	return nil
}

// refuseUntilStarted makes the proxies of a node refuse connections until a process of the node listens.
func (n *lockdNode) refuseUntilStarted() {
	for _, d := range n.doors {
		d.lost = func(err error) { go n.report("is not reached any more: nobody can listen at %s: %v", d.addr, err) }
		d.shut()
	}
}

// setClusterArgs sets the arguments of the next process; more tells it how to enter the cluster.
func (n *lockdNode) setClusterArgs(more ...string) {
	n.setArgs(n.id, slices.Concat(n.common, []string{"--id", n.id, "--dir", n.dir}, more))
}

// Start implements Cluster.
func (t *lockd) Start(ctx context.Context) error {
	for _, name := range t.names {
		if err := t.Restart(name); err != nil {
			return err
		}
	}
	if t.tls != nil {
		if err := t.checkTestBuilds(); err != nil {
			return err
		}
	}
	return t.Healthy(ctx)
}

// Stop implements Cluster.
func (t *lockd) Stop() {
	for _, n := range t.nodes {
		n.kill()
		n.client.Close()
		n.peer.Close()
	}
	for _, way := range t.ways {
		way.Close()
	}
}

// lockdBuilds implements Builds. Binaries may change while nodes run.
type lockdBuilds struct {
	*fleet
	mu    sync.Mutex
	paths map[string]string // build -> its binary
}

// SetBuild implements Builds.
func (t *lockdBuilds) SetBuild(node, build string) error {
	path := t.path(build)
	if path == "" {
		return errNoOtherBuild
	}
	n := t.nodes[node]
	n.mu.Lock() // no process starts meanwhile
	defer n.mu.Unlock()
	n.otherBuild, n.former = build == OtherBuild, build == FormerBuild
	n.setPath(path)
	return nil
}

// path returns the binary of a build, or "".
func (t *lockdBuilds) path(build string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[build]
}

// Adopt implements Builds.
func (t *lockdBuilds) Adopt(build string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paths[OwnBuild] != t.paths[build] {
		t.paths[FormerBuild], t.paths[OwnBuild] = t.paths[OwnBuild], t.paths[build]
	}
	delete(t.paths, OtherBuild) // it is of the level before
}

// Logged implements Builds.
func (t *lockdBuilds) Logged(node, text string) bool {
	p := &t.nodes[node].proc
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now != nil && strings.Contains(p.now.Output(), text)
}

// lockdDialect implements Dialect.
type lockdDialect struct{}

// NotDone implements Dialect.
func (lockdDialect) NotDone(text string) bool {
	return strings.HasPrefix(text, "LOADING ") || strings.HasPrefix(text, "CLUSTERDOWN ")
}

// Unknown implements Dialect.
func (lockdDialect) Unknown(text string) bool { return strings.HasPrefix(text, "UNKNOWN ") }

// Fence implements Dialect.
func (lockdDialect) Fence(key string) []string { return []string{"FENCE", key} }

// LogClock implements Dialect.
func (lockdDialect) LogClock() bool { return true }
