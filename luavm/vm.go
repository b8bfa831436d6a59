package luavm

import (
	"slices"
	"strconv"
	"strings"

	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Fixed sizes of the Lua state. They are part of what a script computes, so they
// are the same everywhere and no setting.
const (
	callsMax          = 16000   // functions on the stack, each 96 bytes
	registersStart    = 4 << 10 // values of all functions on the stack, each 16 bytes
	registersGrow     = 64 << 10
	registersTotalMax = 512 << 10
	nestedCallsMax    = 195      // calls from Go into Lua within each other (pcall, sort, gsub): LUAI_MAXCCALLS
	arrayIndexMax     = 1 << 16  // greatest key + 1 of a table's array; other integers are in its hash part
	programsMax       = 512      // compiled scripts kept
	programsBytesMax  = 32 << 20 // what they may take by estimate
)

func init() {
	lua.MaxArrayIndex = arrayIndexMax
	lua.MaxTableGetLoop = metaLoopMax
	lua.CompatVarArg = false // lower.go makes "arg", only where it is used
	if lua.FieldsPerFlush != fieldsPerFlush {
		panic("luavm: lua.FieldsPerFlush changed")
	}
}

// VM runs scripts. It is not safe for concurrent use. What it keeps between runs
// (a Lua state, compiled scripts) makes runs faster and changes no result.
type VM struct {
	b          *budget
	L          *lua.LState    // nil after an error: the next run makes a new one
	env        *lua.LTable    // the globals; scripts cannot change it
	lock       *lua.LTable    // metatable of what scripts cannot change
	strict     *lua.LTable    // the same of tables where what is absent is an error
	stricts    []*lua.LTable  // those tables
	strings    *lua.LTable    // metatable of strings
	body       *lua.LFunction // does what execute is asked to
	enter      *lua.LFunction
	programs   map[string]*program
	bytes      int // of programs, by estimate
	intrinsics []*lua.LFunction
	ipairsStep *lua.LFunction
	mains      map[*program]*lua.LFunction // the programs as functions of L

	// Of libraries (functions.go):
	libraryEnv      *lua.LTable // the environment of their functions
	loadGlobals     *lua.LTable // what it refers to while their code runs
	functionGlobals *lua.LTable // ... and in a call

	// Of the present run:
	run     resp.ScriptCall
	proto   int    // of replies, as redis.setresp chose
	nested  int    // calls from Go into Lua
	origin  string // where the last error was raised
	random  lrand48
	names   map[lua.LValue]int // numbers that tostring gave to tables and functions
	chains  chains
	sparse  map[*lua.LTable]struct{}
	deleted map[*lua.LTable]int // how many keys a table has lost
	walks   [walksMax]walk
	reply   resp.Reply
	loaded  int // chunks that loadstring compiled
	loading *loading
	broken  string // the panic of a command
	act     func(*lua.LState)
}

// program is a compiled script, or the code of a library.
type program struct {
	kind   *programKind
	source string
	key    string
	chunk  *chunk
	proto  *lua.FunctionProto
}

// New returns a VM.
func New() *VM {
	return &VM{b: newBudget(), programs: map[string]*program{}}
}

// programKind is a kind of program: of them all, one text has one program.
type programKind struct {
	name    string // in messages
	mark    string // begins the keys in the cache
	compile string // begins the error where a program does not compile
	library bool
}

// scriptName is what Redis calls every script in messages.
const scriptName = "user_script"

var (
	scripts   = programKind{name: scriptName, compile: "ERR Error compiling script (new function): "}
	libraries = programKind{name: "user_function", mark: "library ", compile: "ERR Error compiling function: ", library: true}
)

// Compile checks a script without running it: ok is false and the reply is the
// error Redis gives where it does not compile.
func (v *VM) Compile(s resp.Script) (fail resp.Reply, ok bool) {
	_, fail, ok = v.program(&scripts, s)
	return fail, ok
}

// program finds or makes the compiled form of a script.
func (v *VM) program(kind *programKind, s resp.Script) (*program, resp.Reply, bool) {
	key := kind.mark + s.SHA
	if p := v.programs[key]; p != nil && p.source == s.Source {
		return p, resp.Reply{}, true
	}
	text := strings.Clone(s.Source) // the request may alias a whole entry of the log
	source, why := skipShebang(text)
	if why != "" {
		return nil, resp.Err("ERR " + why), false
	}
	p, message := compile(kind.name, "@"+kind.name, keyMark+key, source)
	if message != "" {
		return nil, resp.Err(kind.compile + message), false
	}
	p.kind, p.source = kind, text
	v.keep(p, strings.Clone(key))
	return p, resp.Reply{}, true
}

// keep puts a program into the cache, and empties it before where it is full.
func (v *VM) keep(p *program, key string) {
	size := p.bytes()
	if len(v.programs) >= programsMax || v.bytes+size > programsBytesMax {
		v.programs, v.bytes = map[string]*program{}, 0
		clear(v.mains)
		clear(v.b.chunks)
	}
	v.programs[key] = p
	v.bytes += size
}

// bytes estimates what a program holds, from above.
func (p *program) bytes() int {
	size := 1<<10 + len(p.source)
	for _, s := range p.chunk.sites {
		size += 128 + 32*len(s.operands)
	}
	return size + protoBytes(p.proto)
}

func protoBytes(f *lua.FunctionProto) int {
	size := 1<<10 + 12*cap(f.Code) + 64*cap(f.Constants)
	for _, inner := range f.FunctionPrototypes {
		size += protoBytes(inner)
	}
	return size
}

// compact drops what only gopher-lua's debug library reads, and the room that its
// compiler has left over, 12 KiB for each function.
func compact(f *lua.FunctionProto) {
	f.Code = slices.Clone(f.Code)
	f.Constants = slices.Clone(f.Constants)
	f.DbgSourcePositions = slices.Clone(f.DbgSourcePositions)
	f.DbgLocals, f.DbgCalls = nil, nil
	for _, inner := range f.FunctionPrototypes {
		compact(inner)
	}
}

// compile parses, lowers and compiles a chunk. message is luaL_loadbuffer's.
func compile(name, source, key, text string) (p *program, message string) {
	defer func() {
		// No source may take the node down; this one is an error everywhere alike.
		if recover() != nil {
			p, message = nil, name+":1: internal error"
		}
	}()
	tree, message := parse(name, text)
	if message != "" {
		return nil, message
	}
	c, message := lower(name, source, tree)
	if message != "" {
		return nil, message
	}
	proto, err := lua.Compile(c.stmts, key)
	if err != nil {
		return nil, name + ":1: function or expression too complex"
	}
	compact(proto)
	c.stmts = nil
	c.sites = slices.Clone(c.sites)
	return &program{key: key, chunk: c, proto: proto}, ""
}

// Run runs a script with KEYS and ARGV. call runs its commands. The reply is what
// EVAL answers. limited is true when the script met one of its limits: the
// caller takes back what the script wrote, and the reply says which limit. left is
// what is left of the limits, the same on every node.
func (v *VM) Run(s resp.Script, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	p, fail, ok := v.program(&scripts, s)
	if !ok {
		return fail, lim, false
	}
	main := v.prepare(p, call)
	v.env.RawSetString("KEYS", stringTable(v.L, keys))
	v.env.RawSetString("ARGV", stringTable(v.L, argv))
	v.b.fill(lim)
	return v.finish(s.SHA, v.execute(func(L *lua.LState) {
		L.Push(main)
		v.answer(L, 0)
	}))
}

// prepare makes a state ready for a run of a program, and the program a function of it.
func (v *VM) prepare(p *program, call resp.ScriptCall) *lua.LFunction {
	if v.L == nil {
		v.open()
	}
	v.begin(call)
	v.L.Env = v.env
	if p.kind.library {
		v.L.Env = v.libraryEnv
	}
	return v.main(p)
}

// answer calls the function below nargs arguments on the stack; its result becomes
// the reply.
func (v *VM) answer(L *lua.LState, nargs int) {
	L.Call(nargs, 1)
	v.reply = v.toReply(libCall{L, v.b}, L.Get(-1), 0)
}

// finish is what a run answers that ended with err. name is what Redis calls it.
func (v *VM) finish(name string, err error) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	v.run, v.loading = nil, nil
	left = v.b.left()
	switch {
	case err == nil:
		return v.reply, left, false
	case v.b.spent != "":
		return v.limitMet(), left, true
	}
	return resp.Err(v.errorText(err) + " script: " + name + ", on " + v.origin + "."), left, false
}

