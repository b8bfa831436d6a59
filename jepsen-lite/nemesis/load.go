package nemesis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// Sizes and times of loads. Their keys have a prefix of their own, and a lease, since a write of unknown outcome may
// take effect after they were removed.
const (
	loadPrefix    = "load:"
	loadLease     = "60" // seconds
	burstClients  = 64
	burstPipeline = 32
	largeClients  = 4
	largeBytes    = 512 << 10
	idleClients   = 5000
	idlePingers   = 16
	idlePing      = time.Second // mean time between two PINGs of a pinger
	scriptClients = 4
	loadAnswerMax = 4 * time.Second
	loadCleanMax  = 5 * time.Second
)

// loads are the variants of load.
var loads = map[string]func(f *field, dice uint64) (what string, stop func()){
	"burst":       burst,
	"large":       large,
	"connections": connections,
	"scripts":     heavyScripts,
}

// load adds many clients that do more than usual. Their operations are not judged.
func load(f *field, fault Fault) (string, func()) {
	what, stop := loads[fault.Variant](f, fault.Dice)
	return "load " + what, stop
}

// entrance is where clients connect.
type entrance interface {
	Nodes() []string
	Endpoint(id, attempt int) (addr, node string, err error)
	Connect(addr string, timeout time.Duration) (*target.Conn, error)
}

// extraClients are clients of a fault, besides those of the workload. Their operations are not judged.
type extraClients struct {
	entrance
	pace time.Duration // see Runner.Pace
	idle int           // see Runner.Idle
}

