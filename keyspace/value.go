package keyspace

import (
	"math"
	"strings"
)

// value is what a key holds: an aggregate, or a string where agg is nil.
type value struct {
	str string
	agg aggregate
}

// stringValue is a string taken from a command's arguments: it is cloned, because
// they alias a whole entry of the log.
func stringValue(s string) value { return value{str: strings.Clone(s)} }

// freshValue is a string that a command has made itself, which aliases nothing.
func freshValue(s string) value { return value{str: s} }

// kind is the value's type in the words of TYPE.
func (v value) kind() string {
	if v.agg != nil {
		return v.agg.kind().name
	}
	return "string"
}

// clone is a value that shares nothing that may change.
func (v value) clone() value {
	if v.agg != nil {
		v.agg = v.agg.clone()
	}
	return v
}

// deadline is the end of a lease. The tick decides; the wall time is kept to be
// reported (EXPIRETIME), exactly as it was asked for.
type deadline struct {
	tick   int64 // the key is gone once the log clock is past it
	wallMs int64 // since 1970
}

// never is the deadline of a key without a lease.
var never = deadline{tick: math.MaxInt64, wallMs: -1}

func (d deadline) set() bool { return d.tick != math.MaxInt64 }

// entry is a key with all that belongs to it. It is immutable once it is stored
// (only the inside of an aggregate changes, see editAs): that is why a reader, a
// snapshot and the journal of a script can hold on to one. store replaces it.
type entry struct {
	value
	key      string
	deadline deadline
	fence    uint64 // where the key last came into being (law 11)
	version  uint64 // of the last modification, for WATCH
	bytes    int64  // estimate of the memory it takes
}

// What an entry costs beside its bytes: the estimate behind used_memory. Nodes
// must agree on it, so it cannot be measured.
const (
	entryOverheadBytes = 144
	leaseOverheadBytes = 48
)

func (e *entry) size() int64 {
	n := entryOverheadBytes + int64(len(e.key)) + int64(len(e.str))
	if e.deadline.set() {
		n += leaseOverheadBytes
	}
	if e.agg != nil {
		n += e.agg.size()
	}
	return n
}
