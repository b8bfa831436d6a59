package resp

import "slices"

// Cmd is one data command and the database (0 to 15) it works on.
type Cmd struct {
	DB   int
	Args Args

	// Spec is what Args call, found and checked by whoever read them (Table.Find). It does
	// not travel: nil until the node that decodes the command has looked it up.
	Spec *Spec
}

// Is reports whether what the command calls has one of the flags.
func (c *Cmd) Is(flags Flags) bool { return c.Spec != nil && c.Spec.Flags&flags != 0 }

// Key names a key of a database.
type Key struct {
	DB   int
	Name string
}

// Watch is a key a client watched and the version it had then (WATCH).
type Watch struct {
	DB      int
	Key     string
	Version uint64
	Holder  bool // the version is that of one holder of a lock of many
}

// Request is what a session asks for at once: one command, a pipelined run of them, or the body of
// a MULTI. It takes effect as a whole: no other client's command comes in between, unless a Result
// says that commands are left.
type Request struct {
	Cmds  []Cmd
	Multi bool // the body of a MULTI: waiters for its keys are served after it, not in between
	Trace bool // the Result must have a Trace

	// Partly: the caller takes the replies to the first commands, and asks for the rest once it has
	// passed them on (see Result.Left). It is not encoded.
	Partly bool

	Watch *Watching // what WATCH and EXEC ask for; nil: nothing

	// Block: what a node has logged about blocking commands. Cmds is then the command that is
	// asked for, or empty.
	Block *BlockStep

	// Sender is the client that asks, if that is known: it is noted beside what becomes of a lock.
	Sender Sender

	// User is whose rights the scripts of the request have; "": they may do everything. What the
	// request itself calls has been checked.
	User string

	// Sightings are what the node that is asked has seen its clients do with locks, as package sight writes
	// it; "": nothing. It goes with a request to the leader, but not into the log: only reads have it.
	Sightings string
}

// Watching is what a request asks about versions of keys.
type Watching struct {
	Learn []Key   // the Result must have their versions (WATCH)
	Check []Watch // of a transaction: if one version differs, nothing is done and the Result is Aborted
}

// Changes are the flags of rows that only an entry of the log may run.
const Changes = Write | MayReplicate

// Writes reports whether a request must go through the log: as a whole, if one of its
// commands must.
func (r *Request) Writes() bool {
	return r.Block != nil && r.Block.Kind != BlockClaim || slices.ContainsFunc(r.Cmds, func(c Cmd) bool { return c.Is(Changes) })
}

// Empty reports whether nothing is asked for. The log has such requests for reasons of its own.
func (r *Request) Empty() bool {
	return len(r.Cmds) == 0 && len(r.watching().Learn) == 0 && r.Block == nil
}

// watching is what Watch points to, or nothing.
func (r *Request) watching() (w Watching) {
	if r.Watch != nil {
		w = *r.Watch
	}
	return w
}

// Result answers a Request.
type Result struct {
	// One for each command of the request, in its order; nil if Aborted. See Left. What goes
	// wrong with a request without commands is one error.
	Replies []Reply
	Watched *Watched // what became of Request.Watch, if there is something to say
	Trace   *Trace   // of a request that asks for it; nil: not known
	Denied  []Denial // what scripts of the request were denied, the first DenialsMax of them

	// Index is that of the entry of the log in which the request was executed; 0: in none. (A read
	// has a Trace.Index all the same.) The binary form does not have it: an answer to a peer has it
	// beside the Result.
	Index uint64

	// Work is how much the machine did for the request, in a measure of its own, by which the requests of an entry
	// share its time. The binary form does not have it.
	Work int64
	// TookNs is for how many nanoseconds the node that answers has executed the request, without any wait; 0: it was
	// not executed. An answer to a peer has it beside the Result, in microseconds.
	TookNs int64
}

// What a Result says of scripts is bounded: the denials, and the bytes of the name of what is denied.
const (
	DenialsMax     = 16
	DenialBytesMax = 1 << 10
)

// Denial is a call that a script may not make with the rights of Request.User.
type Denial struct {
	Reason string // in the words of ACL LOG: command, key or channel
	Object string // what is denied, by its name; cut at DenialBytesMax
}

// Watched is what a Result says of a Watching.
type Watched struct {
	Aborted  bool     // a version differed, so EXEC answers nil; then there is nothing else in the Result
	Versions []uint64 // of the keys to learn
}

