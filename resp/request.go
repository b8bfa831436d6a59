package resp

import "slices"

// Cmd is one data command and the database (0 to 15) it works on.
type Cmd struct {
	DB   int
	Args Args

	// Spec is the row of the command that Args call, found and checked by Table.Find. It is not encoded: a node that
	// decodes the command looks it up again.
	Spec *Spec
}

// Is reports whether the row of the command has one of the flags.
func (c *Cmd) Is(flags Flags) bool { return c.Spec != nil && c.Spec.Flags&flags != 0 }

// Key names a key of a database.
type Key struct {
	DB   int
	Name string
}

// Watch is a key that WATCH watches, with its version at that time.
type Watch struct {
	DB      int
	Key     string
	Version uint64
	Holder  bool // the version is that of one holder of a lock of many
}

// Request holds one command, a pipelined run of commands, or the body of a MULTI, which a session submits at once. It
// takes effect as a whole, with no command of another client in between, unless Result.Left says that commands are
// left.
type Request struct {
	Cmds  []Cmd
	Multi bool // the body of a MULTI: waiters for its keys are served after the body, not within it
	Trace bool // the Result must have a Trace

	// Partly: the caller accepts replies to the first commands only, and submits the rest after it has passed these
	// on (see Result.Left). It is not encoded.
	Partly bool

	Watch *Watching // the versions that WATCH and EXEC ask for; nil: none

	// Block is a logged step about blocking commands. Cmds is then the blocking command, or empty.
	Block *BlockStep

	// Sender is the client, if known: it is recorded in the history of locks.
	Sender Sender

	// User is the user whose rights bind the scripts of the request; "": no limits. The commands of the request
	// itself were already checked.
	User string

	// Observations are the observations of locks on the node that was asked, in the binary form of package lockuse; "":
	// none. They travel with a request to the leader but are not logged: only reads have them.
	Observations string
}

// Watching asks about versions of keys.
type Watching struct {
	Learn []Key   // return their versions (WATCH)
	Check []Watch // of a transaction: if one version differs, nothing is executed and the Result is Aborted
}

// Changes are the flags of rows that run only as an entry of the log.
const Changes = Write | MayReplicate

// Writes reports whether a request must go through the log: it goes as a whole if one of its commands must.
func (r *Request) Writes() bool {
	return r.Block != nil && r.Block.Kind != BlockClaim ||
		slices.ContainsFunc(r.Cmds, func(c Cmd) bool { return c.Is(Changes) })
}

// Empty reports whether the request asks for nothing. The cluster logs such requests, too.
func (r *Request) Empty() bool {
	return len(r.Cmds) == 0 && len(r.watching().Learn) == 0 && r.Block == nil
}

// watching returns *Watch, or the zero value if Watch is nil.
func (r *Request) watching() (w Watching) {
	if r.Watch != nil {
		w = *r.Watch
	}
	return w
}

// Result answers a Request.
type Result struct {
	// One reply for each command, in the order of the request; nil if Aborted; fewer if commands are Left. An error
	// of a request without commands is one error reply.
	Replies []Reply
	Watched *Watched // the answer to Request.Watch; nil: none
	Trace   *Trace   // if Request.Trace; nil: not known
	Denied  []Denial // the first DenialsMax calls that scripts were denied

	// Failed reports that the request as a whole was not executed, or that it is unknown whether it was: each reply is
	// the same error. It is not in the binary form: the node of the client judges.
	Failed bool

	// Index is the log index of the entry that executed the request; 0: no entry did. (A read has a Trace.Index all
	// the same.) It is not in the binary form of a Result: an answer to a peer carries it beside the Result.
	Index uint64

	// Work is the work that the machine did for the request, in steps of its own; the requests of an entry share the
	// entry's time in proportion. It is not in the binary form.
	Work int64
	// TookNs is the execution time on the answering node in nanoseconds, without waits; 0: not executed. An answer to
	// a peer carries it beside the Result, in microseconds.
	TookNs int64
}

// Bounds of Result.Denied: the number of denials, and the bytes of each name.
const (
	DenialsMax     = 16
	DenialBytesMax = 1 << 10
)

