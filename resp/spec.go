package resp

import (
	"slices"
	"strings"
)

// Flags are the flags of a command's row, in Redis's words, as COMMAND INFO reports them. Routing reads them too, so
// that there are no lists of names: Write or MayReplicate goes through the log, any other command of the machine is a
// linearizable read.
type Flags uint64

// Redis's own command flags.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoMandatoryKeys
	NoMulti
	AllowBusy
	MovableKeys

	// CountsReceivers marks a command of the machine whose integer reply the session replaces by the number of this
	// node's subscribers to the channel named by the first argument (PUBLISH, SPUBLISH).
	CountsReceivers

	// TakesObservations marks a command of the machine whose request has Observations.
	TakesObservations
)

var flagNames = []struct {
	flag Flags
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"},
	{PubSub, "pubsub"}, {NoScript, "noscript"}, {Blocking, "blocking"}, {Loading, "loading"},
	{Stale, "stale"}, {SkipMonitor, "skip_monitor"}, {SkipSlowlog, "skip_slowlog"},
	{Asking, "asking"}, {Fast, "fast"}, {NoAuth, "no_auth"},
	{NoMandatoryKeys, "no_mandatory_keys"}, {NoMulti, "no_multi"}, {AllowBusy, "allow_busy"},
	{MovableKeys, "movablekeys"},
}

// Names lists the flags in the words and the order of COMMAND INFO.
func (f Flags) Names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Keys locates a command's keys among its arguments (the name is argument 0). First 0: no keys. Last -1: up to the
// last argument. NumAt > 0: the argument at NumAt is a count and the keys follow it (EVAL), after the key at First,
// if any (ZUNIONSTORE); with Step 2 a value follows each key (MSETEX). Half: the keys are the first half of the
// arguments after the first occurrence of this word (XREAD's STREAMS).
type Keys struct {
	First, Last, Step, NumAt int
	Half                     string
}

// The usual key positions.
var (
	NoKeys   = Keys{}
	FirstKey = Keys{First: 1, Last: 1, Step: 1}
	AllKeys  = Keys{First: 1, Last: -1, Step: 1}
	TwoKeys  = Keys{First: 1, Last: 2, Step: 1}
	SubKey   = Keys{First: 2, Last: 2, Step: 1} // of a subcommand
	PairKeys = Keys{First: 1, Last: -1, Step: 2}
	EvalKeys = Keys{NumAt: 2}
)

// Of returns the keys among args, and false where a count is not a number or does not fit the arguments. args must
// satisfy the command's arity.
func (k Keys) Of(args Args) ([]string, bool) {
	if k.Half != "" {
		return k.firstHalf(args)
	}
	if k.NumAt > 0 {
		if len(args) <= k.NumAt {
			return nil, false
		}
		n, ok := ParseInt(args[k.NumAt])
		step := max(k.Step, 1)
		if !ok || n < 0 || n > int64((len(args)-k.NumAt-1)/step) {
			return nil, false
		}
		counted := args[k.NumAt+1 : k.NumAt+1+int(n)*step]
		if k.First == 0 && step == 1 {
			return counted, true
		}
		var keys []string
		if k.First > 0 {
			keys = append(keys, args[k.First])
		}
		for i := 0; i < len(counted); i += step {
			keys = append(keys, counted[i])
		}
		return keys, true
	}
	if k.First == 0 {
		return nil, true
	}
	last := k.Last
	if last < 0 {
		last += len(args)
	}
	var keys []string
	for i := k.First; i <= last && i < len(args); i += k.Step {
		keys = append(keys, args[i])
	}
	return keys, true
}

func (k Keys) firstHalf(args Args) ([]string, bool) {
	for i := 1; i < len(args); i++ {
		if Is(args[i], k.Half) {
			rest := args[i+1:]
			return rest[:len(rest)/2], true
		}
	}
	return nil, false
}

// Spec is the row of a command. COMMAND, COMMAND DOCS, arity errors, MULTI's checks when it queues, routing and the
// table of docs/redis.md are derived from it.
type Spec struct {
	Name    string // lower case; a subcommand carries its container's name: "client|setname"
	Arity   int    // number of arguments, the name included; negative: at least that many
	Flags   Flags
	Keys    Keys
	Waits   string // the option without which a Blocking command does not wait; "": it has none
	NilBulk bool   // on a timeout it answers a null, not Redis's null array
	Refuses string // the option with which a call may find nothing to do; "*": any call may. See MayRefuse
	// Access to the keys, in Redis's words, where the flags do not imply it: "RW insert" for all of them, or a list,
	// "1 OW update; 2- RO access", whose parts begin with the argument concerned; 2- is that argument and all after
	// it.
	Access string
	// Redis's group: string, hash, generic, connection, server, scripting, pubsub, transactions; lockd
	// for our own
	Group   string
	Since   string // version of Redis that introduced it; "1.0.0" for our own: clients take it for one of Redis
	Level   int    // the cluster's level from which the machine has it; 0: from the first. See package keyspace
	Summary string // one line, as COMMAND DOCS has it
	Syntax  string // the arguments as the documentation writes them: "key value [NX | XX] [GET]"
	// ArgLevel returns the argument of a call that needs a later level than the row, and that level; to the machine
	// of an earlier level such a call is unknown, by that name. Level 0: no argument does. Nil: no call has any.
	ArgLevel func(args Args) (name string, level int)

	Subs []*Spec // subcommands of a container; filled by NewTable
	row  any     // the *Row that contains this Spec; filled by NewTable
}

