package resp

// What passes between the machine and the node whose client holds a lock, so that the client hears
// that it has lost it.

// LockCommand is the name of the command whose clients stand in line for a lock, and are informed of its loss.
const LockCommand = "lock"

// HeldLock names a lock that a token was granted, with the fence that LOCK answered.
type HeldLock struct {
	DB         int
	Key, Token string
	Fence      uint64
}

// The words of LockNews.How that somebody asks for. All others are words of LOCKS HISTORY, too.
const (
	LockGranted  = "granted"  // LOCK was answered the fence: the token has the lock, perhaps for some time
	LockReleased = "released" // the token gave it up
	LockDeleted  = "deleted"  // somebody deleted the key
	LockUnknown  = "unknown"  // it is not known how it was lost
)

// LockNews is what has become of a lock, for those who hold locks: a LOCK that was granted, or the loss of a lock
// that is noted, however it was taken.
type LockNews struct {
	HeldLock        // without a Token: all locks of the database. Fence: LockGranted only
	How      string // LockGranted; or how it was lost; "": it is nothing to those who hold locks
	LeaseMs  int64  // LockGranted
	Script   bool   // a script did it: whether it had compared the token nobody knows
	Client   Sender // who did it; "": not known, or nobody
}

// Lease is what a node knows of a lock, by the entries that it has applied and by the log clock.
type Lease struct {
	Held    bool   // by the token, with that fence
	Until   int64  // the tick after which the lease ends
	LeaseMs int64  // the lease as it was last begun; -1: it has none now
	LeftMs  int64  // what is left of it
	How     string // not Held: how it was lost, or LockUnknown ...
	Script  bool   // ... and whose doing that was, as in LockNews
	Client  Sender
}
