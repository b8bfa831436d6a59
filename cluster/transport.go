package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/followers"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/cluster/wake"
)

// transport is Raft's transport without its fast path for heartbeats: Raft would
// handle them on the connection's goroutine, where they change term and state
// behind the back of its main one (hashicorp/raft#695). Without a handler they are
// ordinary messages. AppendEntries goes its own way (replicate.go), which answers
// for a Raft that is busy but changes nothing of it.
//
// It also keeps trying to replicate to a member that cannot be reached: Raft itself
// pauses longer after each failure, up to ten seconds, for which a member that comes
// back would be left behind.
type transport struct {
	*raft.NetworkTransport
	*core
	stores    *store.Stores
	peers     *peer.Port
	members   *members
	contacts  *followers.Contacts
	acked     *followers.Acked
	announcer *followers.Announcer
	ownLog    *ownLog
	snapshots *snapshot.Snapshots
	replicas  *followers.Conns
	yielder   *yielder
	led       *clock.Led

	requests  chan raft.RPC // of all connections
	closed    chan struct{}
	closeOnce sync.Once
}

// SetHeartbeatHandler implements raft.Transport by doing nothing.
func (*transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// AppendEntriesPipeline implements raft.Transport. A pipeline to a follower can wedge for
// ever after a stall of its disk (hashicorp/raft#612).
func (*transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// replicatePause is the pause between two tries to reach a member.
const replicatePause = 100 * time.Millisecond

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(
	id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) (err error) {
	alive := followers.IsHeartbeat(args)
	t.bound(args)
	if !alive {
		t.contacts.Sending(id, args)
		defer func() { t.contacts.Delivered(id, args.Term, err == nil) }()
	} else if t.contacts.Patient() && t.yielder.tried.Swap(args.Term) != args.Term {
		go t.yielder.tryLinks()
	}
	for {
		if t.yielder.yields() {
			return errYields
		}
		if t.yielder.resigned.Load() == args.Term || alive && t.yielder.resigns(args.Term) {
			return errResigned
		}
		who, met := t.members.identityOf(string(id))
		required := t.acked.RequiredIndex(who)
		sent := t.clock.Monotonic()
		err = t.replicas.Call(target, args, resp)
		if err == nil {
			t.contacts.Answered(id, alive && resp.NoRetryBackoff)
		}
		if err == nil && resp.Term == args.Term {
			t.contacts.Followed(id, args.Term, sent)
		}
		if err == nil && !alive && met && resp.LastLog < required {
			t.members.ban(who, resp.LastLog, required)
			err = errLostLog
		}
		if err == nil && !alive && resp.Success {
			t.announcer.Answered(id, target, args)
			// A member may confirm entries that it sent while it led, and has in memory only (store.ParallelLog). With
			// the first entry of this leader they are on its disk.
			if len(args.Entries) > 0 {
				t.acked.Note(id, args.Term, args.PrevLogEntry+uint64(len(args.Entries)))
			}
		}
		if err == nil || alive || !t.raft.ReplicatesTo(args.Term, id, target) {
			return err
		}
		*resp = raft.AppendEntriesResponse{}
		if !wake.Pause(replicatePause, t.stop) {
			return err
		}
	}
}

// bound takes from a message what the member must not be told now: entries beyond those of one message, and that entries
// are committed which this node may not tell of, or which are not in the message. Later entries of the member may be
// another leader's, and Raft there would take them for committed.
func (t *transport) bound(args *raft.AppendEntriesRequest) {
	args.Entries = args.Entries[:withinMessage(args.Entries)]
	args.LeaderCommitIndex = t.stores.Log.Committed(args.LeaderCommitIndex)
	args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.PrevLogEntry+uint64(len(args.Entries)))
}

// withinMessage returns how many entries go into one message: a member that lags behind must
// have taken and stored it before peerTimeout, or it is sent again for ever. Raft reads
// from args how far it has come.
func withinMessage(entries []*raft.Log) int {
	size := 0
	for i, e := range entries {
		if size += len(e.Data); i > 0 && size > followers.MessageBytes {
			return i
		}
	}
	return len(entries)
}

// Close implements raft.WithClose. It may be called twice.
func (t *transport) Close() error {
	t.closeOnce.Do(func() { close(t.closed) })
	t.replicas.Close()
	return t.NetworkTransport.Close()
}

// relay passes on what comes in on the library's connections.
func (t *transport) relay() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			switch req := rpc.Command.(type) {
			case *raft.InstallSnapshotRequest:
				go t.takeSnapshot(rpc, req)
				continue
			case *raft.RequestVoteRequest:
				nameCandidate(req)
			case *raft.TimeoutNowRequest:
				if why := t.yielder.mayNotStand(req); why != nil {
					rpc.Respond(nil, why)
					continue
				}
				t.contacts.Called(string(req.Addr) == calledByResigned)
			}
			select {
			case t.requests <- rpc:
			case <-t.closed:
				return
			}
		case <-t.closed:
			return
		}
	}
}

// nameCandidate has Raft store a vote under the candidate's id as well. It takes the address
// alone for the candidate, and would give a vote again, without a look at the log, to whoever
// has that address later in the same term: two nodes that have changed addresses could both be
// elected in it.
func nameCandidate(req *raft.RequestVoteRequest) {
	req.Addr = slices.Concat(req.Addr, []byte{candidateMark}, req.ID)
}

