package cluster

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

// A leader resends what it has no answer to. Meanwhile this node may have applied those entries and
// trimmed its log. Raft locates a message only by an entry that is still in the log. It would
// refuse the message, and the leader would fall back to its snapshot. Raft installs any snapshot,
// even one older than the state: it removes the whole log, and with it entries that this node has
// acknowledged and the cluster has committed. So Raft never sees what this node already has.

// skipApplied removes from a message the entries that this node has and that are committed: those
// that are applied, or in the snapshot that Raft goes by. It returns the answer if nothing else is
// in the message, or nil if Raft must answer. The leader of the present term has the same entries.
func (n *Node) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	has := n.has()
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 || req.PrevLogEntry >= has || !n.raft.follows(req.Term) {
		return nil // a heartbeat, or behind what is here
	}
	known := 0
	for known < len(req.Entries) && req.Entries[known].Index <= has {
		known++
	}
	if known == len(req.Entries) {
		return &raft.AppendEntriesResponse{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			Term:      req.Term, LastLog: n.raft.LastIndex(), Success: true,
		}
	}
	if known == 0 {
		return nil // a gap: Raft looks at it
	}
	last := req.Entries[known-1]
	req.PrevLogEntry, req.PrevLogTerm, req.Entries = last.Index, last.Term, req.Entries[known:]
	return nil
}

// has is the index up to which this node has the committed entries on its disk. A snapshot may end
// with an entry of Raft's own, which is never applied here; behind it the log has everything.
func (n *Node) has() uint64 {
	index, _ := n.snapshots.base()
	return max(index, n.state.appliedNow.Load())
}

// errSnapshotKnown makes a leader send its snapshot again later. It was not this node's leader when
// the snapshot arrived, and needs none then.
var errSnapshotKnown = errors.New("the state reaches past this snapshot")

// takeSnapshot passes a leader's snapshot to Raft, or answers for Raft if this node already has all
// of it. A leader of an earlier term hears of the later one from Raft, which does not take its
// snapshot.
func (t *transport) takeSnapshot(rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	if why := t.n.contradiction(req.Term, &raft.Log{Index: req.LastLogIndex, Term: req.LastLogTerm}); why != nil {
		t.n.fatal(why)
		rpc.Respond(nil, why)
		return
	}
	outdated := t.n.raft.started.Load() && req.Term < t.n.raft.CurrentTerm()
	if outdated || !t.n.reaches(req.LastLogIndex, req.LastLogTerm) {
		t.install(rpc)
		return
	}
	_, _ = io.Copy(io.Discard, rpc.Reader) // the next message comes behind it
	answer := &raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Term:      req.Term, Success: true,
	}
	if !t.n.raft.follows(req.Term) {
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
	n, s := t.n, t.n.snapshots
	s.installs.Add(1)
	defer s.installs.Add(-1)
	s.preempt.tell()
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-t.stop:
		return
	case <-n.stop:
		return
	}
	answers := make(chan raft.RPCResponse, 1)
	in, done := n.stores.Installing(rpc.Reader)
	defer done()
	a, ok := t.ask(raft.RPC{Command: rpc.Command, Reader: in, RespChan: answers}, answers)
	if !ok {
		return
	}
	if n.raft.started.Load() {
		s.noteBase()
	}
	rpc.Respond(a.Response, a.Error)
}

// errRestart stops a node whose log differs from the leader's and goes past the leader's snapshot:
// Raft would remove the log and still take its last entry for its own. At the next start the log is
// removed before Raft reads it (store: checkEnds).
var errRestart = errors.New("this node's log is not the leader's, and longer than his snapshot: start the node again " +
	"to finish")

// checkInstall checks the snapshot that Raft is about to install. A refusal leaves Raft's state,
// and the machine's, as they were.
func (n *Node) checkInstall() error {
	snaps, err := n.stores.Snaps.List()
	switch {
	case err != nil || len(snaps) == 0 || n.raft.LastIndex() < snaps[0].Index:
		return err
	case n.reaches(snaps[0].Index, snaps[0].Term):
		return errSnapshotKnown // it came while this was on its way
	}
	return errRestart
}

// reaches reports whether this node's state or log reaches as far as a snapshot. A log with the
// snapshot's last entry has all entries before it.
func (n *Node) reaches(index, term uint64) bool {
	if index <= n.has() {
		return true
	}
	var last raft.Log
	return n.stores.Log.GetLog(index, &last) == nil && last.Term == term
}
