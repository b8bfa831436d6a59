package replica

import (
	"io"

	"lockd/resp"
)

// Machine is the state that the cluster replicates: a pure function of the log.
// It is not safe for concurrent use; State holds the one lock around it. Only the
// function that Snapshot returns may run while other methods do.
type Machine interface {
	// Find returns what a command calls, after the checks of Spec.Check; otherwise nil and
	// the error. Concurrent use is allowed.
	Find(args resp.Args) (*resp.Spec, resp.Reply)
	// Check looks at the arguments of a command whose Spec is known. wrong: they are wrong whatever the state is, and
	// Apply and View answer fail to such a command alone. Concurrent use is allowed.
	Check(cmd resp.Cmd) (fail resp.Reply, wrong bool)
	// Specs lists the rows of all commands. Concurrent use is allowed.
	Specs() []*resp.Spec

	// Levels are the lowest and the highest level that the machine can, 1 or more. Specs has the rows of the
	// highest; one with a Spec.Level is there from that level on. Concurrent use is allowed.
	Levels() (lowest, highest int)
	// SetLevel has a level in force, one of Levels, from the next call of Apply, View, Try or Restore on. What
	// those do follows from it alone, whatever the highest is. A new machine is at its lowest level. The
	// level is not in the machine's image.
	SetLevel(level int)
	// Formats are versions of what the state and the answers follow from at a level besides the rows,
	// by name: nodes that do not agree in all must not share a log. Concurrent use is allowed.
	Formats(level int) map[string]uint64

	// Apply moves the clocks to at.Tick and at.Wall (never back), ends the leases whose time has
	// come, and runs the requests in order. The same calls in the same order give
	// the same state, results and messages on every node. Strings of the requests
	// may alias the entry: what the machine keeps it has cloned. A request without commands
	// does nothing. Commands at the end of
	// a request may be left for another entry (resp.Result.Left), but never the first
	// command of the first request.
	Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message)
	// View runs read-only requests against the applied state and changes nothing,
	// not even what has expired. at.Tick is the leader's estimate of now, for PTTL.
	// Commands after the first may be left, as by Apply.
	View(at resp.Stamp, req resp.Request) resp.Result

	// DryRun answers a request that would change nothing as things are, without changing
	// anything; ok is false if it would, or if that can not be told. Only requests of one
	// command that may refuse (resp.Spec.MayRefuse) are tried. at.Tick is as for View.
	DryRun(at resp.Stamp, req resp.Request) (res resp.Result, ok bool)

	// Tick is the log clock, in milliseconds, as of the last Apply.
	Tick() int64
	// Wall is the latest wall time of the entries, in microseconds since 1970; 0: there was none.
	Wall() int64
	// NextDeadline is the tick at which the next lease ends (it is gone once the
	// clock is past it), or the next wait, or false when there is none.
	NextDeadline() (tick int64, ok bool)
	// Blocks returns a view of blocking commands, as of the last Apply.
	Blocks() resp.BlockView
	// KeysInSlot does a step of a walk through the keys of the first database: it looks at about most of them from
	// cursor on, 0 at first, and returns those of a slot, and the cursor to go on at; 0: there are no more. Keys that
	// are there all the time are found. It changes nothing.
	KeysInSlot(slot int, cursor uint64, most int) (keys []string, next uint64)
	// Leases looks at locks that tokens were granted, one Lease for each, without LeftMs. It
	// changes nothing.
	Leases(locks []resp.HeldLock) []resp.Lease
	// Settings lists every replicated setting as a MessageConfig, and the users as a MessageUsers.
	Settings() []resp.Message
	// FullDisks returns the nodes whose disks keep the state from growing, and the error by which commands that
	// would let the state grow (resp.DenyOOM) are refused meanwhile; "": there are none.
	FullDisks() (nodes, refusal string)
	// NameFullDisks returns the request after which FullDisks returns nodes. Concurrent use is allowed.
	NameFullDisks(nodes string) resp.Request
	// Info reports the machine's sections of INFO.
	Info() []resp.Section
	// Metrics are figures of the state, and of what this node has applied of the log.
	Metrics() []resp.Metric

	// Digest is a number that follows from all that Apply has done, and is a part of the image.
	// Machines that have done the same have the same.
	Digest() uint64

	// Snapshot marks the present state in O(1) and returns a function that writes
	// its image: sorted, so that equal states have equal images. The function may
	// run later, on another goroutine, while Apply goes on; it may run twice.
	Snapshot() func(io.Writer) error
	// Restore replaces the state by an image. On an error the state is undefined.
	Restore(io.Reader) error
}

// ForkableMachine is a machine whose state can go on in a new cluster.
type ForkableMachine interface {
	Machine
	// Totals returns how many keys there are, and the highest fence that was given.
	Totals() (keys int, lastFence uint64)
	// Fork makes fences rise above fence, forgets who waits, and grants no lock that it does not know for holdMs
	// of the log clock.
	Fork(fence uint64, holdMs int64)
}