// crowd starts n clients, each on a connection of its own to one of the nodes. Each calls step again and again until stop
// is called.
func (x extraClients) crowd(n int, step func(c *target.Conn, id int) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for id := range n {
		all.Go(func() {
			for attempt := 0; ctx.Err() == nil; attempt++ {
				x.visit(ctx, id, attempt, step)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// visit makes a connection and calls step until it breaks.
func (x extraClients) visit(ctx context.Context, id, attempt int, step func(c *target.Conn, id int) error) {
	c, err := x.dial(id, attempt)
	if err != nil {
		sleep(ctx, 50*time.Millisecond)
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	for ctx.Err() == nil && step(c, id) == nil {
		if x.pace > 0 {
			sleep(ctx, x.pace)
		}
	}
}

// dial connects client number id to a node, as the clients of the workload do.
func (x extraClients) dial(id, attempt int) (*target.Conn, error) {
	addr, _, err := x.Endpoint(id, attempt)
	if err != nil {
		return nil, err
	}
	return x.Connect(addr, time.Second)
}

// dialNode connects to a node, as the clients of the workload do.
func (x extraClients) dialNode(node string) (*target.Conn, error) {
	for id := range x.Nodes() {
		if addr, at, err := x.Endpoint(id, 0); err != nil || at == node {
			if err != nil {
				return nil, err
			}
			return x.Connect(addr, time.Second)
		}
	}
	return nil, fmt.Errorf("no client comes to %s", node)
}

// do sends a command through one of the nodes and reports whether it was done.
func (x extraClients) do(attempt int, cmd []string) bool {
	c, err := x.dial(0, attempt)
	if err != nil {
		return false
	}
	defer c.Close()
	r, err := c.Do(loadAnswerMax, cmd...)
	return err == nil && !r.IsErr()
}

// cleanAfter returns a function that calls stop and then removes the keys of a load.
func (x extraClients) cleanAfter(stop func(), keys int) func() {
	return func() {
		stop()
		del := []string{"DEL"}
		for id := range keys {
			del = append(del, loadKey(id))
		}
		for attempt, until := 0, time.Now().Add(loadCleanMax); time.Now().Before(until); attempt++ {
			if x.do(attempt, del) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// burst pipelines small writes.
func burst(f *field, _ uint64) (string, func()) {
	stop := f.clients.crowd(burstClients, func(c *target.Conn, id int) error {
		cmds := make([][]string, burstPipeline)
		for i := range cmds {
			cmds[i] = []string{"SET", loadKey(id), strconv.Itoa(i), "EX", loadLease}
		}
		_, err := c.Pipe(loadAnswerMax, cmds...)
		return err
	})
	return fmt.Sprintf("burst of %d clients, pipelines of %d",
		burstClients, burstPipeline), f.clients.cleanAfter(stop, burstClients)
}

// large writes and reads large values.
func large(f *field, dice uint64) (string, func()) {
	value := strings.Repeat(string(rune('a'+dice%26)), largeBytes)
	stop := f.clients.crowd(largeClients, func(c *target.Conn, id int) error {
		_, err := c.Pipe(
			loadAnswerMax,
			[]string{"SET", loadKey(id), value, "EX", loadLease},
			[]string{"GET", loadKey(id)},
		)
		return err
	})
	return fmt.Sprintf("large values, %d clients", largeClients), f.clients.cleanAfter(stop, largeClients)
}

// heavyScripts runs scripts that reach the limit.
func heavyScripts(f *field, _ uint64) (string, func()) {
	stop := f.clients.crowd(scriptClients, func(c *target.Conn, _ int) error {
		_, err := c.Do(loadAnswerMax, "EVAL", "while true do end", "0")
		return err
	})
	return fmt.Sprintf("scripts up to the limit, %d at once", scriptClients), stop
}

// File descriptors of this process. A connection takes three: both of its ends, and the proxy's connection to the node.
const (
	fdsPerClient = 3
	fdsElse      = 1000
)

// connections opens thousands of connections that are mostly idle.
func connections(f *field, _ uint64) (string, func()) {
	count := cmp.Or(f.clients.idle, idleClients)
	what := fmt.Sprintf("connections: %d", count)
	if files := filesMax(); f.clients.idle == 0 && (files-fdsElse)/fdsPerClient < count {
		count = max((files-fdsElse)/fdsPerClient, 0)
		what = fmt.Sprintf("connections: %d of %d, as this process may have only %d files", count, idleClients, files)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for part := range idlePingers {
		all.Go(func() {
			idle(ctx, count/idlePingers, func(i int) (*target.Conn, error) { return f.clients.dial(part+i, 0) })
		})
	}
	return what, func() {
		cancel()
		all.Wait()
	}
}

// idle opens count connections with dial and has one of them PING now and then, until ctx ends.
func idle(ctx context.Context, count int, dial func(i int) (*target.Conn, error)) {
	var open []*target.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := 0; len(open) < count && ctx.Err() == nil; i++ {
		c, err := dial(i)
		if err != nil {
			sleep(ctx, 50*time.Millisecond)
			continue
		}
		open = append(open, c)
	}
	for i := 0; sleep(ctx, idlePing) && len(open) > 0; i++ {
		_, _ = open[i%len(open)].Do(loadAnswerMax, "PING") // it may be broken
	}
}

func loadKey(id int) string { return loadPrefix + strconv.Itoa(id) }

// A node gets scarceRoom file descriptors more than it has open, and more clients connect than that. The node reserves
// 256 of them for itself and for new connections to its peer port, so few of the clients are accepted. Strangers to the
// peer port send nothing.
const (
	scarceRoom      = 276
	scarceClients   = 400
	scarceStrangers = 300
	scarceDiallers  = 8
	scarceStay      = time.Second // of a stranger
	scarceWrites    = time.Second // between two writes that fill a file of the log
)

// descriptors leaves a node few file descriptors, and connects many clients. The node must reject connections that it
// has no descriptors for, and go on: its log needs new files meanwhile.
func descriptors(f *field, fault Fault) (string, func()) {
	who, strangers, _ := strings.Cut(fault.Variant, " ")
	node := f.victims(who, fault.Dice)[0]
	what := fmt.Sprintf("descriptors %s %s: %d more, %d clients", fault.Variant, node, scarceRoom, scarceClients)
	if err := f.Target.LimitFiles(node, scarceRoom); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	ctx, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range scarceDiallers {
		all.Go(func() {
			idle(ctx, scarceClients/scarceDiallers, func(int) (*target.Conn, error) { return f.clients.dialNode(node) })
		})
		if strangers != "" {
			all.Go(func() { intrude(ctx, f.Target.PeerAddr(node), scarceStrangers/scarceDiallers) })
		}
	}
	value := strings.Repeat("x", lackBytes)
	stop := repeat(scarceWrites, func() {
		_, _ = f.Target.Do(f.others(node)[0], scarceWrites, "SET", provokeKey, value) // it fails while no node leads
	})
	return what, func() {
		stop()
		_ = f.Target.LimitFiles(node, 0) // a new process starts with the full limit
		leave()
		all.Wait()
	}
}

// intrude keeps count silent connections to an address open, each for a while.
func intrude(ctx context.Context, addr string, count int) {
	open := make([]net.Conn, count)
	defer func() {
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := 0; sleep(ctx, scarceStay/time.Duration(count)); i = (i + 1) % count {
		if open[i] != nil {
			_ = open[i].Close()
		}
		// a node without a free descriptor accepts it later, or never
		open[i], _ = net.DialTimeout("tcp", addr, time.Second)
	}
}