// Aborted reports whether nothing was done because a watched key had changed.
func (r Result) Aborted() bool { return r.Watched != nil && r.Watched.Aborted }

// Trace says where in the order of all changes (Message, MessageChanges) a request took
// effect, and which keys its scripts read: what CLIENT TRACKING needs to know.
type Trace struct {
	Index uint64    // of the entry that the request was, or, of a read, of the last one before it
	From  int64     // how many changes of that entry had been made before the request
	Marks []int64   // and after each of its commands
	Reads []KeyRead // by its scripts, in their order
}

// Size is about how many bytes a Trace takes; 0 of none.
func (t *Trace) Size() int64 {
	if t == nil {
		return 0
	}
	size := int64(8 * len(t.Marks))
	for _, r := range t.Reads {
		size += int64(len(r.Key)) + 16
	}
	return size
}

// KeyRead is a key that a script has read.
type KeyRead struct {
	Cmd int // the number of the script among the request's commands, from 0
	Key string
	At  int64 // how many changes of the entry had been made
}

// Left is how many commands at the end of the request were certainly not executed, because earlier
// ones in the same entry did so much: all of them, or the rest of a pipelined run. The node asks
// for these again. The first request of an entry always executes at least one command.
func (r Result) Left(req Request) int {
	if r.Aborted() {
		return 0
	}
	return max(0, len(req.Cmds)-len(r.Replies))
}

// Stamp is the time at which a request takes effect. It is an argument of every
// command, and the only time a command ever sees.
type Stamp struct {
	Tick  int64  // log clock in milliseconds: leases are measured in it; it never goes back
	Wall  int64  // the cluster's wall clock, which never goes back, in µs since 1970: for TIME, EXPIREAT and its like only
	Index uint64 // index of the entry in the log; 0 for a read
	Seed  uint64 // where RANDOMKEY and its like draw from: the same on every node for an entry of the log
}

// MessageKind says what a Message is.
type MessageKind uint8

// The kinds of message.
const (
	MessageChannel MessageKind = iota // PUBLISH and keyspace notifications
	MessageShard                      // SPUBLISH
	MessageConfig                     // a setting took a new value: Channel is its name, Payload the value
	MessageChanges                    // what an entry changed: Index and Changes
	MessageBlock                      // a blocking command has ended: Block. What it has changed comes behind it
	MessageLock                       // what has become of a lock: Index, Event and Form
	MessageHeld                       // the same, for holders only: a token that has the lock was granted it again
	MessageUser                       // a user has changed: Channel is his name, Payload his rules, "" if he is gone (package acl)
	MessageUsers                      // there are other users: Payload has all, as acl.Users.Text writes them
)

// LockForm tells what has become of a lock: to subscribers as a message of a channel, to the node whose client
// has the lock as news. It is asked where somebody may want to know: mostly nobody does.
type LockForm interface {
	Channel(event []byte) string
	Payload(event []byte) string
	News(event []byte) LockNews // whose strings are good for as long as the message is delivered
}

// Message is something that leaves the machine beside the replies, on every node
// and in the order of the log.
type Message struct {
	Kind    MessageKind
	Channel string
	Payload string

	Index   uint64   // MessageChanges, MessageLock, MessageHeld: the index of the entry in the log; MessageUser(s): their revision
	From    int      // MessageChanges: how many changes of the entry a message before this one has told
	Changes []Change // MessageChanges: what it did to the data, in order

	Block *BlockEnd // MessageBlock

	Event []byte // MessageLock, MessageHeld: it does not change
	Form  LockForm
}

// ChangeKind says what a Change is.
type ChangeKind uint8

// The kinds of change.
const (
	ChangeKey     ChangeKind = iota // a command wrote or deleted the key
	ChangeExpired                   // the key's lease has ended
	ChangeAll                       // databases were emptied or exchanged: any key may have changed
	ChangeServed                    // a command that had waited wrote or deleted the key
)

// Change is one step of what an entry did to the data. It does not say in which
// database: tracking, as in Redis, goes by the name alone.
type Change struct {
	Kind ChangeKind
	Key  string
}

// Field is one line of INFO, name:value.
type Field struct{ Name, Value string }

// Section is one section of INFO.
type Section struct {
	Name   string // as written after "# ": Server, Clients, ...
	Fields []Field
}
