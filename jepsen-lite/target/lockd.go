package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lockd/internal/freeport"
)

// lockd is a cluster of lockd processes.
type lockd struct {
	net   *Net
	names []string
	nodes map[string]*lockdNode
	tls   *sealed  // nil: there is none
	ways  []*Proxy // between nodes that speak it

	strangers string // the host that those come from who knock

	buildsMu sync.Mutex
	builds   map[string]string // binaries, OwnBuild's too

	savedMu sync.Mutex
	saved   int64 // index of the newest snapshot that a node has told of
}

type lockdNode struct {
	proc
	addr      string // of clients, past the proxy
	peerAddr  string // of peers, likewise
	faultAddr string // of the fault port
	httpAddr  string // of the pages for browsers
	common    []string
	client    *Proxy
	peer      *Proxy
	answered  atomic.Int64 // number of the last start that has served somebody

	mu         sync.Mutex
	id, dir    string
	generation int
	disk       disk
	strange    bool   // it is of the other build
	full       bool   // its disk has no space,
	fullFile   string // as long as this is there
}

// newLockd prepares a cluster. Every node announces the address of its peer proxy,
// so that the list of members is the same everywhere.
func newLockd(c Config) (Target, error) {
	host, peer := ownHost(), caller(lockdPeer)
	addrs, err := freeport.Addrs(host, 4*c.Nodes)
	if err != nil {
		return nil, err
	}
	t := &lockd{net: NewNet(), nodes: map[string]*lockdNode{}, builds: map[string]string{OwnBuild: c.Binary},
		strangers: ownHost()}
	maps.Copy(t.builds, c.Builds)
	if c.TLS {
		peer = stranger
		if t.tls, err = newSealed(filepath.Join(c.Dir, "tls"), host); err != nil {
			return nil, err
		}
	}
	var list []string
	for i := range c.Nodes {
		name := fmt.Sprintf("n%d", i+1)
		at := func(part int) string { return addrs[part*c.Nodes+i] }
		n := &lockdNode{
			addr:      at(0),
			peerAddr:  at(1),
			faultAddr: at(2),
			httpAddr:  at(3),
			id:        name,
			dir:       filepath.Join(c.Dir, "data", name),
		}
		if n.client, err = newProxy(t.net, name, n.addr, anyClient); err != nil {
			return nil, err
		}
		if n.peer, err = newProxy(t.net, name, at(1), peer); err != nil {
			return nil, err
		}
		n.proc = proc{name: name, path: c.Binary, logPath: filepath.Join(c.Dir, name+".log")}
		n.doors = []*Proxy{n.client, n.peer}
		n.fullFile = filepath.Join(c.Dir, "data", name+".full")
		n.env = []string{
			faultListenVar + "=" + n.faultAddr,
			fullVar + "=" + n.fullFile,
			fmt.Sprintf("%s=%d", segmentVar, segmentBytes),
		}
		n.common = slices.Concat([]string{"serve", "--peer-listen", at(1), "--peer-advertise", n.peer.Addr(),
			"--http-listen", n.httpAddr},
			t.tls.flags(n.addr, n.client.Addr()), c.Args)
		t.names, t.nodes[name] = append(t.names, name), n
		list = append(list, name+"="+n.peer.Addr())
	}
	if t.tls != nil {
		if err := t.lay(); err != nil {
			return nil, err
		}
	}
	for _, n := range t.nodes {
		n.guard()
		n.begin("--cluster", strings.Join(list, ","))
	}
	return t, os.MkdirAll(filepath.Join(c.Dir, "data"), 0o755)
}

// guard has the ports of a node refuse until a process of it listens.
func (n *lockdNode) guard() {
	for _, d := range n.doors {
		d.lost = func(err error) { go n.accuse("is not reached any more: nobody can listen at %s: %v", d.addr, err) }
		d.shut()
	}
}

func (t *lockd) Nodes() []string { return t.names }
func (t *lockd) Net() *Net       { return t.net }

func (t *lockd) Start(ctx context.Context) error {
	for _, name := range t.names {
		if err := t.Restart(name); err != nil {
			return err
		}
	}
	if err := t.checkWays(); err != nil {
		return err
	}
	return t.Healthy(ctx)
}

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

func (t *lockd) Endpoint(id, attempt int) (string, string, error) {
	name := t.names[(id+attempt)%len(t.names)]
	return t.nodes[name].client.Addr(), name, nil
}

