package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lockd/cluster"
	"lockd/cluster/clock"
	"lockd/internal/node"
	"lockd/internal/process"
	"lockd/resp/server"
)

// Times of a stop in order, as in cmd/lockd.
const (
	clientsStopMax = 15 * time.Second
	nodeStopMax    = 10 * time.Second
)

// proc is a process of a node: the parts that cmd/lockd joins, too.
type proc struct {
	world   *world
	machine *machine
	name    string
	flags   map[string]string
	control string // address of the fault port
	disk    string // data folder
	log     *log
	from    int64 // offset of its output in the log
	owner   *owner
	ended   atomic.Bool   // it reaches neither the network nor the disk any more
	exited  chan struct{} // closed at its end
	began   chan struct{} // closed when it serves, or cannot
	node    *cluster.Node // nil: it could not be opened
	server  atomic.Pointer[server.Server]
	serving sync.WaitGroup
	ending  sync.Once
	status  string
	code    int
}

func newProc(w *world, c process.Command) *proc {
	p := &proc{
		world: w, name: c.Name, machine: w.machineOf(c.Name), flags: flagsOf(c.Args), log: w.logOf(c.Log),
		owner: newOwner(), exited: make(chan struct{}), began: make(chan struct{}),
	}
	p.disk, p.from = p.flags["dir"], p.log.size()
	for _, env := range c.Env {
		if addr, ok := strings.CutPrefix(env, controlVar+"="); ok {
			p.control = addr
		}
	}
	fmt.Fprintln(p.log, c.Heading)
	return p
}

// flagsOf returns the flags of a command line whose every flag has a value.
func flagsOf(args []string) map[string]string {
	flags := map[string]string{}
	for i := 1; i+1 < len(args); i += 2 {
		flags[strings.TrimPrefix(args[i], "--")] = args[i+1]
	}
	return flags
}

// config is the configuration of the node.
func (p *proc) config(logger *slog.Logger) cluster.Config {
	members := map[string]string{}
	for _, m := range strings.Split(p.flags["cluster"], ",") {
		if id, addr, ok := strings.Cut(m, "="); ok {
			members[id] = addr
		}
	}
	return cluster.Config{
		ID: p.flags["id"], Members: members, PeerListen: p.flags["peer-listen"],
		PeerAdvertise: p.flags["peer-advertise"], ClientAddrs: []string{p.flags["advertise"]},
		KeepRoom: true, Version: "sim", Log: logger,
		Disk:    mount{p.world.diskOf(p.disk), &p.ended},
		Clock:   processClock{clock.NewSystem(), &p.machine.clock},
		Network: sockets{p},
		Fatal: func(err error) {
			logger.Error("lockd stops", "why", err)
			p.exit(false, "exit status 1", 1)
		},
	}
}

// runID is the run_id of all nodes.
const runID = "0123456789012345678901234567890123456789"

// run is the process, until it serves.
func (p *proc) run() {
	defer close(p.began)
	logger := slog.New(slog.NewTextHandler(p.log, nil))
	fail := func(err error) {
		fmt.Fprintf(p.log, "lockd: %v\n", err)
		p.exit(false, "exit status 2", 2)
	}
	opened, s, err := node.Open(p.config(logger), func(*cluster.Node) server.Config {
		return server.Config{Version: "sim", RunID: runID, Node: p.flags["id"], Log: logger}
	})
	if err != nil {
		fail(err)
		return
	}
	p.node = opened
	p.server.Store(s)
	clients, err := sockets{p}.Listen(p.flags["listen"])
	if err != nil {
		fail(err)
		return
	}
	p.serving.Go(func() { _ = s.Serve(clients) }) // it ends with the process
	if faults, err := (sockets{p}).Listen(p.control); err == nil {
		p.serving.Go(func() { p.obeyAll(faults) })
	}
}

