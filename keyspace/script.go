package keyspace

import (
	"slices"

	"lockd/resp"
)

// scriptRun is a running script or function. Each of its commands gets a context of its own.
type scriptRun struct {
	db       int  // SELECT in a script changes it, for this script only
	readOnly bool // EVAL_RO, no-writes: no writes
	full     bool // memory was over maxmemory when the script began
	wrote    bool // a write has run: memory is not checked any more

	steps int64 // the steps it has taken itself
	left  int64 // the steps it may still take

	exhausted string // the request's limit that the script has met; it is then undone
}

// take counts the steps since its last call.
func (run *scriptRun) take(m *Machine, left int64) {
	steps := run.left - left
	run.steps, run.left = run.steps+steps, left
	m.spendSteps(steps)
}

// The replies of redis.call to what a script may not do, in Redis's words.
const (
	errScriptNoArgs   = "ERR Please specify at least one argument for this redis.call() call"
	errScriptUnknown  = "ERR Unknown Redis command called from script"
	errScriptArity    = "ERR Wrong number of args calling Redis command from script"
	errScriptNotHere  = "ERR This Redis command is not allowed from script"
	errScriptReadOnly = "ERR Write commands are not allowed from read-only scripts."
	errWriteFlag      = "ERR Can not execute a script with write flag using *_ro command."
)

// runScript runs a compiled script.
func (c *ctx) runScript(sha string, s *script, keys, argv []string, readOnly bool) resp.Reply {
	full := c.m.overMemory() && !s.allowOOM
	switch {
	case readOnly && s.shebang > 0 && !s.noWrites:
		return resp.Err(errWriteFlag)
	case full && s.shebang > 0 && !s.noWrites:
		return resp.Err("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	}
	if !c.m.affordsProgram(sha, len(s.source)) {
		return resp.Err(errWorkMeter)
	}
	run := &scriptRun{db: c.db, readOnly: readOnly || s.noWrites, full: full}
	if c.m.applying {
		c.m.library.used(sha, s)
	}
	return c.runLua(run, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Run(s.body(sha), keys, argv, lim, call)
	})
}

// scriptStart runs a script in Lua with limits; call executes its redis.call. It returns the reply,
// what is left of the limits, and whether the script has met one of them.
type scriptStart func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool)

// runLua runs a script or a function, and undoes its writes if it meets a limit. Its steps and the
// work of its commands both count against the request, as they happen: the more of one, the less is
// left of the other.
func (c *ctx) runLua(run *scriptRun, start scriptStart) resp.Reply {
	if c.m.applying {
		c.m.begin()
	}
	lim := c.m.scriptLimits(c.m.settings.script)
	run.left = lim.Steps
	reply, left, limited := start(lim, func(args resp.Args, left int64) (resp.Reply, int64) {
		return c.call(run, args, left)
	})
	run.take(c.m, left.Steps)
	c.m.spend(lim.MemBytes - left.MemBytes)
	if limited {
		c.m.spend(limitWork)
	}
	switch {
	case run.exhausted != "":
		reply, limited = resp.Err(run.exhausted), true
	case limited && workMet(lim, run.steps, left.Steps):
		reply = resp.Err(errWorkMeter)
	case reply.Size() > replyBytesMax:
		reply, limited = resp.Err(errReplyTooLarge), true
	}
	switch {
	case limited && c.m.applying:
		c.m.rollback()
	case c.m.applying:
		c.m.commit()
	}
	return reply
}

// call runs one command for redis.call; see resp.ScriptCall. The steps of the call itself pay for
// the first part of the command's work, so a script of many small commands keeps all its steps.
func (c *ctx) call(run *scriptRun, args resp.Args, left int64) (reply resp.Reply, leftThen int64) {
	m := c.m
	run.take(m, left)
	before := m.request.work
	reply = c.runCalled(run, args)
	m.request.work = max(before, m.request.work-calledSteps*m.settings.stepWork)
	if run.exhausted == "" && m.tired() {
		run.exhausted = errWorkMeter
	}
	if run.exhausted != "" {
		run.left = 0
		return reply, -1 // the script is undone, whatever else it does
	}
	run.left = m.stepsLeft(left)
	return reply, run.left
}

// runCalled runs a command that a script calls.
func (c *ctx) runCalled(run *scriptRun, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	row, fail := table.Find(args)
	if row == nil {
		return scriptError(args, fail)
	}
	switch {
	case row.Flags&resp.NoScript != 0:
		return resp.Err(errScriptNotHere)
	case row.Flags&resp.Changes != 0 && run.readOnly:
		return resp.Err(errScriptReadOnly)
	case row.Flags&resp.DenyOOM != 0 && run.full && !run.wrote:
		return resp.Err(resp.ErrOOM)
	}
	if run.exhausted == "" {
		run.exhausted = c.m.exhausted(row)
	}
	if run.exhausted != "" {
		return resp.Err(run.exhausted)
	}
	if row.Flags&resp.Changes != 0 {
		run.wrote = true
	}
	inner := ctx{m: c.m, at: c.at, db: run.db, run: run, reads: row.Flags&resp.ReadOnly != 0}
	reply := row.Run(&inner, args)
	c.m.reads.record(&row.Spec, args, c.m.position())
	c.m.spend(commandWork + replyWork(reply))
	return reply
}

