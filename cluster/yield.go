package cluster

import (
	"errors"

	"github.com/hashicorp/raft"
)

// A leader whose disk hangs answers nobody, and Raft goes on leading (raft#503), until the
// store ends the process (store.Options.StallMax). The others can do without it: they have
// what it has sent while its disk did not write. So a leader whose append has not ended
// after a fifth of that time has the best of them stand for election, and sends nothing
// more until its disk is back, so that they elect another also if that message is lost.

// errYields is what Raft hears instead of an answer. It gives up when it hears of no
// majority for its lease.
var errYields = errors.New("the disk of this node hangs: it lets another one lead")

// yields reports whether this node must not lead now, nor stand for election.
func (t *transport) yields() bool {
	n := t.n
	if !n.stores.Slow() {
		t.yielding.Store(false)
		return false
	}
	if t.yielding.Load() || !n.raft.started.Load() {
		return t.yielding.Load()
	}
	if n.raft.State() != raft.Leader {
		return true // a candidate
	}
	next := t.prepared()
	if next == nil {
		return false // nobody could lead without this node
	}
	if !t.yielding.Swap(true) {
		n.log.Warn("the disk has not taken an entry for a while: another node shall lead",
			"limit", n.stores.SlowAfter(), "next", next.ID)
		go func() {
			req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
				ProtocolVersion: raft.ProtocolVersionMax,
				ID:              []byte(n.cfg.ID),
				Addr:            []byte(*n.members.advertise.Load()),
			}}
			_ = t.TimeoutNow(next.ID, next.Address, req, &raft.TimeoutNowResponse{}) // else they notice the silence
		}()
	}
	return true
}

// prepared is a voter that has the whole log on its disk; nil if those that have, and
// answer, are no majority without this node: then they wait for their disks, too.
func (t *transport) prepared() *raft.Server {
	n := t.n
	voters, last := n.raft.voters(), n.raft.LastIndex()
	var next *raft.Server
	have := 0
	for i, v := range voters {
		if n.acked.silent(v.ID) < n.cfg.Heartbeat && n.announcer.has(v.ID) >= last {
			have++
			next = &voters[i]
		}
	}
	if have < len(voters)/2+1 {
		return nil
	}
	return next
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(
	id raft.ServerID,
	target raft.ServerAddress,
	args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if t.yields() {
		return errYields
	}
	return t.NetworkTransport.RequestPreVote(id, target, args, resp)
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(
	id raft.ServerID,
	target raft.ServerAddress,
	args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	if t.yields() {
		return errYields
	}
	return t.NetworkTransport.RequestVote(id, target, args, resp)
}
