package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"lockd/clustertest"
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

// world is the host of the nodes: their machines, and what the seed decides of them.
type world struct {
	machines *clustertest.World
	traits   traits
	serving  sync.WaitGroup // the goroutines of processes here

	mu    sync.Mutex
	dice  *rand.Rand
	ports int                          // addresses so far
	known map[string]bool              // ids of nodes with a machine, and the ports of nodes
	logs  map[string]*log              // by path
	full  map[string]bool              // disks that are full, by the file that says so
	fills map[string]string            // ids of nodes, by that file
	disks map[string]*clustertest.Disk // by the path of the data folder
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
		machines: clustertest.NewWorld(seed), dice: rand.New(rand.NewPCG(seed, 0x73696d)),
		known: map[string]bool{}, logs: map[string]*log{}, full: map[string]bool{}, fills: map[string]string{},
		disks: map[string]*clustertest.Disk{},
	}
	w.traits = traits{message: w.draw(messageMax), sync: w.draw(syncMax)}
	w.machines.Network().SetDelays(w.delay)
	return w
}

// delay returns how messages of a connection are delayed: not between two parts of this program, nor on the way of a
// node to one.
func (w *world) delay(_, to string) func() time.Duration {
	if !w.knows(to) {
		return nil
	}
	return w.messageDelay
}

// knows reports whether something is the id or a port of a node.
func (w *world) knows(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[what]
}

// add adds a machine, unless it is there. dir is the data folder of its node, control the address of the fault port.
func (w *world) add(m clustertest.Machine, dir, control string) error {
	if w.knows(m.ID) {
		return nil
	}
	if err := w.machines.Add(m); err != nil {
		return err
	}
	disk := w.machines.Disk(m.ID)
	disk.SetLatency(w.traits.sync)
	w.mu.Lock()
	defer w.mu.Unlock()
	if made := w.disks[dir]; made != nil {
		disk.CopyFrom(made)
	}
	w.disks[dir] = disk
	for _, what := range []string{m.ID, m.PeerAddr, m.ClientAddr, control} {
		w.known[what] = true
	}
	return nil
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
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.ports++
		addrs = append(addrs, fmt.Sprintf("sim:%d", w.ports))
	}
	return addrs, nil
}

// here is the address of this program in the network.
const here = "jepsen-lite"

// Listen implements target.Host.
func (w *world) Listen(addr string) (net.Listener, error) {
	return w.machines.Network().From(here).Listen(addr)
}

// Dial implements target.Host.
func (w *world) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	return w.machines.Network().From(here).Dial(addr, timeout)
}

// Start implements target.Host.
func (w *world) Start(c process.Command) (target.Process, error) {
	p, err := newProc(w, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Fill implements target.Host.
func (w *world) Fill(file string, full bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full[file] = full
	if id := w.fills[file]; id != "" {
		w.machines.Disk(id).SetFull(full)
	}
	return nil
}

// looks notes by which file a node knows that its disk is full.
func (w *world) looks(id, file string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fills[file] = id
	w.machines.Disk(id).SetFull(w.full[file])
}

// LogFrom implements target.Host.
func (w *world) LogFrom(path string, offset int64) string { return w.logOf(path).from(offset) }

// LogSize implements target.Host.
func (w *world) LogSize(path string) (int64, error) { return w.logOf(path).size(), nil }

// saveLogs writes all logs to their files, but for those in folders that a fault has removed.
func (w *world) saveLogs() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, l := range w.logs {
		if failed := os.WriteFile(path, []byte(l.from(0)), 0o600); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// close ends all processes, and waits until their goroutines have ended.
func (w *world) close() {
	w.machines.Close()
	w.serving.Wait()
}

// log keeps the output of the processes of a node.
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
