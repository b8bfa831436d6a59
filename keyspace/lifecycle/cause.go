// Package lifecycle records the lifecycle of locks: it completes a key that is a lock with facts, writes grants and
// losses into the history, and detects grants that an embargo forbids.
//
//	record.go   the Recorder: events of the history, from changes of keys and their causes
//	facts.go    what is known of a lock: since when, for how long, who
//	hash.go     locks that are hashes, as Redisson keeps them
//	lease.go    the leases of locks that clients hold, and how they were lost
//	embargo.go  no lock is granted that a restored cluster does not know
//	cause.go    why something changes
//
// The package changes no key. A Recorder has the clock of the entry, the settings, and where it writes to.
package lifecycle

import (
	"github.com/zeebo/xxh3"

	"lockd/keyspace/history"
	"lockd/resp"
)

// Limits of what counts as a lock; what is longer is data.
const (
	KeyBytesMax    = 1024
	ReasonBytesMax = 1024
	TokenBytesMax  = 512
)

// Cause is the reason of a change: the command that runs, and its sender.
type Cause struct {
	By        string // the command; "": none, something has ended by itself
	Script    bool   // a script calls it
	Condition bool   // it takes what is free, or compares the token; a script may have
	Compared  bool   // it knows the string that it replaces
	Client    resp.Sender
	How       history.Kind // what becomes of the lock, where the change does not show it
	Reason    string       // of LOCKS FORCE
	WaitedMs  int64        // the command had waited
}

// LeaseIsOver causes what ends by itself.
var LeaseIsOver = Cause{How: history.Expired}

// clientHash returns what is kept of a client in the facts.
func clientHash(by resp.Sender) uint32 {
	if by == "" {
		return 0
	}
	c := by.Client()
	return max(1, uint32(xxh3.HashString(c.Addr)^xxh3.HashString(c.Node)*31^c.ID*0x9e3779b97f4a7c15))
}