// Check finds the row of the call args, spec itself or one of its subcommands, and checks the number of arguments, as
// Redis does before it queues or runs a command. On failure it returns nil and the error reply.
func (s *Spec) Check(args Args) (*Spec, Reply) {
	leaf := s.Leaf(args)
	switch {
	case leaf == nil:
		return nil, UnknownSubcommand(s.Name, args[1])
	case leaf.Arity > 0 && len(args) != leaf.Arity, leaf.Arity < 0 && len(args) < -leaf.Arity:
		return nil, WrongArity(leaf.Name)
	}
	return leaf, Reply{}
}

// Leaf finds the row of the call args, spec itself or one of its subcommands, whatever the number of arguments. It
// returns nil for an unknown subcommand.
func (s *Spec) Leaf(args Args) *Spec {
	if len(s.Subs) > 0 && len(args) >= 2 {
		return s.sub(args[1])
	}
	return s
}

func (s *Spec) sub(word string) *Spec {
	for _, sub := range s.Subs {
		if Is(word, sub.Name[len(s.Name)+1:]) {
			return sub
		}
	}
	return nil
}

// MayRefuse reports whether a call of a writing command may well change nothing, because the key is already taken.
// Such a command runs as a read before it is logged: where many clients compete for one lock, nearly all are refused.
func (s *Spec) MayRefuse(args Args) bool {
	if s.Refuses == "" || s.Refuses == "*" {
		return s.Refuses != ""
	}
	for i := -s.Arity; i < len(args); i++ {
		if Is(args[i], s.Refuses) {
			return true
		}
	}
	return false
}

// NamesClient reports whether a command may change the state of a lock, so that the log must name the client. Any
// command that works on strings, or on keys of every type, may store or delete a lock.
func (s *Spec) NamesClient() bool {
	if s.Flags&Changes == 0 {
		return false
	}
	switch s.Group {
	case "string", "generic", "lockd", "scripting", "server":
		return true
	}
	return false
}

// ReadsKeys reports whether a tracking client (CLIENT TRACKING) must be told of changes of the command's keys. A
// script's client must be told of the keys that the script really reads, which only the machine knows.
func (s *Spec) ReadsKeys() bool {
	return s.Flags&ReadOnly != 0 && s.Keys != NoKeys && s.Group != "scripting"
}

// Row is a row of a command table: the Spec of a command and the function that runs it. Each table has its own type
// of function F.
type Row[F any] struct {
	Spec
	Run  F
	Subs []Row[F] // subcommands; if there are any, Run is not used
}

// Table finds rows by name. It is immutable, and safe for concurrent use.
type Table[F any] struct {
	rows  map[string]*Row[F]
	specs []*Spec
}

// nameMax bounds a command's name in bytes: no row has a longer one.
const nameMax = 64

// NewTable joins families of rows. Two rows of one name are a programming error
// and panic.
func NewTable[F any](families ...[]Row[F]) *Table[F] {
	t := &Table[F]{rows: map[string]*Row[F]{}}
	for _, family := range families {
		for i := range family {
			t.add(&family[i])
		}
	}
	return t
}

func (t *Table[F]) add(row *Row[F]) {
	if t.rows[row.Name] != nil || len(row.Name) > nameMax {
		panic("resp: two rows for command " + row.Name)
	}
	t.rows[row.Name] = row
	t.specs = append(t.specs, &row.Spec)
	row.Spec.row, row.Spec.Subs = row, nil
	for i := range row.Subs {
		sub := &row.Subs[i]
		if !strings.HasPrefix(sub.Name, row.Name+"|") {
			panic("resp: subcommand " + sub.Name + " is not named after " + row.Name)
		}
		row.Spec.Subs = append(row.Spec.Subs, &sub.Spec)
		sub.Spec.row = sub
	}
}

// At returns the table of the rows that exist at a level: later additions are unknown in it, as they were to the
// lockd of that level.
func (t *Table[F]) At(level int) *Table[F] {
	at := &Table[F]{rows: map[string]*Row[F]{}}
	later := func(row Row[F]) bool { return row.Level > level }
	for _, spec := range t.specs {
		row := t.Row(spec)
		switch {
		case later(*row):
		case slices.ContainsFunc(row.Subs, later):
			old := *row
			old.Subs = slices.DeleteFunc(slices.Clone(row.Subs), later)
			at.add(&old)
		default:
			at.rows[row.Name], at.specs = row, append(at.specs, spec)
		}
	}
	return at
}

// Specs lists the table's commands in the order of their rows.
func (t *Table[F]) Specs() []*Spec { return t.specs }

// Lookup finds a command by name, in any case; nil if there is none.
func (t *Table[F]) Lookup(name string) *Spec {
	if row := t.row(name); row != nil {
		return &row.Spec
	}
	return nil
}

// Row returns the row of a spec, also of a subcommand; nil if the row belongs to a table of another type, or spec is
// nil.
func (t *Table[F]) Row(spec *Spec) *Row[F] {
	if spec == nil {
		return nil
	}
	row, _ := spec.row.(*Row[F])
	return row
}

func (t *Table[F]) row(name string) *Row[F] {
	if row := t.rows[name]; row != nil {
		return row
	}
	if len(name) > nameMax {
		return nil
	}
	var buf [nameMax]byte
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return t.rows[string(buf[:len(name)])]
}

// Find returns the row that runs args, a subcommand's where there is one, after the checks of Spec.Check; otherwise
// nil and the error reply.
func (t *Table[F]) Find(args Args) (*Row[F], Reply) {
	row := t.row(args[0])
	if row == nil {
		return nil, UnknownCommand(args)
	}
	spec, fail := row.Spec.Check(args)
	if spec == nil {
		return nil, fail
	}
	return t.Row(spec), Reply{}
}