// Denial is a call of a script that the rights of Request.User forbid.
type Denial struct {
	Reason string // in the words of ACL LOG: command, key or channel
	Object string // the name of what was denied; cut at DenialBytesMax
}

// Watched is the answer to a Watching.
type Watched struct {
	Aborted  bool     // a version differed, so EXEC answers nil; the Result has nothing else
	Versions []uint64 // of the keys to learn
}

// Aborted reports whether nothing was executed because a watched key had changed.
func (r Result) Aborted() bool { return r.Watched != nil && r.Watched.Aborted }

// Trace gives the place of a request in the order of all changes (Message, MessageChanges), and the keys that its
// scripts read. CLIENT TRACKING needs both.
type Trace struct {
	Index uint64    // of the request's entry, or, for a read, of the last entry before it
	From  int64     // changes of that entry before the request
	Marks []int64   // changes of that entry up to the end of each command
	Reads []KeyRead // by the request's scripts, in order
}

// Size returns about how many bytes a Trace takes; 0 for nil.
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
	At  int64 // changes of the entry before the read
}

// Left returns how many commands at the end of the request were certainly not executed, because the work of earlier
// ones used up the entry's budget: all of them, or the rest of a pipelined run. The node submits them again. The
// first request of an entry always executes at least one command.
func (r Result) Left(req Request) int {
	if r.Aborted() {
		return 0
	}
	return max(0, len(req.Cmds)-len(r.Replies))
}

// Stamp is the time at which a request takes effect. It is an argument of every command, and the only time that a
// command sees.
type Stamp struct {
	Tick  int64  // log clock in milliseconds: leases are measured in it; it never goes back
	Wall  int64  // the cluster's wall clock in µs since 1970, never goes back: for TIME, EXPIREAT, XADD and LOCKS
	Index uint64 // index of the entry in the log; 0 for a read
	Seed  uint64 // the seed of random numbers, as of RANDOMKEY: the same on every node for an entry of the log
}

// MessageKind is the kind of a Message.
type MessageKind uint8

// The kinds of message.
const (
	MessageChannel MessageKind = iota // PUBLISH and keyspace notifications
	MessageShard                      // SPUBLISH
	MessageConfig                     // a setting changed: Channel is its name, Payload the value
	MessageChanges                    // the changes of an entry: Index and Changes
	MessageBlock                      // a blocking command ended: Block. Its changes follow in a later message
	MessageLock                       // an event of a lock: Index, Event and Form
	MessageHeld                       // an event of a lock, for holders only: its token was granted it again
	MessageUser                       // a user changed: Channel has the name, Payload the rules, "" if deleted
	MessageUsers                      // all users were replaced: Payload lists them as acl.Users.Text writes them
)

// LockForm renders an event of a lock: for subscribers as a message of a channel, for the node of a holding client as
// news. It is called only where there is a reader, which is rare.
type LockForm interface {
	Channel(event []byte) string
	Payload(event []byte) string
	News(event []byte) LockNews // its strings are valid during the delivery of the message
}

// Message leaves the machine beside the replies, on every node and in the order of the log.
type Message struct {
	Kind    MessageKind
	Channel string
	Payload string

	Index   uint64   // MessageChanges, MessageLock, MessageHeld: log index of the entry; MessageUser(s): their revision
	From    int      // MessageChanges: changes of the entry in earlier messages
	Changes []Change // MessageChanges: changes to the data, in order

	Block *BlockEnd // MessageBlock

	Event []byte // MessageLock, MessageHeld: immutable
	Form  LockForm
}

// ChangeKind is the kind of a Change.
type ChangeKind uint8

// The kinds of change.
const (
	ChangeKey     ChangeKind = iota // a command wrote or deleted the key
	ChangeExpired                   // the key expired
	ChangeAll                       // databases were emptied or exchanged: any key may have changed
	ChangeServed                    // a command that had waited wrote or deleted the key
)

// Change is one step of an entry's changes to the data. It omits the database: tracking, as in Redis, goes by the
// name alone.
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
