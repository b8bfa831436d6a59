package library

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// The bounds of the libraries of functions. All of them fit one argument, so that what
// FUNCTION DUMP answers can be sent to FUNCTION RESTORE.
const (
	LibrariesMax     = 512
	FunctionBytesMax = 4 << 20
	functionBytes    = 256 // overhead of a library, and of a function, in the estimate of memory
)

// Functions holds the libraries of functions. It is part of the replicated state. A command changes a copy, which
// replaces the libraries if the command succeeds.
type Functions struct {
	libraries btree.Map[string, *Library] // by name
	byName    btree.Map[string, Ref]      // of all libraries; names in lower case
	bytes     int64                       // of all
}

// Library is a library. It is immutable.
type Library struct {
	Name      string
	Source    string // as FUNCTION LOAD brought it
	SHA       string // of Source
	shebang   int    // bytes of its first line
	functions []resp.Function
}

// Ref is a function with its library.
type Ref struct {
	*Library
	Function *resp.Function
}

// EngineLua is the only engine, as FUNCTION LIST names it.
const EngineLua = "LUA"

// Parse reads the first line of a library, "#!lua name=mylib".
func Parse(source string) (l *Library, err error) {
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
	l = &Library{Source: source, SHA: SHA(source), shebang: end}
	engine, named := words[0][len("#!"):], false
	for _, word := range words[1:] {
		if len(word) < len("name=") || !resp.Is(word[:len("name=")], "name=") {
			return nil, resp.Error("ERR Invalid metadata value given: " + arg.CText(word))
		}
		if named {
			return nil, resp.Error("ERR Invalid metadata value, name argument was given multiple times")
		}
		l.Name, named = word[len("name="):], true
	}
	switch {
	case !named:
		return nil, resp.Error("ERR Library name was not given")
	case !resp.IsFunctionName(l.Name):
		return nil, resp.Error("ERR " + resp.FunctionNameRule)
	case !resp.Is(engine, EngineLua):
		return nil, resp.Error("ERR Engine '" + engine + "' not found")
	}
	return l, nil
}

// Describe returns the library as FUNCTION LIST shows it.
func (l *Library) Describe(withCode bool) resp.Reply {
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
	reply := resp.Map(resp.Bulk("library_name"), resp.Bulk(l.Name), resp.Bulk("engine"), resp.Bulk(EngineLua),
		resp.Bulk("functions"), resp.Array(list...))
	if withCode {
		reply.Elems = append(reply.Elems, resp.Bulk("library_code"), resp.Bulk(l.Source))
	}
	return reply
}

// Code returns the code to run: without the first line, but with its end, so that lines keep their numbers.
func (l *Library) Code() resp.Script {
	return resp.Script{SHA: l.SHA, Source: l.Source[l.shebang:]}
}

func (l *Library) bytes() int64 {
	n := functionBytes + len(l.Source)
	for _, f := range l.functions {
		n += functionBytes + len(f.Name) + len(f.Description)
	}
	return int64(n)
}

// Libraries returns the number of libraries.
func (f *Functions) Libraries() int { return f.libraries.Len() }

// Len returns the number of functions.
func (f *Functions) Len() int { return f.byName.Len() }

// Bytes returns the memory of the libraries, by estimate.
func (f *Functions) Bytes() int64 { return f.bytes }

// Library finds a library by its name, or returns nil.
func (f *Functions) Library(name string) *Library {
	l, _ := f.libraries.Get(name)
	return l
}

// Each visits the libraries in the order of their names, until visit returns false.
func (f *Functions) Each(visit func(l *Library) bool) {
	f.libraries.Scan(func(_ string, l *Library) bool { return visit(l) })
}

// Find finds a function by its name, in any case.
func (f *Functions) Find(name string) (Ref, bool) {
	if !resp.IsFunctionName(name) {
		return Ref{}, false
	}
	return f.byName.Get(strings.ToLower(name))
}

// Copy is O(1), see Map.Copy.
func (f *Functions) Copy() Functions {
	return Functions{libraries: *f.libraries.Copy(), byName: *f.byName.Copy(), bytes: f.bytes}
}

// Full reports whether the libraries exceed a bound.
func (f *Functions) Full() bool {
	return f.libraries.Len() > LibrariesMax || f.bytes > FunctionBytesMax
}

// collision returns an error about the first function of l that another library has, or nil.
func (f *Functions) collision(l *Library) error {
	for _, fn := range l.functions {
		if _, taken := f.Find(fn.Name); taken {
			return resp.Error("ERR Function " + fn.Name + " already exists")
		}
	}
	return nil
}

// Add adds a library with its functions. It fails if another library has one of them.
func (f *Functions) Add(l *Library, all []resp.Function) error {
	l.functions = all
	slices.SortFunc(all, func(a, b resp.Function) int { return strings.Compare(a.Name, b.Name) })
	if err := f.collision(l); err != nil {
		return err
	}
	f.add(l)
	return nil
}

func (f *Functions) add(l *Library) {
	f.libraries.Set(l.Name, l)
	f.bytes += l.bytes()
	for i := range l.functions {
		f.byName.Set(strings.ToLower(l.functions[i].Name), Ref{l, &l.functions[i]})
	}
}

// Remove removes a library.
func (f *Functions) Remove(l *Library) {
	f.libraries.Delete(l.Name)
	f.bytes -= l.bytes()
	for _, fn := range l.functions {
		f.byName.Delete(strings.ToLower(fn.Name))
	}
}

// Join adds the libraries of another set. It fails if one of them exists, unless replace is true, or if another library
// has one of their functions.
func (f *Functions) Join(more *Functions, replace bool) error {
	for name := range more.libraries.Scan {
		old, exists := f.libraries.Get(name)
		switch {
		case exists && !replace:
			return resp.Error("ERR Library " + name + " already exists")
		case exists:
			f.Remove(old)
		}
	}
	for _, l := range more.libraries.Scan {
		if err := f.collision(l); err != nil {
			return err
		}
		f.add(l)
	}
	return nil
}

// Write writes the libraries into an image.
func (f *Functions) Write(w *value.Writer) {
	w.U64(uint64(f.libraries.Len()))
	f.libraries.Scan(func(_ string, l *Library) bool {
		w.Text(l.Source)
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

// ReadFunctions reads libraries from an image.
func ReadFunctions(r *value.Reader) Functions {
	var f Functions
	last := ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		l, err := Parse(r.Text())
		if err != nil || l.Name <= last {
			r.Fail("a library of functions that is none")
			break
		}
		l.readFunctions(r)
		before := f.byName.Len()
		if f.add(l); f.byName.Len() != before+len(l.functions) {
			r.Fail("two functions of one name")
		}
		last = l.Name
	}
	return f
}

func (l *Library) readFunctions(r *value.Reader) {
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

// A dump of libraries has a format of lockd's own: dumpMagic, dumpVersion, the number of libraries, the source of each,
// and the CRC-32C of all before it.
const (
	dumpMagic   = "lockdfun"
	dumpVersion = 1
)

// Dump returns a dump of all libraries.
func (f *Functions) Dump() string {
	var b strings.Builder
	w := value.NewWriter(&b)
	w.Raw(dumpMagic)
	w.U64(dumpVersion)
	w.U64(uint64(f.libraries.Len()))
	f.libraries.Scan(func(_ string, l *Library) bool {
		w.Text(l.Source)
		return w.OK()
	})
	_ = w.Finish() // a string takes all that is written
	return b.String()
}

// ParseDump reads the sources from a dump; ok is false if it is not a dump, or is damaged.
func ParseDump(dump string) (sources []string, ok bool) {
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
