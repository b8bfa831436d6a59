package command

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/library"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
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
	}, Parse: parseEval(false)},
	{Spec: resp.Spec{
		Name: "evalsha", Arity: -3,
		Flags: resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys |
			resp.MovableKeys | resp.MayReplicate,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "2.6.0", Summary: "Execute a Lua script server side",
		Syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
	}, Parse: parseEvalSHA(false)},
	{Spec: resp.Spec{
		Name: "eval_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Execute a read-only Lua script server side",
		Syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
	}, Parse: parseEval(true)},
	{Spec: resp.Spec{
		Name: "evalsha_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Execute a read-only Lua script server side",
		Syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
	}, Parse: parseEvalSHA(true)},
	withHelp("5.0.0", row{Spec: resp.Spec{
		Name: "script", Arity: -2,
		Group: "scripting", Since: "2.6.0", Summary: "A container for Lua scripts management commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "script|load", Arity: 3, Flags: resp.NoScript | resp.Stale | resp.MayReplicate,
			Group: "scripting", Since: "2.6.0", Summary: "Load the specified Lua script into the script cache.",
			Syntax: "script",
		}, Parse: ofSub(ofKey(scriptLoad))},
		{Spec: resp.Spec{
			Name: "script|exists", Arity: -3, Flags: resp.NoScript,
			Group: "scripting", Since: "2.6.0", Summary: "Check existence of scripts in the script cache.",
			Syntax: "sha1 [sha1 ...]",
		}, Parse: ofSub(ofMany(scriptExists))},
		{Spec: resp.Spec{
			Name: "script|flush", Arity: -2, Flags: resp.NoScript | resp.MayReplicate,
			Group: "scripting", Since: "2.6.0", Summary: "Remove all the scripts from the script cache.",
			Syntax: "[ASYNC | SYNC]",
		}, Parse: parseScriptFlush},
		{Spec: resp.Spec{
			Name: "script|kill", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "2.6.0", Summary: "Kill the script currently in execution.",
		}, Parse: always(resp.Err(errNotBusy))},
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
	}, Parse: parseFCall(false)},
	{Spec: resp.Spec{
		Name: "fcall_ro", Arity: -3,
		Flags: resp.ReadOnly | resp.NoScript | resp.Stale | resp.SkipMonitor | resp.NoMandatoryKeys | resp.MovableKeys,
		Keys:  resp.EvalKeys,
		Group: "scripting", Since: "7.0.0", Summary: "Invoke a read-only function",
		Syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
	}, Parse: parseFCall(true)},
	withHelp("7.0.0", row{Spec: resp.Spec{
		Name: "function", Arity: -2,
		Group: "scripting", Since: "7.0.0", Summary: "A container for function commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "function|load", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.NoScript,
			Group: "scripting", Since: "7.0.0",
			Summary: "Create a function with the given arguments (name, code, description)",
			Syntax:  "[REPLACE] function-code",
		}, Parse: parseFunctionLoad},
		{Spec: resp.Spec{
			Name: "function|delete", Arity: 3, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Delete a function by name",
			Syntax: "library-name",
		}, Parse: ofSub(ofKey(functionDelete))},
		{Spec: resp.Spec{
			Name: "function|flush", Arity: -2, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Deleting all functions",
			Syntax: "[ASYNC | SYNC]",
		}, Parse: parseFunctionFlush},
		{Spec: resp.Spec{
			Name: "function|list", Arity: -2, Flags: resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "List information about all the functions",
			Syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
		}, Parse: parseFunctionList},
		{Spec: resp.Spec{
			Name: "function|dump", Arity: 2, Flags: resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Dump all functions into a serialized binary payload",
		}, Parse: ofNothing(functionDump)},
		{Spec: resp.Spec{
			Name: "function|restore", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Restore all the functions on the given payload",
			Syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
		}, Parse: parseFunctionRestore},
		{Spec: resp.Spec{
			Name: "function|stats", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0",
			Summary: "Return information about the function currently running (name, description, duration)",
		}, Parse: ofNothing(functionStats)},
		{Spec: resp.Spec{
			Name: "function|kill", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0", Summary: "Kill the function currently in execution.",
		}, Parse: always(resp.Err(errNotBusy))},
	}}),
}

