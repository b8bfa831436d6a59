package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// announcePause is how long after an entry was applied the others are told that it is
// committed, if nothing else is on its way that tells them.
const announcePause = time.Millisecond

// announcer tells the others soon that an entry is committed: their clients wait for
// what it did. Raft tells them with its next entry, or after CommitTimeout to twice
// that. What it sends is what Raft would send: a message without entries, after the
// last that the member has.
type announcer struct {
	n       *Node
	wake    chan struct{}            // capacity 1: an entry was applied
	applied atomic.Pointer[raft.Log] // the last one; only index and term

	mu      sync.Mutex
	members map[raft.ServerID]*replica
}

// replica is what a leader knows of a member from the answers to Raft's messages.
type replica struct {
	target raft.ServerAddress
	last   raft.AppendEntriesRequest // Raft's last message, without its entries
	has    uint64                    // the member's log is the leader's up to here
	told   uint64                    // and it knows that it is committed up to here
	busy   bool                      // a message of ours is on its way
}

func newAnnouncer(n *Node) *announcer {
	return &announcer{n: n, wake: make(chan struct{}, 1), members: map[raft.ServerID]*replica{}}
}

// note says that the machine of the leader has applied an entry.
func (a *announcer) note(index, term uint64) {
	a.applied.Store(&raft.Log{Index: index, Term: term})
	signal(a.wake)
}

// answered hears of each message, heartbeats aside, that a member has agreed to.
func (a *announcer) answered(id raft.ServerID, target raft.ServerAddress, msg *raft.AppendEntriesRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.members[id]
	if r == nil || r.last.Term != msg.Term || r.target != target {
		r = &replica{target: target}
		a.members[id] = r
	}
	r.last, r.last.Entries = *msg, nil
	r.has = max(r.has, msg.PrevLogEntry+uint64(len(msg.Entries)))
	r.told = max(r.told, msg.LeaderCommitIndex)
	a.more(r)
}

// more has the member told what it has and does not know to be committed, if there is
// something. mu is held.
func (a *announcer) more(r *replica) {
	if to := a.applied.Load(); to != nil && r.told < to.Index && r.has >= to.Index {
		signal(a.wake)
	}
}

// has is how far a member's log is known to be that of this node, which leads.
func (a *announcer) has(id raft.ServerID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.members[id]; r != nil && r.last.Term == a.n.raft.CurrentTerm() {
		return r.has
	}
	return 0
}

// run announces until the node stops.
func (a *announcer) run() {
	for {
		select {
		case <-a.wake:
		case <-a.n.stop:
			return
		}
		time.Sleep(announcePause)
		if !a.n.proposer.busy() { // the next entry tells it
			a.announce()
		}
	}
}

func (a *announcer) announce() {
	to := a.applied.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.members {
		switch {
		case !a.n.owes(r.last.Term, id, r.target):
			delete(a.members, id) // of an earlier leadership, or removed
		case !r.busy && r.told < to.Index && r.has >= to.Index:
			r.busy = true
			go a.send(id, r, to)
		}
	}
}

func (a *announcer) send(id raft.ServerID, r *replica, to *raft.Log) {
	a.mu.Lock()
	msg := r.last
	a.mu.Unlock()
	msg.PrevLogEntry, msg.PrevLogTerm, msg.LeaderCommitIndex = to.Index, to.Term, to.Index
	var resp raft.AppendEntriesResponse
	err := a.n.trans.replicas.call(r.target, &msg, &resp)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.busy = false; err == nil && resp.Success {
		r.told = max(r.told, to.Index)
		a.more(r)
	}
}
