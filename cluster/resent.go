package cluster

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
)

// A leader resends what it has no answer to. Meanwhile this node may have applied those entries and
// trimmed its log. Raft locates a message only by an entry that is still in the log. It would
// refuse the message, and the leader would fall back to its snapshot. Raft installs any snapshot,
// even one older than the state: it removes the whole log, and with it entries that this node has
// acknowledged and the cluster has committed. So Raft never sees what this node already has.

// ownLog is what this node has on its disk and has applied. All methods may be called concurrently.
type ownLog struct {
	*core
	state     *state
	snapshots *snapshots
	stores    *store.Stores
	mark      *store.AppliedMark // nil in memory
}

// skipApplied removes from a message the entries that this node has and that are committed: those
// that are applied, or in the snapshot that Raft goes by. It returns the answer if nothing else is
// in the message, or nil if Raft must answer. The leader of the present term has the same entries.
func (o *ownLog) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	has := o.has()
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 || req.PrevLogEntry >= has || !o.raft.follows(req.Term) {
		return nil // a heartbeat, or behind what is here
	}
	known := 0
	for known < len(req.Entries) && req.Entries[known].Index <= has {
		known++
	}
	if known == len(req.Entries) {
		return &raft.AppendEntriesResponse{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			Term:      req.Term, LastLog: o.raft.LastIndex(), Success: true,
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
func (o *ownLog) has() uint64 {
	index, _ := o.snapshots.base()
	return max(index, o.state.appliedNow.Load())
}

// errRestart stops a node whose log differs from the leader's and goes past the leader's snapshot:
// Raft would remove the log and still take its last entry for its own. At the next start the log is
// removed before Raft reads it (store: checkEnds).
var errRestart = errors.New("this node's log is not the leader's, and longer than his snapshot: start the node again " +
	"to finish")

// checkInstall checks the snapshot that Raft is about to install. A refusal leaves Raft's state,
// and the machine's, as they were.
func (o *ownLog) checkInstall() error {
	snaps, err := o.stores.Snaps.List()
	switch {
	case err != nil || len(snaps) == 0 || o.raft.LastIndex() < snaps[0].Index:
		return err
	case o.reaches(snaps[0].Index, snaps[0].Term):
		return errSnapshotKnown // it came while this was on its way
	}
	return errRestart
}

// reaches reports whether this node's state or log reaches as far as a snapshot. A log with the
// snapshot's last entry has all entries before it.
func (o *ownLog) reaches(index, term uint64) bool {
	if index <= o.has() {
		return true
	}
	var last raft.Log
	return o.stores.Log.GetLog(index, &last) == nil && last.Term == term
}

// contradiction reports that a leader has another log than the one this node has applied, which
// cannot happen while every node keeps its promises; nil if it has not.
func (o *ownLog) contradiction(term uint64, entries ...*raft.Log) error {
	if !o.raft.started.Load() || term < o.raft.CurrentTerm() {
		return nil
	}
	applied := max(o.state.appliedNow.Load(), o.mark.Begin())
	for _, e := range entries {
		var own raft.Log
		if e.Index == 0 || e.Index > applied || o.stores.Log.GetLog(e.Index, &own) != nil || own.Term == e.Term {
			continue
		}
		return fmt.Errorf("this node has applied entry %d of term %d, the leader of term %d has another one of term "+
			"%d in its place: the others have lost what was acknowledged, or this node has; it stops and changes "+
			"nothing. Nodes that run on older copies of their data folders do this: remove those, and add them "+
			"with empty folders",
			e.Index, own.Term, term, e.Term)
	}
	return nil
}
