package target

import (
	"context"
	"net"
	"time"
)

// Target is a cluster under test. Its methods may be called concurrently, except
// Start and Stop.
type Target interface {
	// Start starts all nodes and waits until they serve.
	Start(ctx context.Context) error
	// Stop kills what runs.
	Stop()
	// Nodes are the names of the nodes.
	Nodes() []string
	// Endpoint is where client number id should connect at its try number attempt;
	// node names the node behind it.
	Endpoint(id, attempt int) (addr, node string, err error)
	// Net is the links.
	Net() *Net
	// Leader is the node that says it leads, "" if none does.
	Leader() string

	// Kill ends a node with SIGKILL.
	Kill(node string)
	// Shutdown ends a node in order.
	Shutdown(node string)
	// Restart starts a node that has ended. It does not wait until it serves.
	Restart(node string) error
	// Pause stops a node with SIGSTOP, Resume lets it go on.
	Pause(node string)
	Resume(node string)
	// Replace kills a node, loses its disk, and has a new one take its place. It does
	// not wait for that: Restart and Healthy see to it once the others agree.
	Replace(node string)
	// ID is how the cluster calls a node now.
	ID(node string) string
	// Do sends a command to a node, past the proxies.
	Do(node string, timeout time.Duration, args ...string) (Reply, error)
	// Dir is a node's data folder.
	Dir(node string) string

	// Healthy waits until every node takes a write and a read.
	Healthy(ctx context.Context) error
	// Converged waits until all nodes have applied the same, and compares their states.
	Converged(ctx context.Context) error
	// Deaths are the ends of processes that nobody asked for, since the last call.
	Deaths() []string
	// NotDone reports whether an error reply means that a command was certainly not done.
	NotDone(text string) bool
	// Unknown reports whether an error reply means that nobody can tell.
	Unknown(text string) bool
	// Fence is the command that asks for a lock's fencing token; nil: there is none.
	Fence(key string) []string
}

// Config says what to start.
type Config struct {
	Binary string // of the server
	Dir    string // for data and logs
	Nodes  int
	Args   []string // more arguments for the server
}

// Kind is one row of the table of targets.
type Kind struct {
	Name, Summary string
	Package       string // of this repository that is built as the server; "": nothing is
	New           func(Config) (Target, error)
}

// Kinds is the table of targets.
var Kinds = []Kind{
	{"lockd", "lockd, one process per node", "lockd/cmd/lockd", newLockd},
	{"redis-sentinel", "the control: a Redis primary with replicas, and a sentinel beside each", "", newRedis},
}

// freePorts finds n free ports of loopback. Another process could take one before
// it is used; the start then fails and says so.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// poll calls try until it gives no error or ctx ends; then its last error counts.
func poll(ctx context.Context, every time.Duration, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !wait(every, ctx.Done()) {
			return err
		}
	}
}