// limitMet is the reply of a run that has met a limit. The state is given up,
// whatever it holds.
func (v *VM) limitMet() resp.Reply {
	v.L = nil
	return resp.Err(v.b.spent)
}

// begin resets what belongs to one run.
func (v *VM) begin(call resp.ScriptCall) {
	v.run, v.proto, v.nested, v.broken = call, 2, 0, ""
	for ; v.loaded > 0; v.loaded-- {
		delete(v.b.chunks, loadedKey(v.loaded))
	}
	v.random = newLrand48(0)
	v.reply = resp.Reply{}
	v.walks = [walksMax]walk{}
	clear(v.names)
	v.chains.clear()
	clear(v.sparse)
	clear(v.deleted)
}

// main is a program as a function of the present state.
func (v *VM) main(p *program) *lua.LFunction {
	fn := v.mains[p]
	if fn == nil {
		fn = v.instantiate(p)
		v.mains[p] = fn
	}
	return fn
}

// instantiate runs the outer function of a chunk, which gives the chunk itself
// with the intrinsics in its reach. It costs the budget nothing.
func (v *VM) instantiate(p *program) *lua.LFunction {
	v.b.chunks[p.key] = p.chunk
	b := *v.b
	v.b.fill(resp.ScriptLimits{Steps: 1 << 20, MemBytes: 1 << 20})
	v.L.Push(v.L.NewFunctionFromProto(p.proto))
	for _, f := range v.intrinsics {
		v.L.Push(f)
	}
	v.L.Call(len(v.intrinsics), 1)
	fn := v.L.Get(-1).(*lua.LFunction)
	v.L.Pop(1)
	*v.b = b
	return fn
}

