package keyspace

import (
	"fmt"
	"math"
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/resp"
)

// The commands below, like SET and EXPIRE with the same words, compare what a key
// holds and act on it in one step: a lock is renewed or released by its holder only,
// without a script.
var compareRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "delex", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "8.4.0", Summary: "Conditionally removes the specified key based on value or hash digest comparison.",
		Syntax: "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Run: cmdDelEX},
	{Spec: resp.Spec{
		Name: "delifeq", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "9.0.0", Summary: "Delete a key if its value is the given one (from Valkey)",
		Syntax: "key value",
	}, Run: cmdDelIfEQ},
	{Spec: resp.Spec{
		Name: "digest", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "8.4.0", Summary: "Return the XXH3 digest of the value of a key, as 16 hexadecimal digits",
		Syntax: "key",
	}, Run: cmdDigest},
	{Spec: resp.Spec{
		Name: "msetex", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys, Keys: resp.Keys{NumAt: 1, Step: 2}, Access: "OW update",
		Group: "string", Since: "8.4.0", Summary: "Set multiple keys to multiple values, with one expiration for all of them",
		Syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
	}, Run: cmdMSetEX},
}

// The error texts that only these commands use.
const (
	errDelEXType      = "ERR Key should be of string type if conditions are specified"
	errDelEXCondition = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
	errDigestLength   = "ERR must be exactly 16 hexadecimal characters"
	errNumKeysValue   = "ERR invalid numkeys value"
	errKeyValuePairs  = "ERR wrong number of key-value pairs"
)

// comparison is a way to compare what a key holds.
type comparison struct {
	word   string
	digest bool // with the digest, not with the value itself
	equal  bool // it is to be equal, or else to differ
}

var comparisons = []comparison{
	{word: "IFEQ", equal: true},
	{word: "IFNE"},
	{word: "IFDEQ", digest: true, equal: true},
	{word: "IFDNE", digest: true},
}

// comparisonOf is the comparison that a word names; nil for another word.
func comparisonOf(word string) *comparison {
	for i := range comparisons {
		if resp.Is(word, comparisons[i].word) {
			return &comparisons[i]
		}
	}
	return nil
}

// condition is a comparison with an operand; without a comparison it is always met.
type condition struct {
	*comparison
	operand string
}

// meets reports whether a key is as the condition asks; e is nil where it is absent,
// and then differs from everything. As in Redis, the digest's length is looked at last,
// and the digits never.
func (c *ctx) meets(cond condition, e *entry) (met bool, err error) {
	switch {
	case cond.comparison == nil:
		return true, nil
	case e == nil:
		return !cond.equal, nil
	case e.agg() != nil:
		return false, resp.Error(resp.ErrWrongType)
	case !cond.digest:
		c.m.spend(int64(len(cond.operand)))
		return (e.str() == cond.operand) == cond.equal, nil
	case len(cond.operand) != digestDigits:
		return false, resp.Error(errDigestLength)
	}
	return strings.EqualFold(c.digest(e), cond.operand) == cond.equal, nil
}

const digestDigits = 16

// digestWork is the work of a byte.
const digestWork = 2

// digest is the XXH3 hash of a string, 64 bits, with the default secret and no seed.
func (c *ctx) digest(e *entry) string {
	c.m.spend(digestWork * int64(len(e.str())))
	return fmt.Sprintf("%0*x", digestDigits, xxh3.HashString(e.str()))
}

func cmdDigest(c *ctx, args resp.Args) resp.Reply {
	e, err := c.lookupString(args[1])
	if err != nil || e == nil {
		return orNil(err)
	}
	return resp.Bulk(c.digest(e))
}

// cmdDelEX looks at the condition only if there is a key, as Redis does.
func cmdDelEX(c *ctx, args resp.Args) resp.Reply {
	if len(args) != 2 && len(args) != 4 {
		return resp.WrongArity("delex")
	}
	e := c.lookup(args[1])
	if e == nil {
		return resp.Int(0)
	}
	if len(args) == 2 {
		return c.deleteIf(args[1], true)
	}
	if e.agg() != nil {
		return resp.Err(errDelEXType)
	}
	cond := condition{comparisonOf(args[2]), args[3]}
	if cond.comparison == nil {
		return resp.Err(errDelEXCondition)
	}
	met, err := c.meets(cond, e)
	if err != nil {
		return resp.Fail(err)
	}
	return c.deleteIf(args[1], met)
}

func cmdDelIfEQ(c *ctx, args resp.Args) resp.Reply {
	e, err := c.lookupString(args[1])
	if err != nil {
		return resp.Fail(err)
	}
	return c.deleteIf(args[1], e != nil && e.str() == args[2])
}

// deleteIf answers how many keys it has deleted.
func (c *ctx) deleteIf(key string, met bool) resp.Reply {
	if !met {
		return resp.Int(0)
	}
	c.deleteNotify(key)
	return resp.Int(1)
}

func cmdMSetEX(c *ctx, args resp.Args) resp.Reply {
	n, ok := resp.ParseInt(args[1])
	if !ok || n < 1 || n > math.MaxInt32 {
		return resp.Err(errNumKeysValue)
	}
	rest := args[2:]
	if 2*n > int64(len(rest)) {
		return resp.Err(errKeyValuePairs)
	}
	pairs := rest[:2*n]
	opts, ok := parseSetOptions(rest[2*n:], forMSetEX)
	if !ok {
		return resp.Err(resp.ErrSyntax)
	}
	until := never
	if opts.expiry != nil {
		var err error
		if until, err = c.deadlineOf(*opts.expiry, opts.number, "msetex"); err != nil {
			return resp.Fail(err)
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if there := c.lookup(pairs[i]) != nil; there && opts.onlyNew || !there && opts.onlyOld {
			return resp.Int(0)
		}
	}
	if !c.m.hasRoom(2 * c.m.dbs[c.db].editWork(pairs, 2)) {
		return resp.Err(errWorkMeter)
	}
	for i := 0; i < len(pairs); i += 2 {
		c.setString(pairs[i], stringValue(pairs[i+1]), opts.keptOr(c.lookup(pairs[i]), until), opts.expiry != nil)
	}
	return resp.Int(1)
}
