package resp

import (
	"fmt"
	"math"
)

// Kind says what a Reply is. The zero Kind is KindNone.
type Kind uint8

// The kinds of reply. Where RESP2 has no such type, AppendTo writes the form
// that Redis falls back to; that is the only place where the protocols differ.
const (
	KindNone      Kind = iota // nothing is written (CLIENT REPLY OFF, SUBSCRIBE's own answers)
	KindStatus                // +OK
	KindError                 // -ERR text
	KindInt                   // :1
	KindBulk                  // $5 hello
	KindNil                   // $-1 in RESP2, _ in RESP3
	KindNilArray              // *-1 in RESP2, _ in RESP3
	KindArray                 // *n
	KindMap                   // %n in RESP3, a flat array of 2n in RESP2
	KindSet                   // ~n in RESP3, an array in RESP2
	KindPairs                 // an array of two-element arrays in RESP3, a flat array in RESP2 (HRANDFIELD WITHVALUES)
	KindDouble                // ,1.5 in RESP3, a bulk string in RESP2
	KindBool                  // #t in RESP3, :1 in RESP2
	KindBigNumber             // (123 in RESP3, a bulk string in RESP2
	KindVerbatim              // =15 txt:... in RESP3, a bulk string in RESP2
	KindPush                  // >n in RESP3, an array in RESP2
	KindPairMap               // %n in RESP3, an array of two-element arrays in RESP2 (XREAD)
)

// Reply is one reply as a value. A Reply is immutable once it has been handed
// on: it is shared between goroutines without locks.
type Reply struct {
	Kind Kind
	Int  int64 // KindInt; KindBool as 0 or 1; KindDouble as its IEEE 754 bits
	// KindStatus, KindError (with its code, without '-'), KindBulk, KindBigNumber, KindVerbatim (the
	// text, format "txt")
	Str   string
	Elems []Reply // KindArray, KindSet, KindPush: items; KindMap, KindPairs, KindPairMap: key, value, key, value ...
}

var ok = Reply{Kind: KindStatus, Str: "OK"}

// OK is the status reply +OK.
func OK() Reply { return ok }

// Status is a status reply ("simple string") such as +PONG.
func Status(s string) Reply { return Reply{Kind: KindStatus, Str: s} }

// Err is an error reply. text starts with its code: "ERR syntax error".
func Err(text string) Reply { return Reply{Kind: KindError, Str: text} }

// Errf is Err with a format.
func Errf(format string, args ...any) Reply { return Err(fmt.Sprintf(format, args...)) }

// Int is an integer reply.
func Int(n int64) Reply { return Reply{Kind: KindInt, Int: n} }

// Bulk is a bulk string reply. The bytes need not be valid UTF-8.
func Bulk(s string) Reply { return Reply{Kind: KindBulk, Str: s} }

// Nil is the null bulk string, the answer for a missing value.
func Nil() Reply { return Reply{Kind: KindNil} }

// NilArray is the null array: an aborted EXEC, a blocking command timed out.
func NilArray() Reply { return Reply{Kind: KindNilArray} }

// Array is an array of replies.
func Array(elems ...Reply) Reply { return Reply{Kind: KindArray, Elems: elems} }

// Bulks is an array of bulk strings.
func Bulks(items ...string) Reply {
	elems := make([]Reply, len(items))
	for i, s := range items {
		elems[i] = Bulk(s)
	}
	return Array(elems...)
}

// Map is a map reply; elems alternate key, value.
func Map(elems ...Reply) Reply { return Reply{Kind: KindMap, Elems: elems} }

// Set is a set reply.
func Set(elems ...Reply) Reply { return Reply{Kind: KindSet, Elems: elems} }

// Pairs is an array of pairs in RESP3 and a flat array in RESP2.
func Pairs(elems ...Reply) Reply { return Reply{Kind: KindPairs, Elems: elems} }

// PairMap is a map in RESP3 and an array of pairs in RESP2.
func PairMap(elems ...Reply) Reply { return Reply{Kind: KindPairMap, Elems: elems} }

// Double is a floating-point reply.
func Double(f float64) Reply { return Reply{Kind: KindDouble, Int: int64(math.Float64bits(f))} }

// Bool is a boolean reply: #t or #f in RESP3, 1 or 0 in RESP2.
func Bool(b bool) Reply {
	if b {
		return Reply{Kind: KindBool, Int: 1}
	}
	return Reply{Kind: KindBool}
}

// BigNumber is an integer of any size, in decimal digits.
func BigNumber(digits string) Reply { return Reply{Kind: KindBigNumber, Str: digits} }

// Verbatim is plain text meant for a person (format "txt"): INFO, CLUSTER NODES.
func Verbatim(text string) Reply { return Reply{Kind: KindVerbatim, Str: text} }

// Push is an out-of-band message of RESP3, a plain array in RESP2.
func Push(elems ...Reply) Reply { return Reply{Kind: KindPush, Elems: elems} }

// Float returns the value of a KindDouble reply.
func (r Reply) Float() float64 { return math.Float64frombits(uint64(r.Int)) }

// IsErr reports whether r is an error reply.
func (r Reply) IsErr() bool { return r.Kind == KindError }

// IsNil reports whether r is a null, of either RESP2 form.
func (r Reply) IsNil() bool { return r.Kind == KindNil || r.Kind == KindNilArray }
