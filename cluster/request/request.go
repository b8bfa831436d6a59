// Package request brings requests of clients to where they are done: into the log, or to a confirmed read, on the node
// that leads. It tries again what is certainly not done, and finds out from the log what became of a write whose answer
// is lost.
//
// Router is the way of a request. It leads to two doors: Proposer, the one to the log, and Reader. Attempts are the
// writes that are under way.
//
// The files, from top to bottom: run.go (a request, until it is done or its time is over), indoubt.go (what became of a
// write whose answer is lost), route.go (one attempt), read.go (rounds of questions), propose.go (the door to the log),
// recall.go (what must not be logged any more), queue.go (what waits for either door), request.go (what requests use of
// their node). DESIGN.md of package cluster gives the reasons.
package request

import (
	"context"
	"fmt"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
	"lockd/resp/fault"
)

// Config holds what requests use of their node.
type Config struct {
	Self       string // id of this node
	LeaderWait time.Duration
	Heartbeat  time.Duration
	Clock      clock.Clock
	Raft       *group.Group
	Lead       *clock.CurrentTerm
	Changed    *wake.Broadcast // the leader has changed
	Due        chan struct{}   // capacity 1: signals that the proposer has something to do
	Stop       <-chan struct{}
	State      *replica.State
	Peers      *peer.Port
	Clocks     *clock.Members
	Commands   Commands
	NotDone    string // the error after which clients send a command again

	// Own runs a command about the cluster on this node, which leads.
	Own func(context.Context, resp.Cmd) (peer.Outcome, resp.Reply)
	// TermOf returns a context that ends with ctx, or when the term of a leader is over and no answer comes any more. ok
	// is false if another node leads by now.
	TermOf func(ctx context.Context, leader string) (term context.Context, cancel context.CancelFunc, ok bool)
	// Gone reports whether the process of a member has ended.
	Gone func(id string) bool
	// Listening reports whether clients of this node listen to messages.
	Listening func() bool
	// Fatal ends the process.
	Fatal func(error)
	// Faults strike a simulated node; nil in a process.
	Faults *fault.Set
}

// Commands are all that clients may send. The methods are called concurrently.
type Commands interface {
	// Identify looks up the row of each command that has none yet.
	Identify([]resp.Cmd)
	// IsOwn reports whether a request is a command about the node, which is then its only one.
	IsOwn([]resp.Cmd) bool
	// Fits returns why the log must not hold a request; nil: it may. The commands have their Spec afterwards.
	Fits(resp.Request) error
}

// Times and limits.
const (
	// CommitWaitMax bounds the time that an entry may be on its way before its requests are
	// answered as unknown.
	CommitWaitMax = 10 * time.Second
	// EnqueueWaitMax bounds the time that Raft may take to accept an entry; after it the entry
	// is certainly not in the log.
	EnqueueWaitMax = 5 * time.Second
	// entriesInFlightMax bounds the entries that are on their way at a time: one that the
	// leader writes to its disk, and one before it that the others write to theirs.
	entriesInFlightMax = 2
	// queueBytesMax bounds the requests that wait for an entry, and those that wait for a round.
	queueBytesMax = 256 << 20
)

// New returns the way of the requests of a node. Proposer.Run and Reader.Run serve what comes.
func New(cfg Config) *Router {
	p := newProposer(&cfg)
	return &Router{Config: &cfg, Attempts: newAttempts(), Proposer: p, Reader: newReader(&cfg, p)}
}

// Fail answers every command of a request that failed as a whole, and one without commands once.
func Fail(req resp.Request, text string) resp.Result {
	replies := make([]resp.Reply, max(1, len(req.Cmds)))
	for i := range replies {
		replies[i] = resp.Err(text)
	}
	return resp.Result{Replies: replies, Failed: true}
}

// TooLarge is the error of a request that is larger than an entry may be.
var TooLarge = fmt.Sprintf("ERR request is larger than %d bytes: nothing was executed", record.RequestBytesMax)
