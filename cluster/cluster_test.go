package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/peer/peertest"
	"lockd/cluster/store"
	"lockd/resp"
)

// testCluster is a cluster in memory, for use inside a synctest bubble: hours pass
// in a moment, and partitions are a call.
type testCluster struct {
	t     *testing.T
	net   *peertest.Network
	nodes map[string]*testNode
	first map[string]string // Members
}

// testNode is one node, running or not, and what survives its crash.
type testNode struct {
	*Node
	id, addr string
	machine  *testMachine
	pub      *testPublisher
	disk     *testDisk
	clock    *testClock
	config   func(*Config)
	ctx      context.Context // of its clients: it ends with the test

	mu     sync.Mutex
	fatals []string
}

// testDisk is a disk in memory.
type testDisk struct {
	log         *raft.InmemStore
	votes       *raft.InmemStore
	snaps       *raft.InmemSnapshotStore
	incarnation string
	gate        gate         // in front of the log
	synced      uint64       // the last entry when diskFuzz shut it
	writes      atomic.Int64 // to the log
	rate        atomic.Int64 // bytes of entries that it takes in a second; 0: any number, at once
}

func newTestDisk(incarnation string) *testDisk {
	return &testDisk{log: raft.NewInmemStore(), votes: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(), incarnation: incarnation}
}

// memoryDisk is a Disk whose stores a function opens.
type memoryDisk struct {
	open        func() (*store.Stores, error)
	incarnation string
	starts      store.History
}

func (d memoryDisk) Begin() (string, store.History)            { return d.incarnation, d.starts }
func (d memoryDisk) Open(store.Options) (*store.Stores, error) { return d.open() }
func (d memoryDisk) LastSeen() ([]store.LastSeen, error)       { return nil, nil }
func (d memoryDisk) SaveLastSeen([]store.LastSeen) error       { return nil }

// withStores has a function open the stores of a node in memory. It is given what opened them before.
func withStores(cfg *Config, open func(before func() (*store.Stores, error)) (*store.Stores, error)) {
	disk := cfg.Disk.(memoryDisk)
	before := disk.open
	disk.open = func() (*store.Stores, error) { return open(before) }
	cfg.Disk = disk
}

func (d *testDisk) disk() Disk { return memoryDisk{open: d.open, incarnation: d.incarnation} }

func (d *testDisk) open() (*store.Stores, error) {
	fatal := func(err error) {
		if !errors.Is(err, errPower) {
			panic(err)
		}
	}
	log := &hookedLog{InmemStore: d.log, takes: d.take, before: func() error {
		d.writes.Add(1)
		return d.gate.pass()
	}}
	s, err := store.Join(store.Options{Fatal: fatal}, log, d.votes, d.snaps)
	if err != nil {
		return nil, err
	}
	last, err := d.log.LastIndex()
	if err != nil {
		return nil, err
	}
	snaps, err := d.snaps.List()
	s.Empty = last == 0 && len(snaps) == 0
	return s, err
}

// hookedLog is a log in memory whose writes call a function before; nil does nothing.
type hookedLog struct {
	*raft.InmemStore
	before func() error
	takes  func(entries []*raft.Log) // its time for so much; nil: none
}

func (h *hookedLog) StoreLogs(entries []*raft.Log) error {
	if h.takes != nil {
		h.takes(entries)
	}
	if err := h.pass(); err != nil {
		return err
	}
	return h.InmemStore.StoreLogs(entries)
}

func (h *hookedLog) DeleteRange(first, last uint64) error {
	if err := h.pass(); err != nil {
		return err
	}
	return h.InmemStore.DeleteRange(first, last)
}

func (h *hookedLog) pass() error {
	if h.before == nil {
		return nil
	}
	return h.before()
}

// onAnotherDisk guards votes by themselves, as if they lay on a disk of their own: Raft panics
// where they cannot be written, and a test may let the power of the log's disk fail.
func onAnotherDisk(votes raft.StableStore) (raft.StableStore, error) {
	s, err := store.Join(store.Options{Fatal: func(error) {}}, raft.NewInmemStore(), votes, raft.NewInmemSnapshotStore())
	if err != nil {
		return nil, err
	}
	return s.Stable, nil
}

// take waits as long as the disk takes for so many entries.
func (d *testDisk) take(entries []*raft.Log) {
	rate := d.rate.Load()
	if rate == 0 {
		return
	}
	size := 0
	for _, e := range entries {
		size += len(e.Data)
	}
	time.Sleep(time.Duration(size) * time.Second / time.Duration(rate))
}

// testClock is a clock whose wall time can be stepped.
type testClock struct {
	clock.System
	mu   sync.Mutex
	step time.Duration
}

func (c *testClock) Wall() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.System.Wall() + c.step.Microseconds()
}

// restarted is the clock for the next process: it has been set as this one, which may be nil.
func (c *testClock) restarted() *testClock {
	next := &testClock{System: clock.NewSystem()}
	if c != nil {
		next.step = c.step
	}
	return next
}

func (c *testClock) stepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step += d
}

// forHours are settings for tests that let hours pass: what nodes say to each other all the time is said more seldom,
// as it costs most of what such a test takes.
func forHours(cfg *Config) { cfg.commitTimeout, cfg.Heartbeat = time.Second, 2*time.Second }

