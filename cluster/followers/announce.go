package followers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/group"
	"lockd/cluster/wake"
)

// AnnouncePause is the pause of the announcer after an entry was applied. If the leader sends another entry in that
// time, the entry carries the commit index and no announcement is needed. There is no pause if the entry serves a
// client of a follower: the next entry may take as long as its disk.
const AnnouncePause = time.Millisecond

// Announcer tells followers the leader's commit index early, because their clients wait for the effect of a committed
// entry. Raft alone would tell them with its next entry, or after one to two times CommitTimeout. An announcement is a
// message that Raft itself could send: an AppendEntries without entries, behind the last entry of the follower.
type Announcer struct {
	raft     *group.Group
	stop     <-chan struct{}
	busy     func() bool // the next entry is on its way: it carries the commit index
	replicas *Conns

	wake    chan struct{}            // capacity 1: an entry was applied
	applied atomic.Pointer[raft.Log] // the last applied entry; only index and term
	serves  atomic.Pointer[raft.Log] // the last one that served a client of another node
	pausing atomic.Bool              // it wakes up soon without a signal, and reads applied after that

	mu      sync.Mutex
	members map[raft.ServerID]*replica
}

// replica is a leader's knowledge of a member, from the answers to Raft's messages.
type replica struct {
	target raft.ServerAddress
	last   raft.AppendEntriesRequest // Raft's last message, without its entries
	has    uint64                    // its log matches the leader's up to this index
	knows  uint64                    // the highest commit index it has been sent
	busy   bool                      // an announcement to it is in flight
}

// NewAnnouncer returns an announcer, which runs until stop is closed. busy reports that the next entry is on its way.
func NewAnnouncer(g *group.Group, stop <-chan struct{}, busy func() bool, r *Conns) *Announcer {
	return &Announcer{
		raft: g, stop: stop, busy: busy, replicas: r, wake: make(chan struct{}, 1), members: map[raft.ServerID]*replica{},
	}
}

// EntryApplied records that this leader's machine has applied an entry. serves: a client of another node waits for it.
func (a *Announcer) EntryApplied(index, term uint64, serves bool) {
	at := &raft.Log{Index: index, Term: term}
	a.applied.Store(at)
	if serves {
		a.serves.Store(at)
	}
	if serves || !a.pausing.Load() {
		wake.Signal(a.wake)
	}
}

// Answered records a member's successful answer to a message of Raft, heartbeats excepted.
func (a *Announcer) Answered(id raft.ServerID, target raft.ServerAddress, msg *raft.AppendEntriesRequest) {
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

// more wakes the announcer if the member has the last applied entry without knowing that it is committed. mu is held.
func (a *Announcer) more(r *replica) {
	if to := a.applied.Load(); to != nil && r.knows < to.Index && r.has >= to.Index {
		wake.Signal(a.wake)
	}
}

// Has returns the index up to which a member's log is known to match this leader's.
func (a *Announcer) Has(id raft.ServerID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.members[id]; r != nil && r.last.Term == a.raft.CurrentTerm() {
		return r.has
	}
	return 0
}

// Run announces until the node stops.
func (a *Announcer) Run() {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	for {
		select {
		case <-a.wake:
			a.announce(a.serves.Load())
			if !a.pausing.Swap(true) {
				pause.Reset(AnnouncePause)
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

// announce tells the members that have an entry without knowing that it is committed.
func (a *Announcer) announce(to *raft.Log) {
	if to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.members {
		switch {
		case !a.raft.ReplicatesTo(r.last.Term, id, r.target):
			delete(a.members, id) // of an earlier term, or removed from the cluster
		case !r.busy && r.knows < to.Index && r.has >= to.Index:
			r.busy = true
			go a.send(id, r, to)
		}
	}
}

func (a *Announcer) send(id raft.ServerID, r *replica, to *raft.Log) {
	a.mu.Lock()
	msg := r.last
	a.mu.Unlock()
	msg.PrevLogEntry, msg.PrevLogTerm, msg.LeaderCommitIndex = to.Index, to.Term, to.Index
	var resp raft.AppendEntriesResponse
	err := a.replicas.Call(r.target, &msg, &resp)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.busy = false; err == nil && resp.Success {
		r.knows = max(r.knows, to.Index)
		a.more(r)
	}
}
