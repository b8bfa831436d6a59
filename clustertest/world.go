package clustertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster"
	"lockd/cluster/peer/peertest"
	"lockd/resp/server"
)

// World is simulated machines, each with a disk and clocks of its own, and the network that connects them: what a
// Cluster consists of, for programs that are no tests, such as a simulator. It runs inside a bubble of testing/synctest.
// Its methods may be called concurrently by all goroutines of the bubble; they return errors, and no virtual time
// passes in them unless they say so. A World must be closed before its bubble ends.
type World struct {
	net    *peertest.Network
	dice   *dice
	closed atomic.Bool // no process starts any more

	mu       sync.Mutex
	machines []*machine // in the order in which they were added
	came     int        // clients so far
}

// NewWorld returns a world without machines. seed decides what is left after power failures, where several outcomes are
// possible, and which bits rot.
func NewWorld(seed uint64) *World {
	return &World{net: peertest.NewNetwork(), dice: &dice{from: rand.New(rand.NewPCG(seed, seed))}}
}

// dice draws numbers that follow from a seed. It may be used concurrently.
type dice struct {
	mu   sync.Mutex
	from *rand.Rand
}

// below draws a number below n.
func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from.IntN(n)
}

// Network is the network between the nodes, and between clients and nodes. A node is there at its peer address, with
// which it also dials, and at its address for clients.
func (w *World) Network() *peertest.Network { return w.net }

// Machine describes a machine, and the node that runs on it.
type Machine struct {
	ID         string            // of the node
	PeerAddr   string            // the node listens there for the others; "": ID:16379
	ClientAddr string            // the node listens there for clients; "": ID:6379
	Members    map[string]string // ids and peer addresses of the founding members, this one included; nil: it waits for LOCKD ADD
	// Join is the address for clients of another node, which a node without Members asks to be added; "": it asks nobody.
	Join string
	// Ways are the addresses at which the node dials peers that are known by another address, such as proxies between
	// it and them. They may be listeners of the Network.
	Ways map[string]string
	Log  *slog.Logger // nil: to stderr if LOCKD_TEST_LOG is set, and nowhere otherwise
	// Tune may change the configuration of the node, at each start. nil changes nothing.
	Tune func(*cluster.Config)
	// Front may change the configuration of the node's server, at each start. nil changes nothing.
	Front func(*server.Config)
}

// Add adds a machine with an empty disk, whose clocks are right. No node runs on it yet.
func (w *World) Add(m Machine) error {
	if m.ID == "" {
		return errors.New("a machine needs the id of its node")
	}
	if m.PeerAddr == "" {
		m.PeerAddr = m.ID + ":16379"
	}
	if m.ClientAddr == "" {
		m.ClientAddr = m.ID + ":6379"
	}
	if m.Log == nil {
		m.Log = logger(m.ID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.machines, func(other *machine) bool { return other.ID == m.ID }) {
		return fmt.Errorf("there is a node %s already", m.ID)
	}
	w.machines = append(w.machines, newMachine(w, m))
	return nil
}

// machine returns a machine by the id of its node.
func (w *World) machine(id string) (*machine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		if m.ID == id {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no node %s", id)
}

// all returns the machines in the order in which they were added.
func (w *World) all() []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.machines)
}

// Start starts a node on the disk of its machine. Its error is that of a node that does not start, as a process would
// write it; a node that ends while it starts has one, too. Virtual time passes if the disk is slow.
func (w *World) Start(id string) error {
	m, err := w.machine(id)
	if err != nil {
		return err
	}
	return m.start()
}

// Launch starts a node on the disk of its machine, and does not wait until it serves.
func (w *World) Launch(id string) (*Process, error) {
	m, err := w.machine(id)
	if err != nil {
		return nil, err
	}
	return m.launch()
}

// Kill ends the process of a node as kill -9 does: what it wrote is on the disk. It may be starting.
func (w *World) Kill(id string) error { return end(w, []string{id}, kill) }

