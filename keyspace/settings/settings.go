// Package settings has the replicated settings: the parameters of CONFIG that are the same on every node, the checks of
// their values, and the values in force.
//
//	settings.go    the values, as a whole
//	parameters.go  the parameters and their defaults
//	check.go       the checks of values
package settings

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Values has the values of all parameters. It is immutable: CONFIG SET replaces it as a whole, which makes it atomic.
type Values struct {
	values []string // as CONFIG GET shows them, in the order of parameters

	// What the machine itself uses, read from values.
	MaxMemoryBytes    int64
	Notify            emit.Classes
	Script            resp.ScriptLimits
	StepWork          int64 // what a step counts for in its request: one script may take all that it is allowed
	Hashes            value.HashLimits
	Lists             value.ListLimits
	Sets              value.SetLimits
	Zsets             value.ZsetLimits
	StreamNodeEntries int64 // entries of a full node
	StreamNodes       value.NodeLimits
	LockPattern       string
	HistoryMax        int64 // events of locks
	ShowTokens        bool  // show whole tokens
	WakeLibraries     bool
	EmbargoUntil      int64  // tick until which no new lock is granted
	FullDisks, NoRoom string // nodes whose disks are full, and the error of what would let the state grow
}

// Default returns the values that a new cluster has.
func Default() *Values {
	s := &Values{values: make([]string, len(Parameters))}
	for i := range Parameters {
		s.values[i] = Parameters[i].Value
	}
	s.read()
	return s
}

// With returns settings that differ in the given names and values, name after
// value; the error is that of CONFIG SET at a level.
func (s *Values) With(level int, pairs []string) (next *Values, err error) {
	next = &Values{values: slices.Clone(s.values)}
	taken := make([]string, len(Parameters)) // the name each was set by
	for i := 0; i+1 < len(pairs); i += 2 {
		at, name := indexOf(pairs[i]), strings.ToLower(pairs[i])
		if at < 0 || Parameters[at].Level > level {
			return nil, resp.Error("ERR Unknown option or number of arguments for CONFIG SET - '" + pairs[i] + "'")
		}
		err = resp.Error("duplicate parameter")
		if taken[at] != name {
			next.values[at], err = Parameters[at].take(next.values[at], strings.Clone(pairs[i+1]))
		}
		if err != nil {
			return nil, resp.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, err)
		}
		taken[at] = name
	}
	next.read()
	return next, nil
}

// read fills in what the machine uses, of settings that are new. The values have been checked.
func (s *Values) read() {
	s.MaxMemoryBytes = s.number(nameMaxMemory)
	s.Notify, _ = emit.ParseClasses(s.value(nameNotify))
	s.Script = resp.ScriptLimits{Steps: s.number(nameScriptSteps), MemBytes: s.number(nameScriptMemory)}
	s.StepWork = meter.StepWorkOf(s.Script.Steps)
	s.Hashes = value.HashLimits{
		Entries:    min(s.number(nameHashEntries), value.SmallMax),
		ValueBytes: min(s.number(nameHashValue), value.SmallValueMax),
	}
	s.Lists = listLimits(s.number(nameListSize))
	s.Sets = value.SetLimits{
		Ints:       min(s.number(nameSetInts), value.SmallMax),
		Entries:    min(s.number(nameSetEntries), value.SmallMax),
		ValueBytes: min(s.number(nameSetValue), value.SmallValueMax),
	}
	s.Zsets = value.ZsetLimits{
		Entries:    min(s.number(nameZsetEntries), value.SmallMax),
		ValueBytes: min(s.number(nameZsetValue), value.SmallValueMax),
	}
	s.LockPattern = s.value(nameLockPattern)
	s.HistoryMax = s.number(nameLockHistory)
	s.ShowTokens = s.value(nameLockTokens) == "full"
	s.WakeLibraries = s.value(nameLockWake) == "yes"
	s.EmbargoUntil = s.number(NameLockHold)
	if s.FullDisks = s.value(NameFullDisks); s.FullDisks != "" {
		s.NoRoom = fmt.Sprintf(errDiskFullFmt, s.FullDisks)
	}
	s.StreamNodes = value.NodeLimits{Entries: s.number(nameStreamEntries), Bytes: s.number(nameStreamBytes)}
	s.StreamNodeEntries = s.StreamNodes.Entries
	if s.StreamNodeEntries == 0 { // the nodes have no limit in entries
		s.StreamNodeEntries = streamNodeEntries
	}
}

