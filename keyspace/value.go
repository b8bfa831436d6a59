package keyspace

import (
	"math"
	"strings"
	"unsafe"
)

// value is what a key holds: a string or an aggregate. The methods below are the only
// ones that look at the fields. The zero value is an empty string.
type value struct {
	data unsafe.Pointer // of the bytes of a string, or to a held
	len  int            // of a string, or isAggregate
}

// isAggregate is the length that no string has.
const isAggregate = -1

// held is an aggregate as it was stored. Its inside may be changed in place before the
// next entry replaces it (see editAs), so what it counted for is kept beside it.
type held struct {
	agg   aggregate
	bytes int64 // its size when it was stored
}

// stringValue is a string taken from a command's arguments. They alias a whole entry of
// the log, so a long one is cloned; a short one is copied when it is stored.
func stringValue(s string) value {
	if len(s) > inlineMax {
		s = strings.Clone(s)
	}
	return freshValue(s)
}

// freshValue is a string that a command has made itself, which aliases nothing.
func freshValue(s string) value {
	return value{unsafe.Pointer(unsafe.StringData(s)), len(s)}
}

// aggregateValue is an aggregate that is complete: whoever changes it makes a new value
// of it.
func aggregateValue(agg aggregate) value {
	return value{unsafe.Pointer(&held{agg, agg.size()}), isAggregate}
}

// str is the string; "" of an aggregate.
func (v value) str() string {
	if v.len == isAggregate {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.len)
}

// agg is the aggregate; nil of a string.
func (v value) agg() aggregate {
	if v.len != isAggregate {
		return nil
	}
	return (*held)(v.data).agg
}

// size estimates the memory the value takes, as it was stored.
func (v value) size() int64 {
	if v.len != isAggregate {
		return int64(v.len)
	}
	return (*held)(v.data).bytes
}

// kind is the value's type in the words of TYPE.
func (v value) kind() string {
	if agg := v.agg(); agg != nil {
		return agg.kind().name
	}
	return "string"
}

// clone is a value that shares nothing that may change.
func (v value) clone() value {
	if agg := v.agg(); agg != nil {
		return aggregateValue(agg.clone())
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
