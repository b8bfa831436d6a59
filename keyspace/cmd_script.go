package keyspace

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/library"
	"lockd/keyspace/value"
	"lockd/resp"
)

var scriptRows = []row{
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
	withHelp("5.0.0", row{Spec: resp.Spec{
		Name: "script", Arity: -2,
		Group: "scripting", Since: "2.6.0", Summary: "A container for Lua scripts management commands",
	}, Subs: []row{
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
	}}),
}

var functionRows = []row{
	{Spec: resp.Spec{
		Name: "fcall", Arity: -3,
		Flags: resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys |
			resp.MovableKeys | resp.MayReplicate,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Invoke a function",
		Syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdFCall},
	{Spec: resp.Spec{
		Name: "fcall_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Invoke a read-only function",
		Syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
	}, Run: cmdFCallRO},
	withHelp("7.0.0", row{Spec: resp.Spec{
		Name: "function", Arity: -2,
		Group: "scripting", Since: "7.0.0", Summary: "A container for function commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "function|load", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.NoScript,
			Group: "scripting", Since: "7.0.0",
			Summary: "Create a function with the given arguments (name, code, description)",
			Syntax:  "[REPLACE] function-code",
		}, Run: cmdFunctionLoad},
		{Spec: resp.Spec{
			Name: "function|delete", Arity: 3, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Delete a function by name",
			Syntax: "library-name",
		}, Run: cmdFunctionDelete},
		{Spec: resp.Spec{
			Name: "function|flush", Arity: -2, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Deleting all functions",
			Syntax: "[ASYNC | SYNC]",
		}, Run: cmdFunctionFlush},
		{Spec: resp.Spec{
			Name: "function|list", Arity: -2, Flags: resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "List information about all the functions",
			Syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
		}, Run: cmdFunctionList},
		{Spec: resp.Spec{
			Name: "function|dump", Arity: 2, Flags: resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Dump all functions into a serialized binary payload",
		}, Run: cmdFunctionDump},
		{Spec: resp.Spec{
			Name: "function|restore", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Restore all the functions on the given payload",
			Syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
		}, Run: cmdFunctionRestore},
		{Spec: resp.Spec{
			Name: "function|stats", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0",
			Summary: "Return information about the function currently running (name, description, duration)",
		}, Run: cmdFunctionStats},
		{Spec: resp.Spec{
			Name: "function|kill", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0", Summary: "Kill the function currently in execution.",
		}, Run: cmdScriptKill},
	}}),
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
	sha := library.SHA(args[1])
	known := c.m.library.Find(sha)
	if known == nil {
		if known, err = c.m.compile(sha, args[1]); err != nil {
			return resp.Fail(err)
		}
		if c.m.applying { // a read leaves no trace
			c.m.spend(c.m.library.Remember(sha, known))
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
	known := c.m.library.Find(sha)
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
		return nil, nil, resp.Error(errNumKeysBeyond)
	case n < 0:
		return nil, nil, resp.Error("ERR Number of keys can't be negative")
	}
	return rest[:n], rest[n:], nil
}

