// Package locks parses the answers of LOCKS and LOCKD MEMBERS into Go values, for programs that show them to people.
// A field that the server omits is zero; an unknown field is ignored, so that an older program understands a newer
// server.
//
// Names, notes, owners and reasons are arbitrary bytes that clients have chosen: escape them before display. Values
// are safe for concurrent use while none of them is modified.
package locks

import "time"

// Lock is one lock with its present holders.
type Lock struct {
	Key     string
	Mode    Mode     // "": the key holds no lock now, but has waiters
	Permits int64    // how many may hold it: LIMIT, 1 if exclusive; 0 if shared
	Holders []Holder // in the server's order
	Waiters int64    // number of waiters
}

// Since returns the wall time of the first grant to the present holders; zero: not known.
func (l *Lock) Since() (first time.Time) {
	for i := range l.Holders {
		if s := l.Holders[i].Since; first.IsZero() || !s.IsZero() && s.Before(first) {
			first = s
		}
	}
	return first
}

// Mode is the mode in which a lock is held, or asked for.
type Mode string

// The modes of a lock.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Limit     Mode = "limit"
)

// Client is the client that sent a command; zero if unknown.
type Client struct {
	ID   int64
	Name string // of CLIENT SETNAME
	Addr string
	Node string // id of the client's node
}

// Holder is a holder of a lock.
type Holder struct {
	Token  string // as much of it as the server shows
	Owner  string // the token, if none was given
	By     string // the command that took the lock, in capitals
	Client Client
	Fence  int64
	Note   string

	HasLease  bool          // false: it never expires
	LeaseLeft time.Duration // 0 without a lease
	Lease     time.Duration // full length when last renewed; 0: not known

	Since       time.Time     // the wall time of the grant; zero: not known
	Held        time.Duration // since then, by the log clock
	Renewals    int64
	LastRenewal time.Time // zero: never
}

// Waiter is a waiter for a lock.
type Waiter struct {
	Token  string // as much of it as the server shows
	Owner  string // the token, if none was given
	Client Client
	Mode   Mode
	Waited time.Duration
	Left   time.Duration // the rest of its WAIT
	Note   string
}

// Info is a lock with its waiters.
type Info struct {
	Lock
	Line       []Waiter // in the order of service
	KnownSince time.Time
}

// Event is one event in the history of a lock, or of a wait for it.
type Event struct {
	Time  time.Time // by the cluster's wall clock
	Tick  int64     // log clock, in milliseconds
	Event string    // "granted", "released", "expired" ...

	Token  string // as much of it as the server shows; "" for an event of a whole database
	Owner  string // "": none was given
	Mode   Mode
	Fence  int64  // 0: the token never held the lock
	By     string // the command that caused it, in capitals; "": none did
	Client Client // that sent the command
	Note   string // of a grant
	Reason string // of LOCKS FORCE, or the error that ended a wait
	DB     int64  // of "swapped": the other database

	Waited      time.Duration // of a grant and of the end of a wait
	Held        time.Duration // of a loss
	Lease       time.Duration // full length when last renewed
	Renewals    int64
	LastRenewal time.Time // zero: never
}

// Granted reports whether the event gave a token the lock.
func (e *Event) Granted() bool { return e.Event == "granted" }

// Lost reports whether the event ended a token's hold of the lock.
func (e *Event) Lost() bool {
	switch e.Event {
	case "released", "expired", "deleted", "overwritten", "forced", "moved", "flushed", "swapped":
		return true
	}
	return false
}

// Diagnosis is the answer of LOCKS DOCTOR.
type Diagnosis struct {
	Node       string    // the node that was asked
	SeenSince  time.Time // the start of its observations
	KnownSince time.Time // of a History
	Findings   []Finding
}

// Finding is one mistake.
type Finding struct {
	Keys   string  // the common part of the locks' names, with * for the rest
	Says   string  // the finding in a sentence, with the remedy
	Fields []Field // the evidence
}

// Field is a field of an answer as text, for tables whose columns the server chooses; "" for a nil.
type Field struct{ Name, Value string }

// Member is a member in LOCKD MEMBERS.
type Member struct {
	ID, Peer, Role, Suffrage, State string
	Clients                         []string // addresses for clients
	Applied                         int64    // index of the last entry applied there
	Level                           int64    // of the cluster: the one in force
	Lowest, Highest                 int64    // levels that the member supports; 0: not known
	Version                         string   // of lockd; "": not known
}

// History is the recorded history of a lock.
type History struct {
	KnownSince time.Time // nothing is missing since then; zero: nothing is recorded
	Events     []Event   // the newest last
}
