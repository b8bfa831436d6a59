package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/wake"
)

// announcePause is how long the announcer waits after an entry was applied. If the leader sends
// another entry within that time, it carries the commit index and no announcement is needed. It does
// not wait if a client of a follower is served by the entry: the next one may take as long as its disk.
const announcePause = time.Millisecond

// announcer tells followers the leader's commit index early, because their clients wait for what a
// committed entry did. Raft alone would tell them with its next entry, or after one to two times
// CommitTimeout. An announcement is a message that Raft itself could send: an AppendEntries without
// entries, behind the last entry that the follower has.
type announcer struct {
	*core
	busy     func() bool // the next entry is on its way: it carries the commit index
	replicas *replicas

	wake    chan struct{}            // capacity 1: an entry was applied
	applied atomic.Pointer[raft.Log] // the last applied entry; only index and term
	serves  atomic.Pointer[raft.Log] // the last one by which a client of another node was served
	pausing atomic.Bool              // it wakes up soon by itself, and looks at applied after that

	mu      sync.Mutex
	members map[raft.ServerID]*replica
}

// replica is what a leader knows of a member from the answers to Raft's messages.
type replica struct {
	target raft.ServerAddress
	last   raft.AppendEntriesRequest // Raft's last message, without its entries
	has    uint64                    // its log matches the leader's up to this index
	knows  uint64                    // the highest commit index it has been sent
	busy   bool                      // an announcement to it is in flight
}

func newAnnouncer(c *core, busy func() bool, r *replicas) *announcer {
	return &announcer{
		core: c, busy: busy, replicas: r, wake: make(chan struct{}, 1), members: map[raft.ServerID]*replica{},
	}
}

// entryApplied records that this leader's machine has applied an entry. serves says that a client of
// another node waits for it.
func (a *announcer) entryApplied(index, term uint64, serves bool) {
	at := &raft.Log{Index: index, Term: term}
	a.applied.Store(at)
	if serves {
		a.serves.Store(at)
	}
	if serves || !a.pausing.Load() {
		wake.Signal(a.wake)
	}
}

// answered records a member's successful answer to a message of Raft, heartbeats excepted.
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
	r.knows = max(r.knows, msg.LeaderCommitIndex)
	a.more(r)
}

// more wakes the announcer if the member has the last applied entry and does not know that it is
// committed. mu is held.
func (a *announcer) more(r *replica) {
	if to := a.applied.Load(); to != nil && r.knows < to.Index && r.has >= to.Index {
		wake.Signal(a.wake)
	}
}

// has returns the index up to which a member's log is known to match that of this node, the leader.
func (a *announcer) has(id raft.ServerID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.members[id]; r != nil && r.last.Term == a.raft.CurrentTerm() {
		return r.has
	}
	return 0
}

// run announces until the node stops.
func (a *announcer) run() {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	for {
		select {
		case <-a.wake:
			a.announce(a.serves.Load())
			if !a.pausing.Swap(true) {
				pause.Reset(announcePause)
			}
		case <-pause.C:
			if a.pausing.Store(false); !a.busy() {
				a.announce(a.applied.Load())
			}
		case <-a.stop:
			return
		}
	}
}

// announce tells the members that have an entry and do not know that it is committed.
func (a *announcer) announce(to *raft.Log) {
	if to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.members {
		switch {
		case !a.raft.Owes(r.last.Term, id, r.target):
			delete(a.members, id) // known from an earlier term, or removed from the cluster
		case !r.busy && r.knows < to.Index && r.has >= to.Index:
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
	err := a.replicas.call(r.target, &msg, &resp)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.busy = false; err == nil && resp.Success {
		r.knows = max(r.knows, to.Index)
		a.more(r)
	}
}

// acknowledged keeps how far each member has confirmed to have what is committed, as long as this
// process lives. A member that comes back with a shorter log has lost entries.
type acknowledged struct {
	*core
	members *members
	state   *state

	mu      sync.Mutex
	folders map[string]ack
}

// ack is what a data folder is known to hold.
type ack struct {
	term uint64 // of this leader, when the folder's log was its own ...
	has  uint64 // ... up to here
	sure uint64 // and up to here it was committed
}

// note records that a member has this leader's log up to an index.
func (k *acknowledged) note(id raft.ServerID, term, index uint64) {
	who, ok := k.members.identityOf(string(id))
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key := membership.FolderKey(who.ID, who.Incarnation)
	a := k.folders[key]
	if a.term != term {
		a.term, a.has = term, 0
	}
	a.has = max(a.has, index)
	if k.folders == nil {
		k.folders = map[string]ack{}
	}
	k.folders[key] = a
}

// owned is the index up to which a member must have the log.
func (k *acknowledged) owned(who peer.Identity) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := membership.FolderKey(who.ID, who.Incarnation)
	a, ok := k.folders[key]
	if !ok {
		return 0
	}
	// What is applied is of this leader's log as long as its term lasts.
	if applied := k.state.appliedNow.Load(); k.raft.CurrentTerm() == a.term {
		a.sure = max(a.sure, min(a.has, applied))
		k.folders[key] = a
	}
	return a.sure
}
