package keyspace

import "lockd/resp"

// scriptRun is a script, or a function, that is running. Its commands get contexts of their own.
type scriptRun struct {
	db       int  // SELECT in a script changes it, for this script only
	readOnly bool // EVAL_RO, no-writes: no writes
	full     bool // memory was over maxmemory when the script began
	wrote    bool // a write has been run: from then on memory is not asked any more

	exhausted string // the limit of a request that the script has met; it is undone then
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
	return c.runLua(run, func(call func(resp.Args) resp.Reply) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Run(s.body(sha), keys, argv, c.m.settings.script, call)
	})
}

// runLua runs a script, or a function, and takes back what it has written where it
// meets a limit. What it has used counts once it has ended: no step of a script is
// refused for what the request has done, but the next command is.
func (c *ctx) runLua(run *scriptRun, start func(call func(resp.Args) resp.Reply) (reply resp.Reply, left resp.ScriptLimits, limited bool)) resp.Reply {
	if c.m.applying {
		c.m.begin()
	}
	reply, left, limited := start(func(args resp.Args) resp.Reply { return c.call(run, args) })
	c.m.spendScript(c.m.settings.script, left)
	if limited {
		c.m.spend(limitWork)
	}
	switch {
	case run.exhausted != "":
		reply, limited = resp.Err(run.exhausted), true
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

// call runs one command for redis.call.
func (c *ctx) call(run *scriptRun, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	row, fail := table.Find(args)
	if row == nil {
		return scriptError(args, fail)
	}
	switch {
	case row.Flags&resp.NoScript != 0 || row.Flags&resp.Internal != 0:
		return resp.Err(errScriptNotHere)
	case row.Flags&changes != 0 && run.readOnly:
		return resp.Err(errScriptReadOnly)
	case row.Flags&resp.DenyOOM != 0 && run.full && !run.wrote:
		return resp.Err(resp.ErrOOM)
	}
	if run.exhausted == "" {
		run.exhausted = c.m.exhausted(row)
	}
	if run.exhausted != "" {
		return resp.Err(run.exhausted) // the script may catch it, but is undone all the same
	}
	if row.Flags&changes != 0 {
		run.wrote = true
	}
	inner := ctx{m: c.m, at: c.at, db: run.db, run: run, reads: onlyReads(row)}
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
		sequence: m.sequence, lastFence: m.lastFence, stats: m.stats,
	}
}

func (m *Machine) journalEntry(db int, key string, was *entry) {
	if m.journal == nil {
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
