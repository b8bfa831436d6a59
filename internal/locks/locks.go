// Package locks is what LOCKS and LOCKD MEMBERS answer, as Go values: for everything that shows them to
// people. A field that the server left out is zero; one that it has and this package does not
// know is passed over, so an older program understands a newer server.
//
// Names, notes, owners and reasons are bytes that clients have chosen: whoever shows them must escape
// them for where he does. Values may be shared between goroutines as long as nobody changes them.
package locks

import "time"

// Lock is one lock, as it is held now.
type Lock struct {
	Key     string
	Mode    Mode     // "" for a key that is no lock now, though somebody waits for it
	Permits int64    // how many may hold it: those of LIMIT, 1 if it is exclusive; 0 if it is shared
	Holders []Holder // in the server's order
	Waiters int64    // who stand in line for it
}

// Since is the wall time of the first grant to those who hold the lock; zero: not known.
func (l *Lock) Since() (first time.Time) {
	for i := range l.Holders {
		if s := l.Holders[i].Since; first.IsZero() || !s.IsZero() && s.Before(first) {
			first = s
		}
	}
	return first
}

// Mode says how a lock is held, or asked for.
type Mode string

// The modes of a lock.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Limit     Mode = "limit"
)

// Client is who sent a command. All of it is zero where that is not known.
type Client struct {
	ID   int64
	Name string // of CLIENT SETNAME
	Addr string
	Node string // that the client is connected to
}

// Holder is one who holds a lock.
type Holder struct {
	Token  string // as much as the server shows of it
	Owner  string // else the token
	By     string // the command by which the lock was taken, in capitals
	Client Client
	Fence  int64
	Note   string

	HasLease  bool          // false: it holds the lock for ever
	LeaseLeft time.Duration // 0 without a lease
	Lease     time.Duration // in full, as it was begun the last time; 0: not known

	Since       time.Time     // the wall time of the grant; zero: not known
	Held        time.Duration // since then, by the clock of the log
	Renewals    int64
	LastRenewal time.Time // zero: never
}

// Waiter is one who stands in line for a lock.
type Waiter struct {
	Token  string // as much as the server shows of it
	Owner  string // else the token
	Client Client
	Mode   Mode
	Waited time.Duration
	Left   time.Duration // of its WAIT
	Note   string
}

// Info is a lock with its line.
type Info struct {
	Lock
	Line       []Waiter // the first one is the next
	KnownSince time.Time
}

// Event is one thing that became of a lock, or of a wait for it.
type Event struct {
	Time  time.Time // by the cluster's wall clock then
	Tick  int64     // by the clock of the log, in milliseconds
	Event string    // "granted", "released", "expired" ...

	Token  string // as much as the server shows of it; "" for what happened to a whole database
	Owner  string // "": none was said
	Mode   Mode
	Fence  int64  // 0: it never had the lock
	By     string // the command that did it, in capitals; "": none did
	Client Client // that sent the command
	Note   string // of a grant
	Reason string // of LOCKS FORCE, or the error that a wait ended with
	DB     int64  // with which its database was exchanged, of "swapped"

	Waited      time.Duration // of a grant and of the end of a wait
	Held        time.Duration // of a loss
	Lease       time.Duration // in full, as it was begun the last time
	Renewals    int64
	LastRenewal time.Time // zero: never
}

// Granted reports whether a token got the lock by the event.
func (e *Event) Granted() bool { return e.Event == "granted" }

// Lost reports whether a token had the lock until the event.
func (e *Event) Lost() bool {
	switch e.Event {
	case "released", "expired", "deleted", "overwritten", "forced", "moved", "flushed", "swapped":
		return true
	}
	return false
}

// Diagnosis is what LOCKS DOCTOR answers.
type Diagnosis struct {
	Node       string    // that was asked
	SeenSince  time.Time // from then on it has seen what clients do
	KnownSince time.Time // of a History
	Findings   []Finding
}

// Finding is one thing that is wrong.
type Finding struct {
	Keys   string  // what the names of the locks have in common: what differs is a *
	Says   string  // all of it in a sentence, with the cure
	Fields []Field // what it rests on
}

// Field is a field of an answer as text, for a table whose columns the server chooses; "" for a nil.
type Field struct{ Name, Value string }

// Member is one of LOCKD MEMBERS.
type Member struct {
	ID, Peer, Role, Suffrage, State string
	Clients                         []string // where it serves them
	Applied                         int64    // the last entry of the log there
	Level                           int64    // of the cluster: the one in force
	Lowest, Highest                 int64    // levels that the member can do; 0: it is not known
	Version                         string   // of lockd; "": it is not known
}

// History is what is known of a lock.
type History struct {
	KnownSince time.Time // from then on nothing is missing; zero: nothing is kept
	Events     []Event   // the newest last
}