func (t *lockd) Kill(node string)   { t.nodes[node].kill() }
func (t *lockd) Pause(node string)  { t.nodes[node].pause(true) }
func (t *lockd) Resume(node string) { t.nodes[node].pause(false) }

// Running implements Target.
func (t *lockd) Running(node string) bool { return t.nodes[node].alive() }

// Observe implements Target.
func (t *lockd) Observe(o Observer) {
	t.net.observe(o.Link)
	for name, n := range t.nodes {
		n.observe(func() {
			if o.Ended != nil {
				o.Ended(name)
			}
		})
	}
}

// LimitFiles implements Target.
func (t *lockd) LimitFiles(node string, room int) error { return t.nodes[node].limitFiles(room) }

// Ports implements Target.
func (t *lockd) Ports(node string) []*Proxy { return t.nodes[node].doors[1:] }

// PeerAddr implements Target.
func (t *lockd) PeerAddr(node string) string { return t.nodes[node].peerAddr }

// Serving implements Target.
func (t *lockd) Serving(node string) bool {
	id := t.ID(node)
	r, err := t.Do(node, time.Second, "LOCKD", "MEMBERS")
	if err != nil || t.isStrange(node) { // what it remembers of the members is no place among them
		return false
	}
	for _, m := range r.Elems {
		text := strings.Join(m.Texts(), " ")
		if strings.HasPrefix(text, "id "+id+" ") && strings.Contains(text, " suffrage voter ") {
			return true
		}
	}
	return false
}

