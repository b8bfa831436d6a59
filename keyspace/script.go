package keyspace

import (
	"strings"

	"lockd/keyspace/fate"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/acl"
)

// Scripts runs scripts and functions. luavm.VM implements it. It is used under the machine's
// lock, by one goroutine at a time.
type Scripts interface {
	// Compile checks a script without running it. The error is that of Redis.
	Compile(s resp.Script) error
	// Run runs s with KEYS and ARGV. call runs its commands. The reply is what
	// EVAL answers. limited is true when the script met one of its limits: the
	// caller takes back what the script wrote, and the reply says which limit. left is
	// what is left of lim, the same on every node.
	Run(
		s resp.Script,
		keys, argv []string,
		lim resp.ScriptLimits,
		call resp.ScriptCall,
	) (reply resp.Reply, left resp.ScriptLimits, limited bool)
	// Load runs the code of a library of functions and returns the functions that it
	// registers, in any order, and what is left of lim. The error is that of Redis where it
	// does not compile, fails, or meets a limit.
	Load(lib resp.Script, lim resp.ScriptLimits) (functions []resp.Function, left resp.ScriptLimits, err error)
	// Call runs a function that Load has returned, with its keys and arguments, as Run
	// runs a script. It knows of no other call: it finds the library as Load left it.
	Call(
		lib resp.Script,
		name string,
		keys, argv []string,
		lim resp.ScriptLimits,
		call resp.ScriptCall,
	) (reply resp.Reply, left resp.ScriptLimits, limited bool)
}

// scriptRun is a running script or function.
type scriptRun struct {
	db       int   // SELECT in a script changes it, for this script only
	readOnly bool  // EVAL_RO, no-writes: no writes
	full     bool  // memory was over maxmemory when the script began
	wrote    bool  // a write has run: memory is not checked any more
	mayGrow  bool  // allow-oom: it may let the state grow though the disks are full
	base     int64 // bytes of the keys when the script began

	argv []string // the arguments that may be tokens

	steps int64 // the steps it has taken itself
	left  int64 // the steps it may still take

	exhausted string // the request's limit that the script has met; it is then undone

	inner ctx // of the command that runs
}

// take counts the steps since its last call.
func (run *scriptRun) take(m *Machine, left int64) {
	steps := run.left - left
	run.steps, run.left = run.steps+steps, left
	m.meter.SpendSteps(steps)
}

// tokensGivenMax bounds how many arguments of a script, the first ones, are looked at for tokens.
const tokensGivenMax = 16

// mayBeTokens returns the arguments of a script that are looked at for tokens.
func mayBeTokens(argv []string) []string { return argv[:min(len(argv), tokensGivenMax)] }

// The replies of redis.call to what a script may not do, in Redis's words.
const (
	errScriptNoArgs   = "ERR Please specify at least one argument for this redis.call() call"
	errScriptUnknown  = "ERR Unknown Redis command called from script"
	errScriptArity    = "ERR Wrong number of args calling Redis command from script"
	errScriptNotHere  = "ERR This Redis command is not allowed from script"
	errScriptReadOnly = "ERR Write commands are not allowed from read-only scripts."
	errWriteFlag      = "ERR Can not execute a script with write flag using *_ro command."
)

// scriptStart runs a script in Lua with limits; call executes its redis.call. It returns the reply,
// what is left of the limits, and whether the script has met one of them.
type scriptStart func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool)

