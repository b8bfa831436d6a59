package keyspace

import (
	"math"

	"lockd/resp"
)

// The commands below, like SET and EXPIRE with the same words, compare what a key
// holds and act on it in one step: a lock is renewed or released by its holder only,
// without a script.
var compareRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "delex", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "8.4.0",
		Summary: "Conditionally removes the specified key based on value or hash digest comparison.",
		Syntax:  "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Run: cmdDelEX},
	{Spec: resp.Spec{
		Name: "delifeq", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "string", Since: "9.0.0", Summary: "Delete a key if its value is the given one (from Valkey)",
		Syntax: "key value",
	}, Run: cmdDelIfEQ},
	{Spec: resp.Spec{
		Name: "digest", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "8.4.0",
		Summary: "Return the XXH3 digest of the value of a key, as 16 hexadecimal digits",
		Syntax:  "key",
	}, Run: cmdDigest},
	{Spec: resp.Spec{
		Name: "msetex", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys,
		Keys: resp.Keys{NumAt: 1, Step: 2}, Access: "OW update",
		Group: "string", Since: "8.4.0",
		Summary: "Set multiple keys to multiple values, with one expiration for all of them",
		Syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds " +
			"| PXAT unix-time-milliseconds | KEEPTTL]",
	}, Run: cmdMSetEX},
}

// The error texts that only these commands use.
const (
	errDelEXType      = "ERR Key should be of string type if conditions are specified"
	errDelEXCondition = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
	errNumKeysValue   = "ERR invalid numkeys value"
	errKeyValuePairs  = "ERR wrong number of key-value pairs"
)

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
	c.why.condition = true
	return c.deleteIf(args[1], met)
}

func cmdDelIfEQ(c *ctx, args resp.Args) resp.Reply {
	e, err := c.lookupString(args[1])
	if err != nil {
		return resp.Fail(err)
	}
	c.why.condition = true
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

func init() {
	renewals["msetex"] = func(c *ctx, args resp.Args) bool {
		pairs, opts, err := parseMSetEX(args)
		if err != nil || opts.onlyNew {
			return false
		}
		for i := 0; i < len(pairs) && !c.m.overBudget(); i += 2 {
			if !c.keeps(pairs[i], pairs[i+1]) {
				return false
			}
		}
		return true
	}
}

func parseMSetEX(args resp.Args) (pairs resp.Args, o setOptions, err error) {
	n, ok := resp.ParseInt(args[1])
	if !ok || n < 1 || n > math.MaxInt32 {
		return nil, o, resp.Error(errNumKeysValue)
	}
	rest := args[2:]
	if 2*n > int64(len(rest)) {
		return nil, o, resp.Error(errKeyValuePairs)
	}
	if o, ok = parseSetOptions(rest[2*n:], forMSetEX); !ok {
		return nil, o, resp.Error(resp.ErrSyntax)
	}
	return rest[:2*n], o, nil
}

func cmdMSetEX(c *ctx, args resp.Args) resp.Reply {
	pairs, opts, err := parseMSetEX(args)
	if err != nil {
		return resp.Fail(err)
	}
	until := never
	if opts.expiry != nil {
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
	c.why.condition = c.why.condition || opts.onlyNew
	for i := 0; i < len(pairs); i += 2 {
		c.setString(pairs[i], stringValue(pairs[i+1]), opts.keptOr(c.lookup(pairs[i]), until), opts.expiry != nil)
	}
	return resp.Int(1)
}
