package command

import (
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

var hashRows = []row{
	{Spec: resp.Spec{
		Name: "hset", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "hash", Since: "2.0.0", Summary: "Set the string value of a hash field",
		Syntax: "key field value [field value ...]",
	}, Parse: parseHSet("hset", hset)},
	{Spec: resp.Spec{
		Name: "hsetnx", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "hash", Since: "2.0.0", Summary: "Set the value of a hash field, only if the field does not exist",
		Syntax: "key field value",
	}, Parse: ofKeyAndMany(hsetNX)},
	{Spec: resp.Spec{
		Name: "hmset", Arity: -4, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW update",
		Group: "hash", Since: "2.0.0", Summary: "Set multiple hash fields to multiple values",
		Syntax: "key field value [field value ...]",
	}, Parse: parseHSet("hmset", hmset)},
	{Spec: resp.Spec{
		Name: "hget", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get the value of a hash field",
		Syntax: "key field",
	}, Parse: ofKeyAnd(hget)},
	{Spec: resp.Spec{
		Name: "hmget", Arity: -3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get the values of all the given hash fields",
		Syntax: "key field [field ...]",
	}, Parse: ofKeyAndMany(hmget)},
	{Spec: resp.Spec{
		Name: "hgetall", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the fields and values in a hash",
		Syntax: "key",
	}, Parse: parseHashList(true, true)},
	{Spec: resp.Spec{
		Name: "hdel", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW delete",
		Group: "hash", Since: "2.0.0", Summary: "Delete one or more hash fields",
		Syntax: "key field [field ...]",
	}, Parse: ofKeyAndMany(hdel)},
	{Spec: resp.Spec{
		Name: "hexists", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "2.0.0", Summary: "Determine if a hash field exists",
		Syntax: "key field",
	}, Parse: ofKeyAnd(hexists)},
	{Spec: resp.Spec{
		Name: "hlen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "2.0.0", Summary: "Get the number of fields in a hash",
		Syntax: "key",
	}, Parse: ofKey(hlen)},
	{Spec: resp.Spec{
		Name: "hkeys", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the fields in a hash",
		Syntax: "key",
	}, Parse: parseHashList(true, false)},
	{Spec: resp.Spec{
		Name: "hvals", Arity: 2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Get all the values in a hash",
		Syntax: "key",
	}, Parse: parseHashList(false, true)},
	{Spec: resp.Spec{
		Name: "hstrlen", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "hash", Since: "3.2.0", Summary: "Get the length of the value of a hash field",
		Syntax: "key field",
	}, Parse: ofKeyAnd(hstrlen)},
	{Spec: resp.Spec{
		Name: "hincrby", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.0.0", Summary: "Increment the integer value of a hash field by the given number",
		Syntax: "key field increment",
	}, Parse: parseHIncrBy},
	{Spec: resp.Spec{
		Name: "hincrbyfloat", Arity: 4, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "hash", Since: "2.6.0", Summary: "Increment the float value of a hash field by the given amount",
		Syntax: "key field increment",
	}, Parse: parseHIncrByFloat},
	{Spec: resp.Spec{
		Name: "hscan", Arity: -3, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "2.8.0", Summary: "Incrementally iterate hash fields and associated values",
		Syntax: "key cursor [MATCH pattern] [COUNT count]",
	}, Parse: parseScanItems(scanHash)},
	{Spec: resp.Spec{
		Name: "hrandfield", Arity: -2, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "hash", Since: "6.2.0", Summary: "Get one or multiple random fields from a hash",
		Syntax: "key [count [WITHVALUES]]",
	}, Parse: parseDraw("WITHVALUES", fieldAt)},
}

// The error texts that only these commands use.
const (
	errHashNotInteger = "ERR hash value is not an integer"
	errHashNotFloat   = "ERR hash value is not a float"
	errNaNOrInfValue  = "ERR value is NaN or Infinity"
)

// parseHSet reads a key and pairs of a field and a value.
func parseHSet(command string, run func(c *Ctx, key string, pairs []string) resp.Reply) parser {
	parse := ofKeyAndMany(run)
	return func(args resp.Args) (call, error) {
		if len(args)%2 != 0 {
			return nil, wrongArity(command)
		}
		return parse(args)
	}
}

func hset(c *Ctx, key string, pairs []string) resp.Reply {
	created, err := setFields(c, key, pairs)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(created)
}

func hmset(c *Ctx, key string, pairs []string) resp.Reply {
	if _, err := setFields(c, key, pairs); err != nil {
		return resp.Fail(err)
	}
	return resp.OK()
}

// setFields runs HSET: it counts the fields that are new.
func setFields(c *Ctx, key string, pairs []string) (created int64, err error) {
	h, err := lookupHash(c, key)
	if err != nil {
		return 0, err
	}
	if !c.s.Meter.Affords(h.SetWork(pairs)) {
		return 0, resp.Error(meter.ErrWork)
	}
	editHash(c, key, func(h *value.Hash) {
		for i := 0; i < len(pairs); i += 2 {
			if h.Set(pairs[i], pairs[i+1]) {
				created++
			}
		}
	})
	c.Notify(emit.Hash, "hset", key)
	return created, nil
}

func hsetNX(c *Ctx, key string, pair []string) resp.Reply {
	_, had, err := lookupField(c, key, pair[0])
	switch {
	case err != nil:
		return resp.Fail(err)
	case had:
		return resp.Int(0)
	}
	setField(c, key, pair[0], pair[1], "hset")
	return resp.Int(1)
}

// lookupField finds a field of the hash at key; had is false where one of them is
// absent.
func lookupField(c *Ctx, key, name string) (val string, had bool, err error) {
	h, err := lookupHash(c, key)
	if err != nil || h == nil {
		return "", false, err
	}
	c.s.Meter.Spend(h.FindWork(name))
	val, had = h.Get(name)
	return val, had, nil
}

func setField(c *Ctx, key, name, val, event string) {
	editHash(c, key, func(h *value.Hash) {
		c.s.Meter.Spend(h.SetWork([]string{name, val}))
		h.Set(name, val)
	})
	c.Notify(emit.Hash, event, key)
}

func hget(c *Ctx, key, name string) resp.Reply {
	val, had, err := lookupField(c, key, name)
	if err != nil || !had {
		return orNil(err)
	}
	return resp.Bulk(val)
}

func hmget(c *Ctx, key string, names []string) resp.Reply {
	h, err := lookupHash(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	if h != nil && !c.s.Meter.Affords(value.FindAllWork(h, names)+value.FarWork*int64(len(names))) {
		return resp.Err(meter.ErrWork)
	}
	replies := make([]resp.Reply, len(names))
	for i, name := range names {
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

// parseHashList makes the parser of HGETALL, HKEYS or HVALS.
func parseHashList(names, vals bool) parser {
	return ofKey(func(c *Ctx, key string) resp.Reply { return listHash(c, key, names, vals) })
}

// listHash answers the names of a hash, its values, or both as a map.
func listHash(c *Ctx, key string, names, vals bool) resp.Reply {
	reply, each := resp.Array, 1
	if names && vals {
		reply, each = resp.Map, 2
	}
	h, err := lookupHash(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case h == nil:
		return reply()
	}
	if err := c.s.Meter.Listable(each * h.Len()); err != nil {
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

func hdel(c *Ctx, key string, names []string) resp.Reply {
	h, err := lookupHash(c, key)
	if err != nil || h == nil {
		return orZero(err)
	}
	if !c.s.Meter.Affords(2 * value.FindAllWork(h, names)) {
		return resp.Err(meter.ErrWork)
	}
	if !slices.ContainsFunc(names, h.Has) {
		return resp.Int(0)
	}
	return removeElems(c, key, names, editHash, emit.Hash, "hdel")
}

func hexists(c *Ctx, key, name string) resp.Reply {
	_, had, err := lookupField(c, key, name)
	if err != nil {
		return resp.Fail(err)
	}
	return oneIf(had)
}

func hlen(c *Ctx, key string) resp.Reply {
	h, err := lookupHash(c, key)
	if err != nil || h == nil {
		return orZero(err)
	}
	return resp.Int(int64(h.Len()))
}

func hstrlen(c *Ctx, key, name string) resp.Reply {
	val, _, err := lookupField(c, key, name)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(len(val)))
}

// hincrCall is HINCRBY key field increment.
type hincrCall struct {
	key, name string
	by        int64
}

func parseHIncrBy(args resp.Args) (call, error) {
	n, ok := resp.ParseInt(args[3])
	if !ok {
		return nil, resp.Error(resp.ErrNotInteger)
	}
	return &hincrCall{args[1], args[2], n}, nil
}

func (r *hincrCall) Run(c *Ctx) resp.Reply {
	val, had, err := lookupField(c, r.key, r.name)
	if err != nil {
		return resp.Fail(err)
	}
	var old int64
	if had {
		var ok bool
		if old, ok = resp.ParseInt(val); !ok {
			return resp.Err(errHashNotInteger)
		}
	}
	sum, ok := addInt(old, r.by)
	if !ok {
		return resp.Err(resp.ErrOverflow)
	}
	setField(c, r.key, r.name, itoa(sum), "hincrby")
	return resp.Int(sum)
}

// hincrFloatCall is HINCRBYFLOAT key field increment.
type hincrFloatCall struct {
	key, name, text string
	by              value.LongDouble // what text says
}

func parseHIncrByFloat(args resp.Args) (call, error) {
	n, ok := value.ParseLongDouble(args[3])
	switch {
	case !ok:
		return nil, resp.Error(resp.ErrNotFloat)
	case n.IsInf():
		return nil, resp.Error(errNaNOrInfValue)
	}
	return &hincrFloatCall{args[1], args[2], args[3], n}, nil
}

func (r *hincrFloatCall) Run(c *Ctx) resp.Reply {
	val, had, err := lookupField(c, r.key, r.name)
	if err != nil {
		return resp.Fail(err)
	}
	if !had {
		val = "0"
	}
	c.s.Meter.Spend(value.LongDoubleWork(val) + value.LongDoubleWork(r.text))
	old, ok := value.ParseLongDouble(val)
	if !ok {
		return resp.Err(errHashNotFloat)
	}
	sum, ok := old.Plus(r.by)
	if !ok {
		return resp.Err(resp.ErrNaNOrInf)
	}
	c.s.Meter.Spend(2 * value.LongDoubleWork(sum.String()))
	setField(c, r.key, r.name, sum.String(), "hincrbyfloat")
	return resp.Bulk(sum.String())
}

func scanHash(h *value.Hash, o *arg.Scan) (next uint64, items []string) {
	next = h.Scan(o.Cursor, o.Count, func(name, val string) {
		if o.Match.Matches(name) {
			items = append(items, name, val)
		}
	})
	return next, items
}

func fieldAt(h *value.Hash, i int) (name, val resp.Reply) {
	n, v := h.At(i)
	return resp.Bulk(n), resp.Bulk(v)
}
