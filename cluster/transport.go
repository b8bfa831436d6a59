package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// transport is Raft's transport without its fast path for heartbeats: Raft would
// handle them on the connection's goroutine, where they change term and state
// behind the back of its main one (hashicorp/raft#695). The handler that is not set
// makes them ordinary messages. AppendEntries goes its own way (replicate.go), which
// answers for a Raft that is busy but changes nothing of it.
//
// It also keeps trying to replicate to a member that cannot be reached: Raft itself
// pauses longer after each failure, up to ten seconds, so that a member that comes
// back would be left behind for as long.
type transport struct {
	*raft.NetworkTransport
	*core
	stores    *store.Stores
	peers     *peer.Port
	members   *members
	contacts  *contacts
	acked     *acknowledged
	announcer *announcer
	ownLog    *ownLog
	snapshots *snapshots
	replicas  *replicas

	requests  chan raft.RPC // of all connections
	closed    chan struct{}
	closeOnce sync.Once
	yielding  atomic.Bool
	resigned  atomic.Uint64 // the term in which this node leads no more, as its entries do not arrive
	tried     atomic.Uint64 // the last term in which it has tried its links
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
	alive := heartbeat(args)
	args.LeaderCommitIndex = t.stores.Log.Committed(args.LeaderCommitIndex)
	args.Entries = args.Entries[:withinMessage(args.Entries)]
	// What comes behind may be another's with the member, and Raft there would take it for committed.
	args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.PrevLogEntry+uint64(len(args.Entries)))
	if !alive {
		t.contacts.sending(id, args)
		defer func() { t.contacts.delivered(id, args.Term, err == nil) }()
	} else if t.contacts.patient() && t.tried.Swap(args.Term) != args.Term {
		go t.tryLinks()
	}
	for {
		if t.yields() {
			return errYields
		}
		if t.resigned.Load() == args.Term || alive && t.resigns(args.Term) {
			return errResigned
		}
		who, met := t.members.identityOf(string(id))
		owned := t.acked.owned(who)
		err = t.replicas.call(target, args, resp)
		if err == nil {
			t.contacts.answered(id, alive && resp.NoRetryBackoff)
		}
		if err == nil && !alive && met && resp.LastLog < owned {
			t.members.condemn(who, resp.LastLog, owned)
			err = errLostLog
		}
		if err == nil && !alive && resp.Success {
			t.announcer.answered(id, target, args)
			// Before the first entry of this leader a member may have what it sent itself while it led in
			// memory only (store.ParallelLog), and say that it has it: with an entry it is on its disk.
			if len(args.Entries) > 0 {
				t.acked.note(id, args.Term, args.PrevLogEntry+uint64(len(args.Entries)))
			}
		}
		if err == nil || alive || !t.raft.owes(args.Term, id, target) {
			return err
		}
		*resp = raft.AppendEntriesResponse{}
		select {
		case <-time.After(replicatePause):
		case <-t.stop:
			return err
		}
	}
}

// withinMessage is how many entries go into one message: a member that lags behind must
// have taken and stored it before peerTimeout, or it is sent again for ever. Raft reads
// from args how far it has come.
func withinMessage(entries []*raft.Log) int {
	size := 0
	for i, e := range entries {
		if size += len(e.Data); i > 0 && size > messageBytes {
			return i
		}
	}
	return len(entries)
}

// Close implements raft.WithClose. It may be called twice.
func (t *transport) Close() error {
	t.closeOnce.Do(func() { close(t.closed) })
	t.replicas.close()
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
				if why := t.mayNotStand(req); why != nil {
					rpc.Respond(nil, why)
					continue
				}
				t.contacts.called(string(req.Addr) == calledByResigned)
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

// errOtherLeads is the answer to whoever has this node stand for election and leads no more.
var errOtherLeads = errors.New("another node leads by now")

// mayNotStand says why this node does not stand for election though another one says so. A TimeoutNow has no term, and
// Raft asks nothing: one that comes late would depose the leader that was elected meanwhile.
func (t *transport) mayNotStand(req *raft.TimeoutNowRequest) error {
	if !t.raft.started.Load() {
		return nil
	}
	if _, leader := t.raft.LeaderWithID(); leader == t.raft.self || leader != "" && string(leader) != string(req.ID) {
		return errOtherLeads
	}
	if t.yields() {
		return errYields
	}
	return nil
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

// elect has Raft stand for election now, as if a leader had handed over: the only voter
// need not wait for a leader that there cannot be.
func (t *transport) elect() {
	if t.raft.State() != raft.Follower {
		return // it has waited long enough already: Raft would depose itself
	}
	answers := make(chan raft.RPCResponse, 1)
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	t.ask(raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: header}, RespChan: answers}, answers)
}

// acceptLogs serves the connections on which a leader replicates.
func (t *transport) acceptLogs() {
	for {
		conn, err := t.peers.AcceptLog(t.closed)
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
		Stream: t.peers.StreamLayer(),
		// This transport is rarely used: a pooled connection may be dead, and a vote be lost with it.
		MaxPool:                 0,
		Timeout:                 peerTimeout,
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
	outdated := t.raft.started.Load() && req.Term < t.raft.CurrentTerm()
	if outdated || !t.ownLog.reaches(req.LastLogIndex, req.LastLogTerm) {
		t.install(rpc)
		return
	}
	_, _ = io.Copy(io.Discard, rpc.Reader) // the next message comes behind it
	answer := &raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Term:      req.Term, Success: true,
	}
	if !t.raft.follows(req.Term) {
		answer.Success = false
		rpc.Respond(answer, errSnapshotKnown)
		return
	}
	rpc.Respond(answer, nil)
}