// runScript runs a compiled script.
func (c *ctx) runScript(sha string, s *library.Script, keys, argv []string, readOnly bool) resp.Reply {
	full := c.m.overMemory() && !s.AllowOOM
	switch {
	case readOnly && s.Shebang > 0 && !s.NoWrites:
		return resp.Err(errWriteFlag)
	case full && s.Shebang > 0 && !s.NoWrites:
		return resp.Err("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	}
	if !c.m.affordsProgram(sha, len(s.Source)) {
		return resp.Err(errWorkMeter)
	}
	run := &scriptRun{db: c.db, readOnly: readOnly || s.NoWrites, full: full, mayGrow: s.AllowOOM, argv: mayBeTokens(argv)}
	if c.m.applying {
		c.m.library.Used(sha, s)
	}
	return c.runLua(run, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Run(s.Body(sha), keys, argv, lim, call)
	})
}

func cmdScriptLoad(c *ctx, args resp.Args) resp.Reply {
	sha := library.SHA(args[2])
	known := c.m.library.Find(sha)
	if known == nil {
		var err error
		if known, err = c.m.compile(sha, args[2]); err != nil {
			return resp.Fail(err)
		}
	}
	kept, work := c.m.library.Keep(sha, known)
	if c.m.spend(work); !kept {
		return resp.Err(errLibraryFull)
	}
	return resp.Bulk(sha)
}

func cmdScriptExists(c *ctx, args resp.Args) resp.Reply {
	if !c.m.affords(value.TreeWork(c.m.library.Len()) * int64(len(args)-2)) {
		return resp.Err(errWorkMeter)
	}
	known := make([]resp.Reply, len(args)-2)
	for i, sha := range args[2:] {
		known[i] = oneIf(c.m.library.Find(strings.ToLower(sha)) != nil)
	}
	return resp.Array(known...)
}

func cmdScriptFlush(c *ctx, args resp.Args) resp.Reply {
	if !arg.FlushMode(args[1:]) {
		return resp.Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.m.library = library.Scripts{}
	return resp.OK()
}

// cmdScriptKill finds nothing to kill: a script is a part of one entry of the log
// and ends, by its budget at the latest, before anything else is run.
func cmdScriptKill(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Err("NOTBUSY No scripts in execution right now.")
}

// errLibraryFull answers SCRIPT LOAD, whose scripts are kept until SCRIPT FLUSH.
const errLibraryFull = "ERR the loaded scripts take more than 64 MB: SCRIPT FLUSH frees them"

// compile is a new script that was checked: its first line, then the rest.
func (m *Machine) compile(sha, source string) (*library.Script, error) {
	s, err := library.NewScript(source)
	if err != nil {
		return nil, err
	}
	if !m.affordsProgram(sha, len(source)) {
		return nil, resp.Error(errWorkMeter)
	}
	if err = m.scripts.Compile(s.Body(sha)); err != nil {
		delete(m.entry.compiled, sha) // it is not kept: the next use pays again
	}
	return s, err
}

func cmdFCall(c *ctx, args resp.Args) resp.Reply   { return c.fcall(args, false) }
func cmdFCallRO(c *ctx, args resp.Args) resp.Reply { return c.fcall(args, true) }

// fcall is FCALL: name, number of keys, keys, arguments.
func (c *ctx) fcall(args resp.Args, readOnly bool) resp.Reply {
	f, ok := c.m.functions.Find(args[1])
	if !ok {
		return resp.Err("ERR Function not found")
	}
	noWrites := f.Function.Flags&resp.NoWrites != 0
	full := c.m.overMemory() && f.Function.Flags&resp.AllowOOM == 0
	if full && !noWrites {
		return resp.Err(resp.ErrOOM)
	}
	keys, argv, err := scriptArgs(args, "ERR Bad number of keys provided")
	if err != nil {
		return resp.Fail(err)
	}
	if readOnly && !noWrites {
		return resp.Err(errWriteFlag)
	}
	if !c.m.affordsProgram("library "+f.SHA, len(f.Source)) {
		return resp.Err(errWorkMeter)
	}
	run := &scriptRun{
		db: c.db, readOnly: noWrites, full: full, mayGrow: f.Function.Flags&resp.AllowOOM != 0, argv: mayBeTokens(argv),
	}
	return c.runLua(run, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Call(f.Code(), f.Function.Name, keys, argv, lim, call)
	})
}

func cmdFunctionLoad(c *ctx, args resp.Args) resp.Reply {
	last := len(args) - 1
	for _, word := range args[2:last] {
		if !resp.Is(word, "REPLACE") {
			return resp.Err("ERR Unknown option given: " + arg.CText(word))
		}
	}
	next, left := c.m.functions.Copy(), c.m.settings.script
	name, err := c.m.create(&next, strings.Clone(args[last]), last > 2, &left)
	switch {
	case err != nil:
		return resp.Fail(err)
	case next.Full():
		return resp.Err(errFunctionsFull)
	}
	c.m.functions = next
	return resp.Bulk(name)
}

func cmdFunctionDelete(c *ctx, args resp.Args) resp.Reply {
	l := c.m.functions.Library(args[2])
	if l == nil {
		return resp.Err("ERR Library not found")
	}
	c.m.functions.Remove(l)
	return resp.OK()
}

func cmdFunctionFlush(c *ctx, args resp.Args) resp.Reply {
	if len(args) > 3 {
		return functionSyntax(args)
	}
	if !arg.FlushMode(args[1:]) {
		return resp.Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	c.m.functions = library.Functions{}
	return resp.OK()
}

// functionSyntax answers too many arguments of a subcommand that takes some.
func functionSyntax(args resp.Args) resp.Reply {
	return resp.Err("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try FUNCTION HELP.")
}

// cmdFunctionList lists the libraries by name, which Redis does in no order.
func cmdFunctionList(c *ctx, args resp.Args) resp.Reply {
	withCode, pattern := false, (*arg.Glob)(nil)
	for i := 2; i < len(args); i++ {
		switch {
		case !withCode && resp.Is(args[i], "WITHCODE"):
			withCode = true
		case pattern == nil && resp.Is(args[i], "LIBRARYNAME"):
			if i++; i == len(args) {
				return resp.Err("ERR library name argument was not given")
			}
			pattern = arg.NewGlob(strings.ToLower(args[i]))
		default:
			return resp.Err("ERR Unknown argument " + arg.CText(args[i]))
		}
	}
	list := []resp.Reply{}
	c.m.functions.Each(func(l *library.Library) bool {
		if pattern.Matches(strings.ToLower(l.Name)) {
			list = append(list, l.Describe(withCode))
		}
		return !pattern.Exceeded()
	})
	c.m.spend(pattern.Work())
	if pattern.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	return resp.Array(list...)
}

func cmdFunctionDump(c *ctx, _ resp.Args) resp.Reply {
	c.m.spend(dumpWork * c.m.functions.Bytes())
	return resp.Bulk(c.m.functions.Dump())
}

// cmdFunctionRestore loads the libraries of a dump, all of them within the limits of
// one script.
func cmdFunctionRestore(c *ctx, args resp.Args) resp.Reply {
	if len(args) > 4 {
		return functionSyntax(args)
	}
	policy := "APPEND"
	if len(args) == 4 {
		policy = strings.ToUpper(args[3])
	}
	if policy != "APPEND" && policy != "REPLACE" && policy != "FLUSH" {
		return resp.Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
	}
	c.m.spend(dumpWork * int64(len(args[2])))
	sources, ok := library.ParseDump(args[2])
	if !ok {
		return resp.Err("ERR DUMP payload version or checksum are wrong")
	}
	var restored, next library.Functions
	left := c.m.settings.script
	for _, source := range sources {
		if _, err := c.m.create(&restored, source, false, &left); err != nil {
			return resp.Fail(err)
		}
		if restored.Full() {
			return resp.Err(errFunctionsFull)
		}
	}
	if policy != "FLUSH" {
		next = c.m.functions.Copy()
	}
	if err := next.Join(&restored, policy == "REPLACE"); err != nil {
		return resp.Fail(err)
	}
	if next.Full() {
		return resp.Err(errFunctionsFull)
	}
	c.m.functions = next
	return resp.OK()
}

// cmdFunctionStats reports that nothing runs: a function is a part of one entry of the
// log and ends, by its limits at the latest, before anything else is run.
func cmdFunctionStats(c *ctx, _ resp.Args) resp.Reply {
	f := &c.m.functions
	return resp.Map(
		resp.Bulk("running_script"), resp.Nil(),
		resp.Bulk("engines"), resp.Map(resp.Bulk(library.EngineLua), resp.Map(
			resp.Bulk("libraries_count"), resp.Int(int64(f.Libraries())),
			resp.Bulk("functions_count"), resp.Int(int64(f.Len())))))
}

// errFunctionsFull answers FUNCTION LOAD and FUNCTION RESTORE beyond those bounds.
const errFunctionsFull = "ERR the function libraries take more than 4 MB or are more than 512: " +
	"FUNCTION DELETE makes room"

// create adds a library of a source, and takes what it runs from left. In the place
// of one of its name it comes only where replace is true.
func (m *Machine) create(f *library.Functions, source string, replace bool, left *resp.ScriptLimits) (name string, err error) {
	l, err := library.Parse(source)
	if err != nil {
		return "", err
	}
	old := f.Library(l.Name)
	if old != nil && !replace {
		return "", resp.Error("ERR Library '" + l.Name + "' already exists")
	}
	if old != nil {
		f.Remove(old)
	}
	if !m.affords(compileWork + sourceWork*int64(len(source))) {
		return "", resp.Error(errWorkMeter)
	}
	lim := m.scriptLimits(*left)
	all, rest, err := m.scripts.Load(l.Code(), lim)
	*left = rest
	steps := lim.Steps - left.Steps
	m.spendSteps(steps)
	m.spend(lim.MemBytes - left.MemBytes)
	switch {
	case err != nil && workMet(lim, steps, left.Steps):
		return "", resp.Error(errWorkMeter)
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", resp.Error("ERR No functions registered")
	}
	return l.Name, f.Add(l, all)
}

// dumpWork is the work of a byte of a dump.
const dumpWork = 8
