package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lockd/internal/process"
	"lockd/jepsen-lite/target"
)

// Kind is the row of the table of targets.
var Kind = target.Kind{
	Name:      "sim",
	Summary:   "lockd, all nodes in this program: virtual time; network, disks and clocks in memory",
	New:       New,
	Simulated: true,
}

// simulated is a Target on simulated machines.
type simulated struct {
	target.Target
	world *world
}

// New prepares a cluster on simulated machines. It must be called, and used, in a Bubble.
func New(c target.Config) (target.Target, error) {
	w := newWorld(c.Seed)
	t, err := target.On(w, w.chance, c)
	return &simulated{t, w}, err
}

// Stop implements target.Target. All that runs ends with it.
func (c *simulated) Stop() {
	c.Target.Stop()
	c.world.close()
}

// SaveLogs writes the logs of the nodes to where processes would have written them.
func (c *simulated) SaveLogs() error { return c.world.saveLogs() }

// world is the host of the nodes: its machines, and what the seed decides of them.
type world struct {
	net     *network
	ports   atomic.Int64
	traits  traits
	stopped sync.WaitGroup // the goroutines of processes that have ended

	mu       sync.Mutex
	dice     *rand.Rand
	machines map[string]*machine // by node
	disks    map[string]*disk    // by data folder
	logs     map[string]*log     // by path
	running  map[*proc]bool
}

// traits are the properties of the machines, as drawn from the seed.
type traits struct {
	message time.Duration // mean delay of a message
	sync    time.Duration // of a write to a disk
}

// messageMax and syncMax bound the usual delays of messages and disks.
const (
	messageMax = 2 * time.Millisecond
	syncMax    = 4 * time.Millisecond
)

func newWorld(seed uint64) *world {
	w := &world{
		dice: rand.New(rand.NewPCG(seed, 0x73696d)), machines: map[string]*machine{},
		disks: map[string]*disk{}, logs: map[string]*log{}, running: map[*proc]bool{},
	}
	w.traits = traits{message: w.draw(messageMax), sync: w.draw(syncMax)}
	w.net = newNetwork(w.messageDelay)
	return w
}

// draw draws a usual delay: mostly a short one.
func (w *world) draw(most time.Duration) time.Duration {
	share := w.dice.Float64()
	return time.Duration(share * share * float64(most)).Round(time.Microsecond)
}

// messageDelay draws how long a message is on its way.
func (w *world) messageDelay() time.Duration {
	if w.traits.message == 0 {
		return 0
	}
	return w.traits.message/2 + time.Duration(w.chance(int64(w.traits.message)))
}

// chance returns a random number below n.
func (w *world) chance(n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.Int64N(n)
}

// machine is what a node keeps when its process ends, except its disk.
type machine struct {
	clock machineClock
}

// machineOf returns the machine of a node, which is there from its first start on.
func (w *world) machineOf(node string) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[node]
	if m == nil {
		m = &machine{}
		w.machines[node] = m
	}
	return m
}

// diskOf returns the disk that holds a data folder.
func (w *world) diskOf(dir string) *disk {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.disks[dir]
	if d == nil {
		d = newDisk(filepath.Base(dir))
		d.slow(w.traits.sync)
		w.disks[dir] = d
	}
	return d
}

// logOf returns the log of a path.
func (w *world) logOf(path string) *log {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[path]
	if l == nil {
		l = &log{}
		w.logs[path] = l
	}
	return l
}

// Addrs implements target.Host.
func (w *world) Addrs(_ string, n int) (addrs []string, err error) {
	for range n {
		addrs = append(addrs, fmt.Sprintf("sim:%d", w.ports.Add(1)))
	}
	return addrs, nil
}

// Listen implements target.Host.
func (w *world) Listen(addr string) (net.Listener, error) { return w.net.listen(nil, addr) }

// Dial implements target.Host. It connects at once, or not at all.
func (w *world) Dial(addr string, _ time.Duration) (net.Conn, error) { return w.net.dial(nil, addr) }

// Start implements target.Host.
func (w *world) Start(c process.Command) (target.Process, error) {
	p := newProc(w, c)
	w.mu.Lock()
	w.running[p] = true
	w.mu.Unlock()
	go p.run()
	return p, nil
}

// LogFrom implements target.Host.
func (w *world) LogFrom(path string, offset int64) string { return w.logOf(path).from(offset) }

// LogSize implements target.Host.
func (w *world) LogSize(path string) (int64, error) { return w.logOf(path).size(), nil }

// saveLogs writes all logs to their files.
func (w *world) saveLogs() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, l := range w.logs {
		err = errors.Join(err, os.WriteFile(path, []byte(l.from(0)), 0o600))
	}
	return err
}

// close ends all processes, and waits until their goroutines have ended.
func (w *world) close() {
	w.mu.Lock()
	var running []*proc
	for p := range w.running {
		running = append(running, p)
	}
	w.mu.Unlock()
	for _, p := range running {
		p.kill(false)
	}
	w.stopped.Wait()
	w.net.closeAll(func(*owner) bool { return true })
}

// log is what the processes of a node have written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.text.Len())
}

func (l *log) from(offset int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text.Bytes()[min(offset, int64(l.text.Len())):])
}
