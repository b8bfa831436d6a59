package keyspace

import (
	"strings"

	"lockd/resp"
)

var functionRows = []resp.Row[command]{
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
	{Spec: resp.Spec{
		Name: "function", Arity: -2,
		Group: "scripting", Since: "7.0.0", Summary: "A container for function commands",
	}, Subs: []resp.Row[command]{
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
		{Spec: resp.Spec{
			Name: "function|help", Arity: 2, Flags: resp.Loading | resp.Stale,
			Group: "scripting", Since: "7.0.0", Summary: "Show helpful text about the different subcommands",
		}, Run: cmdFunctionHelp},
	}},
}

func cmdFCall(c *ctx, args resp.Args) resp.Reply   { return c.fcall(args, false) }
func cmdFCallRO(c *ctx, args resp.Args) resp.Reply { return c.fcall(args, true) }

// fcall is FCALL: name, number of keys, keys, arguments.
func (c *ctx) fcall(args resp.Args, readOnly bool) resp.Reply {
	f, ok := c.m.functions.find(args[1])
	if !ok {
		return resp.Err("ERR Function not found")
	}
	noWrites := f.function.Flags&resp.NoWrites != 0
	full := c.m.overMemory() && f.function.Flags&resp.AllowOOM == 0
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
	if !c.m.affordsProgram("library "+f.library.sha, len(f.library.source)) {
		return resp.Err(errWorkMeter)
	}
	run := &scriptRun{db: c.db, readOnly: noWrites, full: full}
	return c.runLua(run, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Call(f.library.code(), f.function.Name, keys, argv, lim, call)
	})
}

func cmdFunctionLoad(c *ctx, args resp.Args) resp.Reply {
	last := len(args) - 1
	for _, word := range args[2:last] {
		if !resp.Is(word, "REPLACE") {
			return resp.Err("ERR Unknown option given: " + cText(word))
		}
	}
	next, left := c.m.functions.copy(), c.m.settings.script
	name, err := c.m.create(&next, strings.Clone(args[last]), last > 2, &left)
	switch {
	case err != nil:
		return resp.Fail(err)
	case next.full():
		return resp.Err(errFunctionsFull)
	}
	c.m.functions = next
	return resp.Bulk(name)
}

func cmdFunctionDelete(c *ctx, args resp.Args) resp.Reply {
	l, ok := c.m.functions.libraries.Get(args[2])
	if !ok {
		return resp.Err("ERR Library not found")
	}
	c.m.functions.remove(l)
	return resp.OK()
}

func cmdFunctionFlush(c *ctx, args resp.Args) resp.Reply {
	if len(args) > 3 {
		return functionSyntax(args)
	}
	if !flushMode(args[1:]) {
		return resp.Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	c.m.functions = functions{}
	return resp.OK()
}

// functionSyntax answers too many arguments of a subcommand that takes some.
func functionSyntax(args resp.Args) resp.Reply {
	return resp.Err("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try FUNCTION HELP.")
}

// cmdFunctionList lists the libraries by name, which Redis does in no order.
func cmdFunctionList(c *ctx, args resp.Args) resp.Reply {
	withCode, pattern := false, (*glob)(nil)
	for i := 2; i < len(args); i++ {
		switch {
		case !withCode && resp.Is(args[i], "WITHCODE"):
			withCode = true
		case pattern == nil && resp.Is(args[i], "LIBRARYNAME"):
			if i++; i == len(args) {
				return resp.Err("ERR library name argument was not given")
			}
			pattern = newGlob(strings.ToLower(args[i]))
		default:
			return resp.Err("ERR Unknown argument " + cText(args[i]))
		}
	}
	list := []resp.Reply{}
	c.m.functions.libraries.Scan(func(name string, l *functionLibrary) bool {
		if pattern == nil || pattern.match(strings.ToLower(name)) {
			list = append(list, l.describe(withCode))
		}
		return pattern == nil || !pattern.exceeded()
	})
	if pattern != nil {
		c.m.spend(globWork * int64(pattern.steps))
		if pattern.exceeded() {
			return resp.Err(errGlob)
		}
	}
	return resp.Array(list...)
}

func (l *functionLibrary) describe(withCode bool) resp.Reply {
	list := make([]resp.Reply, len(l.functions))
	for i, f := range l.functions {
		description, flags := resp.Nil(), resp.Set()
		if f.Described {
			description = resp.Bulk(f.Description)
		}
		for _, name := range f.Flags.Names() {
			flags.Elems = append(flags.Elems, resp.Status(name))
		}
		list[i] = resp.Map(resp.Bulk("name"), resp.Bulk(f.Name),
			resp.Bulk("description"), description, resp.Bulk("flags"), flags)
	}
	reply := resp.Map(resp.Bulk("library_name"), resp.Bulk(l.name), resp.Bulk("engine"), resp.Bulk(engineLua),
		resp.Bulk("functions"), resp.Array(list...))
	if withCode {
		reply.Elems = append(reply.Elems, resp.Bulk("library_code"), resp.Bulk(l.source))
	}
	return reply
}

func cmdFunctionDump(c *ctx, _ resp.Args) resp.Reply {
	c.m.spend(dumpWork * c.m.functions.bytes)
	return resp.Bulk(c.m.functions.dump())
}

// dumpWork is the work of a byte of a dump.
const dumpWork = 8

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
	sources, ok := parseDump(args[2])
	if !ok {
		return resp.Err("ERR DUMP payload version or checksum are wrong")
	}
	var restored, next functions
	left := c.m.settings.script
	for _, source := range sources {
		if _, err := c.m.create(&restored, source, false, &left); err != nil {
			return resp.Fail(err)
		}
		if restored.full() {
			return resp.Err(errFunctionsFull)
		}
	}
	if policy != "FLUSH" {
		next = c.m.functions.copy()
	}
	if err := next.join(&restored, policy == "REPLACE"); err != nil {
		return resp.Fail(err)
	}
	if next.full() {
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
		resp.Bulk("engines"), resp.Map(resp.Bulk(engineLua), resp.Map(
			resp.Bulk("libraries_count"), resp.Int(int64(f.libraries.Len())),
			resp.Bulk("functions_count"), resp.Int(int64(f.byName.Len())))))
}

func cmdFunctionHelp(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Help("FUNCTION",
		"LOAD [REPLACE] <FUNCTION CODE>",
		"    Create a new library with the given library name and code.",
		"DELETE <LIBRARY NAME>",
		"    Delete the given library.",
		"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
		"    Return general information on all the libraries:",
		"    * Library name",
		"    * The engine used to run the Library",
		"    * Library description",
		"    * Functions list",
		"    * Library code (if WITHCODE is given)",
		"    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
		"STATS",
		"    Return information about the current function running:",
		"    * Function name",
		"    * Command used to run the function",
		"    * Duration in MS that the function is running",
		"    If no function is running, return nil",
		"    In addition, returns a list of available engines.",
		"KILL",
		"    Kill the current running function.",
		"FLUSH [ASYNC|SYNC]",
		"    Delete all the libraries.",
		"    When called without the optional mode argument, the behavior is determined by the",
		"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
		"    * ASYNC: Asynchronously flush the libraries.",
		"    * SYNC: Synchronously flush the libraries.",
		"DUMP",
		"    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE "+
			"command",
		"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
		"    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
		"    control how to handle existing libraries (default APPEND):",
		"    * FLUSH: delete all existing libraries.",
		"    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
		"    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
		"      libraries with the new libraries (notice that even on this option there is a chance of failure",
		"      in case of functions name collision with another library).")
}
