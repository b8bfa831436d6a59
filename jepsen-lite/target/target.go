package target

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Target is a cluster under test. It is made of parts; a function takes the parts that it uses. All methods may be
// called concurrently, except Start and Stop.
type Target interface {
	Cluster
	Connections
	Processes
	Disks
	FaultPorts
	Builds
	Tools
	Health
	Dialect
}

// Cluster is the nodes as a whole, and what they say about themselves.
type Cluster interface {
	// Start starts all nodes and waits until they serve.
	Start(ctx context.Context) error
	// Stop kills all processes.
	Stop()
	// Nodes returns the names of the nodes.
	Nodes() []string
	// ID returns the member id that a node has now: a replaced node gets a new one.
	ID(node string) string
	// Net returns the links between the nodes, and between nodes and clients.
	Net() *Net
	// Leader returns the node that says it leads, or "".
	Leader() string
	// Serving reports whether a node answers, as a member with a vote.
	Serving(node string) bool
	// Lacking returns the nodes whose logs end before the newest snapshot of the cluster. The others may have trimmed
	// the missing entries, so such a node counts towards no majority until it has installed a snapshot.
	Lacking() []string
}

// Connections are the ways to reach nodes.
type Connections interface {
	// Endpoint returns the address at which client number id connects in its try number attempt, and the node behind it.
	Endpoint(id, attempt int) (addr, node string, err error)
	// Connect connects to an address of Endpoint and has the server answer a PING, both within timeout.
	Connect(addr string, timeout time.Duration) (*Conn, error)
	// Dial connects to a node directly, without the proxies.
	Dial(node string, timeout time.Duration) (*Conn, error)
	// Do sends a command to a node directly, without the proxies, and returns the reply.
	Do(node string, timeout time.Duration, args ...string) (Reply, error)
	// Knock opens a connection to a port of a node directly, without the proxies, and sends nothing. It comes from an
	// address of this machine that no other client has, where the system has such addresses.
	Knock(node string, d Door) (net.Conn, error)
	// Ports returns the proxies through which the other nodes reach a node.
	Ports(node string) []*Proxy
	// PeerAddr returns the address at which a node itself listens for its peers.
	PeerAddr(node string) string
}

// Processes start, stop, pause and measure the processes of nodes.
type Processes interface {
	// Kill ends a node with SIGKILL.
	Kill(node string)
	// Shutdown ends a node with SIGTERM and waits for its end.
	Shutdown(node string)
	// Restart starts a node that has ended. It does not wait until the node serves.
	Restart(node string) error
	// Running reports whether the node has a process, paused or not.
	Running(node string) bool
	// Pause stops a node with SIGSTOP.
	Pause(node string)
	// Resume continues a paused node with SIGCONT.
	Resume(node string)
	// Observe registers o for ends of processes and changes of links.
	Observe(o Observer)
	// LimitFiles lets the running process of a node open room more file descriptors than it has open; 0 sets the limit
	// back to the most that the system allows.
	LimitFiles(node string, room int) error
	// Memory returns the bytes of memory that a node's process uses now, and the most that it used since the last call,
	// or since its start.
	Memory(node string) (now, most int64, err error)
}

// Disks damage, fill and replace the data folders of nodes. At most one folder is lost or in doubt at a time, since a
// cluster of three promises to survive no more; where a second one would be harmed, the node is only killed.
type Disks interface {
	// Dir returns the path of a node's data folder. Beside it a fault may make files and folders of its own.
	Dir(node string) string
	// Folder returns the data folder of a node.
	Folder(node string) Folder
	// Replace kills a node and drops its disk. It does not wait for the replacement: Restart and Healthy remove the old
	// member and start the new one, once the other nodes agree.
	Replace(node string)
	// Damage kills a node and calls do to damage its data folder. It reports whether it called do. The node may refuse to
	// start on the folder; it is then replaced. A snapshot may be read only later, and be found damaged at any start: do
	// then returns its id, else "".
	Damage(node string, do func(Folder) (late string)) bool
	// PutBack kills a node and replaces its data folder by the folder copied, a copy from before the last start. It
	// reports whether it did. The next process may end because of that; the node is then replaced.
	PutBack(node, copied string) bool
	// Fill makes a node's disk full, or gives it space again. Each process that writes to a full disk may end because of
	// it.
	Fill(node string, full bool)
}