// startCluster starts n nodes, n1 to nn.
func startCluster(t *testing.T, n int, config ...func(*Config)) *testCluster {
	c := &testCluster{t: t, net: peertest.NewNetwork(), nodes: map[string]*testNode{}, first: map[string]string{}}
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		c.first[id] = id + ":1"
	}
	for _, id := range slices.Sorted(maps.Keys(c.first)) {
		c.add(id, config...)
		c.start(id)
	}
	return c
}

// countingStarts has nodes in memory count their starts, as data folders do.
func countingStarts() func(*Config) {
	starts := map[string]store.History{}
	return func(cfg *Config) {
		h := starts[cfg.ID]
		h.Starts++
		h.Tokens += fmt.Sprintf("%10d", h.Starts)
		disk := cfg.Disk.(memoryDisk)
		starts[cfg.ID], disk.starts = h, h
		cfg.Disk = disk
	}
}

func (c *testCluster) add(id string, config ...func(*Config)) *testNode {
	n := &testNode{id: id, addr: id + ":1", ctx: c.t.Context(), disk: newTestDisk(id + "-first"), config: func(cfg *Config) {
		for _, f := range config {
			f(cfg)
		}
	}}
	c.nodes[id] = n
	return n
}

func (c *testCluster) start(id string) {
	c.t.Helper()
	if err := c.tryStart(id); err != nil {
		c.t.Fatalf("%s: %v", id, err)
	}
}

func (c *testCluster) tryStart(id string) error {
	n := c.nodes[id]
	n.machine, n.pub, n.clock = newTestMachine(), &testPublisher{}, n.clock.restarted()
	level := slog.LevelWarn + 1
	if os.Getenv("LOCKD_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	cfg := Config{
		ID: id, PeerListen: n.addr, PeerAdvertise: n.addr, ClientAddrs: []string{id + ":6379"}, Members: c.first,
		Machine: n.machine, Publisher: n.pub, Network: c.net.From(n.addr), Clock: n.clock,
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("node", id),
		Fatal: n.fatal, Disk: n.disk.disk(),
	}
	if c.first[id] == "" {
		cfg.Members, cfg.Join = nil, true
	}
	n.config(&cfg)
	node, err := Open(cfg)
	n.Node = node
	return err
}

func (n *testNode) fatal(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fatals = append(n.fatals, err.Error())
}

// stopped is what the node said when it ended its process, "" if it did not.
func (n *testNode) stopped() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.fatals, "; ")
}

// kill stops a node as kill -9 does.
func (c *testCluster) kill(id string) {
	synctest.Wait() // nothing is inside Raft's queues, where futures are forgotten
	n := c.nodes[id]
	c.net.Kill(n.addr)
	n.stopOnce.Do(func() { _ = n.shutdown() })
	n.Node = nil
}

// close stops all nodes.
func (c *testCluster) close() {
	c.net.Heal() // a dial over a cut link would outlive the test
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if c.nodes[id].Node != nil {
			c.kill(id)
		}
	}
	c.net.Drain()
}

// leader waits until exactly one of the given nodes leads (all, if none is given)
// and returns it.
func (c *testCluster) leader(among ...string) *testNode {
	c.t.Helper()
	if len(among) == 0 {
		among = slices.Sorted(maps.Keys(c.nodes))
	}
	for range 1000 {
		for _, id := range among {
			if n := c.nodes[id]; n.Node != nil && n.lead.Held() && n.requests.Reader.Confirm(n.lead.Load()) {
				return n
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no leader within ten seconds")
	return nil
}

// others are the nodes that run besides n.
func (c *testCluster) others(n *testNode) []*testNode {
	var others []*testNode
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if o := c.nodes[id]; o != n && o.Node != nil {
			others = append(others, o)
		}
	}
	return others
}

// cut separates a node from all others.
func (c *testCluster) cut(n *testNode) {
	for _, o := range c.others(n) {
		c.net.Partition([]string{n.addr}, []string{o.addr})
	}
}

// do runs a command line at a node and returns the reply as text.
func (n *testNode) do(line string) string {
	ctx, cancel := context.WithTimeout(n.ctx, time.Minute)
	defer cancel()
	return n.doCtx(ctx, line)
}

func (n *testNode) doCtx(ctx context.Context, lines ...string) string {
	var req resp.Request
	for _, line := range lines {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: strings.Fields(line)})
	}
	var out []string
	for _, r := range n.Do(ctx, req).Replies {
		out = append(out, strings.TrimSpace(strings.ReplaceAll(string(r.AppendTo(nil, 3)), "\r\n", " ")))
	}
	return strings.Join(out, " | ")
}

func (c *testCluster) expect(n *testNode, line, want string) {
	c.t.Helper()
	if got := n.do(line); got != want {
		c.t.Fatalf("%s at %s: got %q, want %q", line, n.id, got, want)
	}
}

// agree waits until all running nodes have the same hash at the same index.
func (c *testCluster) agree() {
	c.t.Helper()
	var seen []string
	for range 1000 {
		seen = nil
		for _, n := range c.others(nil) {
			if h := n.do("LOCKD HASH"); !slices.Contains(seen, h) {
				seen = append(seen, h)
			}
		}
		if len(seen) == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("the nodes do not agree: %q", seen)
}
