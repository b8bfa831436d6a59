package followers

import (
	"sync"

	"github.com/hashicorp/raft"

	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
)

// Acked keeps, until the process ends, the index up to which each member has confirmed committed entries. A member that
// comes back with a shorter log has lost entries. All methods may be called concurrently.
type Acked struct {
	raft       *group.Group
	identityOf func(id string) (peer.Identity, bool) // a member's account of itself
	applied    func() uint64                         // the last entry applied here

	mu      sync.Mutex
	folders map[string]ack
}

// NewAcked returns an Acked that knows nothing yet.
func NewAcked(
	raft *group.Group, identityOf func(id string) (peer.Identity, bool), applied func() uint64,
) *Acked {
	return &Acked{raft: raft, identityOf: identityOf, applied: applied, folders: map[string]ack{}}
}

// ack is the known state of the log in a data folder.
type ack struct {
	term uint64 // of this leader, in which the folder's log equalled its own ...
	has  uint64 // ... up to this index
	sure uint64 // and was committed up to this one
}

// Note records that a member has this leader's log up to an index.
func (k *Acked) Note(id raft.ServerID, term, index uint64) {
	who, ok := k.identityOf(string(id))
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
	k.folders[key] = a
}

// RequiredIndex returns the index up to which a member must have the log; 0 if its data folder is unknown.
func (k *Acked) RequiredIndex(who peer.Identity) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := membership.FolderKey(who.ID, who.Incarnation)
	a, ok := k.folders[key]
	if !ok {
		return 0
	}
	// An applied entry belongs to this leader's log while its term lasts.
	if applied := k.applied(); k.raft.CurrentTerm() == a.term {
		a.sure = max(a.sure, min(a.has, applied))
		k.folders[key] = a
	}
	return a.sure
}

// Forget drops all that is known, as a restart of the process does.
func (k *Acked) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.folders)
}