func stringTable(L *lua.LState, items []string) *lua.LTable {
	t := L.CreateTable(len(items), 0)
	for i, s := range items {
		setInt(t, i+1, lua.LString(s))
	}
	return t
}

// setInt sets t[i] for i > 0.
func setInt(t *lua.LTable, i int, value lua.LValue) { t.RawSet(lua.LNumber(i), value) }

// execute has act run Lua, protected.
func (v *VM) execute(act func(*lua.LState)) error {
	v.act = act
	v.L.SetTop(0)
	v.L.Push(v.body)
	err := v.L.PCall(0, 0, nil)
	v.act = nil
	v.checkPanic(err)
	return err
}

// internalError answers for an error in this package or in gopher-lua. It ends
// the script as a limit does, with one text on all nodes.
const internalError = "ERR Script stopped: internal error"

// checkPanic notes an error that is no Lua error but a panic of Go code. A panic in a
// command goes on, through all of Lua: it may have left half of a change behind, and a
// node that goes on with that differs from the others.
func (v *VM) checkPanic(err error) {
	if v.broken != "" {
		v.L = nil
		panic(v.broken)
	}
	if e, ok := err.(*lua.ApiError); ok && e.Type == lua.ApiErrorPanic && v.b.spent == "" {
		v.b.spent = internalError
	}
}

// errorText is the text of an error that ends a run.
func (v *VM) errorText(err error) string {
	object := err.(*lua.ApiError).Object
	if t, ok := object.(*lua.LTable); ok {
		text, ok := asText(t.RawGetString("err"))
		if !ok {
			text = "ERR execution failure" // Redis crashes here
		}
		return cText(text)
	}
	return "ERR " + cText(v.display(object))
}

// skipShebang drops a first line "#!lua flags=..." but for its line feed.
func skipShebang(source string) (rest, why string) {
	if !strings.HasPrefix(source, "#!") {
		return source, ""
	}
	end := strings.IndexByte(source, '\n')
	if end < 0 {
		return "", "Invalid script shebang"
	}
	parts := strings.Fields(source[:end])
	if parts[0] != "#!lua" {
		return "", "Unexpected engine in script shebang: " + parts[0]
	}
	for _, part := range parts[1:] {
		flags, ok := strings.CutPrefix(part, "flags=")
		if !ok {
			return "", "Unknown lua shebang option: " + part
		}
		for flag := range strings.SplitSeq(flags, ",") {
			switch flag {
			case "no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys", "":
			default:
				return "", "Unexpected flag in script shebang: " + flag
			}
		}
	}
	return source[end:], ""
}

// loadedMark begins the keys of chunks that loadstring compiled.
const loadedMark = keyMark + "+"

func loadedKey(n int) string { return loadedMark + strconv.Itoa(n) }
