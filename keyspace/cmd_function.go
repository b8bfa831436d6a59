package keyspace

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
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
	resp.WithHelp("7.0.0", always, resp.Row[command]{Spec: resp.Spec{
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
	}}),
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
	run := &scriptRun{db: c.db, readOnly: noWrites, full: full, mayGrow: f.function.Flags&resp.AllowOOM != 0}
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
	if !arg.FlushMode(args[1:]) {
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
			return resp.Err("ERR Unknown argument " + cText(args[i]))
		}
	}
	list := []resp.Reply{}
	c.m.functions.libraries.Scan(func(name string, l *functionLibrary) bool {
		if pattern == nil || pattern.Matches(strings.ToLower(name)) {
			list = append(list, l.describe(withCode))
		}
		return pattern == nil || !pattern.Exceeded()
	})
	if pattern != nil {
		c.m.spend(pattern.Work())
		if pattern.Exceeded() {
			return resp.Err(arg.ErrGlob)
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

// The bounds of the libraries of functions. All of them fit one argument, so that what
// FUNCTION DUMP answers can be sent to FUNCTION RESTORE.
const (
	librariesMax     = 512
	functionBytesMax = 4 << 20
	functionBytes    = 256 // overhead of a library, and of a function, in the estimate of memory
)

// errFunctionsFull answers FUNCTION LOAD and FUNCTION RESTORE beyond those bounds.
const errFunctionsFull = "ERR the function libraries take more than 4 MB or are more than 512: " +
	"FUNCTION DELETE makes room"

// functions holds the libraries of functions, in the replicated state. A command that
// changes them does so in a copy, which takes their place when all has gone well.
type functions struct {
	libraries btree.Map[string, *functionLibrary] // by name
	byName    btree.Map[string, functionRef]      // of all libraries; names in lower case
	bytes     int64                               // of all
}

// functionLibrary is a library. It is immutable.
type functionLibrary struct {
	name, engine string
	source       string // as FUNCTION LOAD brought it
	sha          string // of source
	shebang      int    // bytes of its first line
	functions    []resp.Function
}

// functionRef is a function and where it belongs.
type functionRef struct {
	library  *functionLibrary
	function *resp.Function
}

// engineLua is the only engine, as FUNCTION LIST names it.
const engineLua = "LUA"

// parseLibrary reads the first line of a library, "#!lua name=mylib".
func parseLibrary(source string) (l *functionLibrary, err error) {
	if !strings.HasPrefix(source, "#!") {
		return nil, resp.Error("ERR Missing library metadata")
	}
	end := strings.IndexAny(source, "\n\x00")
	if end < 0 || source[end] == 0 {
		return nil, resp.Error("ERR Invalid library metadata")
	}
	words, ok := resp.SplitWords(source[:end])
	if !ok {
		return nil, resp.Error("ERR Invalid library metadata")
	}
	l = &functionLibrary{engine: words[0][len("#!"):], source: source, sha: scriptSHA(source), shebang: end}
	named := false
	for _, word := range words[1:] {
		if len(word) < len("name=") || !resp.Is(word[:len("name=")], "name=") {
			return nil, resp.Error("ERR Invalid metadata value given: " + cText(word))
		}
		if named {
			return nil, resp.Error("ERR Invalid metadata value, name argument was given multiple times")
		}
		l.name, named = word[len("name="):], true
	}
	switch {
	case !named:
		return nil, resp.Error("ERR Library name was not given")
	case !resp.IsFunctionName(l.name):
		return nil, resp.Error("ERR " + resp.FunctionNameRule)
	case !resp.Is(l.engine, engineLua):
		return nil, resp.Error("ERR Engine '" + l.engine + "' not found")
	}
	return l, nil
}

// cText is a text up to its first NUL, as C prints it.
func cText(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// code is what is run: the first line is cut off, but not its end, so that the lines
// keep their numbers.
func (l *functionLibrary) code() resp.Script {
	return resp.Script{SHA: l.sha, Source: l.source[l.shebang:]}
}

func (l *functionLibrary) bytes() int64 {
	n := functionBytes + len(l.source)
	for _, f := range l.functions {
		n += functionBytes + len(f.Name) + len(f.Description)
	}
	return int64(n)
}

// find finds a function by its name, in any case.
func (f *functions) find(name string) (functionRef, bool) {
	if !resp.IsFunctionName(name) {
		return functionRef{}, false
	}
	return f.byName.Get(strings.ToLower(name))
}

// copy is O(1), see Map.Copy.
func (f *functions) copy() functions {
	return functions{libraries: *f.libraries.Copy(), byName: *f.byName.Copy(), bytes: f.bytes}
}

func (f *functions) full() bool {
	return f.libraries.Len() > librariesMax || f.bytes > functionBytesMax
}

// create adds a library of a source, and takes what it runs from left. In the place
// of one of its name it comes only where replace is true.
func (m *Machine) create(f *functions, source string, replace bool, left *resp.ScriptLimits) (name string, err error) {
	l, err := parseLibrary(source)
	if err != nil {
		return "", err
	}
	old, exists := f.libraries.Get(l.name)
	if exists && !replace {
		return "", resp.Error("ERR Library '" + l.name + "' already exists")
	}
	if exists {
		f.remove(old)
	}
	if !m.affords(compileWork + sourceWork*int64(len(source))) {
		return "", resp.Error(errWorkMeter)
	}
	lim := m.scriptLimits(*left)
	l.functions, *left, err = m.scripts.Load(l.code(), lim)
	steps := lim.Steps - left.Steps
	m.spendSteps(steps)
	m.spend(lim.MemBytes - left.MemBytes)
	switch {
	case err != nil && workMet(lim, steps, left.Steps):
		return "", resp.Error(errWorkMeter)
	case err != nil:
		return "", err
	case len(l.functions) == 0:
		return "", resp.Error("ERR No functions registered")
	}
	slices.SortFunc(l.functions, func(a, b resp.Function) int { return strings.Compare(a.Name, b.Name) })
	if twice := f.collision(l); twice != "" {
		return "", resp.Error("ERR Function " + twice + " already exists")
	}
	f.add(l)
	return l.name, nil
}

// collision is the first name of a function of l that another library has, or "".
func (f *functions) collision(l *functionLibrary) string {
	for _, fn := range l.functions {
		if _, taken := f.find(fn.Name); taken {
			return fn.Name
		}
	}
	return ""
}

func (f *functions) add(l *functionLibrary) {
	f.libraries.Set(l.name, l)
	f.bytes += l.bytes()
	for i := range l.functions {
		f.byName.Set(strings.ToLower(l.functions[i].Name), functionRef{l, &l.functions[i]})
	}
}

func (f *functions) remove(l *functionLibrary) {
	f.libraries.Delete(l.name)
	f.bytes -= l.bytes()
	for _, fn := range l.functions {
		f.byName.Delete(strings.ToLower(fn.Name))
	}
}

// join adds the libraries of another set. It is an error where one of them is there
// already, unless replace is true, or one of their functions.
func (f *functions) join(more *functions, replace bool) (err error) {
	more.libraries.Scan(func(name string, _ *functionLibrary) bool {
		old, exists := f.libraries.Get(name)
		switch {
		case exists && !replace:
			err = resp.Error("ERR Library " + name + " already exists")
		case exists:
			f.remove(old)
		}
		return err == nil
	})
	more.libraries.Scan(func(_ string, l *functionLibrary) bool {
		if err != nil {
			return false
		}
		if twice := f.collision(l); twice != "" {
			err = resp.Error("ERR Function " + twice + " already exists")
			return false
		}
		f.add(l)
		return true
	})
	return err
}

func (f *functions) write(w *value.Writer) {
	w.U64(uint64(f.libraries.Len()))
	f.libraries.Scan(func(_ string, l *functionLibrary) bool {
		w.Text(l.source)
		w.U64(uint64(len(l.functions)))
		for _, fn := range l.functions {
			w.Text(fn.Name)
			w.Flag(fn.Described)
			w.Text(fn.Description)
			w.Byte(byte(fn.Flags))
		}
		return w.OK()
	})
}

func readFunctions(r *value.Reader) functions {
	var f functions
	last := ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		l, err := parseLibrary(r.Text())
		if err != nil || l.name <= last {
			r.Fail("a library of functions that is none")
			break
		}
		l.readFunctions(r)
		before := f.byName.Len()
		if f.add(l); f.byName.Len() != before+len(l.functions) {
			r.Fail("two functions of one name")
		}
		last = l.name
	}
	return f
}

func (l *functionLibrary) readFunctions(r *value.Reader) {
	last := ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		fn := resp.Function{Name: r.Text(), Described: r.Flag(), Description: r.Text()}
		fn.Flags = resp.FunctionFlags(r.Byte())
		if fn.Name <= last || !resp.IsFunctionName(fn.Name) || fn.Flags&^resp.AllFunctionFlags != 0 ||
			!fn.Described && fn.Description != "" {
			r.Fail("a function that is none")
		}
		l.functions = append(l.functions, fn)
		last = fn.Name
	}
	if len(l.functions) == 0 {
		r.Fail("a library without functions")
	}
}

// A dump of libraries is a text of this lockd's own: dumpMagic, dumpVersion, the number
// of libraries and the source of each, and the CRC-32C of all that.
const (
	dumpMagic   = "lockdfun"
	dumpVersion = 1
)

func (f *functions) dump() string {
	var b strings.Builder
	w := value.NewWriter(&b)
	w.Raw(dumpMagic)
	w.U64(dumpVersion)
	w.U64(uint64(f.libraries.Len()))
	f.libraries.Scan(func(_ string, l *functionLibrary) bool {
		w.Text(l.source)
		return w.OK()
	})
	_ = w.Finish() // a string takes all that is written
	return b.String()
}

// parseDump reads the sources of a dump; false if it is none, or damaged.
func parseDump(dump string) (sources []string, ok bool) {
	r := value.NewReader(strings.NewReader(dump))
	var magic [len(dumpMagic)]byte
	r.Raw(magic[:])
	if string(magic[:]) != dumpMagic || r.U64() != dumpVersion {
		return nil, false
	}
	for n := r.U64(); n > 0 && r.OK(); n-- {
		sources = append(sources, r.Text())
	}
	r.End()
	return sources, r.OK()
}
