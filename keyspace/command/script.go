package command

import (
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/resp"
	"lockd/resp/acl"
)

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

	inner Ctx // of the command that runs
}

// take counts the steps since its last call.
func (run *scriptRun) take(s *state.State, left int64) {
	steps := run.left - left
	run.steps, run.left = run.steps+steps, left
	s.Meter.SpendSteps(steps)
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
func (run *scriptRun) inLua(c *Ctx, start scriptStart) resp.Reply {
	if c.s.Applying {
		c.s.Begin()
	}
	lim := c.s.Meter.BeginScript(c.s.Settings.Script, c.s.Settings.StepWork)
	run.left, run.base = lim.Steps, c.s.Keys.Bytes()
	reply, left, limited := start(lim, func(args resp.Args, left int64) (resp.Reply, int64) {
		return run.call(c, args, left)
	})
	run.take(c.s, left.Steps)
	c.s.Meter.Spend(lim.MemBytes - left.MemBytes)
	if limited {
		c.s.Meter.Spend(meter.LimitWork)
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
	case limited && c.s.Applying:
		c.s.Rollback()
	case c.s.Applying:
		c.s.Commit()
	}
	return reply
}

// call runs one command for redis.call; see resp.ScriptCall. The steps of the call itself pay for
// the first part of the command's work, so a script of many small commands keeps all its steps.
func (run *scriptRun) call(c *Ctx, args resp.Args, left int64) (reply resp.Reply, leftThen int64) {
	s := c.s
	run.take(s, left)
	before := s.Meter.Work()
	reply = run.runCalled(c, args)
	s.Meter.Refund(before)
	switch {
	case run.exhausted != "":
	case s.Meter.Exceeded():
		run.exhausted = meter.ErrWork
	case s.Embargo.Guards && s.Embargo.Met:
		run.exhausted = s.EmbargoError().Str
	}
	if run.exhausted != "" {
		run.left = 0
		return reply, -1 // the script is undone, whatever else it does
	}
	run.left = s.Meter.StepsLeft(left)
	return reply, run.left
}

// runCalled runs a command that a script calls.
func (run *scriptRun) runCalled(c *Ctx, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	if args[0] == resp.ScriptMay {
		return scriptMay(c, args[1:])
	}
	row, _ := c.commands().table.Find(args)
	if row == nil {
		return c.commands().scriptError(args)
	}
	req, wrong := row.Run(args)
	renewed := false // where memory is full
	switch {
	case row.Flags&resp.NoScript != 0:
		return resp.Err(errScriptNotHere)
	case c.s.Rights.User != "":
		if why, object := mayCall(c.s, c.commands().known.Of(&row.Spec), args); why != acl.Allowed {
			c.s.Rights.Record(why, object)
			return resp.Err(errScriptUser[why])
		}
	}
	switch {
	case row.Flags&resp.Changes != 0 && run.readOnly:
		return resp.Err(errScriptReadOnly)
	case row.Flags&resp.DenyOOM != 0 && run.full && !run.wrote:
		if renewed = renews(&Ctx{s: c.s, at: c.at, db: run.db}, req); !renewed {
			return resp.Err(resp.ErrOOM)
		}
	}
	if run.exhausted == "" {
		run.exhausted = c.s.Exhausted(&row.Spec)
	}
	if run.exhausted != "" {
		return resp.Err(run.exhausted)
	}
	if row.Flags&resp.Changes != 0 && !renewed {
		run.wrote = true
	}
	run.inner = Ctx{s: c.s, at: c.at, db: run.db, run: run, reads: row.Flags&resp.ReadOnly != 0}
	run.inner.Why = lifecycle.Cause{By: row.Name, Script: true, Condition: true, Client: c.Why.Client}
	reply := perform(&run.inner, req, wrong)
	if row.Flags&resp.DenyOOM != 0 && !run.mayGrow && c.s.Settings.NoRoom != "" && c.s.Keys.Bytes() > run.base {
		// Scripts that release a lock call such commands, too, as HINCRBY: only growth counts.
		run.exhausted = c.s.Settings.NoRoom
	}
	c.s.Reads.Record(&row.Spec, args, c.s.Out.Position())
	c.s.Meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	return reply
}

// scriptError answers a wrong name or arity in Redis's words for scripts.
func (l *commandSet) scriptError(args resp.Args) resp.Reply {
	spec := l.table.Lookup(args[0])
	if spec == nil {
		if spec = l.elsewhere.Lookup(args[0]); spec == nil {
			return resp.Err(errScriptUnknown)
		}
		if leaf, _ := spec.Check(args); leaf != nil {
			return resp.Err(errScriptNotHere)
		}
	}
	if spec.Leaf(args) == nil {
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

// mayCall checks a call, and counts the work.
func mayCall(s *state.State, cmd *acl.Command, args resp.Args) (why acl.Reason, object string) {
	why, object, work := s.Rights.Check(s.Users, cmd, args)
	s.Meter.Spend(work)
	return why, object
}

// scriptMay answers redis.acl_check_cmd.
func scriptMay(c *Ctx, args resp.Args) resp.Reply {
	if len(args) == 0 {
		return resp.Err(errScriptNoArgs)
	}
	cmd := c.commands().known.Called(args)
	if cmd == nil {
		return resp.Err("Invalid command passed to redis.acl_check_cmd()")
	}
	may := c.s.Rights.User == ""
	if spec, _ := cmd.Spec.Check(args); !may && spec != nil {
		why, _ := mayCall(c.s, cmd, args)
		may = why == acl.Allowed
	}
	return oneIf(may)
}
