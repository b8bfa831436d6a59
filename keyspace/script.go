package keyspace

import "lockd/resp"

// scriptRun is a script, or a function, that is running. Its commands get contexts of their own.
type scriptRun struct {
	db       int  // SELECT in a script changes it, for this script only
	readOnly bool // EVAL_RO, no-writes: no writes
	full     bool // memory was over maxmemory when the script began
	wrote    bool // a write has been run: from then on memory is not asked any more

	steps int64 // that it has taken itself
	left  int64 // that it may take

	exhausted string // the limit of a request that the script has met; it is undone then
}

// take counts the steps that the script has taken since it was asked last.
func (run *scriptRun) take(m *Machine, left int64) {
	steps := run.left - left
	run.steps, run.left = run.steps+steps, left
	m.spendSteps(steps)
}

// The answers of redis.call to what a script may not do, in Redis's words.
const (
	errScriptNoArgs   = "ERR Please specify at least one argument for this redis.call() call"
	errScriptUnknown  = "ERR Unknown Redis command called from script"
	errScriptArity    = "ERR Wrong number of args calling Redis command from script"
	errScriptNotHere  = "ERR This Redis command is not allowed from script"
	errScriptReadOnly = "ERR Write commands are not allowed from read-only scripts."
	errWriteFlag      = "ERR Can not execute a script with write flag using *_ro command."
)

// runScript runs a script that has been compiled.
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

// scriptStart has Lua run a script with limits; what it calls goes through call. It returns the reply,
// what is left of the limits, and whether the script has met one of them.
type scriptStart func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool)

// runLua runs a script, or a function, and takes back what it has written where it
// meets a limit. Its steps and the work of its commands are taken from what its request
// may do, both as they come: the more it does of one, the less is left of the other.
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

// call runs one command for redis.call; see resp.ScriptCall. The steps of the call have
// paid for the first of the command's work: a script of many small ones has all its steps.
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
		return reply, -1 // it is undone, whatever it would do
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
	c.m.reads.note(&row.Spec, args, c.m.position())
	c.m.spend(commandWork + replyWork(reply))
	return reply
}

// scriptError puts what is wrong with a name or an arity in the words that Redis
// has for scripts. fail is why the machine's table has no row for the call.
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

// journal holds what a running script has replaced, so that all of it can be taken
// back: a script that meets one of its limits must not leave half of its writes.
type journal struct {
	undo      []undo
	messages  int // how many there were before the script
	changed   int // changes, likewise
	reads     int // noted reads, likewise
	ready     int // keys that have become ready, likewise
	sequence  uint64
	lastFence uint64
	stats     stats
	noted     uint64 // whatever is of a later sequence stands where something is noted in undo
}

// undo is one change to take back: an entry of a database, or all databases.
type undo struct {
	db        int
	key       string
	was       *entry // nil: the key was absent
	bucket    int
	createdAt uint64
	dbs       *[databases]*database // FLUSHALL, FLUSHDB, SWAPDB: what they replaced
}

// begin starts the journal of a script. A new generation makes aggregates be
// copied before they are changed, so that the entries in the journal stay as they were.
func (m *Machine) begin() {
	m.generation++
	m.journal = &journal{
		messages: len(m.messages), changed: len(m.changed), reads: m.reads.len(), ready: len(m.ready),
		sequence: m.sequence, lastFence: m.lastFence, stats: m.stats, noted: m.sequence,
	}
}

// journalEntry notes what a key held. What the script itself has put there is not kept: what
// was there before it is noted already. A string that grows in a loop would else be kept in
// each of its lengths, gigabytes of it.
func (m *Machine) journalEntry(db int, key string, was *entry) {
	if m.journal == nil || was != nil && was.version > m.journal.noted {
		return
	}
	b := bucket(db, key)
	m.journal.undo = append(m.journal.undo, undo{db: db, key: key, was: was, bucket: b, createdAt: m.createdAt[b]})
}

// replaceDatabases must come before a change that replaces databases. What was
// replaced is not changed any more while the script runs.
func (m *Machine) replaceDatabases() {
	m.changed = append(m.changed, resp.Change{Kind: resp.ChangeAll})
	if m.journal == nil {
		return
	}
	dbs := m.dbs
	m.journal.undo = append(m.journal.undo, undo{dbs: &dbs})
	m.journal.noted = m.sequence
}

// commit ends the journal and keeps what the script did.
func (m *Machine) commit() { m.journal = nil }

// rollback ends the journal and takes back what the script did, newest first.
func (m *Machine) rollback() {
	j := m.journal
	m.journal = nil
	for i := len(j.undo) - 1; i >= 0; i-- {
		u := j.undo[i]
		if u.dbs != nil {
			m.dbs = *u.dbs
			continue
		}
		d := m.dbs[u.db]
		is, _ := d.keys.get(u.key)
		d.replace(is, u.was)
		m.createdAt[u.bucket] = u.createdAt
	}
	m.messages, m.changed = m.messages[:j.messages], m.changed[:j.changed]
	m.reads.truncate(j.reads)
	m.forgetReady(j.ready)
	m.sequence, m.lastFence, m.stats = j.sequence, j.lastFence, j.stats
}
