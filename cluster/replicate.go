package cluster

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/followers"
	"lockd/cluster/replica"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/resp/fault"
)

// heartbeatPatience divides the heartbeat timeout: so long Raft has to take a heartbeat.
const heartbeatPatience = 10

// serveLog hands a leader's requests to Raft and its answers back, until the connection
// or Raft ends. A leader sends a request once it has the answer to the one before it. So a
// request of the present term proves that its leader led after this node sent that answer,
// however long the request was under way: that time counts for leases (clock.Led).
func (t *transport) serveLog(conn net.Conn) {
	defer conn.Close()
	c := followers.NewConn(conn)
	answers := make(chan raft.RPCResponse, 1)
	var answered time.Duration // monotonic: just before the last answer left
	for {
		body, err := c.Receive()
		if err != nil {
			return
		}
		heard := t.clock.Monotonic()
		req, err := followers.DecodeRequest(body)
		if err != nil {
			t.log.Warn("a message of the leader cannot be read: the connection is closed",
				"peer", conn.RemoteAddr().String(), "error", err)
			return
		}
		a, ok := t.respond(req, answers)
		if !ok || len(req.Entries) > 0 && t.cfg.Faults.At(fault.Replicated) != nil {
			return
		}
		resp, _ := a.Response.(*raft.AppendEntriesResponse)
		if resp != nil && resp.Term == req.Term {
			t.led.Heard(req.Term, heard, answered)
			t.heard.Heard(req.Term, string(req.ID), heard, answered)
		}
		answered = t.clock.Monotonic()
		_, err = c.Send(func(b []byte) []byte { return followers.AppendAnswer(b, resp, a.Error) })
		if err != nil {
			return
		}
	}
}

// respond answers a leader's request; false if the transport is closed before.
func (t *transport) respond(req *raft.AppendEntriesRequest, answers chan raft.RPCResponse) (raft.RPCResponse, bool) {
	why := t.ownLog.contradiction(req.Term, &raft.Log{Index: req.PrevLogEntry, Term: req.PrevLogTerm})
	if why == nil {
		why = t.ownLog.contradiction(req.Term, req.Entries...)
	}
	if why != nil {
		t.fatal(why)
		return raft.RPCResponse{}, false
	}
	if answer := t.ownLog.skipApplied(req); answer != nil {
		return raft.RPCResponse{Response: answer}, true
	}
	rpc := raft.RPC{Command: req, RespChan: answers}
	if followers.IsHeartbeat(req) {
		return t.askHeartbeat(rpc, answers)
	}
	return t.ask(rpc, answers)
}

// askHeartbeat has Raft answer a heartbeat, or answers for it while it is busy: a disk that
// takes its time, or a snapshot that is being restored, is no reason for a leader to give
// up. All that a leader concludes from the answer is that this member is there and knows of
// no later term (no read rests on it, see confirm), and that is so. Raft misses nothing: it
// counts the message it is busy with as heard from the leader when it is done with it.
// NoRetryBackoff, which Raft sets in no answer to a heartbeat, says that Raft was busy (contacts).
func (t *transport) askHeartbeat(rpc raft.RPC, answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	req := rpc.Command.(*raft.AppendEntriesRequest)
	busy := time.NewTimer(t.cfg.Heartbeat / heartbeatPatience)
	defer busy.Stop()
	for {
		select {
		case t.requests <- rpc:
			return t.answer(answers)
		case <-busy.C:
			if t.raft.Follows(req.Term) {
				header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
				return raft.RPCResponse{Response: &raft.AppendEntriesResponse{
					RPCHeader: header, Term: req.Term, Success: true, NoRetryBackoff: true,
				}}, true
			}
		case <-t.closed:
			return raft.RPCResponse{}, false
		}
	}
}

// ask has Raft answer a request; false if the transport is closed before.
func (t *transport) ask(rpc raft.RPC, answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	select {
	case t.requests <- rpc:
	case <-t.closed:
		return raft.RPCResponse{}, false
	}
	return t.answer(answers)
}

// answer waits for the answer to a request that Raft has taken.
func (t *transport) answer(answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	select {
	case a := <-answers:
		return a, true
	case <-t.closed:
		return raft.RPCResponse{}, false
	}
}

// A leader resends what it has no answer to. Meanwhile this node may have applied those entries and
// trimmed its log. Raft locates a message only by an entry that is still in the log. It would
// refuse the message, and the leader would fall back to its snapshot. Raft installs any snapshot,
// even one older than the state: it removes the whole log, and with it entries that this node has
// acknowledged and the cluster has committed. So Raft never sees what this node already has.

// ownLog knows what this node has on its disk and has applied. All methods may be called concurrently.
type ownLog struct {
	*core
	state     *replica.State
	snapshots *snapshot.Snapshots
	stores    *store.Stores
	mark      *store.AppliedMark // nil in memory
}

// skipApplied removes from a message the entries that this node has and that are committed: those
// that are applied, or in the snapshot that Raft goes by. It returns the answer if nothing else is
// in the message, or nil if Raft must answer. The leader of the present term has the same entries.
func (o *ownLog) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	has := o.has()
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 || req.PrevLogEntry >= has || !o.raft.Follows(req.Term) {
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

// has returns the index up to which this node has the committed entries on its disk. A snapshot may end
// with an entry of Raft's own, which is never applied here; behind it the log has everything.
func (o *ownLog) has() uint64 {
	index, _ := o.snapshots.Base()
	return max(index, o.state.Applied.Load())
}

// last returns term and index of the last entry of this node's log.
func (o *ownLog) last() (term, index uint64) {
	index = o.raft.LastIndex()
	var l raft.Log
	if o.stores.Log.GetLog(index, &l) == nil {
		return l.Term, index
	}
	base, term := o.snapshots.Base() // the log is empty behind it
	return term, max(base, index)
}

// errRestart stops a node whose log differs from the leader's and goes past the leader's snapshot:
// Raft would remove the log and still take its last entry for its own. At the next start the log is
// removed before Raft reads it (store: checkEnds).
var errRestart = errors.New("this node's log differs from the leader's, and goes past the leader's snapshot: start the " +
	"node again to finish")

// checkInstall checks the snapshot that Raft is about to install. A refusal leaves Raft's state,
// and the machine's, as they were.
func (o *ownLog) checkInstall() error {
	snaps, err := o.stores.Snaps.List()
	switch {
	case err != nil || len(snaps) == 0 || o.raft.LastIndex() < snaps[0].Index:
		return err
	case o.reaches(snaps[0].Index, snaps[0].Term):
		return replica.ErrSnapshotKnown // it came while this was on its way
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
	if !o.raft.Started.Load() || term < o.raft.CurrentTerm() {
		return nil
	}
	applied := max(o.state.Applied.Load(), o.mark.Begin())
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