// evalCall is EVAL or EVALSHA: script, number of keys, keys, arguments.
type evalCall struct {
	script     string // or its SHA1
	keys, argv []string
	readOnly   bool
}

func newEvalCall(args resp.Args, readOnly bool) (r evalCall, err error) {
	r = evalCall{script: args[1], readOnly: readOnly}
	r.keys, r.argv, err = scriptArgs(args, resp.ErrNotInteger)
	return r, err
}

func parseEval(readOnly bool) parser {
	return func(args resp.Args) (call, error) {
		r, err := newEvalCall(args, readOnly)
		if err != nil {
			return nil, err
		}
		return &r, nil
	}
}

func (r *evalCall) Run(c *Ctx) resp.Reply {
	sha := library.SHA(r.script)
	known := c.s.Library.Find(sha)
	if known == nil {
		var err error
		if known, err = compile(c.s, sha, r.script); err != nil {
			return resp.Fail(err)
		}
		if c.s.Applying { // a read leaves no trace
			c.s.Meter.Spend(c.s.Library.Remember(sha, known))
		}
	}
	return runScript(c, sha, known, r.keys, r.argv, r.readOnly)
}

// shaChars is the length of a SHA1 in hex digits.
const shaChars = 40

type evalSHACall struct{ evalCall }

func parseEvalSHA(readOnly bool) parser {
	return func(args resp.Args) (call, error) {
		if len(args[1]) != shaChars {
			return nil, resp.Error(resp.ErrNoScript)
		}
		r, err := newEvalCall(args, readOnly)
		if err != nil {
			return nil, err
		}
		return &evalSHACall{r}, nil
	}
}

