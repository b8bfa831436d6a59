package keyspace

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/arg"
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
	resp.WithHelp("5.0.0", always, resp.Row[command]{Spec: resp.Spec{
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
	run := &scriptRun{db: c.db, readOnly: readOnly || s.noWrites, full: full, mayGrow: s.allowOOM}
	if c.m.applying {
		c.m.library.used(sha, s)
	}
	return c.runLua(run, func(lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
		return c.m.scripts.Run(s.body(sha), keys, argv, lim, call)
	})
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
	if !arg.FlushMode(args[1:]) {
		return resp.Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.m.library = library{}
	return resp.OK()
}

// cmdScriptKill finds nothing to kill: a script is a part of one entry of the log
// and ends, by its budget at the latest, before anything else is run.
func cmdScriptKill(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Err("NOTBUSY No scripts in execution right now.")
}

// The bounds of the script library. Beyond them the EVAL scripts that were used
// the longest ago are forgotten; EVALSHA answers NOSCRIPT, and clients send EVAL.
const (
	evalScriptsMax  = 500
	libraryBytesMax = 64 << 20
	scriptBytes     = 128 // overhead of one script in the estimate of memory
)

// errLibraryFull answers SCRIPT LOAD, whose scripts are kept until SCRIPT FLUSH.
const errLibraryFull = "ERR the loaded scripts take more than 64 MB: SCRIPT FLUSH frees them"

// library holds the scripts, in the replicated state, so that EVALSHA finds the
// same ones on every node. Scripts are immutable and replaced as a whole.
type library struct {
	bySHA btree.Map[string, *script]
	evals int    // how many came by EVAL
	bytes int64  // of all
	turn  uint64 // counts the scripts that were added: the measure of age
}

// script is a script and what its first line asks for.
type script struct {
	source string
	loaded bool   // by SCRIPT LOAD: kept until SCRIPT FLUSH
	turn   uint64 // library.turn when it was last used

	shebang  int // bytes of a first line that starts with #!
	noWrites bool
	allowOOM bool
}

func newScript(source string) *script { return &script{source: strings.Clone(source)} }

func scriptSHA(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func (s *script) bytes() int64 { return scriptBytes + int64(len(s.source)) }

// compile checks a new script: its first line, then the rest.
func (m *Machine) compile(sha string, s *script) error {
	if err := s.readShebang(); err != nil {
		return err
	}
	if !m.affordsProgram(sha, len(s.source)) {
		return resp.Error(errWorkMeter)
	}
	err := m.scripts.Compile(s.body(sha))
	if err != nil {
		delete(m.entry.compiled, sha) // it is not kept: the next use pays again
	}
	return err
}

// body is what is compiled: the first line is cut off, but not its end, so that
// the lines keep their numbers.
func (s *script) body(sha string) resp.Script {
	return resp.Script{SHA: sha, Source: s.source[s.shebang:]}
}

// readShebang reads a first line such as "#!lua flags=no-writes,allow-oom".
func (s *script) readShebang() error {
	if !strings.HasPrefix(s.source, "#!") {
		return nil
	}
	s.shebang = strings.IndexByte(s.source, '\n')
	if s.shebang < 0 {
		return resp.Error("ERR Invalid script shebang")
	}
	words := strings.Fields(s.source[:s.shebang])
	if words[0] != "#!lua" {
		return resp.Error("ERR Unexpected engine in script shebang: " + words[0])
	}
	for _, word := range words[1:] {
		flags, found := strings.CutPrefix(word, "flags=")
		if !found {
			return resp.Error("ERR Unknown lua shebang option: " + word)
		}
		if err := s.readFlags(flags); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) readFlags(flags string) error {
	if flags == "" {
		return nil
	}
	for _, flag := range strings.Split(flags, ",") {
		switch flag {
		case "no-writes":
			s.noWrites = true
		case "allow-oom":
			s.allowOOM = true
		case "allow-stale", "no-cluster", "allow-cross-slot-keys":
		default:
			return resp.Error("ERR Unexpected flag in script shebang: " + flag)
		}
	}
	return nil
}

func (l *library) find(sha string) *script {
	s, _ := l.bySHA.Get(sha)
	return s
}

// used marks a script as used lately. Age is counted in scripts added since, so
// that scripts that run again and again, with nothing added, cost nothing here.
func (l *library) used(sha string, s *script) {
	if s.loaded || s.turn == l.turn {
		return
	}
	younger := *s
	younger.turn = l.turn
	l.bySHA.Set(sha, &younger)
}

// remember adds a script that came by EVAL. One that is too large for the library
// runs all the same.
func (l *library) remember(sha string, s *script) {
	if !l.makeRoom(s.bytes(), 1) {
		return
	}
	l.evals++
	l.add(sha, s)
}

// spendLibrary counts the work of adding a script: for each that it has to forget, all
// are visited.
func (m *Machine) spendLibrary(add func(l *library)) {
	l := &m.library
	before, n := l.evals, l.bySHA.Len()
	add(l)
	m.spend(value.TreeWork(n) + value.VisitWork*int64(n*max(0, before+1-l.evals)))
}

// keep adds a script that came by SCRIPT LOAD, or makes one that is there stay.
func (l *library) keep(sha string, s *script) bool {
	if l.find(sha) != nil {
		if !s.loaded {
			l.evals--
			stays := *s
			stays.loaded = true
			l.bySHA.Set(sha, &stays)
		}
		return true
	}
	if !l.makeRoom(s.bytes(), 0) {
		return false
	}
	s.loaded = true
	l.add(sha, s)
	return true
}

func (l *library) add(sha string, s *script) {
	l.turn++
	s.turn = l.turn
	l.bytes += s.bytes()
	l.bySHA.Set(sha, s)
}

// makeRoom forgets old EVAL scripts until one of so many bytes, and so many EVAL
// scripts, fit; false if they never will.
func (l *library) makeRoom(bytes int64, evals int) bool {
	for l.bytes+bytes > libraryBytesMax || l.evals+evals > evalScriptsMax {
		if l.evals == 0 {
			return false
		}
		l.forgetOldest()
	}
	return true
}

func (l *library) forgetOldest() {
	var oldest *script
	var sha string
	l.bySHA.Scan(func(k string, s *script) bool {
		if !s.loaded && (oldest == nil || s.turn < oldest.turn) {
			sha, oldest = k, s
		}
		return true
	})
	l.bySHA.Delete(sha)
	l.evals--
	l.bytes -= oldest.bytes()
}

// copy is O(1), see Map.Copy.
func (l *library) copy() library {
	c := *l
	c.bySHA = *l.bySHA.Copy()
	return c
}

func (l *library) write(w *value.Writer) {
	w.U64(l.turn)
	w.U64(uint64(l.bySHA.Len()))
	l.bySHA.Scan(func(sha string, s *script) bool {
		w.Text(sha)
		w.Text(s.source)
		w.Flag(s.loaded)
		w.U64(s.turn)
		return w.OK()
	})
}

func readLibrary(r *value.Reader) library {
	l, last := library{turn: r.U64()}, ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		sha, s := r.Text(), &script{source: r.Text()}
		s.loaded, s.turn = r.Flag(), r.U64()
		if sha <= last || sha != scriptSHA(s.source) || s.turn > l.turn || s.readShebang() != nil {
			r.Fail("a script is not what its name says")
			break
		}
		if !s.loaded {
			l.evals++
		}
		l.bytes += s.bytes()
		l.bySHA.Set(sha, s)
		last = sha
	}
	return l
}
