package resp

import (
	"fmt"
	"math"
)

// Kind is the type of a Reply. The zero Kind is KindNone.
type Kind uint8

// The kinds of reply. For a type that RESP2 lacks, AppendTo writes the form that Redis falls back to; the protocols
// differ nowhere else.
const (
	KindNone      Kind = iota // writes nothing (CLIENT REPLY OFF, SUBSCRIBE's own answers)
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

// OK returns the status reply +OK.
func OK() Reply { return ok }

// Status returns a status reply ("simple string") such as +PONG.
func Status(s string) Reply { return Reply{Kind: KindStatus, Str: s} }

// Err returns an error reply. text starts with its code: "ERR syntax error".
func Err(text string) Reply { return Reply{Kind: KindError, Str: text} }

// Errf is Err with a format.
func Errf(format string, args ...any) Reply { return Err(fmt.Sprintf(format, args...)) }

// Int returns an integer reply.
func Int(n int64) Reply { return Reply{Kind: KindInt, Int: n} }

// Bulk returns a bulk string reply. The bytes need not be valid UTF-8.
func Bulk(s string) Reply { return Reply{Kind: KindBulk, Str: s} }

// Nil returns the null bulk string, the answer for a missing value.
func Nil() Reply { return Reply{Kind: KindNil} }

// NilArray returns the null array: an aborted EXEC, a blocking command timed out.
func NilArray() Reply { return Reply{Kind: KindNilArray} }

// Array returns an array of replies.
func Array(elems ...Reply) Reply { return Reply{Kind: KindArray, Elems: elems} }

// Bulks returns an array of bulk strings.
func Bulks(items ...string) Reply {
	elems := make([]Reply, len(items))
	for i, s := range items {
		elems[i] = Bulk(s)
	}
	return Array(elems...)
}

// Map returns a map reply; elems alternate key, value.
func Map(elems ...Reply) Reply { return Reply{Kind: KindMap, Elems: elems} }

// Set returns a set reply.
func Set(elems ...Reply) Reply { return Reply{Kind: KindSet, Elems: elems} }

// Pairs returns an array of pairs in RESP3, a flat array in RESP2.
func Pairs(elems ...Reply) Reply { return Reply{Kind: KindPairs, Elems: elems} }

// PairMap returns a map in RESP3, an array of pairs in RESP2.
func PairMap(elems ...Reply) Reply { return Reply{Kind: KindPairMap, Elems: elems} }

// Double returns a floating-point reply.
func Double(f float64) Reply { return Reply{Kind: KindDouble, Int: int64(math.Float64bits(f))} }

// Bool returns a boolean reply: #t or #f in RESP3, 1 or 0 in RESP2.
func Bool(b bool) Reply {
	if b {
		return Reply{Kind: KindBool, Int: 1}
	}
	return Reply{Kind: KindBool}
}

// BigNumber returns an integer of any size, in decimal digits.
func BigNumber(digits string) Reply { return Reply{Kind: KindBigNumber, Str: digits} }

// Verbatim returns text for a person to read (format "txt"): INFO, CLUSTER NODES.
func Verbatim(text string) Reply { return Reply{Kind: KindVerbatim, Str: text} }

// Push returns an out-of-band message of RESP3, a plain array in RESP2.
func Push(elems ...Reply) Reply { return Reply{Kind: KindPush, Elems: elems} }

// Float returns the value of a KindDouble reply.
func (r Reply) Float() float64 { return math.Float64frombits(uint64(r.Int)) }

// IsErr reports whether r is an error reply.
func (r Reply) IsErr() bool { return r.Kind == KindError }

// IsNil reports whether r is a null, of either RESP2 form.
func (r Reply) IsNil() bool { return r.Kind == KindNil || r.Kind == KindNilArray }