func (r *evalSHACall) Run(c *Ctx) resp.Reply {
	sha := strings.ToLower(r.script)
	known := c.s.Library.Find(sha)
	if known == nil {
		return resp.Err(resp.ErrNoScript)
	}
	return runScript(c, sha, known, r.keys, r.argv, r.readOnly)
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
func runScript(c *Ctx, sha string, s *library.Script, keys, argv []string, readOnly bool) resp.Reply {
	full := c.s.OverMemory() && !s.AllowOOM
	switch {
	case readOnly && s.Shebang > 0 && !s.NoWrites:
		return resp.Err(errWriteFlag)
	case full && s.Shebang > 0 && !s.NoWrites:
		return resp.Err("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	}
	if !c.s.Meter.AffordsProgram(sha, len(s.Source)) {
		return resp.Err(meter.ErrWork)
	}
	run := &scriptRun{db: c.db, readOnly: readOnly || s.NoWrites, full: full, mayGrow: s.AllowOOM, argv: mayBeTokens(argv)}
	if c.s.Applying {
		c.s.Library.Used(sha, s)
	}
	return run.inLua(c, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.s.Scripts.Run(s.Body(sha), keys, argv, lim, call)
	})
}

func scriptLoad(c *Ctx, source string) resp.Reply {
	sha := library.SHA(source)
	known := c.s.Library.Find(sha)
	if known == nil {
		var err error
		if known, err = compile(c.s, sha, source); err != nil {
			return resp.Fail(err)
		}
	}
	kept, work := c.s.Library.Keep(sha, known)
	if c.s.Meter.Spend(work); !kept {
		return resp.Err(errLibraryFull)
	}
	return resp.Bulk(sha)
}

func scriptExists(c *Ctx, shas []string) resp.Reply {
	if !c.s.Meter.Affords(value.TreeWork(c.s.Library.Len()) * int64(len(shas))) {
		return resp.Err(meter.ErrWork)
	}
	known := make([]resp.Reply, len(shas))
	for i, sha := range shas {
		known[i] = oneIf(c.s.Library.Find(strings.ToLower(sha)) != nil)
	}
	return resp.Array(known...)
}

func parseScriptFlush(args resp.Args) (call, error) {
	if !arg.FlushMode(args[1:]) {
		return nil, resp.Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	return bareCall(scriptFlush), nil
}

func scriptFlush(c *Ctx) resp.Reply {
	c.s.Library = library.Scripts{}
	return resp.OK()
}

// errNotBusy answers SCRIPT KILL, which never finds anything to kill: a script is a part of one entry of the log and
// ends, by its budget at the latest, before anything else is run.
const errNotBusy = "NOTBUSY No scripts in execution right now."

// errLibraryFull answers SCRIPT LOAD, whose scripts are kept until SCRIPT FLUSH.
const errLibraryFull = "ERR the loaded scripts take more than 64 MB: SCRIPT FLUSH frees them"

// compile returns a new script after checking it: first its first line, then the rest.
func compile(s *state.State, sha, source string) (*library.Script, error) {
	known, err := library.NewScript(source)
	if err != nil {
		return nil, err
	}
	if !s.Meter.AffordsProgram(sha, len(source)) {
		return nil, resp.Error(meter.ErrWork)
	}
	if err = s.Scripts.Compile(known.Body(sha)); err != nil {
		s.Meter.ForgetProgram(sha) // it is not kept: the next use pays again
	}
	return known, err
}

// fcallCall is FCALL: name, number of keys, keys, arguments. Run judges the number, once it has found the function, as
// Redis does.
type fcallCall struct {
	args     resp.Args
	readOnly bool
}

func parseFCall(readOnly bool) parser {
	return func(args resp.Args) (call, error) { return &fcallCall{args, readOnly}, nil }
}

func (r *fcallCall) Run(c *Ctx) resp.Reply {
	args := r.args
	f, ok := c.s.Functions.Find(args[1])
	if !ok {
		return resp.Err("ERR Function not found")
	}
	noWrites := f.Function.Flags&resp.NoWrites != 0
	full := c.s.OverMemory() && f.Function.Flags&resp.AllowOOM == 0
	if full && !noWrites {
		return resp.Err(resp.ErrOOM)
	}
	keys, argv, err := scriptArgs(args, "ERR Bad number of keys provided")
	if err != nil {
		return resp.Fail(err)
	}
	if r.readOnly && !noWrites {
		return resp.Err(errWriteFlag)
	}
	if !c.s.Meter.AffordsProgram("library "+f.SHA, len(f.Source)) {
		return resp.Err(meter.ErrWork)
	}
	run := &scriptRun{
		db: c.db, readOnly: noWrites, full: full, mayGrow: f.Function.Flags&resp.AllowOOM != 0, argv: mayBeTokens(argv),
	}
	return run.inLua(c, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.s.Scripts.Call(f.Code(), f.Function.Name, keys, argv, lim, call)
	})
}

// functionLoadCall is FUNCTION LOAD.
type functionLoadCall struct {
	source  string
	replace bool
}

func parseFunctionLoad(args resp.Args) (call, error) {
	last := len(args) - 1
	for _, word := range args[2:last] {
		if !resp.Is(word, "REPLACE") {
			return nil, resp.Error("ERR Unknown option given: " + arg.CText(word))
		}
	}
	return &functionLoadCall{args[last], last > 2}, nil
}

func (r *functionLoadCall) Run(c *Ctx) resp.Reply {
	next, left := c.s.Functions.Copy(), c.s.Settings.Script
	name, err := create(c.s, &next, strings.Clone(r.source), r.replace, &left)
	switch {
	case err != nil:
		return resp.Fail(err)
	case next.Full():
		return resp.Err(errFunctionsFull)
	}
	c.s.Functions = next
	return resp.Bulk(name)
}

func functionDelete(c *Ctx, name string) resp.Reply {
	l := c.s.Functions.Library(name)
	if l == nil {
		return resp.Err("ERR Library not found")
	}
	c.s.Functions.Remove(l)
	return resp.OK()
}

func parseFunctionFlush(args resp.Args) (call, error) {
	if len(args) > 3 {
		return nil, functionSyntax(args)
	}
	if !arg.FlushMode(args[1:]) {
		return nil, resp.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	return bareCall(functionFlush), nil
}

func functionFlush(c *Ctx) resp.Reply {
	c.s.Functions = library.Functions{}
	return resp.OK()
}

// functionSyntax answers too many arguments of a subcommand that takes some.
func functionSyntax(args resp.Args) error {
	return resp.Error("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try FUNCTION HELP.")
}

// functionListCall is FUNCTION LIST. It lists the libraries by name, which Redis does in no order.
type functionListCall struct {
	withCode bool
	pattern  *arg.Glob
}

func parseFunctionList(args resp.Args) (call, error) {
	r := &functionListCall{}
	for i := 2; i < len(args); i++ {
		switch {
		case !r.withCode && resp.Is(args[i], "WITHCODE"):
			r.withCode = true
		case r.pattern == nil && resp.Is(args[i], "LIBRARYNAME"):
			if i++; i == len(args) {
				return nil, resp.Error("ERR library name argument was not given")
			}
			r.pattern = arg.NewGlob(strings.ToLower(args[i]))
		default:
			return nil, resp.Error("ERR Unknown argument " + arg.CText(args[i]))
		}
	}
	return r, nil
}

func (r *functionListCall) Run(c *Ctx) resp.Reply {
	list, pattern := []resp.Reply{}, r.pattern
	c.s.Functions.Each(func(l *library.Library) bool {
		if pattern.Matches(strings.ToLower(l.Name)) {
			list = append(list, l.Describe(r.withCode))
		}
		return !pattern.Exceeded()
	})
	c.s.Meter.Spend(pattern.Work())
	if pattern.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	return resp.Array(list...)
}

func functionDump(c *Ctx) resp.Reply {
	c.s.Meter.Spend(dumpWork * c.s.Functions.Bytes())
	return resp.Bulk(c.s.Functions.Dump())
}

// functionRestoreCall is FUNCTION RESTORE. It loads the libraries of a dump, all of them within the limits of one
// script. Run judges the dump: that is work which it counts.
type functionRestoreCall struct{ dump, policy string }

func parseFunctionRestore(args resp.Args) (call, error) {
	if len(args) > 4 {
		return nil, functionSyntax(args)
	}
	policy := "APPEND"
	if len(args) == 4 {
		policy = strings.ToUpper(args[3])
	}
	if policy != "APPEND" && policy != "REPLACE" && policy != "FLUSH" {
		return nil, resp.Error("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
	}
	return &functionRestoreCall{args[2], policy}, nil
}

func (r *functionRestoreCall) Run(c *Ctx) resp.Reply {
	c.s.Meter.Spend(dumpWork * int64(len(r.dump)))
	sources, ok := library.ParseDump(r.dump)
	if !ok {
		return resp.Err("ERR DUMP payload version or checksum are wrong")
	}
	var restored, next library.Functions
	left := c.s.Settings.Script
	for _, source := range sources {
		if _, err := create(c.s, &restored, source, false, &left); err != nil {
			return resp.Fail(err)
		}
		if restored.Full() {
			return resp.Err(errFunctionsFull)
		}
	}
	if r.policy != "FLUSH" {
		next = c.s.Functions.Copy()
	}
	if err := next.Join(&restored, r.policy == "REPLACE"); err != nil {
		return resp.Fail(err)
	}
	if next.Full() {
		return resp.Err(errFunctionsFull)
	}
	c.s.Functions = next
	return resp.OK()
}

// functionStats reports that nothing runs: a function is a part of one entry of the
// log and ends, by its limits at the latest, before anything else is run.
func functionStats(c *Ctx) resp.Reply {
	f := &c.s.Functions
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
func create(s *state.State, f *library.Functions, source string, replace bool, left *resp.ScriptLimits) (name string, err error) {
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
	if !s.Meter.Affords(meter.CompileWork + meter.SourceWork*int64(len(source))) {
		return "", resp.Error(meter.ErrWork)
	}
	lim := s.Meter.BeginScript(*left, s.Settings.StepWork)
	all, rest, err := s.Scripts.Load(l.Code(), lim)
	*left = rest
	steps := lim.Steps - left.Steps
	s.Meter.SpendSteps(steps)
	s.Meter.Spend(lim.MemBytes - left.MemBytes)
	switch {
	case err != nil && meter.WorkMet(lim, steps, left.Steps):
		return "", resp.Error(meter.ErrWork)
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", resp.Error("ERR No functions registered")
	}
	return l.Name, f.Add(l, all)
}

// dumpWork is the work of a byte of a dump.
const dumpWork = 8
