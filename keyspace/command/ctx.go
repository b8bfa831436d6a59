package command

import (
	"slices"
	"strconv"

	"lockd/keyspace/emit"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Ctx gives one command access to what it may touch. Keys are looked up in the command's database; every change goes
// through Put of the state.
//
// In a read nothing is changed, not even what has expired: a row without the flag Write (or MayReplicate) calls no
// method that writes.
type Ctx struct {
	s   *state.State
	at  resp.Stamp // of the entry, or of the read
	db  int
	Why lifecycle.Cause

	// Moment is a tick that was passed already, while what ended by itself then is dealt with: what has ended since is
	// still there. 0: what the clock has ended has ended.
	Moment int64
	run    *scriptRun // the script that runs this command, or nil

	takesBack bool // the command takes back what a client was given: see Redo

	reads bool       // the command's row says that it only reads: its look-ups count
	block *BlockCall // the command may wait; or nil
}

// NewCtx returns what a command has access to, at a stamp, in a database. Nobody has sent it.
func NewCtx(s *state.State, at resp.Stamp, db int) Ctx { return Ctx{s: s, at: at, db: db} }

// ErrNotLogged answers a command that would change the state outside of an entry.
const ErrNotLogged = "ERR a command that writes was sent as a read: nothing was executed"

// Execute runs a command. Its row may already be known from an earlier check. What is wrong with its arguments is
// answered last, as a call that may not run at all is told so.
func (c *Ctx) Execute(cmd resp.Cmd) resp.Reply {
	row, args := table.Row(cmd.Spec), cmd.Args
	if row == nil || row.Level > c.s.Level {
		var fail resp.Reply
		if row, fail = c.commands().table.Find(args); row == nil {
			return fail
		}
	}
	req, wrong := row.Run(args)
	switch {
	case c.db < 0 || c.db >= store.Databases:
		return resp.Err(resp.ErrDBIndex)
	case row.Flags&resp.Changes != 0 && !c.s.Applying && !c.s.DryRun.Running:
		// Routing has failed. Running the command would fork the replicas.
		return resp.Err(ErrNotLogged)
	case row.Flags&resp.DenyOOM != 0 && c.s.OverMemory() && !renews(c, req):
		return resp.Err(resp.ErrOOM)
	case row.Flags&resp.DenyOOM != 0 && c.s.Settings.NoRoom != "" && !renews(c, req):
		return resp.Err(c.s.Settings.NoRoom)
	}
	if why := c.s.Exhausted(&row.Spec); why != "" {
		return resp.Err(why)
	}
	c.reads = row.Flags&resp.ReadOnly != 0
	c.Why = lifecycle.Cause{By: row.Name, Client: c.Why.Client}
	reply := c.guard(row, req, wrong)
	if c.s.Applying && row.Flags&resp.Changes != 0 {
		c.s.Digest.Reply(reply)
	}
	if row.Flags&resp.Changes == 0 && reply.Size() > meter.ReplyBytesMax {
		return resp.Err(meter.ErrReplyTooLarge) // nothing was changed, so an error is the truth
	}
	return reply
}

// commands returns the commands of the level in force.
func (c *Ctx) commands() *commandSet { return commandsAt(c.s.Level) }

// keeps reports whether a key holds a string that is to be stored.
func keeps(c *Ctx, key, s string) bool {
	e := c.Lookup(key)
	return e != nil && e.Aggregate() == nil && e.Str() == s
}

// guard runs a command. While no lock may be granted, one that would grant one is taken back, and refused.
func (c *Ctx) guard(row *resp.Row[parser], req call, wrong error) resp.Reply {
	s := c.s
	if !s.Applying || row.Flags&resp.Changes == 0 || !s.Embargoed() {
		return perform(c, req, wrong)
	}
	s.Begin()
	s.Embargo.Guards, s.Embargo.Met = true, false
	reply := perform(c, req, wrong)
	switch {
	case s.Journal == nil: // of a script, which has ended it
	case s.Embargo.Met:
		s.Rollback()
		reply = s.EmbargoError()
	default:
		s.Commit()
	}
	s.Embargo.Guards = false
	return reply
}

// now returns the log clock: deadlines are counted from it. In View it is the leader's
// estimate (for PTTL); whether a key has expired is never judged by it.
func (c *Ctx) now() int64 { return c.at.Tick }

// asOf returns the tick by which leases are judged.
func (c *Ctx) asOf() int64 { return c.s.AsOf(c.Moment) }

// lockName returns the name of the lock of a key.
func (c *Ctx) lockName(key string) lock.Name { return lock.Name{Space: c.db, Key: key} }

// WallMs returns the wall clock of the stamp in milliseconds since 1970.
func (c *Ctx) WallMs() int64 { return c.at.Wall / 1000 }

// rand draws the next random number, the same on every node.
func (c *Ctx) rand() uint64 {
	c.s.Draws++
	z := c.at.Seed + c.s.Draws*0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// randN draws a number below n, n > 0.
func (c *Ctx) randN(n int) int { return int(c.rand() % uint64(n)) }

// choose draws from the n numbers below n: count different ones, all of them in
// their order where count reaches n, or -count independent ones.
func choose(c *Ctx, n int, count int64) []int {
	if count < 0 {
		chosen := make([]int, -count)
		for i := range chosen {
			chosen[i] = c.randN(n)
		}
		return chosen
	}
	chosen := make([]int, min(count, int64(n)))
	if len(chosen) == n {
		for i := range chosen {
			chosen[i] = i
		}
		return chosen
	}
	// A shuffle that keeps only the places it has changed.
	moved := map[int]int{}
	place := func(i int) int {
		if at, ok := moved[i]; ok {
			return at
		}
		return i
	}
	for i := range chosen {
		j := i + c.randN(n-i)
		chosen[i] = place(j)
		moved[j] = place(i)
	}
	return chosen
}

// Lookup finds a key; nil if it is absent or its lease has ended. An entry is
// immutable. Where the log is applied, an ended lease that the sweep has not
// reached yet is ended here, with its event.
func (c *Ctx) Lookup(key string) *store.Entry { return c.lookupIn(c.db, key) }

func (c *Ctx) lookupIn(db int, key string) *store.Entry {
	c.s.Meter.Spend(c.s.Keys.DBs[db].FindWork(key))
	e, ok := c.s.Keys.DBs[db].Keys.Get(key)
	if ok && e.Due(c.asOf()) {
		if c.s.Applying {
			e = c.s.EndLeases(db, e, c.asOf())
		} else if c.s.Expired(e) {
			e = nil
		}
		ok = e != nil
	}
	if c.reads {
		c.s.Seen.Count(ok)
	}
	if ok {
		c.s.DryRun.Found(c.now(), e)
	}
	return e
}

// putUntil gives key a value and a deadline, or store.Never.
func (c *Ctx) putUntil(key string, v value.Value, d store.Deadline) {
	was := c.Lookup(key)
	c.s.Put(&c.Why, c.db, was, store.NewEntry(key, was, v, d, nil, markOf(c, key, was, v)))
}

// markOf returns the mark of a key that gets a value. One that keeps its token keeps its mark.
func markOf(c *Ctx, key string, was *store.Entry, v value.Value) store.Mark {
	switch {
	case was == nil && c.Why.Condition, was != nil && handsOver(c, was, v):
		return c.s.Locks().MarkOf(&c.Why, key, v)
	case was != nil && was.Mark() != store.NoLock && was.Holds(v):
		return was.Mark()
	}
	return store.NoLock
}

// handsOver reports whether a command that replaces the token of a lock knows whose it was: it has compared it, or it
// answers it, its transaction has watched keys, or its script was given both tokens. So the next one holds the lock.
// What anything else writes is data: a counter that a script keeps, a result in the place of a lock.
func handsOver(c *Ctx, was *store.Entry, v value.Value) bool {
	switch {
	case was.Mark() == store.NoLock || was.Aggregate() != nil || was.Holds(v):
		return false
	case c.run != nil && !c.Why.Compared:
		return c.run.given(c.s, was.Str()) && c.run.given(c.s, v.Str())
	}
	return c.Why.Compared || c.s.Embargo.Watched
}

// delete removes a key and reports whether it was there.
func (c *Ctx) delete(key string) bool {
	was := c.Lookup(key)
	if was != nil {
		c.s.Put(&c.Why, c.db, was, nil)
	}
	return was != nil
}

// SetDeadline gives a key that is there a deadline; never takes it away.
func SetDeadline(c *Ctx, key string, d store.Deadline) {
	if was := c.Lookup(key); was != nil {
		c.s.Put(&c.Why, c.db, was, c.s.Until(&c.Why, was, d))
	}
}

// Notify sends a keyspace notification, if the settings ask for its class.
func (c *Ctx) Notify(class emit.Classes, event, key string) {
	c.s.Notify(c.db, class, event, key)
}

// Publish sends a message to the subscribers of every node.
func (c *Ctx) Publish(kind resp.MessageKind, channel, payload string) {
	c.s.Out.Emit(resp.Message{Kind: kind, Channel: channel, Payload: payload})
}

// After returns the deadline ttlMs from now. It reports false where Redis would: the
// sum leaves 64 bits.
func (c *Ctx) After(ttlMs int64) (store.Deadline, bool) {
	wall, ok := addInt(c.WallMs(), ttlMs)
	if !ok {
		return store.Never, false
	}
	tick, ok := addInt(c.now(), ttlMs)
	return store.Deadline{Tick: tick, WallMs: wall}, ok && tick != store.Never.Tick
}

// until returns the deadline at a wall time: what remains of it, counted by the log
// clock from now on. A time before all times is past, and no error.
func (c *Ctx) until(wallMs int64) (store.Deadline, bool) {
	ttl, ok := addInt(wallMs, -c.WallMs())
	switch {
	case !ok && wallMs < 0:
		ttl = minInt
	case !ok:
		return store.Never, false
	}
	tick, ok := addInt(c.now(), ttl)
	return store.Deadline{Tick: tick, WallMs: wallMs}, ok && tick != store.Never.Tick
}

// past reports whether a deadline is no later than now: EXPIRE deletes the key.
func (c *Ctx) past(d store.Deadline) bool { return d.Tick <= c.now() }

// expiry is a unit of time and a reference, as an option names them.
type expiry struct {
	unitMs   int64 // 1000 or 1
	absolute bool  // since 1970, not from now
}

// The four ways to write a deadline.
var (
	expiryEX   = expiry{unitMs: 1000}
	expiryPX   = expiry{unitMs: 1}
	expiryEXAT = expiry{unitMs: 1000, absolute: true}
	expiryPXAT = expiry{unitMs: 1, absolute: true}
)

// deadlineOf reads the number of an expiry option with the checks of Redis's SET,
// GETEX and SETEX; command names the command in the error, in lower case.
func (x expiry) deadlineOf(c *Ctx, number, command string) (d store.Deadline, err error) {
	ms, err := x.read(number, command)
	if err != nil {
		return store.Never, err
	}
	return x.deadlineFrom(c, ms, command)
}

// deadlineFrom is deadlineOf of a number that was read.
func (x expiry) deadlineFrom(c *Ctx, ms int64, command string) (d store.Deadline, err error) {
	d, ok := x.deadlineIn(c, ms)
	if !ok {
		return store.Never, resp.Error(invalidExpire(command).Str)
	}
	return d, nil
}

// read reads the number of an expiry option, with those checks of deadlineOf that need no clock.
func (x expiry) read(number, command string) (ms int64, err error) {
	n, ok := resp.ParseInt(number)
	if !ok {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return x.ms(n, command)
}

// ms returns a number of units in milliseconds.
func (x expiry) ms(n int64, command string) (ms int64, err error) {
	if n <= 0 || n > maxInt/x.unitMs {
		return 0, resp.Error(invalidExpire(command).Str)
	}
	return n * x.unitMs, nil
}

func (x expiry) deadlineIn(c *Ctx, ms int64) (store.Deadline, bool) {
	if x.absolute {
		return c.until(ms)
	}
	return c.After(ms)
}

func invalidExpire(command string) resp.Reply {
	return resp.Err("ERR invalid expire time in '" + command + "' command")
}

const (
	maxInt = 1<<63 - 1
	minInt = -1 << 63
)

// addInt adds and reports whether the sum fits 64 bits.
func addInt(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// given reports whether a token, of bounded length, is one of the script's arguments.
func (run *scriptRun) given(s *state.State, token string) bool {
	s.Meter.Spend(value.CompareWork * int64(len(run.argv)))
	return slices.Contains(run.argv, token)
}
