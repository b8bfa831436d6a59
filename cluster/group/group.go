// Package group wraps hashicorp/raft for the parts of a node: the members, this node's role, and a log for slog.
package group

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ErrHalted is the error of an operation that ends because this node stops.
var ErrHalted = errors.New("this node has stopped")

// Group is Raft with the questions of a node's parts: the members, and whether this node follows or leads them. Its
// methods may be called concurrently once Started is set.
type Group struct {
	*raft.Raft // nil until Raft has been made
	Self       raft.ServerID
	Started    atomic.Bool // Raft may be asked
	stop       <-chan struct{}
}

// New returns a group of the node id without its Raft; it stops when stop is closed.
func New(id string, stop <-chan struct{}) *Group {
	return &Group{Self: raft.ServerID(id), stop: stop}
}

// Servers lists all members; none if Raft has stopped.
func (g *Group) Servers() []raft.Server {
	f := g.GetConfiguration() // answers from memory, at once
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// StartedServers lists all members; none before Raft has started.
func (g *Group) StartedServers() []raft.Server {
	if !g.Started.Load() {
		return nil
	}
	return g.Servers()
}

// Voters lists the members that have a vote, as of the latest configuration.
func (g *Group) Voters() []raft.Server {
	servers := g.Servers()
	voters := make([]raft.Server, 0, len(servers))
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s)
		}
	}
	return voters
}

// Others returns the number of other voters, for WAIT and connected_slaves. It does not depend on which voters answer:
// a commit needs a majority anyway, and a client that compares the two figures must not see them differ.
func (g *Group) Others() int64 {
	return int64(max(len(g.Voters())-1, 0))
}

// Alone reports whether this node is the only voter.
func (g *Group) Alone() bool {
	voters := g.Voters()
	return len(voters) == 1 && voters[0].ID == g.Self
}

// IDAt returns the id of the member at a peer address; "": none. The answer of another node at that address must not
// count as the member's.
func (g *Group) IDAt(addr string) string {
	for _, s := range g.StartedServers() {
		if string(s.Address) == addr {
			return string(s.ID)
		}
	}
	return ""
}

// Follows reports whether this node follows the leader of term.
func (g *Group) Follows(term uint64) bool {
	return g.Started.Load() && g.State() == raft.Follower && g.CurrentTerm() == term
}

// ReplicatesTo reports whether this node leads in term and the member is still at that address.
func (g *Group) ReplicatesTo(term uint64, id raft.ServerID, addr raft.ServerAddress) bool {
	if !g.Started.Load() || g.State() != raft.Leader || g.CurrentTerm() != term {
		return false
	}
	return slices.ContainsFunc(g.Servers(), func(s raft.Server) bool { return s.ID == id && s.Address == addr })
}

// Wait waits for a future of Raft until ctx ends or this node stops: after Raft's shutdown a future may never complete.
func (g *Group) Wait(ctx context.Context, f raft.Future) error {
	answer := make(chan error, 1)
	go func() { answer <- f.Error() }()
	return g.Await(ctx, answer)
}

// Await waits for an answer until ctx ends or this node stops.
func (g *Group) Await(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stop:
		return ErrHalted
	}
}

// Stopping reports whether this node stops.
func (g *Group) Stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}