func (s *Values) value(name string) string { return s.values[indexOf(name)] }

func (s *Values) number(name string) int64 {
	n, ok := resp.ParseInt(s.value(name))
	if !ok {
		panic("keyspace: setting " + name + " is no number")
	}
	return n
}

// Changed returns the messages about what differs from older values.
func (s *Values) Changed(was *Values) (msgs []resp.Message) {
	for i := range Parameters {
		if s.values[i] != was.values[i] {
			msgs = append(msgs, s.message(i))
		}
	}
	return msgs
}

// Messages lists every setting as a MessageConfig.
func (s *Values) Messages() []resp.Message {
	msgs := make([]resp.Message, len(Parameters), len(Parameters)+1)
	for i := range Parameters {
		msgs[i] = s.message(i)
	}
	return msgs
}

// Shown returns a value as CONFIG GET shows it.
func (s *Values) Shown(i int) string {
	if Parameters[i].Name == nameNotify {
		return s.Notify.String()
	}
	return s.values[i]
}

func (s *Values) message(i int) resp.Message {
	return resp.Message{Kind: resp.MessageConfig, Channel: Parameters[i].Name, Payload: s.Shown(i)}
}

// listPackBytes lists the sizes that the negative values of list-max-listpack-size
// stand for: -1 for the first.
var listPackBytes = []int64{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}

// listLimits returns the limits that a value of list-max-listpack-size stands for.
func listLimits(n int64) value.ListLimits {
	if n < 0 {
		return value.ListLimits{Elements: math.MaxInt64, Bytes: listPackBytes[min(-n, int64(len(listPackBytes)))-1]}
	}
	return value.ListLimits{Elements: max(n, 1), Bytes: value.ListPackBytesMax}
}

// The nodes of a stream, where nothing else is set, and how many entries a trim with ~
// removes at most without LIMIT: those of a hundred nodes, as in Redis.
const (
	streamNodeEntries = 100
	streamTrimNodes   = 100
	streamTrimMost    = 1_000_000
)

// StreamTrimMax returns how many entries a trim with ~ removes at most without LIMIT.
func (s *Values) StreamTrimMax() int64 {
	return streamTrimNodes * min(s.StreamNodeEntries, streamTrimMost/streamTrimNodes)
}

// fullDisksBytesMax bounds the list of nodes whose disks are full.
const fullDisksBytesMax = 64 << 10

// errDiskFullFmt refuses, as Redis does over maxmemory, what would let the state grow.
const errDiskFullFmt = "OOM command not allowed when the disk is nearly full: make room on %s. Until then locks can " +
	"be renewed and released"

// Write writes the settings into an image, by name.
func (s *Values) Write(w *value.Writer) {
	all := slices.DeleteFunc(changeable(), func(i int) bool {
		p := &Parameters[i]
		return (p.Seldom || p.Level > 0) && s.values[i] == p.Value
	})
	w.U64(uint64(len(all)))
	for _, i := range all {
		w.Text(Parameters[i].Name)
		w.Text(s.values[i])
	}
}

// Read reads the settings of an image. It takes a parameter that the image does not have yet at its default.
func Read(r *value.Reader, level int) *Values {
	var pairs []string
	last := ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		name, value := r.Text(), r.Text()
		if name <= last {
			r.Fail("settings are not in order")
		}
		pairs, last = append(pairs, name, value), name
	}
	s, err := Default().With(level, pairs)
	if err != nil {
		r.Fail("settings: " + err.Error())
		return Default()
	}
	return s
}