// inLua runs a script or a function, and undoes its writes if it meets a limit. Its steps and the
// work of its commands both count against the request, as they happen: the more of one, the less is
// left of the other.
func (run *scriptRun) inLua(c *ctx, start scriptStart) resp.Reply {
	if c.m.applying {
		c.m.begin()
	}
	lim := c.m.meter.BeginScript(c.m.settings.Script, c.m.settings.StepWork)
	run.left, run.base = lim.Steps, c.m.keys.Bytes()
	reply, left, limited := start(lim, func(args resp.Args, left int64) (resp.Reply, int64) {
		return run.call(c, args, left)
	})
	run.take(c.m, left.Steps)
	c.m.meter.Spend(lim.MemBytes - left.MemBytes)
	if limited {
		c.m.meter.Spend(meter.LimitWork)
	}
	switch {
	case run.exhausted != "":
		reply, limited = resp.Err(run.exhausted), true
	case limited && meter.WorkMet(lim, run.steps, left.Steps):
		reply = resp.Err(meter.ErrWork)
	case reply.Size() > meter.ReplyBytesMax:
		reply, limited = resp.Err(meter.ErrReplyTooLarge), true
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
func (run *scriptRun) call(c *ctx, args resp.Args, left int64) (reply resp.Reply, leftThen int64) {
	m := c.m
	run.take(m, left)
	before := m.meter.Work()
	reply = run.runCalled(c, args)
	m.meter.Refund(before)
	switch {
	case run.exhausted != "":
	case m.meter.Exceeded():
		run.exhausted = meter.ErrWork
	case m.embargo.Guards && m.embargo.Met:
		run.exhausted = m.embargoError().Str
	}
	if run.exhausted != "" {
		run.left = 0
		return reply, -1 // the script is undone, whatever else it does
	}
	run.left = m.meter.StepsLeft(left)
	return reply, run.left
}

// runCalled runs a command that a script calls.
func (run *scriptRun) runCalled(c *ctx, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	if args[0] == resp.ScriptMay {
		return scriptMay(c.m, args[1:])
	}
	row, fail := c.m.table.Find(args)
	if row == nil {
		return c.m.scriptError(args, fail)
	}
	req, wrong := row.Run(args)
	renewed := false // where memory is full
	switch {
	case row.Flags&resp.NoScript != 0:
		return resp.Err(errScriptNotHere)
	case c.m.rights.user != "":
		if why, object := mayCall(c.m, c.m.known.Of(&row.Spec), args); why != acl.Allowed {
			c.m.rights.record(why, object)
			return resp.Err(errScriptUser[why])
		}
	}
	switch {
	case row.Flags&resp.Changes != 0 && run.readOnly:
		return resp.Err(errScriptReadOnly)
	case row.Flags&resp.DenyOOM != 0 && run.full && !run.wrote:
		if renewed = renews(&ctx{m: c.m, at: c.at, db: run.db}, req); !renewed {
			return resp.Err(resp.ErrOOM)
		}
	}
	if run.exhausted == "" {
		run.exhausted = c.m.exhausted(row)
	}
	if run.exhausted != "" {
		return resp.Err(run.exhausted)
	}
	if row.Flags&resp.Changes != 0 && !renewed {
		run.wrote = true
	}
	run.inner = ctx{m: c.m, at: c.at, db: run.db, run: run, reads: row.Flags&resp.ReadOnly != 0}
	run.inner.why = fate.Cause{By: row.Name, Script: true, Condition: true, Client: c.why.Client}
	reply := perform(&run.inner, req, wrong)
	if row.Flags&resp.DenyOOM != 0 && !run.mayGrow && c.m.settings.NoRoom != "" && c.m.keys.Bytes() > run.base {
		// Scripts that release a lock call such commands, too, as HINCRBY: what counts is what they do.
		run.exhausted = c.m.settings.NoRoom
	}
	c.m.reads.Record(&row.Spec, args, c.m.out.Position())
	c.m.meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	return reply
}

// scriptError translates a wrong name or arity into Redis's words for scripts. fail is the
// machine's error for the same call.
func (l *commandSet) scriptError(args resp.Args, fail resp.Reply) resp.Reply {
	spec := l.table.Lookup(args[0])
	if spec == nil {
		if spec = l.elsewhere.Lookup(args[0]); spec == nil {
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

// The replies to what the user of a script may not call, in Redis's words.
var errScriptUser = map[acl.Reason]string{
	acl.DeniedCommand: "ERR The user executing the script can't run this command or subcommand",
	acl.DeniedKey:     "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
	acl.DeniedChannel: "ERR The user executing the script can't publish to the channel mentioned in the command",
}

// rights bounds what the scripts of the running request may call.
type rights struct {
	user   string        // whose rights they have; "": all
	denied []resp.Denial // what they were denied
}

// check says whether the user may make a call, whose number of arguments is right, and if not, what is denied. A user
// who is gone by now may call nothing.
func (r *rights) check(users *acl.Users, cmd *acl.Command, args resp.Args) (why acl.Reason, object string, work int64) {
	if r.user == "" {
		return acl.Allowed, "", 0
	}
	user := users.Get(r.user)
	if user == nil {
		return acl.DeniedCommand, cmd.Spec.Name, 0
	}
	why, object, steps := user.Check(cmd, args)
	return why, object, value.FindWork + int64(steps)
}

// record has the result say what a script was denied.
func (r *rights) record(why acl.Reason, object string) {
	d := resp.Denial{Reason: why.String(), Object: strings.Clone(object[:min(len(object), resp.DenialBytesMax)])}
	if len(r.denied) < resp.DenialsMax {
		r.denied = append(r.denied, d)
	}
}

// mayCall checks a call, and counts the work.
func mayCall(m *Machine, cmd *acl.Command, args resp.Args) (why acl.Reason, object string) {
	why, object, work := m.rights.check(m.users, cmd, args)
	m.meter.Spend(work)
	return why, object
}

// scriptMay answers redis.acl_check_cmd.
func scriptMay(m *Machine, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	cmd := m.known.Called(args)
	if cmd == nil {
		return resp.Err("Invalid command passed to redis.acl_check_cmd()")
	}
	may := m.rights.user == ""
	if spec, _ := cmd.Spec.Check(args); !may && spec != nil {
		why, _ := mayCall(m, cmd, args)
		may = why == acl.Allowed
	}
	return oneIf(may)
}