// FaultPorts inject faults into the running processes of test builds.
type FaultPorts interface {
	// Fault sends a line to the fault port of a node and returns the answer.
	Fault(node, line string) (answer string, err error)
	// Arm arms a fault point of a node. The node may end because of it, once. The caller disarms every Armed: by then the
	// strike has happened, or never will. A node that lives on after a strike that must end it is reported with the
	// deaths.
	Arm(node string, s Strike) (Armed, error)
	Disarm(a Armed)
	// ResetFaults disarms all points of a node and corrects its clock.
	ResetFaults(node string)
	// Die makes a node kill itself, or lose what it has not synced as in a power failure.
	Die(node string, how Act)
}

// Builds choose the programs that nodes run.
type Builds interface {
	// SetBuild makes later processes of a node run a build: OwnBuild, OtherBuild, NextBuild or FormerBuild. A process of
	// FormerBuild may end because it is too old.
	SetBuild(node, build string) error
	// Adopt makes a build the OwnBuild of all nodes, and the former one the FormerBuild. OtherBuild cannot be used from
	// then on.
	Adopt(build string)
	// Logged reports whether the running process of a node, or its last one, has logged a text.
	Logged(node, text string) bool
}

// Health tells after a run whether the nodes are well.
type Health interface {
	// Healthy waits until every node takes a write and a read.
	Healthy(ctx context.Context) error
	// Converged waits until all nodes that are not dead have applied the same entries, and compares their states.
	Converged(ctx context.Context) error
	// Deaths returns, since the last call, the ends of processes that nobody asked for or expected, and the orders that
	// nodes did not obey.
	Deaths() []string
	// Dead returns the nodes that do not run and ended by themselves at each recent start: they refuse to start. It waits
	// a while for a node that was started just now.
	Dead() []string
	// Ends returns the processes that ended since the last call, and what nodes logged about such ends.
	Ends() Ends
	// Races returns the reports of Go's race detector in the nodes' logs since the last call.
	Races() []string
}

// Dialect interprets replies of the target's server.
type Dialect interface {
	// NotDone reports whether an error reply means that a command was certainly not done.
	NotDone(text string) bool
	// Unknown reports whether an error reply means that the outcome is unknown.
	Unknown(text string) bool
	// Fence returns the command that reads a lock's fencing token, or nil if the server has none.
	Fence(key string) []string
	// LogClock reports whether a script sees all leases at the time of its log entry, so that the remaining times of two
	// leases can be compared to the millisecond.
	LogClock() bool
}

// Door is a port of a node, and how far a connection gets there.
type Door string

// Doors.
const (
	ForClients Door = "clients" // the port for clients, before any TLS handshake
	Inside     Door = "inside"  // the port for clients, after the TLS handshake where clients use TLS
	ForPeers   Door = "peers"
	ForHTTP    Door = "http"
)

// Observer receives events for the history. Its functions may be nil; they return quickly and call no method of the
// target.
type Observer struct {
	// Ended is called when a process has ended for any reason, before the next one of the node starts.
	Ended func(node string)
	// Link is called when a link changes: before the change if the link gets worse, else after it.
	Link func(from, to string, s Shape)
}

// Config describes the cluster to start.
type Config struct {
	Binary string // of the server
	Dir    string // for data and logs
	Nodes  int
	TLS    bool              // clients speak TLS, and peers TLS with a secret
	Args   []string          // more arguments for the server
	Builds map[string]string // binaries of OtherBuild and NextBuild, where they exist
	Seed   uint64            // decides what is drawn of simulated machines
}

// Kind is one row of the table of targets.
type Kind struct {
	Name, Summary string
	Package       string // of this repository that is built as the server, or ""
	Tags          string // build tags of the package
	New           func(Config) (Target, error)
	TLS           bool // whether Config.TLS is supported
	Simulated     bool // the nodes run in this program, in virtual time
}

// Kinds is the table of targets.
var Kinds = []Kind{
	{"lockd", "lockd, one process per node", "lockd/cmd/lockd", "faults", newLockd, true, false},
	{"redis-sentinel", "the control: a Redis primary with replicas, and a sentinel beside each", "", "", newRedis, false, false},
}

// onlyHost is the loopback address that every system has.
const onlyHost = "127.0.0.1"

// ownHost returns a loopback address that other runs do not use, so that none of them takes the port of a node that is
// down. Where the system has only onlyHost, it returns that.
func ownHost() string {
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		return onlyHost
	}
	_ = ln.Close()
	return host
}

// poll calls try until it returns no error or ctx ends; then it returns the last error.
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