// Lacking implements Target.
func (t *lockd) Lacking() (nodes []string) {
	has, saved := map[string]int64{}, int64(0)
	for _, name := range t.names {
		r, err := t.Do(name, askMax, "INFO", "raft")
		if err != nil {
			continue
		}
		snapshot := infoNumber(r.Text(), "last_snapshot_index")
		has[name] = max(snapshot, infoNumber(r.Text(), "last_log_index"))
		saved = max(saved, snapshot)
	}
	t.savedMu.Lock()
	defer t.savedMu.Unlock()
	t.saved = max(t.saved, saved) // who has that snapshot may not answer the next time
	for _, name := range t.names {
		if index, told := has[name]; told && index < t.saved {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// infoNumber is a number that INFO tells; 0: it does not.
func infoNumber(info, name string) int64 {
	_, text, _ := strings.Cut(info, "\n"+name+":")
	text, _, _ = strings.Cut(text, "\r")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func (t *lockd) isStrange(node string) bool {
	n := t.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.strange
}

// SetBuild implements Target.
func (t *lockd) SetBuild(node, build string) error {
	t.buildsMu.Lock()
	path := t.builds[build]
	t.buildsMu.Unlock()
	if path == "" {
		return errNoOtherBuild
	}
	n := t.nodes[node]
	n.mu.Lock() // nobody starts it meanwhile
	defer n.mu.Unlock()
	n.strange = build == OtherBuild
	n.setPath(path)
	return nil
}

// Adopt implements Target.
func (t *lockd) Adopt(build string) {
	t.buildsMu.Lock()
	defer t.buildsMu.Unlock()
	t.builds[OwnBuild] = t.builds[build]
	delete(t.builds, OtherBuild) // it cannot do the level
}

// Said implements Target.
func (t *lockd) Said(node, text string) bool {
	p := &t.nodes[node].proc
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now != nil && strings.Contains(p.now.Said(), text)
}

// stopMax is longer than a node waits for its clients and for its successor.
const stopMax = 30 * time.Second

// Shutdown implements Target.
func (t *lockd) Shutdown(node string) {
	if n := t.nodes[node]; !n.end(syscall.SIGTERM, stopMax) {
		n.accuse("did not stop within %s of SIGTERM", stopMax)
	}
}

// Dir implements Target.
func (t *lockd) Dir(node string) string {
	n := t.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dir
}

// ID implements Target.
func (t *lockd) ID(node string) string {
	n := t.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// begin sets the arguments of the process; more says how it gets into the cluster.
func (n *lockdNode) begin(more ...string) {
	n.setArgs(n.id, slices.Concat(n.common, []string{"--id", n.id, "--dir", n.dir}, more))
}

// Do implements Target.
func (t *lockd) Do(node string, timeout time.Duration, args ...string) (Reply, error) {
	c, err := t.Dial(node, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(timeout, args...)
}

// Dial implements Target.
func (t *lockd) Dial(node string, timeout time.Duration) (*Conn, error) {
	n := t.nodes[node]
	start, ok := n.present()
	if !ok {
		return nil, errNotRunning
	}
	c, err := dial(n.addr, timeout, t.tls.config())
	if err == nil {
		n.answered.Store(int64(start))
	}
	return c, err
}

// Connect implements Target.
func (t *lockd) Connect(addr string, timeout time.Duration) (*Conn, error) {
	return dial(addr, timeout, t.tls.config())
}

var errNotRunning = errors.New("it does not run")

// askMax bounds a question to a node about itself.
const askMax = 300 * time.Millisecond

// Leader implements Target. A leader that was cut off may think it still leads, so
// the choice starts at a node that changes.
func (t *lockd) Leader() string {
	offset := int(time.Now().UnixNano()>>10) % len(t.names)
	for i := range t.names {
		name := t.names[(i+offset)%len(t.names)]
		r, err := t.Do(name, askMax, "ROLE")
		if err == nil && len(r.Elems) > 0 && r.Elems[0].Str == "master" {
			return name
		}
	}
	return ""
}

// Healthy implements Target. All that is down is started first: while nobody leads the first
// node takes no write, and the others would not have their turn.
func (t *lockd) Healthy(ctx context.Context) error {
	for _, name := range t.names {
		_ = t.Restart(name) // each has its turn again
	}
	for _, name := range t.names {
		err := poll(ctx, 50*time.Millisecond, func() error {
			if err := t.Restart(name); err != nil { // runs already, unless it could not be replaced before
				return err
			}
			c, err := t.Connect(t.nodes[name].client.Addr(), time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Do(5*time.Second, "SET", "health:"+name, "1")
			if err == nil && r.Str != "OK" {
				err = errors.New(r.Text())
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("node %s takes no write: %w", name, err)
		}
	}
	return nil
}

// Converged implements Target. Two different hashes at one index are a fork for
// ever, so that is not waited out.
func (t *lockd) Converged(ctx context.Context) error {
	seen := map[string][2]string{} // index -> hash, node
	var fork error
	err := poll(ctx, 20*time.Millisecond, func() error {
		indexes := map[string]bool{}
		for _, name := range t.names {
			if t.nodes[name].isDead(0) {
				continue
			}
			r, err := t.Do(name, 5*time.Second, "LOCKD", "HASH")
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			if len(r.Elems) != 2 {
				return fmt.Errorf("node %s: LOCKD HASH answers %q", name, r.Text())
			}
			index, hash := r.Elems[0].Text(), r.Elems[1].Text()
			if other, ok := seen[index]; ok && other[0] != hash {
				fork = fmt.Errorf("states differ at index %s: %s has %s, %s has %s",
					index, other[1], other[0], name, hash)
				return nil
			}
			seen[index] = [2]string{hash, name}
			indexes[index] = true
		}
		if len(indexes) > 1 {
			return fmt.Errorf("the nodes have applied different entries: %v", indexes)
		}
		return nil
	})
	return errors.Join(fork, err)
}

// Deaths implements Target.
func (t *lockd) Deaths() []string {
	var all []string
	for _, name := range t.names {
		all = append(all, t.nodes[name].takeDeaths()...)
	}
	return all
}

// deadLook is longer than a process takes that refuses to start.
const deadLook = 5 * time.Second

// Dead implements Target.
func (t *lockd) Dead() (nodes []string) {
	for _, name := range t.names {
		if t.nodes[name].isDead(deadLook) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Races implements Target.
func (t *lockd) Races() []string {
	var all []string
	for _, name := range t.names {
		all = append(all, t.nodes[name].takeRaces()...)
	}
	return all
}

// NotDone implements Target.
func (t *lockd) NotDone(text string) bool {
	return strings.HasPrefix(text, "LOADING ") || strings.HasPrefix(text, "CLUSTERDOWN ")
}

// Unknown implements Target.
func (t *lockd) Unknown(text string) bool { return strings.HasPrefix(text, "UNKNOWN ") }

// Fence implements Target.
func (t *lockd) Fence(key string) []string { return []string{"FENCE", key} }

// LogClock implements Target.
func (t *lockd) LogClock() bool { return true }
