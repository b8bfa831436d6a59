package keyspace

import (
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

var hashRows = []row{
	{Spec: resp.Spec{
		Name: "hset", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "hash", Since: "2.0.0", Summary: "Set the string value of a hash field",
		Syntax: "key field value [field value ...]",
	}, Run: cmdHSet},
	{Spec: resp.Spec{
		Name: "hsetnx", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "hash", Since: "2.0.0", Summary: "Set the value of a hash field, only if the field does not exist",
		Syntax: "key field value",
	}, Run: cmdHSetNX},
	{Spec: resp.Spec{
		Name: "hmset", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW update",
		Group: "hash", Since: "2.0.0", Summary: "Set multiple hash fields to multiple values",
		Syntax: "key field value [field value ...]",
	}, Run: cmdHMSet},
	{Spec: resp.Spec{
		Name: "hget", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get the value of a hash field",
		Syntax: "key field",
	}, Run: cmdHGet},
	{Spec: resp.Spec{
		Name: "hmget", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get the values of all the given hash fields",
		Syntax: "key field [field ...]",
	}, Run: cmdHMGet},
	{Spec: resp.Spec{
		Name: "hgetall", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the fields and values in a hash",
		Syntax: "key",
	}, Run: cmdHGetAll},
	{Spec: resp.Spec{
		Name: "hdel", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW delete",
		Group: "hash", Since: "2.0.0", Summary: "Delete one or more hash fields",
		Syntax: "key field [field ...]",
	}, Run: cmdHDel},
	{Spec: resp.Spec{
		Name: "hexists", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "2.0.0", Summary: "Determine if a hash field exists",
		Syntax: "key field",
	}, Run: cmdHExists},
	{Spec: resp.Spec{
		Name: "hlen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "2.0.0", Summary: "Get the number of fields in a hash",
		Syntax: "key",
	}, Run: cmdHLen},
	{Spec: resp.Spec{
		Name: "hkeys", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the fields in a hash",
		Syntax: "key",
	}, Run: cmdHKeys},
	{Spec: resp.Spec{
		Name: "hvals", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the values in a hash",
		Syntax: "key",
	}, Run: cmdHVals},
	{Spec: resp.Spec{
		Name: "hstrlen", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "3.2.0", Summary: "Get the length of the value of a hash field",
		Syntax: "key field",
	}, Run: cmdHStrLen},
	{Spec: resp.Spec{
		Name: "hincrby", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Increment the integer value of a hash field by the given number",
		Syntax: "key field increment",
	}, Run: cmdHIncrBy},
	{Spec: resp.Spec{
		Name: "hincrbyfloat", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.6.0", Summary: "Increment the float value of a hash field by the given amount",
		Syntax: "key field increment",
	}, Run: cmdHIncrByFloat},
	{Spec: resp.Spec{
		Name: "hscan", Arity: -3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.8.0", Summary: "Incrementally iterate hash fields and associated values",
		Syntax: "key cursor [MATCH pattern] [COUNT count]",
	}, Run: cmdHScan},
	{Spec: resp.Spec{
		Name: "hrandfield", Arity: -2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "6.2.0", Summary: "Get one or multiple random fields from a hash",
		Syntax: "key [count [WITHVALUES]]",
	}, Run: cmdHRandField},
}

// The error texts that only these commands use.
const (
	errHashNotInteger = "ERR hash value is not an integer"
	errHashNotFloat   = "ERR hash value is not a float"
	errNaNOrInfValue  = "ERR value is NaN or Infinity"
)

func cmdHSet(c *ctx, args resp.Args) resp.Reply {
	created, err := c.setFields(args, "hset")
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(created)
}

func cmdHMSet(c *ctx, args resp.Args) resp.Reply {
	if _, err := c.setFields(args, "hmset"); err != nil {
		return resp.Fail(err)
	}
	return resp.OK()
}

// setFields is HSET: it counts the fields that are new.
func (c *ctx) setFields(args resp.Args, command string) (created int64, err error) {
	if len(args)%2 != 0 {
		return 0, resp.Error(resp.WrongArity(command).Str)
	}
	h, err := c.lookupHash(args[1])
	if err != nil {
		return 0, err
	}
	if !c.m.affords(h.SetWork(args[2:])) {
		return 0, resp.Error(errWorkMeter)
	}
	c.editHash(args[1], func(h *value.Hash) {
		for i := 2; i < len(args); i += 2 {
			if h.Set(args[i], args[i+1]) {
				created++
			}
		}
	})
	c.notify(notifyHash, "hset", args[1])
	return created, nil
}

func cmdHSetNX(c *ctx, args resp.Args) resp.Reply {
	_, had, err := c.lookupField(args[1], args[2])
	switch {
	case err != nil:
		return resp.Fail(err)
	case had:
		return resp.Int(0)
	}
	c.setField(args[1], args[2], args[3], "hset")
	return resp.Int(1)
}

// lookupField finds a field of the hash at key; had is false where one of them is
// absent.
func (c *ctx) lookupField(key, name string) (val string, had bool, err error) {
	h, err := c.lookupHash(key)
	if err != nil || h == nil {
		return "", false, err
	}
	c.m.spend(h.FindWork(name))
	val, had = h.Get(name)
	return val, had, nil
}

func (c *ctx) setField(key, name, val, event string) {
	c.editHash(key, func(h *value.Hash) {
		c.m.spend(h.SetWork([]string{name, val}))
		h.Set(name, val)
	})
	c.notify(notifyHash, event, key)
}

func cmdHGet(c *ctx, args resp.Args) resp.Reply {
	val, had, err := c.lookupField(args[1], args[2])
	if err != nil || !had {
		return orNil(err)
	}
	return resp.Bulk(val)
}

func cmdHMGet(c *ctx, args resp.Args) resp.Reply {
	h, err := c.lookupHash(args[1])
	if err != nil {
		return resp.Fail(err)
	}
	if h != nil && !c.m.affords(value.FindAllWork(h, args[2:])+value.FarWork*int64(len(args)-2)) {
		return resp.Err(errWorkMeter)
	}
	replies := make([]resp.Reply, len(args)-2)
	for i, name := range args[2:] {
		replies[i] = resp.Nil()
		if h == nil {
			continue
		}
		if val, had := h.Get(name); had {
			replies[i] = resp.Bulk(val)
		}
	}
	return resp.Array(replies...)
}

func cmdHGetAll(c *ctx, args resp.Args) resp.Reply { return c.listHash(args[1], true, true) }
func cmdHKeys(c *ctx, args resp.Args) resp.Reply   { return c.listHash(args[1], true, false) }
func cmdHVals(c *ctx, args resp.Args) resp.Reply   { return c.listHash(args[1], false, true) }

// listHash answers the names of a hash, its values, or both as a map.
func (c *ctx) listHash(key string, names, vals bool) resp.Reply {
	reply, each := resp.Array, 1
	if names && vals {
		reply, each = resp.Map, 2
	}
	h, err := c.lookupHash(key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case h == nil:
		return reply()
	}
	if err := c.m.listable(each * h.Len()); err != nil {
		return resp.Fail(err)
	}
	var items []resp.Reply
	for name, val := range h.Each {
		if names {
			items = append(items, resp.Bulk(name))
		}
		if vals {
			items = append(items, resp.Bulk(val))
		}
	}
	return reply(items...)
}

func cmdHDel(c *ctx, args resp.Args) resp.Reply {
	key := args[1]
	h, err := c.lookupHash(key)
	if err != nil || h == nil {
		return orZero(err)
	}
	if !c.m.affords(2 * value.FindAllWork(h, args[2:])) {
		return resp.Err(errWorkMeter)
	}
	if !slices.ContainsFunc(args[2:], h.Has) {
		return resp.Int(0)
	}
	var n int64
	emptied := c.editHash(key, func(h *value.Hash) {
		for _, name := range args[2:] {
			if h.Delete(name) {
				n++
			}
		}
	})
	c.notifyRemoved(notifyHash, "hdel", key, emptied)
	return resp.Int(n)
}

func cmdHExists(c *ctx, args resp.Args) resp.Reply {
	_, had, err := c.lookupField(args[1], args[2])
	if err != nil {
		return resp.Fail(err)
	}
	return oneIf(had)
}

func cmdHLen(c *ctx, args resp.Args) resp.Reply {
	h, err := c.lookupHash(args[1])
	if err != nil || h == nil {
		return orZero(err)
	}
	return resp.Int(int64(h.Len()))
}

func cmdHStrLen(c *ctx, args resp.Args) resp.Reply {
	val, _, err := c.lookupField(args[1], args[2])
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(len(val)))
}

