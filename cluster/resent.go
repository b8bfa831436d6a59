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

// skipApplied takes out of a message what has been applied here. It returns the answer
// if nothing else is in it; nil: ask Raft. What was applied is committed, and the leader
// of the present term has the same.
func (n *Node) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	applied := n.appliedNow.Load()
	if len(req.Entries) == 0 || req.Entries[0].Index > applied || !n.follows(req.Term) {
		return nil
	}
	known := 0
	for known < len(req.Entries) && req.Entries[known].Index <= applied {
		known++
	}
	if known == len(req.Entries) {
		return &raft.AppendEntriesResponse{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			Term:      req.Term, LastLog: n.raft.LastIndex(), Success: true,
		}
	}
	last := req.Entries[known-1]
	req.PrevLogEntry, req.PrevLogTerm, req.Entries = last.Index, last.Term, req.Entries[known:]
	return nil
}

// restoredSnapshot is the entry with which the snapshot ends that Raft goes by: one that
// lies in its folder may be damaged. Raft tells of it in its figures only.
func (n *Node) restoredSnapshot() (index, term uint64) {
	if !n.started.Load() {
		return 0, 0
	}
	stats := n.raft.Stats()
	index, _ = strconv.ParseUint(stats["last_snapshot_index"], 10, 64)
	term, _ = strconv.ParseUint(stats["last_snapshot_term"], 10, 64)
	return index, term
}

// errSnapshotKnown has a leader send its snapshot again later: it was not this node's
// leader when it came, and needs no snapshot then.
var errSnapshotKnown = errors.New("the state reaches past this snapshot")

// takeSnapshot gives a leader's snapshot to Raft, or answers for it if all that it holds
// is here. A leader of an earlier term hears of the later one from Raft, which takes
// nothing from him.
func (t *transport) takeSnapshot(rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	outdated := t.n.started.Load() && req.Term < t.n.raft.CurrentTerm()
	if outdated || !t.n.reaches(req.LastLogIndex, req.LastLogTerm) {
		select {
		case t.requests <- rpc:
		case <-t.stop:
		}
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

// reaches reports whether the state or the log of this node reaches as far as a snapshot.
// Where the log has the snapshot's last entry, it has all that comes before it.
func (n *Node) reaches(index, term uint64) bool {
	if index <= n.appliedNow.Load() {
		return true
	}
	var last raft.Log
	return n.stores.Log.GetLog(index, &last) == nil && last.Term == term
}
