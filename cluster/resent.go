package cluster

import (
	"errors"
	"io"
	"strconv"

	"github.com/hashicorp/raft"
)

// A leader sends again what it has no answer to, and this node may have applied that
// and trimmed its log meanwhile. Raft finds the place of a message only by an entry
// that is still in the log. It would refuse, the leader would go back to its snapshot,
// and Raft installs any snapshot, also one that is older than the state: it removes the
// whole log, and with it entries that this node has acknowledged and the cluster has
// committed. So Raft is not asked about what this node has already.

// skipApplied takes out of a message what this node has, and it is committed: entries that
// are applied, or in the snapshot it goes by. It returns the answer if nothing else is in
// it; nil: ask Raft. The leader of the present term has the same.
func (n *Node) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	has := n.has()
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 || req.PrevLogEntry >= has || !n.follows(req.Term) {
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

// has is how far this node has what is committed, on its disk. A snapshot may end with an
// entry of Raft's own, which is never applied here; behind it the log has everything.
func (n *Node) has() uint64 {
	index, _ := n.base()
	return max(index, n.appliedNow.Load())
}

// base is the entry with which the snapshot ends that Raft goes by.
func (n *Node) base() (index, term uint64) {
	if at := n.basedOn.Load(); at != nil {
		return at.Index, at.Term
	}
	return 0, 0
}

// noteBase notes that Raft goes by another snapshot. One that only lies in the folder may
// be damaged; Raft tells of its own in its figures only.
func (n *Node) noteBase() {
	stats := n.raft.Stats()
	index, _ := strconv.ParseUint(stats["last_snapshot_index"], 10, 64)
	term, _ := strconv.ParseUint(stats["last_snapshot_term"], 10, 64)
	n.basedOn.Store(&raft.Log{Index: index, Term: term})
}

// errSnapshotKnown has a leader send its snapshot again later: it was not this node's
// leader when it came, and needs no snapshot then.
var errSnapshotKnown = errors.New("the state reaches past this snapshot")

// takeSnapshot gives a leader's snapshot to Raft, or answers for it if all that it holds
// is here. A leader of an earlier term hears of the later one from Raft, which takes
// nothing from him.
func (t *transport) takeSnapshot(rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	if why := t.n.contradiction(req.Term, &raft.Log{Index: req.LastLogIndex, Term: req.LastLogTerm}); why != nil {
		t.n.fatal(why)
		rpc.Respond(nil, why)
		return
	}
	outdated := t.n.started.Load() && req.Term < t.n.raft.CurrentTerm()
	if outdated || !t.n.reaches(req.LastLogIndex, req.LastLogTerm) {
		t.install(rpc)
		return
	}
	_, _ = io.Copy(io.Discard, rpc.Reader) // the next message comes behind it
	answer := &raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Term:      req.Term, Success: true,
	}
	if !t.n.follows(req.Term) {
		answer.Success = false
		rpc.Respond(answer, errSnapshotKnown)
		return
	}
	rpc.Respond(answer, nil)
}

// install has Raft install a leader's snapshot, and no other beside it: one of this node's
// own that ended later would take Raft back to where it began, and this node would vote as
// if it had no more than that.
func (t *transport) install(rpc raft.RPC) {
	n := t.n
	n.installs.Add(1)
	defer n.installs.Add(-1)
	n.preempt.tell()
	select {
	case n.snapshotting <- struct{}{}:
		defer func() { <-n.snapshotting }()
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
	if n.started.Load() {
		n.noteBase()
	}
	rpc.Respond(a.Response, a.Error)
}

// errRestart stops a node whose log goes another way than the leader's and past his
// snapshot: Raft would remove the log and go on taking its last entry for its own. At the
// start the log is removed before Raft looks (store: checkEnds).
var errRestart = errors.New("this node's log is not the leader's, and longer than his snapshot: start the node again " +
	"to finish")

// checkInstall checks the snapshot that Raft is about to install. Raft's state, and the
// machine's, are as before if it is refused.
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

// reaches reports whether the state or the log of this node reaches as far as a snapshot.
// Where the log has the snapshot's last entry, it has all that comes before it.
func (n *Node) reaches(index, term uint64) bool {
	if index <= n.has() {
		return true
	}
	var last raft.Log
	return n.stores.Log.GetLog(index, &last) == nil && last.Term == term
}
