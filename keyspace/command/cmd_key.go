package command

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

var keyRows = []row{
	{Spec: resp.Spec{
		Name: "del", Arity: -2, Flags: resp.Write, Keys: resp.AllKeys, Access: "RM delete",
		Group: "generic", Since: "1.0.0", Summary: "Delete a key",
		Syntax: "key [key ...]",
	}, Parse: ofMany(del)},
	{Spec: resp.Spec{
		Name: "unlink", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.AllKeys, Access: "RM delete",
		Group: "generic", Since: "4.0.0",
		Summary: "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
		Syntax:  "key [key ...]",
	}, Parse: ofMany(del)},
	{Spec: resp.Spec{
		Name: "exists", Arity: -2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.AllKeys, Access: "RO",
		Group: "generic", Since: "1.0.0", Summary: "Determine if a key exists",
		Syntax: "key [key ...]",
	}, Parse: ofMany(exists)},
	{Spec: resp.Spec{
		Name: "type", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "generic", Since: "1.0.0", Summary: "Determine the type stored at key",
		Syntax: "key",
	}, Parse: ofKey(typeOf)},
	{Spec: resp.Spec{
		Name: "touch", Arity: -2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.AllKeys, Access: "RO",
		Group: "generic", Since: "3.2.1",
		Summary: "Alters the last access time of a key(s). Returns the number of existing keys specified.",
		Syntax:  "key [key ...]",
	}, Parse: ofMany(exists)},
	{Spec: resp.Spec{
		Name: "rename", Arity: 3, Flags: resp.Write, Keys: resp.TwoKeys, Access: "1 RW access delete; 2 OW update",
		Group: "generic", Since: "1.0.0", Summary: "Rename a key",
		Syntax: "key newkey",
	}, Parse: ofKeyAnd(renameTo)},
	{Spec: resp.Spec{
		Name: "renamenx", Arity: 3, Flags: resp.Write | resp.Fast,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 OW insert",
		Group: "generic", Since: "1.0.0", Summary: "Rename a key, only if the new key does not exist",
		Syntax: "key newkey",
	}, Parse: ofKeyAnd(renameNX)},
	{Spec: resp.Spec{
		Name: "copy", Arity: -3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.TwoKeys, Access: "1 RO access; 2 OW update",
		Group: "generic", Since: "6.2.0", Summary: "Copy a key",
		Syntax: "source destination [DB destination-db] [REPLACE]",
	}, Parse: parseCopy},
	{Spec: resp.Spec{
		Name: "move", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "1.0.0", Summary: "Move a key to another database",
		Syntax: "key db",
	}, Parse: parseMove},
	{Spec: resp.Spec{
		Name: "randomkey", Arity: 1, Flags: resp.ReadOnly,
		Group: "generic", Since: "1.0.0", Summary: "Return a random key from the keyspace",
	}, Parse: ofNothing(randomKey)},
	{Spec: resp.Spec{
		Name: "keys", Arity: 2, Flags: resp.ReadOnly,
		Group: "generic", Since: "1.0.0", Summary: "Find all keys matching the given pattern",
		Syntax: "pattern",
	}, Parse: parseKeys},
	{Spec: resp.Spec{
		Name: "scan", Arity: -2, Flags: resp.ReadOnly,
		Group: "generic", Since: "2.8.0", Summary: "Incrementally iterate the keys space",
		Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
	}, Parse: parseScan},
	{Spec: resp.Spec{
		Name: "dbsize", Arity: 1, Flags: resp.ReadOnly | resp.Fast,
		Group: "server", Since: "1.0.0", Summary: "Return the number of keys in the selected database",
	}, Parse: ofNothing(dbSize)},
	{Spec: resp.Spec{
		Name: "flushdb", Arity: -1, Flags: resp.Write,
		Group: "server", Since: "1.0.0", Summary: "Remove all keys from the current database",
		Syntax: "[ASYNC | SYNC]",
	}, Parse: parseFlush(flushDB)},
	{Spec: resp.Spec{
		Name: "flushall", Arity: -1, Flags: resp.Write,
		Group: "server", Since: "1.0.0", Summary: "Remove all keys from all databases",
		Syntax: "[ASYNC | SYNC]",
	}, Parse: parseFlush(flushAll)},
	{Spec: resp.Spec{
		Name: "swapdb", Arity: 3, Flags: resp.Write | resp.Fast,
		Group: "server", Since: "4.0.0", Summary: "Swaps two Redis databases",
		Syntax: "index1 index2",
	}, Parse: parseSwapDB},
	{Spec: resp.Spec{
		Name: "expire", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "1.0.0", Summary: "Set a key's time to live in seconds",
		Syntax: "key seconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Parse: parseExpire(expiryEX, "expire")},
	{Spec: resp.Spec{
		Name: "pexpire", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.6.0", Summary: "Set a key's time to live in milliseconds",
		Syntax: "key milliseconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Parse: parseExpire(expiryPX, "pexpire")},
	{Spec: resp.Spec{
		Name: "expireat", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "1.2.0", Summary: "Set the expiration for a key as a UNIX timestamp",
		Syntax: "key unix-time-seconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Parse: parseExpire(expiryEXAT, "expireat")},
	{Spec: resp.Spec{
		Name: "pexpireat", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.6.0",
		Summary: "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
		Syntax: "key unix-time-milliseconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE " +
			"digest]",
	}, Parse: parseExpire(expiryPXAT, "pexpireat")},
	{Spec: resp.Spec{
		Name: "ttl", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "1.0.0", Summary: "Get the time to live for a key in seconds",
		Syntax: "key",
	}, Parse: ofKey(ttl)},
	{Spec: resp.Spec{
		Name: "pttl", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "2.6.0", Summary: "Get the time to live for a key in milliseconds",
		Syntax: "key",
	}, Parse: ofKey(pttl)},
	{Spec: resp.Spec{
		Name: "expiretime", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "7.0.0", Summary: "Get the expiration Unix timestamp for a key",
		Syntax: "key",
	}, Parse: ofKey(expireTime)},
	{Spec: resp.Spec{
		Name: "pexpiretime", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "7.0.0", Summary: "Get the expiration Unix timestamp for a key in milliseconds",
		Syntax: "key",
	}, Parse: ofKey(pexpireTime)},
	{Spec: resp.Spec{
		Name: "persist", Arity: 2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.2.0", Summary: "Remove the expiration from a key",
		Syntax: "key",
	}, Parse: ofKey(persist)},
	withHelp("6.2.0", row{Spec: resp.Spec{
		Name: "object", Arity: -2,
		Group: "generic", Since: "2.2.3", Summary: "A container for object introspection commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "object|encoding", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Inspect the internal encoding of a Redis object",
			Syntax: "key",
		}, Parse: ofSub(ofKey(encodingOf))},
		{Spec: resp.Spec{
			Name: "object|freq", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "4.0.0", Summary: "Get the logarithmic access frequency counter of a Redis object",
			Syntax: "key",
		}, Parse: ifPresent(resp.Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
			"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."))},
		{Spec: resp.Spec{
			Name: "object|idletime", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Get the time since a Redis object was last accessed",
			Syntax: "key",
		}, Parse: ifPresent(resp.Int(0))},
		{Spec: resp.Spec{
			Name: "object|refcount", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Get the number of references to the value of the key",
			Syntax: "key",
		}, Parse: ifPresent(resp.Int(1))},
	}}),
	{Spec: resp.Spec{
		Name: "fence", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "lockd", Since: "1.0.0",
		Summary: "Return the fencing token of a key: the log index at which it came into being",
		Syntax:  "key",
	}, Parse: ofKey(fenceAt)},
}

func del(c *Ctx, keys []string) resp.Reply {
	if !c.s.Meter.HasRoom(c.s.Keys.DBs[c.db].EditWork(keys, 1)) {
		return resp.Err(meter.ErrWork)
	}
	var n int64
	for _, key := range keys {
		if c.delete(key) {
			c.Notify(emit.Generic, "del", key)
			n++
		}
	}
	return resp.Int(n)
}

func exists(c *Ctx, keys []string) resp.Reply {
	var n int64
	for _, key := range keys {
		if c.s.Meter.Exceeded() {
			return resp.Err(meter.ErrWork)
		}
		if c.Lookup(key) != nil {
			n++
		}
	}
	return resp.Int(n)
}

func typeOf(c *Ctx, key string) resp.Reply {
	e := c.Lookup(key)
	if e == nil {
		return resp.Status("none")
	}
	return resp.Status(e.Type())
}

func renameTo(c *Ctx, from, to string) resp.Reply {
	if c.Lookup(from) == nil {
		return resp.Err(resp.ErrNoSuchKey)
	}
	if from != to {
		renameKey(c, from, to)
	}
	return resp.OK()
}

func renameNX(c *Ctx, from, to string) resp.Reply {
	if c.Lookup(from) == nil {
		return resp.Err(resp.ErrNoSuchKey)
	}
	if c.Lookup(to) != nil {
		return resp.Int(0)
	}
	renameKey(c, from, to)
	return resp.Int(1)
}

// renameKey moves a value to another key. That is a new key with a new fence, whatever was
// there before.
func renameKey(c *Ctx, from, to string) {
	e := c.Lookup(from)
	c.delete(to)
	c.Why.How = history.Moved
	c.s.Put(&c.Why, c.db, nil, movedEntry(to, e, e.Value()))
	c.delete(from)
	c.Notify(emit.Generic, "rename_from", from)
	c.Notify(emit.Generic, "rename_to", to)
}

// movedEntry returns the entry of a new key with the value of e. A lock stays a lock.
func movedEntry(key string, e *store.Entry, v value.Value) *store.Entry {
	mark := e.Mark()
	if len(key) > lifecycle.KeyBytesMax {
		mark = store.NoLock
	}
	return store.NewEntry(key, nil, v, e.Deadline(), e.Tag(), mark)
}

// copyCall is COPY.
type copyCall struct {
	from, target string
	db           int // of the target; sameDB: that of the command
	replace      bool
}

// sameDB stands for the database of the command.
const sameDB = -1

func (r *copyCall) Run(c *Ctx) resp.Reply {
	to, key := r.db, r.target
	if to == sameDB {
		to = c.db
	}
	if to == c.db && r.from == key {
		return resp.Err(resp.ErrSameObject)
	}
	e, there := c.Lookup(r.from), c.lookupIn(to, key)
	if e == nil || (there != nil && !r.replace) {
		return resp.Int(0)
	}
	if there != nil {
		c.s.Put(&c.Why, to, there, nil)
	}
	if agg := e.Aggregate(); agg != nil {
		c.s.Meter.Spend(value.CloneWork(agg))
	}
	c.s.Put(&c.Why, to, nil, movedEntry(key, e, e.Value().Clone()))
	c.s.Notify(to, emit.Generic, "copy_to", key)
	return resp.Int(1)
}

func parseCopy(args resp.Args) (call, error) {
	r := &copyCall{from: args[1], target: args[2], db: sameDB}
	for i := 3; i < len(args); i++ {
		switch {
		case resp.Is(args[i], "REPLACE"):
			r.replace = true
		case resp.Is(args[i], "DB") && i+1 < len(args):
			i++
			var err error
			if r.db, err = arg.DatabaseIndex(args[i], store.Databases); err != nil {
				return nil, err
			}
		default:
			return nil, resp.Error(resp.ErrSyntax)
		}
	}
	return r, nil
}

// moveKeyCall is MOVE key db.
type moveKeyCall struct {
	key string
	to  int
}

func parseMove(args resp.Args) (call, error) {
	to, err := arg.DatabaseIndex(args[2], store.Databases)
	if err != nil {
		return nil, err
	}
	return &moveKeyCall{args[1], to}, nil
}

func (r *moveKeyCall) Run(c *Ctx) resp.Reply {
	key, to := r.key, r.to
	if to == c.db {
		return resp.Err(resp.ErrSameObject)
	}
	e := c.Lookup(key)
	if e == nil || c.lookupIn(to, key) != nil {
		return resp.Int(0)
	}
	c.Why.How = history.Moved
	c.s.Put(&c.Why, to, nil, movedEntry(key, e, e.Value()))
	c.delete(key)
	c.Notify(emit.Generic, "move_from", key)
	c.s.Notify(to, emit.Generic, "move_to", key)
	return resp.Int(1)
}

func randomKey(c *Ctx) resp.Reply {
	keys := c.s.Keys.DBs[c.db].Keys.KeyView
	n := keys.Len()
	if n == 0 {
		return resp.Nil()
	}
	// What has expired and waits for the sweep is passed over.
	c.s.Meter.Spend(value.TreeWork(n))
	var found *store.Entry
	stays := func(e *store.Entry) bool {
		if !c.s.Expired(e) {
			found = e
		}
		return found == nil && c.s.Meter.Affords(meter.KeyWork/2)
	}
	if keys.From(keys.At(c.randN(n)), stays); found == nil && !c.s.Meter.Exceeded() {
		keys.Each(stays)
	}
	switch {
	case found != nil:
		return resp.Bulk(found.Key())
	case c.s.Meter.Exceeded():
		return resp.Err(meter.ErrWork)
	}
	return resp.Nil()
}

// keysCall is KEYS pattern.
type keysCall struct{ pattern string }

func parseKeys(args resp.Args) (call, error) { return &keysCall{args[1]}, nil }

func (r *keysCall) Run(c *Ctx) resp.Reply {
	g, found := arg.NewGlob(r.pattern), []string{}
	if !c.s.Meter.Affords(meter.KeyWork * int64(c.s.Keys.DBs[c.db].Keys.Len())) {
		return resp.Err(meter.ErrWork)
	}
	c.s.Keys.DBs[c.db].Keys.Each(func(e *store.Entry) bool {
		if c.s.Meter.Matches(g, e.Key()) && !c.s.Expired(e) {
			found = append(found, e.Key())
		}
		return !g.Exceeded() && !c.s.Meter.Exceeded()
	})
	switch {
	case g.Exceeded():
		return resp.Err(arg.ErrGlob)
	case c.s.Meter.Exceeded():
		return resp.Err(meter.ErrWork)
	}
	return resp.Bulks(found...)
}

// scanKeysCall is SCAN.
type scanKeysCall struct{ arg.Scan }

func parseScan(args resp.Args) (call, error) {
	o, err := arg.ParseScan(args[1:], true)
	if err != nil {
		return nil, err
	}
	return &scanKeysCall{o}, nil
}

func (r *scanKeysCall) Run(c *Ctx) resp.Reply {
	o, found := r.Scan, []string{}
	if err := beginScan(c, &o, c.s.Keys.DBs[c.db].Keys.Len(), true); err != nil {
		return resp.Fail(err)
	}
	c.s.Meter.Spend((meter.KeyWork - value.FarWork) * int64(o.Count))
	next := c.s.Keys.DBs[c.db].Keys.Scan(o.Cursor, o.Count, func(e *store.Entry) {
		kindFits := o.Kind == "" || strings.EqualFold(o.Kind, e.Type())
		if kindFits && o.Match.Matches(e.Key()) && !c.s.Expired(e) {
			found = append(found, e.Key())
		}
	})
	return endScan(c, &o, next, found)
}

func dbSize(c *Ctx) resp.Reply {
	return resp.Int(int64(c.s.Keys.DBs[c.db].Keys.Len()))
}

func parseFlush(run func(c *Ctx) resp.Reply) parser {
	return func(args resp.Args) (call, error) {
		if !arg.FlushMode(args) {
			return nil, resp.Error(resp.ErrSyntax)
		}
		return bareCall(run), nil
	}
}

func flushDB(c *Ctx) resp.Reply {
	c.s.Meter.Spend(meter.FlushWork)
	c.s.ReplaceDatabases()
	flush(c.s, &c.Why, c.db, c.db+1)
	return resp.OK()
}

func flushAll(c *Ctx) resp.Reply {
	c.s.Meter.Spend(store.Databases * meter.FlushWork)
	c.s.ReplaceDatabases()
	flush(c.s, &c.Why, 0, store.Databases)
	return resp.OK()
}

// flush replaces the databases from one to before another by empty ones. First each is left as a running script has
// found it.
func flush(s *state.State, why *lifecycle.Cause, from, to int) {
	s.Waiters().Emptied(from, to)
	for db := from; db < to; db++ {
		recordLocksOf(s, why, history.Flushed, db, 0)
		s.Keys.Clear(db)
		s.Waiters().AllFreed(db)
	}
}

// recordLocksOf notes what becomes of all locks of a database.
func recordLocksOf(s *state.State, why *lifecycle.Cause, kind history.Kind, db, other int) {
	if s.Keys.DBs[db].Keys.Len() > 0 {
		s.Locks().RecordAll(why, kind, db, other)
	}
}

// swapCall is SWAPDB.
type swapCall struct{ a, b int }

func parseSwapDB(args resp.Args) (call, error) {
	a, err := swapIndex(args[1], "ERR invalid first DB index")
	if err != nil {
		return nil, err
	}
	b, err := swapIndex(args[2], "ERR invalid second DB index")
	if err != nil {
		return nil, err
	}
	if a < 0 || a >= store.Databases || b < 0 || b >= store.Databases {
		return nil, resp.Error(resp.ErrDBIndex)
	}
	return &swapCall{int(a), int(b)}, nil
}

func (r *swapCall) Run(c *Ctx) resp.Reply {
	if r.a != r.b {
		swap(c.s, &c.Why, r.a, r.b)
	}
	return resp.OK()
}

func swapIndex(number, text string) (n int64, err error) {
	n, ok := resp.ParseInt(number)
	if !ok || n != int64(int32(n)) {
		return 0, resp.Error(text)
	}
	return n, nil
}

// swap exchanges two databases, and touches every key of both. A name may mean another
// key now, so each gets a new fence.
func swap(s *state.State, why *lifecycle.Cause, a, b int) {
	s.ReplaceDatabases()
	recordLocksOf(s, why, history.Swapped, a, b)
	recordLocksOf(s, why, history.Swapped, b, a)
	s.Keys.Swap(s.LeastFence(), a, b)
	s.Waiters().Swapped(a)
	s.Waiters().Swapped(b)
}

// expireCall is EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT.
type expireCall struct {
	key     string
	unit    expiry
	ms      int64
	when    expireWhen
	command string
}

// parseExpire reads key, time, options.
func parseExpire(unit expiry, command string) parser {
	return func(args resp.Args) (call, error) {
		when, err := parseWhen(args[3:])
		if err != nil {
			return nil, err
		}
		n, ok := resp.ParseInt(args[2])
		switch {
		case !ok:
			return nil, resp.Error(resp.ErrNotInteger)
		case n > maxInt/unit.unitMs || n < minInt/unit.unitMs:
			return nil, resp.Error(invalidExpire(command).Str)
		}
		return &expireCall{args[1], unit, n * unit.unitMs, when, command}, nil
	}
}

func (r *expireCall) Run(c *Ctx) resp.Reply {
	key, x, when := r.key, r.unit, &r.when
	until, ok := x.deadlineIn(c, r.ms)
	if !ok {
		return invalidExpire(r.command)
	}
	e := c.Lookup(key)
	if e == nil {
		return resp.Int(0)
	}
	met, err := meets(c, when.value, e)
	switch {
	case err != nil:
		return resp.Fail(err)
	case !met || !when.allows(e.Deadline(), until, x):
		return resp.Int(0)
	case c.past(until):
		c.delete(key)
		c.Notify(emit.Generic, "del", key)
	case x.absolute && e.Leased() && e.Ends() == e.Tick && e.Deadline().WallMs == until.WallMs:
		// The key ends then already. Nothing changes, and no watcher is disturbed,
		// even if the wall clock was set in between and the remainder would differ.
	default:
		SetDeadline(c, key, until)
		c.Notify(emit.Generic, "expire", key)
	}
	return resp.Int(1)
}

// expireWhen has the conditions of an expireCall.
type expireWhen struct {
	nx, xx, gt, lt bool
	value          condition // experimental: no Redis has it yet
}

func parseWhen(args resp.Args) (w expireWhen, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch cmp := comparisonOf(word); {
		case cmp != nil && w.value.comparison == nil && i+1 < len(args):
			i++
			w.value = condition{cmp, args[i]}
		case resp.Is(word, "NX"):
			w.nx = true
		case resp.Is(word, "XX"):
			w.xx = true
		case resp.Is(word, "GT"):
			w.gt = true
		case resp.Is(word, "LT"):
			w.lt = true
		default:
			return w, resp.Error("ERR Unsupported option " + word)
		}
	}
	switch {
	case w.nx && (w.xx || w.gt || w.lt):
		return w, resp.Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	case w.gt && w.lt:
		return w, resp.Error("ERR GT and LT options at the same time are not compatible")
	}
	return w, nil
}

// allows compares the deadline a key has with the one it is to get, in the time
// in which the new one is given.
func (w expireWhen) allows(has, next store.Deadline, x expiry) bool {
	a, b := has.Tick, next.Tick
	if x.absolute {
		a, b = has.WallMs, next.WallMs
	}
	switch {
	case w.nx && has.IsSet(), w.xx && !has.IsSet():
		return false
	case w.gt && (!has.IsSet() || b <= a):
		return false
	case w.lt && has.IsSet() && b >= a:
		return false
	}
	return true
}

// The answers of TTL, PTTL, EXPIRETIME and PEXPIRETIME without a deadline.
const (
	ttlNoKey = -2
	ttlNever = -1
)

// timeOf answers what tell says of a key's deadline.
func timeOf(c *Ctx, key string, tell func(c *Ctx, d store.Deadline) int64) resp.Reply {
	e := c.Lookup(key)
	switch {
	case e == nil:
		return resp.Int(ttlNoKey)
	case !e.Deadline().IsSet():
		return resp.Int(ttlNever)
	}
	return resp.Int(tell(c, e.Deadline()))
}

// remaining returns what is left of a lease, in milliseconds.
func remaining(c *Ctx, d store.Deadline) int64 { return max(0, d.Tick-c.now()) }

// seconds rounds milliseconds as Redis does.
func seconds(ms int64) int64 { return ms/1000 + (ms%1000+500)/1000 }

func ttl(c *Ctx, key string) resp.Reply {
	return timeOf(c, key, func(c *Ctx, d store.Deadline) int64 { return seconds(remaining(c, d)) })
}

func pttl(c *Ctx, key string) resp.Reply { return timeOf(c, key, remaining) }

func expireTime(c *Ctx, key string) resp.Reply {
	return timeOf(c, key, func(_ *Ctx, d store.Deadline) int64 { return seconds(d.WallMs) })
}

func pexpireTime(c *Ctx, key string) resp.Reply {
	return timeOf(c, key, func(_ *Ctx, d store.Deadline) int64 { return d.WallMs })
}

func persist(c *Ctx, key string) resp.Reply {
	e := c.Lookup(key)
	if e == nil || !e.Leased() {
		return resp.Int(0)
	}
	SetDeadline(c, key, store.Never)
	c.Notify(emit.Generic, "persist", key)
	return resp.Int(1)
}

func encodingOf(c *Ctx, key string) resp.Reply {
	e := c.Lookup(key)
	if e == nil {
		return resp.Nil()
	}
	return resp.Bulk(e.Value().Encoding())
}

// ifPresent answers the same for each key that is there: what OBJECT asks about its uses and references is not in the
// replicated state.
func ifPresent(reply resp.Reply) parser {
	return ofSub(ofKey(func(c *Ctx, key string) resp.Reply {
		if c.Lookup(key) == nil {
			return resp.Nil()
		}
		return reply
	}))
}