// candidateMark stands between a candidate's address and its id.
const candidateMark = 0

// DecodePeer implements raft.Transport.
func (*transport) DecodePeer(b []byte) raft.ServerAddress {
	addr, _, _ := bytes.Cut(b, []byte{candidateMark})
	return raft.ServerAddress(addr)
}

// elect has Raft stand for election now, as if a leader had handed over, as long as it may: the only voter need not
// wait for a leader that there cannot be, nor the others for a leader whose process has ended (deaths). It returns false
// if Raft has not been told.
func (t *transport) elect(may func() bool) bool {
	answers := make(chan raft.RPCResponse, 1)
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	rpc := raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: header}, RespChan: answers}
	for t.raft.State() == raft.Follower && may() { // another one has waited long enough already: Raft would depose itself
		busy := time.NewTimer(electPause)
		select {
		case t.requests <- rpc:
			busy.Stop()
			t.answer(answers)
			return true
		case <-busy.C: // Raft hears of something else: it may follow a leader by now
		case <-t.closed:
			busy.Stop()
			return false
		}
	}
	return false
}

// electPause is the time for which a permission to stand for election holds.
const electPause = time.Millisecond

// acceptLogs serves the connections on which a leader replicates.
func (t *transport) acceptLogs() {
	for {
		conn, err := t.peers.Streams().AcceptLog(t.closed)
		if err != nil {
			return
		}
		go t.serveLog(conn)
	}
}

// open starts to take Raft's messages.
func (t *transport) open(log hclog.Logger) {
	t.requests, t.closed = make(chan raft.RPC), make(chan struct{})
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: t.peers.Streams(),
		// This transport is rarely used: a pooled connection may be dead, and a vote be lost with it.
		MaxPool:                 0,
		Timeout:                 followers.Timeout,
		Logger:                  log,
		MsgpackUseNewTimeFormat: true,
	})
	go t.relay()
	go t.acceptLogs()
}

// takeSnapshot passes a leader's snapshot to Raft, or answers for Raft if this node already has all
// of it. A leader of an earlier term hears of the later one from Raft, which does not take its
// snapshot.
func (t *transport) takeSnapshot(rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	end := &raft.Log{Index: req.LastLogIndex, Term: req.LastLogTerm}
	if why := t.ownLog.contradiction(req.Term, end); why != nil {
		t.fatal(why)
		rpc.Respond(nil, why)
		return
	}
	outdated := t.raft.Started.Load() && req.Term < t.raft.CurrentTerm()
	if outdated || !t.ownLog.reaches(req.LastLogIndex, req.LastLogTerm) {
		t.install(rpc)
		return
	}
	_, _ = io.Copy(io.Discard, rpc.Reader) // the next message comes behind it
	answer := &raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Term:      req.Term, Success: true,
	}
	if !t.raft.Follows(req.Term) {
		answer.Success = false
		rpc.Respond(answer, replica.ErrSnapshotKnown)
		return
	}
	rpc.Respond(answer, nil)
}

// install has Raft install a leader's snapshot, and no other one at the same time. If a snapshot of
// this node's own ended later, it would take Raft back to where it began, and this node would vote
// as if it had no more than that.
func (t *transport) install(rpc raft.RPC) {
	end, ok := t.snapshots.GiveWay(t.closed)
	if !ok {
		return
	}
	defer end()
	answers := make(chan raft.RPCResponse, 1)
	in, done := t.stores.Installing(rpc.Reader)
	defer done()
	a, ok := t.ask(raft.RPC{Command: rpc.Command, Reader: in, RespChan: answers}, answers)
	if !ok {
		return
	}
	if t.raft.Started.Load() {
		t.snapshots.RecordBase()
	}
	rpc.Respond(a.Response, a.Error)
}

// errLostLog ends a call to a member that has lost entries.
var errLostLog = errors.New("the member has lost entries that it had confirmed")

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	if err := t.yielder.standsBack(); err != nil {
		return err
	}
	return t.heardFrom(id, t.NetworkTransport.RequestPreVote(id, target, args, resp))
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	if err := t.yielder.standsBack(); err != nil {
		return err
	}
	return t.heardFrom(id, t.NetworkTransport.RequestVote(id, target, args, resp))
}

// heardFrom records that a member has answered this node, unless there is an error, which it returns.
func (t *transport) heardFrom(id raft.ServerID, err error) error {
	if err == nil {
		t.contacts.Heard(id)
	}
	return err
}

// TimeoutNow implements raft.Transport: it tells the successor in a transfer to stand for election.
// Raft takes no entry until it is answered, so a member that hangs from that moment on is not waited
// for as long as other messages are. What it does when it wakes is stand, which leaders bear.
func (t *transport) TimeoutNow(
	id raft.ServerID, target raft.ServerAddress, req *raft.TimeoutNowRequest, _ *raft.TimeoutNowResponse,
) error {
	answered := make(chan error, 1)
	go func() { answered <- t.NetworkTransport.TimeoutNow(id, target, req, &raft.TimeoutNowResponse{}) }()
	patience := time.NewTimer(t.cfg.Heartbeat)
	defer patience.Stop()
	select {
	case err := <-answered:
		return err
	case <-patience.C:
		return fmt.Errorf("node %s has not answered for %s", id, t.cfg.Heartbeat)
	}
}
