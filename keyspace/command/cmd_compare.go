package command

import (
	"math"

	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/resp"
)

// The commands below, like SET and EXPIRE with the same words, compare what a key
// holds and act on it in one step: a lock is renewed or released by its holder only,
// without a script.
var compareRows = []row{
	{Spec: resp.Spec{
		Name: "delex", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "8.4.0",
		Summary: "Conditionally removes the specified key based on value or hash digest comparison.",
		Syntax:  "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Parse: parseDelEX},
	{Spec: resp.Spec{
		Name: "delifeq", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "9.0.0", Summary: "Delete a key if its value is the given one (from Valkey)",
		Syntax: "key value",
	}, Parse: ofKeyAnd(deleteIfEqual)},
	{Spec: resp.Spec{
		Name: "digest", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "8.4.0",
		Summary: "Return the XXH3 digest of the value of a key, as 16 hexadecimal digits",
		Syntax:  "key",
	}, Parse: ofKey(digestOf)},
	{Spec: resp.Spec{
		Name: "msetex", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 1, Step: 2}, Access: "OW update",
		Group: "string", Since: "8.4.0",
		Summary: "Set multiple keys to multiple values, with one expiration for all of them",
		Syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds " +
			"| PXAT unix-time-milliseconds | KEEPTTL]",
	}, Parse: parseMSetEX},
}

// The error texts that only these commands use.
const (
	errDelEXType      = "ERR Key should be of string type if conditions are specified"
	errDelEXCondition = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
	errNumKeysValue   = "ERR invalid numkeys value"
	errKeyValuePairs  = "ERR wrong number of key-value pairs"
)

func digestOf(c *Ctx, key string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil || e == nil {
		return orNil(err)
	}
	return resp.Bulk(stringDigest(c, e))
}

// delEXCall is DELEX key, with a condition or without. Run looks at the condition, and only if there is a key, as
// Redis does.
type delEXCall struct {
	key       string
	condition resp.Args // its word and its operand; empty: none
}

func parseDelEX(args resp.Args) (call, error) {
	if len(args) != 2 && len(args) != 4 {
		return nil, wrongArity("delex")
	}
	return &delEXCall{args[1], args[2:]}, nil
}

func (r *delEXCall) Run(c *Ctx) resp.Reply {
	e := c.Lookup(r.key)
	if e == nil {
		return resp.Int(0)
	}
	if len(r.condition) == 0 {
		return deleteIf(c, r.key, true)
	}
	if e.Aggregate() != nil {
		return resp.Err(errDelEXType)
	}
	cond := condition{comparisonOf(r.condition[0]), r.condition[1]}
	if cond.comparison == nil {
		return resp.Err(errDelEXCondition)
	}
	met, err := meets(c, cond, e)
	if err != nil {
		return resp.Fail(err)
	}
	c.Why.Condition = true
	return deleteIf(c, r.key, met)
}

func deleteIfEqual(c *Ctx, key, text string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	c.Why.Condition = true
	return deleteIf(c, key, e != nil && e.Str() == text)
}

// deleteIf answers how many keys it has deleted.
func deleteIf(c *Ctx, key string, met bool) resp.Reply {
	if !met {
		return resp.Int(0)
	}
	deleteNotify(c, key)
	return resp.Int(1)
}

// msetEXCall is MSETEX numkeys key value [key value ...] with its options.
type msetEXCall struct {
	pairs resp.Args
	setOptions
}

func parseMSetEX(args resp.Args) (call, error) {
	n, ok := resp.ParseInt(args[1])
	if !ok || n < 1 || n > math.MaxInt32 {
		return nil, resp.Error(errNumKeysValue)
	}
	rest := args[2:]
	if 2*n > int64(len(rest)) {
		return nil, resp.Error(errKeyValuePairs)
	}
	o, ok := parseSetOptions(rest[2*n:], forMSetEX)
	if !ok {
		return nil, resp.Error(resp.ErrSyntax)
	}
	if err := o.readNumber("msetex"); err != nil {
		return nil, err
	}
	return &msetEXCall{rest[:2*n], o}, nil
}

func (r *msetEXCall) renews(c *Ctx) bool {
	if r.onlyNew {
		return false
	}
	for i := 0; i < len(r.pairs) && !c.s.Meter.Exceeded(); i += 2 {
		if !keeps(c, r.pairs[i], r.pairs[i+1]) {
			return false
		}
	}
	return true
}

func (r *msetEXCall) Run(c *Ctx) resp.Reply {
	until := store.Never
	if r.expiry != nil {
		var err error
		if until, err = r.expiry.deadlineFrom(c, r.ms, "msetex"); err != nil {
			return resp.Fail(err)
		}
	}
	pairs := r.pairs
	for i := 0; i < len(pairs); i += 2 {
		if there := c.Lookup(pairs[i]) != nil; there && r.onlyNew || !there && r.onlyOld {
			return resp.Int(0)
		}
	}
	if !c.s.Meter.HasRoom(2 * c.s.Keys.DBs[c.db].EditWork(pairs, 2)) {
		return resp.Err(meter.ErrWork)
	}
	c.Why.Condition = c.Why.Condition || r.onlyNew
	for i := 0; i < len(pairs); i += 2 {
		setString(c, pairs[i], store.StringValue(pairs[i+1]), r.keptOr(c.Lookup(pairs[i]), until), r.expiry != nil)
	}
	return resp.Int(1)
}
