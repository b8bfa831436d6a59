package target

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	// Observe has o told from now on what becomes of processes and links.
	Observe(o Observer)
	// Serving reports whether a node answers, as a member with a vote.
	Serving(node string) bool
	// Lacking are the nodes that say that they lack entries which one of the others has put
	// into a snapshot: they may need that, and until they have it no majority counts on them.
	Lacking() []string

	// Kill ends a node with SIGKILL.
	Kill(node string)
	// Shutdown ends a node in order.
	Shutdown(node string)
	// Restart starts a node that has ended. It does not wait until it serves.
	Restart(node string) error
	// Running reports whether there is a process of the node, paused or not.
	Running(node string) bool
	// Pause stops a node with SIGSTOP, Resume lets it go on.
	Pause(node string)
	Resume(node string)
	// Replace kills a node, loses its disk, and has a new one take its place. It does
	// not wait for that: Restart and Healthy see to it once the others agree.
	Replace(node string)
	// Damage kills a node and has do damage its data folder, unless that could be more
	// than the cluster promises to survive: then it only kills, and reports false. The
	// node may refuse to start on the folder; it is then replaced. late is a file whose
	// damage may be found at any start as long as it is there, "" if the next start
	// finds it or nobody ever will.
	Damage(node string, do func(dir string) (late string)) bool

	// PutBack kills a node and has its data folder be as it was in the folder copied, before
	// its last start, unless another disk is in doubt: then it only kills, and reports
	// false. Its next process may end by that, and it is then replaced.
	PutBack(node, copied string) bool

	// Fault sends a line to the fault port of a node and returns its answer.
	Fault(node, line string) (answer string, err error)
	// Arm arms a fault point of a node, which may end by it, once. Every Armed must be
	// disarmed: then the strike is over, or it never comes. A node that goes on where
	// it must end is reported with the deaths.
	Arm(node string, s Strike) (Armed, error)
	Disarm(a Armed)
	// Fill has a node's disk have no space until it is told otherwise: each process that
	// writes may end by that.
	Fill(node string, full bool)
	// LimitFiles gives the present process of a node so many file descriptors more than it
	// has open; 0: as many as it may have at all.
	LimitFiles(node string, room int) error
	// SetBuild has the next processes of a node be of a build: OtherBuild, NextBuild, or its own again.
	SetBuild(node, build string) error
	// Adopt makes a build the own one of all nodes. The former one is of no use any more, nor is OtherBuild.
	Adopt(build string)
	// Said reports whether the log of a node's present process, or its last, has a text.
	Said(node, text string) bool
	// ResetFaults disarms all points of a node, and sets its clock right.
	ResetFaults(node string)
	// Die has a node die by itself, as it would by a kill or a power failure.
	Die(node string, how Act)
	// ID is how the cluster calls a node now.
	ID(node string) string
	// Do sends a command to a node, past the proxies.
	Do(node string, timeout time.Duration, args ...string) (Reply, error)
	// Ports are the proxies by which the others reach a node.
	Ports(node string) []*Proxy
	// Ends tells which processes have ended since it was called last, and what nodes have said of that.
	Ends() Ends
	// PeerAddr is the address at which a node listens for the others, past the proxies.
	PeerAddr(node string) string
	// Connect connects to an address of Endpoint, and has the server answer a PING, both within timeout.
	Connect(addr string, timeout time.Duration) (*Conn, error)
	// Dial connects to a node, past the proxies.
	Dial(node string, timeout time.Duration) (*Conn, error)
	// Knock opens a connection to a door of a node, past the proxies, as somebody who says nothing yet: from an address
	// of the machine that nobody else has, where there is such.
	Knock(node string, d Door) (net.Conn, error)
	// Memory is how many bytes of memory a node's present process has, and the most that it had since it was asked last,
	// or began.
	Memory(node string) (now, most int64, err error)
	// Dir is a node's data folder.
	Dir(node string) string

	// Healthy waits until every node takes a write and a read.
	Healthy(ctx context.Context) error
	// Converged waits until all nodes that are not dead have applied the same, and compares
	// their states.
	Converged(ctx context.Context) error
	// Deaths are the ends of processes that nobody asked for or expected, and orders
	// they did not obey, since the last call.
	Deaths() []string
	// Dead are the nodes that have ended by themselves at each start of late, and do not run: they
	// refuse to start. One that has just been started again is waited for, for a while.
	Dead() []string
	// Races are the reports of Go's race detector in the nodes' logs since the last call.
	Races() []string
	// NotDone reports whether an error reply means that a command was certainly not done.
	NotDone(text string) bool
	// Unknown reports whether an error reply means that nobody can tell.
	Unknown(text string) bool
	// Fence is the command that asks for a lock's fencing token; nil: there is none.
	Fence(key string) []string
	// LogClock reports whether a script sees all leases at one moment, that of its entry in the
	// log: then what is left of two of them can be compared to the millisecond.
	LogClock() bool
}

// Door is where somebody may come to a node.
type Door string

// Doors.
const (
	ForClients Door = "clients" // plain bytes, also where clients speak TLS
	Inside     Door = "inside"  // the same, after TLS's handshake where clients speak TLS
	ForPeers   Door = "peers"
	ForHTTP    Door = "http"
)

// Observer is told what is recorded. Its functions may be nil; they must be quick, and call
// no method of the target.
type Observer struct {
	// Ended: a process has ended, for whatever reason, and no other one of the node has begun yet.
	Ended func(node string)
	Link  func(from, to string, s Shape) // a link gets a shape: told before it is so if it gets worse, else after
}

// Config says what to start.
type Config struct {
	Binary string // of the server
	Dir    string // for data and logs
	Nodes  int
	TLS    bool              // clients speak TLS, and peers TLS with a secret
	Args   []string          // more arguments for the server
	Builds map[string]string // the server as OtherBuild and NextBuild, as far as there are such
}

// Kind is one row of the table of targets.
type Kind struct {
	Name, Summary string
	Package       string // of this repository that is built as the server; "": nothing is
	Tags          string // it is built with them
	New           func(Config) (Target, error)
	TLS           bool // it can have that of Config
}

// Kinds is the table of targets.
var Kinds = []Kind{
	{"lockd", "lockd, one process per node", "lockd/cmd/lockd", "faults", newLockd, true},
	{"redis-sentinel", "the control: a Redis primary with replicas, and a sentinel beside each", "", "", newRedis, false},
}

// onlyHost is the one address of loopback that there is everywhere.
const onlyHost = "127.0.0.1"

// ownHost is an address of loopback that no other run has, so that none takes the
// port of a node that is down; onlyHost where there is no other.
func ownHost() string {
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		return onlyHost
	}
	_ = ln.Close()
	return host
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
