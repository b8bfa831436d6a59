package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster"
	"lockd/internal/node"
	"lockd/resp"
	"lockd/resp/fault"
	"lockd/resp/server"
)

// machine is a simulated computer, and the processes on it. At most one of them runs; those that have ended may still
// have goroutines, which reach neither network nor disk.
type machine struct {
	Machine
	world *World
	clock *Clock

	mu        sync.Mutex // never held while waiting
	disk      *Disk
	wiped     int        // how often the disk was replaced
	processes []*Process // the last one, and those before it that have goroutines left
}

// Process is one run of a node on its machine: the parts that cmd/lockd joins, too. Its methods may be called
// concurrently.
type Process struct {
	machine *machine
	disk    *Disk
	faults  *fault.Set

	opened chan struct{} // closed when the node runs, or does not start; the next three are set by then
	node   *cluster.Node // nil: it did not start
	server *server.Server
	served chan struct{} // closed when the listener has ended

	silent atomic.Bool   // it sends nothing any more
	ended  atomic.Bool   // it writes nothing either; set under the disk's lock
	dead   chan struct{} // closed when its connections and ports are gone, too
	gone   chan struct{} // closed when its goroutines have ended, as far as they can

	own     stores                // what it sees of its disk once it has ended; under the disk's lock
	closing atomic.Bool           // its goroutines are being ended
	paused  atomic.Pointer[pause] // nil: it runs
	died    atomic.Pointer[error] // why it has ended itself
	how     atomic.Int32          // an End; set with ended
	refusal error                 // of Opened; set when opened is closed, or before an end as Refused
}

// End is a way in which a process has ended.
type End int32

// The ways in which processes end.
const (
	Running   End = iota // it has not ended
	WasKilled            // from outside, or at a fault point: by a kill, or a power failure
	Stopped              // in order
	Failed               // by itself, while it ran
	Refused              // by itself, while it started
)

// Opened waits until the node serves, and returns the error of a node that does not start, as a process would write it.
// A process that ends while it starts has one, too.
func (p *Process) Opened() error {
	<-p.opened
	return p.refusal
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.dead }

// Exit returns how the process has ended, and why if it has ended itself.
func (p *Process) Exit() (how End, why error) {
	how, why = End(p.how.Load()), p.why()
	if how == Refused && why == nil {
		why = p.refusal
	}
	return how, why
}

// Stop ends the process in order, as SIGTERM does; a paused one when it is resumed. It returns when the process has
// ended; what takes longer than ctx is cut off.
func (p *Process) Stop(ctx context.Context) error { return p.stop(ctx) }

// Kill ends the process as kill -9 does.
func (p *Process) Kill() { p.end(kill, WasKilled, nil) }

// death is a way in which a process ends.
type death int

const (
	kill death = iota // its disk stays as it is
	drop              // nothing is left of what was not synced
	tear              // a drawn part of it is
)

// deaths are the ways to end by the words of package fault.
var deaths = map[string]death{fault.ActKill: kill, fault.ActDrop: drop, fault.ActTear: tear}

// runID is the run_id of all nodes.
const runID = "0123456789012345678901234567890123456789"

func newMachine(w *World, m Machine) *machine {
	return &machine{Machine: m, world: w, disk: newDisk(m.ID, m.ID, w.dice.below), clock: newClock()}
}

func (m *machine) diskNow() *Disk {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk
}

// running returns the process that runs or starts, or nil.
func (m *machine) running() *Process {
	if p := m.last(); p != nil && !p.ended.Load() {
		return p
	}
	return nil
}

// last returns the process that was started last, or nil.
func (m *machine) last() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.processes) == 0 {
		return nil
	}
	return m.processes[len(m.processes)-1]
}

// begin adds a process that starts.
func (m *machine) begin() (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.world.closed.Load() {
		return nil, errors.New("the world is closed")
	}
	for _, p := range m.processes {
		if !p.isDead() {
			return nil, fmt.Errorf("%s runs already", m.ID)
		}
	}
	m.processes = slices.DeleteFunc(m.processes, (*Process).isGone)
	p := &Process{
		machine: m, disk: m.disk, opened: make(chan struct{}), served: make(chan struct{}),
		dead: make(chan struct{}), gone: make(chan struct{}),
	}
	p.faults = &fault.Set{
		Die: func(how string) { p.end(deaths[how], WasKilled, nil) }, Draw: m.world.dice.below, Gone: p.dead,
	}
	m.processes = append(m.processes, p)
	return p, nil
}

// launch starts a process, and does not wait until it serves.
func (m *machine) launch() (*Process, error) {
	if p := m.last(); p != nil && p.ended.Load() {
		<-p.dead // its ports are free
	}
	p, err := m.begin()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.opened)
		done := make(chan error, 1)
		go func() { // which ends if the process ends itself
			defer close(done)
			done <- p.open()
		}()
		err := <-done
		if p.ended.Load() {
			err = cmp.Or(p.why(), fmt.Errorf("%s was ended while it started", m.ID))
		}
		if p.refusal = err; err != nil {
			p.end(kill, Refused, nil)
		}
	}()
	return p, nil
}

