package cluster

import (
	"io"

	"lockd/resp"
)

// Machine is the state that the cluster replicates: a pure function of the log.
// It is not safe for concurrent use; Node holds the one lock around it. Only the
// function that Snapshot returns may run while other methods do.
type Machine interface {
	// Find returns what a command calls, after the checks of Spec.Check; otherwise nil and
	// the error. Concurrent use is allowed.
	Find(args resp.Args) (*resp.Spec, resp.Reply)
	// Specs lists the rows of all commands. Concurrent use is allowed.
	Specs() []*resp.Spec

	// Formats are versions of what the state and the answers follow from besides the rows,
	// by name: nodes that do not agree in all must not share a log.
	Formats() map[string]uint64

	// Apply moves the clock to at.Tick (never back), ends the leases whose time has
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

	// Try answers a request that would change nothing as things are, without changing
	// anything; ok is false if it would, or if that can not be told. Only requests of one
	// command that may refuse (resp.Spec.MayRefuse) are tried. at.Tick is as for View.
	Try(at resp.Stamp, req resp.Request) (res resp.Result, ok bool)

	// Tick is the log clock, in milliseconds, as of the last Apply.
	Tick() int64
	// NextDeadline is the tick at which the next lease ends (it is gone once the
	// clock is past it), or the next wait, or false when there is none.
	NextDeadline() (tick int64, ok bool)
	// Blocked says what is known of a blocking command. Its end is told by one
	// MessageBlock; see resp.BlockAsk.
	Blocked(id resp.BlockID) resp.BlockState
	// Settings lists every replicated setting as a MessageConfig.
	Settings() []resp.Message
	// Info reports the machine's sections of INFO.
	Info() []resp.Section

	// Digest is a number that follows from all that Apply has done since BeginDigest, and
	// is a part of the image; 0: it has not begun. Machines that have done the same have the
	// same.
	Digest() uint64
	BeginDigest()

	// Snapshot marks the present state in O(1) and returns a function that writes
	// its image: sorted, so that equal states have equal images. The function may
	// run later, on another goroutine, while Apply goes on; it may run twice.
	Snapshot() func(io.Writer) error
	// Restore replaces the state by an image. On an error the state is undefined.
	Restore(io.Reader) error
}

// Publisher hands messages to the clients of this node. It never blocks.
type Publisher interface {
	// Publish delivers messages, in order. Called from the goroutine that applies.
	Publish(msgs []resp.Message)
	// DropSubscribers closes every subscribed connection of this node, so that its
	// client subscribes again and looks again: messages may have been missed. Clients
	// that track keys (MessageChanges) are told to forget what they have cached.
	DropSubscribers(why string)
	// Listening reports whether messages reach anybody: then the reply to a write is held
	// until they have been published here.
	Listening() bool
}
