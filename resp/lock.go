package resp

// The types that pass between the machine and the node whose client holds a lock, so that the client learns of its
// loss.

// LockCommand is the name of the command whose clients wait for a lock and are informed of its loss.
const LockCommand = "lock"

// HeldLock names a lock that a token was granted, with the fence that LOCK answered.
type HeldLock struct {
	DB         int
	Key, Token string
	Fence      uint64
}

// The values of LockNews.How that code compares with. All others are words of LOCKS HISTORY, too.
const (
	LockGranted  = "granted"  // LOCK answered the fence: the token holds the lock, perhaps already for some time
	LockReleased = "released" // the token gave it up
	LockDeleted  = "deleted"  // a client deleted the key
	LockUnknown  = "unknown"  // the cause is not known
)

// NothingKnown begins the answer of LOCKS WHY if nothing is known of the token and the lock.
const NothingKnown = "Nothing is known of "

// LockNews is an event of one lock, for the clients that hold locks: LOCK was granted, or a lock whose history is
// kept was lost, however it was taken.
type LockNews struct {
	HeldLock        // no Token: all locks of the database. Fence: LockGranted only
	How      string // LockGranted, or the way it was lost; "": of no interest to holders
	LeaseMs  int64  // LockGranted
	Script   bool   // a script did it: whether it compared the token is not known
	Client   Sender // the client that did it; "": not known, or none
}

// Lease is a node's view of a lock, by the entries that it has applied and by the log clock.
type Lease struct {
	Held    bool   // by the token, with that fence
	Until   int64  // the tick after which the lease ends
	LeaseMs int64  // the lease when it was last renewed; -1: it has none now
	LeftMs  int64  // the rest of it
	How     string // not Held: the way it was lost, or LockUnknown ...
	Script  bool   // ... and the cause, as in LockNews
	Client  Sender
}
