package keyspace

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/value"
	"lockd/resp"
)

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
	made, rest, fail, ok := m.scripts.Load(l.code(), lim)
	l.functions, *left = made, rest
	steps := lim.Steps - left.Steps
	m.spendSteps(steps)
	m.spend(lim.MemBytes - left.MemBytes)
	switch {
	case !ok && workMet(lim, steps, left.Steps):
		return "", resp.Error(errWorkMeter)
	case !ok:
		return "", resp.Error(fail.Str)
	}
	if len(l.functions) == 0 {
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