func cmdHIncrBy(c *ctx, args resp.Args) resp.Reply {
	n, ok := resp.ParseInt(args[3])
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	val, had, err := c.lookupField(args[1], args[2])
	if err != nil {
		return resp.Fail(err)
	}
	var old int64
	if had {
		if old, ok = resp.ParseInt(val); !ok {
			return resp.Err(errHashNotInteger)
		}
	}
	sum, ok := addInt(old, n)
	if !ok {
		return resp.Err(resp.ErrOverflow)
	}
	c.setField(args[1], args[2], itoa(sum), "hincrby")
	return resp.Int(sum)
}

func cmdHIncrByFloat(c *ctx, args resp.Args) resp.Reply {
	n, ok := value.ParseLongDouble(args[3])
	switch {
	case !ok:
		return resp.Err(resp.ErrNotFloat)
	case n.IsInf():
		return resp.Err(errNaNOrInfValue)
	}
	val, had, err := c.lookupField(args[1], args[2])
	if err != nil {
		return resp.Fail(err)
	}
	if !had {
		val = "0"
	}
	c.m.spend(value.LongDoubleWork(val) + value.LongDoubleWork(args[3]))
	old, ok := value.ParseLongDouble(val)
	if !ok {
		return resp.Err(errHashNotFloat)
	}
	sum, ok := old.Plus(n)
	if !ok {
		return resp.Err(resp.ErrNaNOrInf)
	}
	c.m.spend(2 * value.LongDoubleWork(sum.String()))
	c.setField(args[1], args[2], sum.String(), "hincrbyfloat")
	return resp.Bulk(sum.String())
}

func cmdHScan(c *ctx, args resp.Args) resp.Reply {
	return scanItems(c, args, func(h *value.Hash, o *arg.Scan) (next uint64, items []string) {
		next = h.Scan(o.Cursor, o.Count, func(name, val string) {
			if o.Match.Matches(name) {
				items = append(items, name, val)
			}
		})
		return next, items
	})
}

func cmdHRandField(c *ctx, args resp.Args) resp.Reply {
	return drawItems(c, args, "WITHVALUES", func(h *value.Hash, i int) (name, val resp.Reply) {
		n, v := h.At(i)
		return resp.Bulk(n), resp.Bulk(v)
	})
}