// scriptError translates a wrong name or arity into Redis's words for scripts. fail is the
// machine's error for the same call.
func scriptError(args resp.Args, fail resp.Reply) resp.Reply {
	spec := table.Lookup(args[0])
	if spec == nil {
		if spec = elsewhere.Lookup(args[0]); spec == nil {
			return resp.Err(errScriptUnknown)
		}
		var leaf *resp.Spec
		if leaf, fail = spec.Check(args); leaf != nil {
			return resp.Err(errScriptNotHere)
		}
	}
	if len(args) > 1 && fail.Str == resp.UnknownSubcommand(spec.Name, args[1]).Str {
		return resp.Err(errScriptUnknown)
	}
	return resp.Err(errScriptArity)
}

// journal keeps what a running script has replaced, so that all of it can be undone: a script that
// meets a limit must not leave half of its writes.
type journal struct {
	undo      []undo
	messages  int // their number before the script
	changed   int // changes, likewise
	reads     int // recorded reads, likewise
	ready     int // keys that have become ready, likewise
	sequence  uint64
	lastFence uint64
	stats     stats
	places    *[databases]place // before the first FLUSHALL, FLUSHDB or SWAPDB; nil: there was none yet
}

// place is the database of a number, and what SWAPDB changes of it.
type place struct {
	*database
	swapped, floor uint64
}

// undo is one change to undo.
type undo struct {
	in        *database // nil: made by the script, which need not be restored
	key       string
	was       *entry // nil: the key was absent
	bucket    int
	createdAt uint64
}

// begin starts the journal of a script. Its new generation makes aggregates copy themselves before
// a change, so that the entries in the journal stay as they were.
func (m *Machine) begin() {
	m.generation++
	m.journal = &journal{
		messages: len(m.messages), changed: len(m.changed), reads: m.reads.len(), ready: len(m.ready),
		sequence: m.sequence, lastFence: m.lastFence, stats: m.stats,
	}
}

// journalEntry records what a key held. It skips values that the script itself has stored, because
// undo has what they replaced. Otherwise a string that grows in a loop would be kept in each of its
// lengths, gigabytes of it.
func (m *Machine) journalEntry(db int, key string, was *entry) {
	j := m.journal
	if j == nil || was != nil && was.version > j.sequence {
		return
	}
	b := bucket(db, key)
	u := undo{bucket: b, createdAt: m.createdAt[b]}
	if d := m.dbs[db]; j.found(d) {
		u.in, u.key, u.was = d, key, was
	}
	j.undo = append(j.undo, u)
}

// found reports whether the script has found a database here, and not made it.
func (j *journal) found(d *database) bool {
	return j.places == nil || slices.ContainsFunc(j.places[:], func(p place) bool { return p.database == d })
}

// replaceDatabases must come before a change that replaces databases.
func (m *Machine) replaceDatabases() {
	m.changed = append(m.changed, resp.Change{Kind: resp.ChangeAll})
	if m.journal == nil || m.journal.places != nil {
		return
	}
	m.journal.places = &[databases]place{}
	for i, d := range m.dbs {
		m.journal.places[i] = place{database: d, swapped: d.swapped, floor: d.floor}
	}
}

// release lets go what the script has put into a database that it is about to empty: that
// is as the script has found it, and does not change any more.
func (j *journal) release(d *database) {
	if !j.found(d) {
		return
	}
	for i := len(j.undo) - 1; i >= 0; i-- {
		if j.undo[i].in == d {
			j.undo[i].restore()
		}
	}
}

// restore gives the database what it held.
func (u *undo) restore() {
	if u.in != nil {
		is, _ := u.in.keys.get(u.key)
		u.in.replace(is, u.was)
		u.in, u.key, u.was = nil, "", nil
	}
}

// commit ends the journal and keeps what the script did.
func (m *Machine) commit() { m.journal = nil }

// rollback ends the journal and undoes what the script did, newest first.
func (m *Machine) rollback() {
	j := m.journal
	m.journal = nil
	for i := len(j.undo) - 1; i >= 0; i-- {
		j.undo[i].restore()
		m.createdAt[j.undo[i].bucket] = j.undo[i].createdAt
	}
	if j.places != nil {
		for i, p := range j.places {
			m.dbs[i] = p.database
			p.database.swapped, p.database.floor = p.swapped, p.floor
		}
	}
	m.messages, m.changed = m.messages[:j.messages], m.changed[:j.changed]
	m.reads.truncate(j.reads)
	m.forgetReady(j.ready)
	m.sequence, m.lastFence, m.stats = j.sequence, j.lastFence, j.stats
}
