package keyspace

import (
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

var scriptRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "eval", Arity: -3,
		Flags: resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys |
			resp.MovableKeys | resp.MayReplicate,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "2.6.0", Summary: "Execute a Lua script server side",
		Syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdEval},
	{Spec: resp.Spec{
		Name: "evalsha", Arity: -3,
		Flags: resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys |
			resp.MovableKeys | resp.MayReplicate,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "2.6.0", Summary: "Execute a Lua script server side",
		Syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdEvalSHA},
	{Spec: resp.Spec{
		Name: "eval_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Execute a read-only Lua script server side",
		Syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdEvalRO},
	{Spec: resp.Spec{
		Name: "evalsha_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Execute a read-only Lua script server side",
		Syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdEvalSHARO},
	{Spec: resp.Spec{
		Name: "script", Arity: -2,
		Group: "scripting", Since: "2.6.0", Summary: "A container for Lua scripts management commands",
	}, Subs: []resp.Row[command]{
		{Spec: resp.Spec{
			Name: "script|load", Arity: 3, Flags: resp.NoScript | resp.Stale | resp.MayReplicate,
			Group: "scripting", Since: "2.6.0", Summary: "Load the specified Lua script into the script cache.",
			Syntax: "script",
		}, Run: cmdScriptLoad},
		{Spec: resp.Spec{
			Name: "script|exists", Arity: -3, Flags: resp.NoScript,
			Group: "scripting", Since: "2.6.0", Summary: "Check existence of scripts in the script cache.",
			Syntax: "sha1 [sha1 ...]",
		}, Run: cmdScriptExists},
		{Spec: resp.Spec{
			Name: "script|flush", Arity: -2, Flags: resp.NoScript | resp.MayReplicate,
			Group: "scripting", Since: "2.6.0", Summary: "Remove all the scripts from the script cache.",
			Syntax: "[ASYNC | SYNC]",
		}, Run: cmdScriptFlush},
		{Spec: resp.Spec{
			Name: "script|kill", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "2.6.0", Summary: "Kill the script currently in execution.",
		}, Run: cmdScriptKill},
		{Spec: resp.Spec{
			Name: "script|help", Arity: 2, Flags: resp.Loading | resp.Stale,
			Group: "scripting", Since: "5.0.0", Summary: "Show helpful text about the different subcommands",
		}, Run: cmdScriptHelp},
	}},
}

func cmdEval(c *ctx, args resp.Args) resp.Reply      { return c.eval(args, false) }
func cmdEvalRO(c *ctx, args resp.Args) resp.Reply    { return c.eval(args, true) }
func cmdEvalSHA(c *ctx, args resp.Args) resp.Reply   { return c.evalSHA(args, false) }
func cmdEvalSHARO(c *ctx, args resp.Args) resp.Reply { return c.evalSHA(args, true) }

// eval is EVAL: script, number of keys, keys, arguments.
func (c *ctx) eval(args resp.Args, readOnly bool) resp.Reply {
	keys, argv, err := scriptArgs(args, resp.ErrNotInteger)
	if err != nil {
		return resp.Fail(err)
	}
	sha := scriptSHA(args[1])
	known := c.m.library.find(sha)
	if known == nil {
		known = newScript(args[1])
		if err := c.m.compile(sha, known); err != nil {
			return resp.Fail(err)
		}
		if c.m.applying { // a read leaves no trace
			c.m.spendLibrary(func(l *library) { l.remember(sha, known) })
		}
	}
	return c.runScript(sha, known, keys, argv, readOnly)
}

// shaChars is the length of a SHA1 in hex digits.
const shaChars = 40

// evalSHA is EVALSHA.
func (c *ctx) evalSHA(args resp.Args, readOnly bool) resp.Reply {
	if len(args[1]) != shaChars {
		return resp.Err(resp.ErrNoScript)
	}
	keys, argv, err := scriptArgs(args, resp.ErrNotInteger)
	if err != nil {
		return resp.Fail(err)
	}
	sha := strings.ToLower(args[1])
	known := c.m.library.find(sha)
	if known == nil {
		return resp.Err(resp.ErrNoScript)
	}
	return c.runScript(sha, known, keys, argv, readOnly)
}

// scriptArgs divides what follows the script into keys and arguments; notInt is the
// error for a number of keys that is none.
func scriptArgs(args resp.Args, notInt string) (keys, argv []string, err error) {
	n, isInt := resp.ParseInt(args[2])
	rest := args[3:]
	switch {
	case !isInt:
		return nil, nil, resp.Error(notInt)
	case n > int64(len(rest)):
		return nil, nil, resp.Error("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return nil, nil, resp.Error("ERR Number of keys can't be negative")
	}
	return rest[:n], rest[n:], nil
}

func cmdScriptLoad(c *ctx, args resp.Args) resp.Reply {
	sha := scriptSHA(args[2])
	known := c.m.library.find(sha)
	if known == nil {
		known = newScript(args[2])
		if err := c.m.compile(sha, known); err != nil {
			return resp.Fail(err)
		}
	}
	kept := false
	c.m.spendLibrary(func(l *library) { kept = l.keep(sha, known) })
	if !kept {
		return resp.Err(errLibraryFull)
	}
	return resp.Bulk(sha)
}

func cmdScriptExists(c *ctx, args resp.Args) resp.Reply {
	if !c.m.affords(value.TreeWork(c.m.library.bySHA.Len()) * int64(len(args)-2)) {
		return resp.Err(errWorkMeter)
	}
	known := make([]resp.Reply, len(args)-2)
	for i, sha := range args[2:] {
		known[i] = resp.Int(0)
		if c.m.library.find(strings.ToLower(sha)) != nil {
			known[i] = resp.Int(1)
		}
	}
	return resp.Array(known...)
}

func cmdScriptFlush(c *ctx, args resp.Args) resp.Reply {
	if !flushMode(args[1:]) {
		return resp.Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.m.library = newLibrary()
	return resp.OK()
}

// cmdScriptKill finds nothing to kill: a script is a part of one entry of the log
// and ends, by its budget at the latest, before anything else is run.
func cmdScriptKill(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Err("NOTBUSY No scripts in execution right now.")
}

func cmdScriptHelp(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Help("SCRIPT",
		"EXISTS <sha1> [<sha1> ...]",
		"    Return information about the existence of the scripts in the script cache.",
		"FLUSH [ASYNC|SYNC]",
		"    Flush the Lua scripts cache. Very dangerous on replicas.",
		"    When called without the optional mode argument, the behavior is determined by the",
		"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
		"    * ASYNC: Asynchronously flush the scripts cache.",
		"    * SYNC: Synchronously flush the scripts cache.",
		"KILL",
		"    Kill the currently executing Lua script.",
		"LOAD <script>",
		"    Load a script into the scripts cache without executing it.")
}