func (m *machine) start() error {
	p, err := m.launch()
	if err != nil {
		return err
	}
	if err = p.Opened(); err != nil {
		<-p.gone
	}
	return err
}

// open opens the node and its server, which serves.
func (p *Process) open() error {
	m := p.machine
	log := slog.New(pausedLog{m.Log.Handler(), p})
	back := cluster.Config{
		ID: m.ID, Members: m.Members, Join: m.Members == nil,
		PeerListen: m.PeerAddr, ClientAddrs: []string{m.ClientAddr},
		KeepRoom: true,
		Disk:     mount{p.disk, p},
		Clock:    processClock{m.clock, p, time.Now()},
		Network:  processNetwork{m.world.net.From(m.PeerAddr), p},
		Faults:   p.faults,
		Info:     func() []resp.Section { return p.server.Info() },
		Log:      log, Version: "test",
		Fatal: func(err error) { p.end(kill, Failed, err) },
	}
	if m.Tune != nil {
		m.Tune(&back)
	}
	front := server.Config{Version: "test", RunID: runID, Node: m.ID, Log: log}
	if m.Front != nil {
		m.Front(&front)
	}
	n, s, err := node.Open(back, func(*cluster.Node) server.Config { return front })
	if err != nil {
		return err
	}
	l, err := processNetwork{m.world.net.From(m.ClientAddr), p}.Listen(m.ClientAddr)
	if err != nil {
		return errors.Join(err, n.Close(context.Background()))
	}
	p.node, p.server = n, s
	if m.Members == nil && m.Join != "" {
		go p.join(m.Join)
	}
	go func() {
		defer close(p.served)
		_ = s.Serve(l) // it ends with the process
	}()
	return nil
}

// join has the node added to the cluster of another one. A node that is refused ends itself.
func (p *Process) join(addr string) {
	if err := p.node.Join(context.Background(), []string{addr}, ""); err != nil && !p.closing.Load() {
		p.end(kill, Failed, err)
	}
}

// isOpen reports whether the node has started.
func (p *Process) isOpen() bool {
	select {
	case <-p.opened:
		return p.node != nil
	default:
		return false
	}
}

// isDead reports whether another process may start.
func (p *Process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// isGone reports whether its goroutines have ended.
func (p *Process) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// why returns why the process has ended itself, or nil.
func (p *Process) why() error {
	if why := p.died.Load(); why != nil {
		return *why
	}
	return nil
}

// end ends the process as seen from outside, at once: nothing that it still does reaches the network or the disk, the
// network first, so that nobody is told of what is not on the disk. Its goroutines end on their own. why is the reason
// of a process that ends itself.
func (p *Process) end(by death, how End, why error) {
	if p.silent.Swap(true) {
		<-p.dead
		return
	}
	p.machine.world.net.Kill(p.machine.PeerAddr)
	p.machine.world.net.Kill(p.machine.ClientAddr)
	p.disk.leave(p, by, how, why)
	close(p.dead)
	if !p.closing.Swap(true) {
		go p.close(context.Background(), 0, 0)
	}
}

// stop ends the process in order.
func (p *Process) stop(ctx context.Context) error {
	select {
	case <-p.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.awaken()
	if p.closing.Swap(true) {
		<-p.gone
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a process that is killed meanwhile finishes nothing
		select {
		case <-p.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	p.close(ctx, clientsStopMax, nodeStopMax)
	return nil
}

// close ends the goroutines of the process, its clients first, each part within its virtual time; with 0 at once.
func (p *Process) close(ctx context.Context, clients, rest time.Duration) {
	<-p.opened
	defer close(p.gone)
	defer p.end(kill, Stopped, nil)
	if p.node == nil {
		return
	}
	within := func(most time.Duration, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		_ = do(ctx) // what does not end in time is cut off
	}
	within(clients, p.server.Shutdown)
	within(rest, p.node.Close)
	<-p.served
}

// end ends the process that runs.
func (m *machine) end(how death) error {
	p := m.running()
	switch {
	case p != nil:
		p.end(how, WasKilled, nil)
	case how == kill:
		return fmt.Errorf("%s does not run", m.ID)
	default:
		m.diskNow().losePower(how)
	}
	return nil
}

// awaitGone waits until the goroutines of all its processes have ended.
func (m *machine) awaitGone() {
	m.mu.Lock()
	all := m.processes
	m.mu.Unlock()
	for _, p := range all {
		<-p.gone
	}
}

// wipe replaces the disk by an empty one.
func (m *machine) wipe() error {
	if m.running() != nil {
		return fmt.Errorf("%s runs", m.ID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wiped++
	m.disk = newDisk(m.ID, fmt.Sprintf("%s-%d", m.ID, m.wiped), m.world.dice.below)
	return nil
}