// install has Raft install a leader's snapshot, and no other one at the same time. If a snapshot of
// this node's own ended later, it would take Raft back to where it began, and this node would vote
// as if it had no more than that.
func (t *transport) install(rpc raft.RPC) {
	end, ok := t.snapshots.giveWay(t.closed)
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
	if t.raft.started.Load() {
		t.snapshots.noteBase()
	}
	rpc.Respond(a.Response, a.Error)
}

// errLostLog ends a call to a member that has lost entries.
var errLostLog = errors.New("the member has lost entries that it had confirmed")

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
	if !t.stores.Slow() {
		t.yielding.Store(false)
		return false
	}
	if t.yielding.Load() || !t.raft.started.Load() {
		return t.yielding.Load()
	}
	if t.raft.State() != raft.Leader {
		return true // a candidate
	}
	next := t.prepared()
	if next == nil {
		return false // nobody could lead without this node
	}
	if !t.yielding.Swap(true) {
		t.log.Warn("the disk has not taken an entry for a while: another node shall lead; look what else writes to this "+
			"disk, and whether it is healthy",
			"limit", t.stores.SlowAfter(), "next", next.ID)
		go func() { _ = t.callElection(*next, *t.members.advertise.Load()) }()
	}
	return true
}

// calledByResigned is in the place of the sender's address, which Raft does not read there, where a leader that
// resigned has another node stand for election.
const calledByResigned = "resigned"

// callElection has another node stand for election. If the message is lost, the others notice the silence.
func (t *transport) callElection(next raft.Server, sender string) error {
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.cfg.ID), Addr: []byte(sender),
	}}
	return t.TimeoutNow(next.ID, next.Address, req, &raft.TimeoutNowResponse{})
}

// errResigned is what Raft hears instead of an answer when this node has resigned. It gives up when it hears of no
// majority for its lease.
var errResigned = errors.New("the entries of this node do not arrive: it lets another one lead")

// resigns reports whether this leader gives up its term, as a majority hears it and does not take its entries.
func (t *transport) resigns(term uint64) bool {
	if !t.raft.started.Load() || t.raft.State() != raft.Leader || t.raft.CurrentTerm() != term {
		return false
	}
	able := t.contacts.unserved(term, t.raft.voters())
	if able == nil {
		return false
	}
	if t.resigned.Swap(term) != term {
		t.contacts.resigned()
		t.log.Warn("the other nodes hear this one, but what it sends them to store does not arrive in time: another node " +
			"shall lead; look at the network from here to them, and at what it carries")
		go t.callBest(term, able)
	}
	return true
}

// surveyPart of a heartbeat timeout is what a leader that resigned has to ask the others how long their logs are: when
// they have not heard from it for all of that time they stand for election by themselves.
const surveyPart = 5

// callBest has one of the nodes stand for election: the one with the longest log if it answers, which all others but
// this node elect.
func (t *transport) callBest(term uint64, able []raft.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.Heartbeat/surveyPart)
	defer cancel()
	last := map[raft.ServerID]uint64{}
	for _, m := range t.members.survey(ctx) {
		last[m.ID] = m.LastIndex // 0: no answer
	}
	slices.SortStableFunc(able, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	for _, v := range able {
		if t.raft.CurrentTerm() != term || t.callElection(v, calledByResigned) == nil {
			return
		}
	}
}

// tryBytes of a message of no term, which Raft refuses without a look at it, show what a link carries.
const tryBytes = 128 << 10

// tryLinks ends the patience of a leader whose links to as many voters as it needs are as good as patience expects.
func (t *transport) tryLinks() {
	voters := t.raft.voters()
	good := make(chan bool, len(voters))
	for _, v := range voters {
		go func() { good <- v.ID == t.raft.self || t.goodLink(v.Address) }()
	}
	need := len(voters)/2 + 1
	for range voters {
		if <-good {
			need--
		}
		if need == 0 {
			t.contacts.linksAreGood()
			return
		}
	}
}

func (t *transport) goodLink(to raft.ServerAddress) bool {
	msg := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Entries:   []*raft.Log{{Data: make([]byte, tryBytes)}},
	}
	limit := t.clock.Monotonic() + patience(tryBytes) - answerPatience
	err := t.replicas.call(to, msg, &raft.AppendEntriesResponse{})
	if err != nil { // the connection may have been dead for long
		err = t.replicas.call(to, msg, &raft.AppendEntriesResponse{})
	}
	return err == nil && t.clock.Monotonic() <= limit
}

// prepared is a voter that has the whole log on its disk; nil if those that have, and
// answer, are no majority without this node: then they wait for their disks, too.
func (t *transport) prepared() *raft.Server {
	voters, last := t.raft.voters(), t.raft.LastIndex()
	var next *raft.Server
	have := 0
	for i, v := range voters {
		if t.contacts.silent(v.ID) < t.cfg.Heartbeat && t.announcer.has(v.ID) >= last {
			have++
			next = &voters[i]
		}
	}
	if have < len(voters)/2+1 {
		return nil
	}
	return next
}

// standsBack says why this node does not stand for election now; nil if it may.
func (t *transport) standsBack() error {
	switch {
	case t.yields():
		return errYields
	case t.contacts.rests():
		return errResigned
	}
	return nil
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	if err := t.standsBack(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestPreVote(id, target, args, resp)
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	if err := t.standsBack(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestVote(id, target, args, resp)
}