// exit ends the process as seen from outside, at once. Power says that its machine loses power.
func (p *proc) exit(power bool, status string, code int) {
	p.ending.Do(func() {
		p.ended.Store(true)
		if power {
			p.world.diskOf(p.disk).losePower()
		}
		p.world.net.end(p.owner)
		p.status, p.code = status, code
		p.world.mu.Lock()
		delete(p.world.running, p)
		p.world.mu.Unlock()
		p.world.stopped.Go(p.clear)
		close(p.exited)
	})
}

// clear ends the goroutines of a process that has ended.
func (p *proc) clear() {
	<-p.began
	p.stop(0, 0)
	p.world.net.end(p.owner) // what was opened meanwhile
	p.serving.Wait()
}

// stop ends the goroutines of the process in order: its clients first.
func (p *proc) stop(clients, rest time.Duration) {
	if p.node == nil {
		return
	}
	within := func(most time.Duration, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		_ = do(ctx) // what does not end in time is cut off
	}
	within(clients, p.server.Load().Shutdown)
	within(rest, p.node.Close)
}

// kill ends the process as a signal does that it cannot catch, or as a power failure.
func (p *proc) kill(power bool) { p.exit(power, "signal: killed", -1) }

// terminate ends the process in order.
func (p *proc) terminate() {
	select {
	case <-p.began:
	case <-p.exited:
		return
	}
	p.stop(clientsStopMax, nodeStopMax)
	p.exit(false, "exit status 0", 0)
}

// Ended implements target.Process.
func (p *proc) Ended() <-chan struct{} { return p.exited }

// Exit implements target.Process.
func (p *proc) Exit() (status string, code int) {
	<-p.exited
	return p.status, p.code
}

// Signal implements target.Process.
func (p *proc) Signal(sig syscall.Signal) {
	switch sig {
	case syscall.SIGKILL:
		p.kill(false)
	case syscall.SIGTERM:
		p.world.stopped.Go(p.terminate)
	}
}

// Pause implements target.Process.
func (p *proc) Pause() { p.owner.pause(!p.ended.Load()) }

// Resume implements target.Process.
func (p *proc) Resume() { p.owner.pause(false) }

// PID implements target.Process: there is none.
func (p *proc) PID() int { return 0 }

// Output implements target.Process.
func (p *proc) Output() string { return p.log.from(p.from) }

// LastLines implements target.Process.
func (p *proc) LastLines(n int) []string {
	lines := strings.Split(strings.TrimRight(p.Output(), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// sockets is the network as a process sees it: the peer.Network of its node.
type sockets struct{ p *proc }

// Listen implements peer.Network.
func (s sockets) Listen(addr string) (net.Listener, error) {
	if s.p.ended.Load() {
		return nil, net.ErrClosed
	}
	return s.p.world.net.listen(s.p.owner, addr)
}

// Dial implements peer.Network.
func (s sockets) Dial(addr string, _ time.Duration) (net.Conn, error) {
	if s.p.ended.Load() {
		return nil, os.ErrDeadlineExceeded // it learns nothing of the others
	}
	conn, err := s.p.world.net.dial(s.p.owner, addr)
	if s.p.ended.Load() && err == nil {
		return nil, errors.Join(syscall.ECONNRESET, conn.Close())
	}
	return conn, err
}

// machineClock is how far the wall clock of a machine is off. It goes on when a process ends.
type machineClock struct {
	mu      sync.Mutex
	off     time.Duration // at since
	percent float64       // by which it is fast from then on
	since   time.Time
}

// set steps the clock, and changes its speed.
func (c *machineClock) set(step time.Duration, percent float64) {
	off := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.percent, c.since = off+step, percent, time.Now()
}

// reset sets the clock right.
func (c *machineClock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.percent = 0, 0
}

// now returns how far the clock is ahead.
func (c *machineClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.percent == 0 {
		return c.off
	}
	return c.off + time.Duration(float64(time.Since(c.since))*c.percent/100)
}

// processClock is the clock of one process.
type processClock struct {
	clock.System
	machine *machineClock
}

// Wall implements clock.Clock.
func (c processClock) Wall() int64 { return c.System.Wall() + c.machine.now().Microseconds() }