// LosePower ends nodes as a power failure does, all at once. Of what each store did not sync, the log, the votes and
// the snapshots for themselves, a beginning is left; the seed decides how much. It also takes what a process had not
// synced that has ended before.
func (w *World) LosePower(ids ...string) error { return end(w, ids, tear) }

// LoseUnsynced is LosePower, but nothing that was not synced is left.
func (w *World) LoseUnsynced(ids ...string) error { return end(w, ids, drop) }

func end(w *World, ids []string, how death) error {
	var errs []error
	for _, id := range ids {
		m, err := w.machine(id)
		if err == nil {
			err = m.end(how)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Stop ends the process of a node in order, as Process.Stop does. Virtual time passes: until the node has ended, or ctx.
func (w *World) Stop(ctx context.Context, id string) error {
	m, err := w.machine(id)
	if err != nil {
		return err
	}
	p := m.running()
	if p == nil {
		return fmt.Errorf("%s does not run", id)
	}
	return p.stop(ctx)
}

// Running reports whether a node runs, or starts.
func (w *World) Running(id string) bool {
	m, err := w.machine(id)
	return err == nil && m.running() != nil
}

// Ended returns a channel that is closed when the last process that was started has ended; it is closed if none was.
func (w *World) Ended(id string) <-chan struct{} {
	m, err := w.machine(id)
	if err == nil {
		if p := m.last(); p != nil {
			return p.dead
		}
	}
	none := make(chan struct{})
	close(none)
	return none
}

// Why returns why the last process of a node that was started has ended itself; nil if it has not.
func (w *World) Why(id string) error {
	m, err := w.machine(id)
	if err != nil {
		return err
	}
	if p := m.last(); p != nil {
		return p.why()
	}
	return nil
}

// Wipe replaces the disk of a node that does not run by an empty one.
func (w *World) Wipe(id string) error {
	m, err := w.machine(id)
	if err != nil {
		return err
	}
	return m.wipe()
}

// Node returns the node that runs, for questions of the harness, or nil.
func (w *World) Node(id string) *cluster.Node {
	m, err := w.machine(id)
	if err != nil {
		return nil
	}
	if p := m.running(); p != nil && p.isOpen() {
		return p.node
	}
	return nil
}

// Dial connects a client to a node, within timeout of virtual time. Each client has an address of its own.
func (w *World) Dial(id string, timeout time.Duration) (net.Conn, error) {
	m, err := w.machine(id)
	if err != nil {
		return nil, err
	}
	return w.net.From(w.clientName()).Dial(m.ClientAddr, timeout)
}

// clientName returns the address of a client that has none yet.
func (w *World) clientName() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came++
	return fmt.Sprintf("client:%d", w.came)
}

// Pause stops a node as SIGSTOP does.
func (w *World) Pause(id string) error { return setPaused(w, id, true) }

// Resume ends a pause, as SIGCONT does.
func (w *World) Resume(id string) error { return setPaused(w, id, false) }

func setPaused(w *World, id string, paused bool) error {
	m, err := w.machine(id)
	if err != nil {
		return err
	}
	m.setPaused(paused)
	return nil
}

// Disk returns the disk of a machine, or nil. Wipe replaces it.
func (w *World) Disk(id string) *Disk {
	m, err := w.machine(id)
	if err != nil {
		return nil
	}
	return m.diskNow()
}

// Clock returns the clocks of a machine, or nil.
func (w *World) Clock(id string) *Clock {
	m, err := w.machine(id)
	if err != nil {
		return nil
	}
	return m.clock
}

// Close ends all nodes and connections, and returns when the goroutines of the nodes have ended, or cannot. No node
// starts any more.
func (w *World) Close() {
	w.closed.Store(true)
	w.net.Heal()
	for _, m := range w.all() {
		m.setPaused(false)
		_ = m.end(kill) // it may not run
	}
	for _, m := range w.all() {
		m.awaitGone()
	}
	w.net.Close()
}
