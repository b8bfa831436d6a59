package keyspace

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

var keyRows = []row{
	{Spec: resp.Spec{
		Name: "del", Arity: -2, Flags: resp.Write, Keys: resp.AllKeys, Access: "RM delete",
		Group: "generic", Since: "1.0.0", Summary: "Delete a key",
		Syntax: "key [key ...]",
	}, Run: cmdDel},
	{Spec: resp.Spec{
		Name: "unlink", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.AllKeys, Access: "RM delete",
		Group: "generic", Since: "4.0.0",
		Summary: "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
		Syntax:  "key [key ...]",
	}, Run: cmdDel},
	{Spec: resp.Spec{
		Name: "exists", Arity: -2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.AllKeys, Access: "RO",
		Group: "generic", Since: "1.0.0", Summary: "Determine if a key exists",
		Syntax: "key [key ...]",
	}, Run: cmdExists},
	{Spec: resp.Spec{
		Name: "type", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "generic", Since: "1.0.0", Summary: "Determine the type stored at key",
		Syntax: "key",
	}, Run: cmdType},
	{Spec: resp.Spec{
		Name: "touch", Arity: -2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.AllKeys, Access: "RO",
		Group: "generic", Since: "3.2.1",
		Summary: "Alters the last access time of a key(s). Returns the number of existing keys specified.",
		Syntax:  "key [key ...]",
	}, Run: cmdExists},
	{Spec: resp.Spec{
		Name: "rename", Arity: 3, Flags: resp.Write, Keys: resp.TwoKeys, Access: "1 RW access delete; 2 OW update",
		Group: "generic", Since: "1.0.0", Summary: "Rename a key",
		Syntax: "key newkey",
	}, Run: cmdRename},
	{Spec: resp.Spec{
		Name: "renamenx", Arity: 3, Flags: resp.Write | resp.Fast,
		Keys: resp.TwoKeys, Access: "1 RW access delete; 2 OW insert",
		Group: "generic", Since: "1.0.0", Summary: "Rename a key, only if the new key does not exist",
		Syntax: "key newkey",
	}, Run: cmdRenameNX},
	{Spec: resp.Spec{
		Name: "copy", Arity: -3, Flags: resp.Write | resp.DenyOOM,
		Keys: resp.TwoKeys, Access: "1 RO access; 2 OW update",
		Group: "generic", Since: "6.2.0", Summary: "Copy a key",
		Syntax: "source destination [DB destination-db] [REPLACE]",
	}, Run: cmdCopy},
	{Spec: resp.Spec{
		Name: "move", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "1.0.0", Summary: "Move a key to another database",
		Syntax: "key db",
	}, Run: cmdMove},
	{Spec: resp.Spec{
		Name: "randomkey", Arity: 1, Flags: resp.ReadOnly,
		Group: "generic", Since: "1.0.0", Summary: "Return a random key from the keyspace",
	}, Run: cmdRandomKey},
	{Spec: resp.Spec{
		Name: "keys", Arity: 2, Flags: resp.ReadOnly,
		Group: "generic", Since: "1.0.0", Summary: "Find all keys matching the given pattern",
		Syntax: "pattern",
	}, Run: cmdKeys},
	{Spec: resp.Spec{
		Name: "scan", Arity: -2, Flags: resp.ReadOnly,
		Group: "generic", Since: "2.8.0", Summary: "Incrementally iterate the keys space",
		Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
	}, Run: cmdScan},
	{Spec: resp.Spec{
		Name: "dbsize", Arity: 1, Flags: resp.ReadOnly | resp.Fast,
		Group: "server", Since: "1.0.0", Summary: "Return the number of keys in the selected database",
	}, Run: cmdDBSize},
	{Spec: resp.Spec{
		Name: "flushdb", Arity: -1, Flags: resp.Write,
		Group: "server", Since: "1.0.0", Summary: "Remove all keys from the current database",
		Syntax: "[ASYNC | SYNC]",
	}, Run: cmdFlushDB},
	{Spec: resp.Spec{
		Name: "flushall", Arity: -1, Flags: resp.Write,
		Group: "server", Since: "1.0.0", Summary: "Remove all keys from all databases",
		Syntax: "[ASYNC | SYNC]",
	}, Run: cmdFlushAll},
	{Spec: resp.Spec{
		Name: "swapdb", Arity: 3, Flags: resp.Write | resp.Fast,
		Group: "server", Since: "4.0.0", Summary: "Swaps two Redis databases",
		Syntax: "index1 index2",
	}, Run: cmdSwapDB},
	{Spec: resp.Spec{
		Name: "expire", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "1.0.0", Summary: "Set a key's time to live in seconds",
		Syntax: "key seconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Run: cmdExpire},
	{Spec: resp.Spec{
		Name: "pexpire", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.6.0", Summary: "Set a key's time to live in milliseconds",
		Syntax: "key milliseconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Run: cmdPExpire},
	{Spec: resp.Spec{
		Name: "expireat", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "1.2.0", Summary: "Set the expiration for a key as a UNIX timestamp",
		Syntax: "key unix-time-seconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
	}, Run: cmdExpireAt},
	{Spec: resp.Spec{
		Name: "pexpireat", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.6.0",
		Summary: "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
		Syntax: "key unix-time-milliseconds [NX | XX | GT | LT] [IFEQ value | IFNE value | IFDEQ digest | IFDNE " +
			"digest]",
	}, Run: cmdPExpireAt},
	{Spec: resp.Spec{
		Name: "ttl", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "1.0.0", Summary: "Get the time to live for a key in seconds",
		Syntax: "key",
	}, Run: cmdTTL},
	{Spec: resp.Spec{
		Name: "pttl", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "2.6.0", Summary: "Get the time to live for a key in milliseconds",
		Syntax: "key",
	}, Run: cmdPTTL},
	{Spec: resp.Spec{
		Name: "expiretime", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "7.0.0", Summary: "Get the expiration Unix timestamp for a key",
		Syntax: "key",
	}, Run: cmdExpireTime},
	{Spec: resp.Spec{
		Name: "pexpiretime", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "generic", Since: "7.0.0", Summary: "Get the expiration Unix timestamp for a key in milliseconds",
		Syntax: "key",
	}, Run: cmdPExpireTime},
	{Spec: resp.Spec{
		Name: "persist", Arity: 2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "generic", Since: "2.2.0", Summary: "Remove the expiration from a key",
		Syntax: "key",
	}, Run: cmdPersist},
	withHelp("6.2.0", row{Spec: resp.Spec{
		Name: "object", Arity: -2,
		Group: "generic", Since: "2.2.3", Summary: "A container for object introspection commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "object|encoding", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Inspect the internal encoding of a Redis object",
			Syntax: "key",
		}, Run: cmdObjectEncoding},
		{Spec: resp.Spec{
			Name: "object|freq", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "4.0.0", Summary: "Get the logarithmic access frequency counter of a Redis object",
			Syntax: "key",
		}, Run: ifPresent(resp.Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
			"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."))},
		{Spec: resp.Spec{
			Name: "object|idletime", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Get the time since a Redis object was last accessed",
			Syntax: "key",
		}, Run: ifPresent(resp.Int(0))},
		{Spec: resp.Spec{
			Name: "object|refcount", Arity: 3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "generic", Since: "2.2.3", Summary: "Get the number of references to the value of the key",
			Syntax: "key",
		}, Run: ifPresent(resp.Int(1))},
	}}),
	{Spec: resp.Spec{
		Name: "fence", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "lockd", Since: "1.0.0",
		Summary: "Return the fencing token of a key: the log index at which it came into being",
		Syntax:  "key",
	}, Run: cmdFence},
}

func cmdDel(c *ctx, args resp.Args) resp.Reply {
	if !c.m.hasRoom(c.m.dbs[c.db].editWork(args[1:], 1)) {
		return resp.Err(errWorkMeter)
	}
	var n int64
	for _, key := range args[1:] {
		if c.delete(key) {
			c.notify(notifyGeneric, "del", key)
			n++
		}
	}
	return resp.Int(n)
}

func cmdExists(c *ctx, args resp.Args) resp.Reply {
	var n int64
	for _, key := range args[1:] {
		if c.m.overBudget() {
			return resp.Err(errWorkMeter)
		}
		if c.lookup(key) != nil {
			n++
		}
	}
	return resp.Int(n)
}

func cmdType(c *ctx, args resp.Args) resp.Reply {
	e := c.lookup(args[1])
	if e == nil {
		return resp.Status("none")
	}
	return resp.Status(e.kind())
}

func cmdRename(c *ctx, args resp.Args) resp.Reply {
	from, to := args[1], args[2]
	if c.lookup(from) == nil {
		return resp.Err(resp.ErrNoSuchKey)
	}
	if from != to {
		c.rename(from, to)
	}
	return resp.OK()
}

func cmdRenameNX(c *ctx, args resp.Args) resp.Reply {
	from, to := args[1], args[2]
	if c.lookup(from) == nil {
		return resp.Err(resp.ErrNoSuchKey)
	}
	if c.lookup(to) != nil {
		return resp.Int(0)
	}
	c.rename(from, to)
	return resp.Int(1)
}

// rename moves a value to another key. That is a new key with a new fence, whatever was
// there before.
func (c *ctx) rename(from, to string) {
	e := c.lookup(from)
	c.delete(to)
	c.why.how = history.Moved
	c.m.store(&c.why, c.db, to, nil, movedEntry(to, e, e.value()))
	c.delete(from)
	c.notify(notifyGeneric, "rename_from", from)
	c.notify(notifyGeneric, "rename_to", to)
}

// movedEntry is the entry of a new key with the value of e. A lock stays a lock.
func movedEntry(key string, e *entry, v value.Value) *entry {
	mark := e.mark()
	if len(key) > lockKeyBytesMax {
		mark = noLock
	}
	return newMarked(key, nil, v, e.deadline(), e.tag(), mark)
}

func cmdCopy(c *ctx, args resp.Args) resp.Reply {
	to, replace, err := c.copyOptions(args[3:])
	if err != nil {
		return resp.Fail(err)
	}
	if to == c.db && args[1] == args[2] {
		return resp.Err(resp.ErrSameObject)
	}
	e, there := c.lookup(args[1]), c.lookupIn(to, args[2])
	if e == nil || (there != nil && !replace) {
		return resp.Int(0)
	}
	if there != nil {
		c.m.store(&c.why, to, args[2], there, nil)
	}
	if agg := e.agg(); agg != nil {
		c.m.spend(value.CloneWork(agg))
	}
	c.m.store(&c.why, to, args[2], nil, movedEntry(args[2], e, e.value().Clone()))
	c.m.notify(to, notifyGeneric, "copy_to", args[2])
	return resp.Int(1)
}

func (c *ctx) copyOptions(args resp.Args) (db int, replace bool, err error) {
	db = c.db
	for i := 0; i < len(args); i++ {
		switch {
		case resp.Is(args[i], "REPLACE"):
			replace = true
		case resp.Is(args[i], "DB") && i+1 < len(args):
			i++
			if db, err = arg.DatabaseIndex(args[i], databases); err != nil {
				return db, replace, err
			}
		default:
			return db, replace, resp.Error(resp.ErrSyntax)
		}
	}
	return db, replace, nil
}

func cmdMove(c *ctx, args resp.Args) resp.Reply {
	to, err := arg.DatabaseIndex(args[2], databases)
	if err != nil {
		return resp.Fail(err)
	}
	key := args[1]
	if to == c.db {
		return resp.Err(resp.ErrSameObject)
	}
	e := c.lookup(key)
	if e == nil || c.lookupIn(to, key) != nil {
		return resp.Int(0)
	}
	c.why.how = history.Moved
	c.m.store(&c.why, to, key, nil, movedEntry(key, e, e.value()))
	c.delete(key)
	c.notify(notifyGeneric, "move_from", key)
	c.m.notify(to, notifyGeneric, "move_to", key)
	return resp.Int(1)
}

func cmdRandomKey(c *ctx, _ resp.Args) resp.Reply {
	keys := c.m.dbs[c.db].keys.keyView
	n := keys.len()
	if n == 0 {
		return resp.Nil()
	}
	// What has expired and waits for the sweep is passed over.
	c.m.spend(value.TreeWork(n))
	var found *entry
	stays := func(e *entry) bool {
		if !c.m.expired(e) {
			found = e
		}
		return found == nil && c.m.affords(keyWork/2)
	}
	if keys.from(keys.at(c.randN(n)), stays); found == nil && !c.m.overBudget() {
		keys.each(stays)
	}
	switch {
	case found != nil:
		return resp.Bulk(found.key())
	case c.m.overBudget():
		return resp.Err(errWorkMeter)
	}
	return resp.Nil()
}

func cmdKeys(c *ctx, args resp.Args) resp.Reply {
	g, found := arg.NewGlob(args[1]), []string{}
	if !c.m.affords(keyWork * int64(c.m.dbs[c.db].keys.len())) {
		return resp.Err(errWorkMeter)
	}
	c.m.dbs[c.db].keys.each(func(e *entry) bool {
		if c.m.matches(g, e.key()) && !c.m.expired(e) {
			found = append(found, e.key())
		}
		return !g.Exceeded() && !c.m.overBudget()
	})
	switch {
	case g.Exceeded():
		return resp.Err(arg.ErrGlob)
	case c.m.overBudget():
		return resp.Err(errWorkMeter)
	}
	return resp.Bulks(found...)
}

func cmdScan(c *ctx, args resp.Args) resp.Reply {
	o, err := arg.ParseScan(args[1:], true)
	if err != nil {
		return resp.Fail(err)
	}
	found := []string{}
	if err := c.m.beginScan(&o, c.m.dbs[c.db].keys.len(), true); err != nil {
		return resp.Fail(err)
	}
	c.m.spend((keyWork - value.FarWork) * int64(o.Count))
	next := c.m.dbs[c.db].keys.scan(o.Cursor, o.Count, func(e *entry) {
		kindFits := o.Kind == "" || strings.EqualFold(o.Kind, e.kind())
		if kindFits && o.Match.Matches(e.key()) && !c.m.expired(e) {
			found = append(found, e.key())
		}
	})
	return c.m.endScan(&o, next, found)
}

func cmdDBSize(c *ctx, _ resp.Args) resp.Reply {
	return resp.Int(int64(c.m.dbs[c.db].keys.len()))
}

func cmdFlushDB(c *ctx, args resp.Args) resp.Reply {
	if !arg.FlushMode(args) {
		return resp.Err(resp.ErrSyntax)
	}
	c.m.spend(flushWork)
	c.m.replaceDatabases()
	c.m.flush(&c.why, c.db, c.db+1)
	return resp.OK()
}

func cmdFlushAll(c *ctx, args resp.Args) resp.Reply {
	if !arg.FlushMode(args) {
		return resp.Err(resp.ErrSyntax)
	}
	c.m.spend(databases * flushWork)
	c.m.replaceDatabases()
	c.m.flush(&c.why, 0, databases)
	return resp.OK()
}

// flush replaces the databases from one to before another by empty ones. First each is left as a running script has
// found it.
func (m *Machine) flush(why *cause, from, to int) {
	m.emptied(from, to)
	for db := from; db < to; db++ {
		if m.journal != nil {
			m.journal.release(m.dbs[db])
		}
		m.recordLocksOf(why, history.Flushed, db, 0)
		m.dbs[db] = newDatabase()
		m.markAllFreed(db)
	}
}

func cmdSwapDB(c *ctx, args resp.Args) resp.Reply {
	a, err := swapIndex(args[1], "ERR invalid first DB index")
	if err != nil {
		return resp.Fail(err)
	}
	b, err := swapIndex(args[2], "ERR invalid second DB index")
	if err != nil {
		return resp.Fail(err)
	}
	if a < 0 || a >= databases || b < 0 || b >= databases {
		return resp.Err(resp.ErrDBIndex)
	}
	if a != b {
		c.m.swap(&c.why, int(a), int(b))
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
func (m *Machine) swap(why *cause, a, b int) {
	m.replaceDatabases()
	m.recordLocksOf(why, history.Swapped, a, b)
	m.recordLocksOf(why, history.Swapped, b, a)
	m.sequence++
	m.nextFence()
	m.dbs[a], m.dbs[b] = m.dbs[b], m.dbs[a]
	for _, db := range []int{a, b} {
		m.dbs[db].swapped, m.dbs[db].floor = m.sequence, m.lastFence
	}
	m.markSwapped(a)
	m.markSwapped(b)
}

func cmdExpire(c *ctx, args resp.Args) resp.Reply    { return c.expireKey(args, expiryEX) }
func cmdPExpire(c *ctx, args resp.Args) resp.Reply   { return c.expireKey(args, expiryPX) }
func cmdExpireAt(c *ctx, args resp.Args) resp.Reply  { return c.expireKey(args, expiryEXAT) }
func cmdPExpireAt(c *ctx, args resp.Args) resp.Reply { return c.expireKey(args, expiryPXAT) }

// expireKey is EXPIRE and its like: key, time, options.
func (c *ctx) expireKey(args resp.Args, x expiry) resp.Reply {
	when, err := parseWhen(args[3:])
	if err != nil {
		return resp.Fail(err)
	}
	n, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	invalid := invalidExpire(strings.ToLower(args[0]))
	if n > maxInt/x.unitMs || n < minInt/x.unitMs {
		return invalid
	}
	until, ok := c.deadlineIn(x, n*x.unitMs)
	if !ok {
		return invalid
	}
	e := c.lookup(args[1])
	if e == nil {
		return resp.Int(0)
	}
	met, err := c.meets(when.value, e)
	switch {
	case err != nil:
		return resp.Fail(err)
	case !met || !when.allows(e.deadline(), until, x):
		return resp.Int(0)
	case c.past(until):
		c.delete(args[1])
		c.notify(notifyGeneric, "del", args[1])
	case x.absolute && e.leased() && e.ends() == e.tick && e.deadline().wallMs == until.wallMs:
		// The key ends then already. Nothing changes, and no watcher is disturbed,
		// even if the wall clock was set in between and the remainder would differ.
	default:
		c.setDeadline(args[1], until)
		c.notify(notifyGeneric, "expire", args[1])
	}
	return resp.Int(1)
}

// expireWhen are the conditions of EXPIRE and its like.
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
func (w expireWhen) allows(has, next deadline, x expiry) bool {
	a, b := has.tick, next.tick
	if x.absolute {
		a, b = has.wallMs, next.wallMs
	}
	switch {
	case w.nx && has.set(), w.xx && !has.set():
		return false
	case w.gt && (!has.set() || b <= a):
		return false
	case w.lt && has.set() && b >= a:
		return false
	}
	return true
}

// The answers of TTL and its like where there is nothing to tell.
const (
	ttlNoKey = -2
	ttlNever = -1
)

// timeOf answers what tell says of a key's deadline.
func (c *ctx) timeOf(key string, tell func(d deadline) int64) resp.Reply {
	e := c.lookup(key)
	switch {
	case e == nil:
		return resp.Int(ttlNoKey)
	case !e.deadline().set():
		return resp.Int(ttlNever)
	}
	return resp.Int(tell(e.deadline()))
}

// remaining is what is left of a lease, in milliseconds.
func (c *ctx) remaining(d deadline) int64 { return max(0, d.tick-c.now()) }

// seconds rounds milliseconds as Redis does.
func seconds(ms int64) int64 { return ms/1000 + (ms%1000+500)/1000 }

func cmdTTL(c *ctx, args resp.Args) resp.Reply {
	return c.timeOf(args[1], func(d deadline) int64 { return seconds(c.remaining(d)) })
}

func cmdPTTL(c *ctx, args resp.Args) resp.Reply { return c.timeOf(args[1], c.remaining) }

func cmdExpireTime(c *ctx, args resp.Args) resp.Reply {
	return c.timeOf(args[1], func(d deadline) int64 { return seconds(d.wallMs) })
}

func cmdPExpireTime(c *ctx, args resp.Args) resp.Reply {
	return c.timeOf(args[1], func(d deadline) int64 { return d.wallMs })
}

func cmdPersist(c *ctx, args resp.Args) resp.Reply {
	e := c.lookup(args[1])
	if e == nil || !e.leased() {
		return resp.Int(0)
	}
	c.setDeadline(args[1], never)
	c.notify(notifyGeneric, "persist", args[1])
	return resp.Int(1)
}

func cmdObjectEncoding(c *ctx, args resp.Args) resp.Reply {
	e := c.lookup(args[2])
	if e == nil {
		return resp.Nil()
	}
	return resp.Bulk(e.value().Encoding())
}

// ifPresent answers the same for each key that is there: what OBJECT asks about its uses and references is not in the
// replicated state.
func ifPresent(reply resp.Reply) func(c *ctx, args resp.Args) resp.Reply {
	return func(c *ctx, args resp.Args) resp.Reply {
		if c.lookup(args[2]) == nil {
			return resp.Nil()
		}
		return reply
	}
}

// cmdFence answers a token for whoever guards a resource: it rises with every key
// that comes into being, and stays while the key is there.
func cmdFence(c *ctx, args resp.Args) resp.Reply {
	return c.fence(args[1])
}
