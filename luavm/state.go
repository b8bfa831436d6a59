package luavm

import (
	"slices"


	lua "github.com/yuin/gopher-lua"
)

// Fixed sizes of the Lua state. They are part of what a script computes, so they
// are the same everywhere and no setting.
const (
	callsMax          = 16000   // functions on the stack, each 96 bytes
	registersStart    = 4 << 10 // values of all functions on the stack, each 16 bytes
	registersGrow     = 64 << 10
	registersTotalMax = 512 << 10
	arrayIndexMax     = 1 << 16 // greatest key + 1 of a table's array; other integers are in its hash part
)

func init() {
	lua.MaxArrayIndex = arrayIndexMax
	lua.MaxTableGetLoop = metaLoopMax
}

// State is a Lua state in which Lua code runs within a budget. What scripts can see in it is
// read-only, so one run finds no trace of the one before.
type State struct {
	L       *lua.LState
	b       *budget
	globals *lua.LTable // scripts cannot change it

	lock       *lua.LTable    // metatable of what scripts cannot change
	strict     *lua.LTable    // the same of tables where what is absent is an error
	stricts    []*lua.LTable  // those tables
	strings    *lua.LTable    // metatable of strings
	body       *lua.LFunction // does what execute is asked to
	enter      *lua.LFunction // calls what protect is asked to
	intrinsics []*lua.LFunction
	ipairsStep *lua.LFunction

	// Of the present run:
	act     func(*lua.LState)
	origin  string             // where the last error was raised
	names   map[lua.LValue]int // numbers that tostring gave to tables and functions
	chains  chains
	sparse  map[*lua.LTable]struct{}
	deleted map[*lua.LTable]int // how many keys a table has lost
	walks   [walksMax]walk
	loaded  int    // chunks that loadstring compiled
	broken  string // the panic of a command
}

// newState makes a state with the functions of Lua itself that need no library of their own.
func newState(b *budget) *State {
	st := &State{
		L: lua.NewState(lua.Options{
			SkipOpenLibs: true, CallStackSize: callsMax,
			RegistrySize: registersStart, RegistryMaxSize: registersTotalMax, RegistryGrowStep: registersGrow,
		}),
		b: b, names: map[lua.LValue]int{}, chains: newChains(), sparse: map[*lua.LTable]struct{}{}, deleted: map[*lua.LTable]int{},
	}
	st.L.SetContext(b)
	b.chunks = map[string]*chunk{}
	st.globals = st.L.G.Global
	st.L.Env = st.globals
	st.lock = st.L.CreateTable(0, 0)
	st.lock.Metatable = st.lock
	st.strict = st.L.CreateTable(0, 1)
	st.strict.RawSetString("__index", b.function(st.L, unknownGlobal))
	st.locking(st.strict)
	st.openIntrinsics()
	return st
}

// useStrings makes a library the methods of strings.
func (st *State) useStrings(library *lua.LTable) {
	st.strings = st.locking(st.L.CreateTable(0, 8))
	st.strings.RawSetString("__index", library)
	st.stringArithmetic(st.strings)
	st.L.SetMetatable(lua.LString(""), st.strings)
}

func (st *State) openIntrinsics() {
	st.intrinsics = nil
	operators := st.operators()
	for _, name := range intrinsicNames {
		st.intrinsics = append(st.intrinsics, st.b.function(st.L, operators[name]))
	}
	st.ipairsStep = st.b.function(st.L, st.ipairsNext)
	st.body = st.L.NewFunction(func(L *lua.LState) int {
		L.Panic = st.raised
		st.act(L)
		return 0
	})
	st.enter = st.L.NewFunction(func(L *lua.LState) int {
		L.Panic = st.raised // PCall has put its own in place
		L.Call(L.GetTop()-1, lua.MultRet)
		return L.GetTop()
	})
}

// begin resets what belongs to one run.
func (st *State) begin() {
	st.broken = ""
	for ; st.loaded > 0; st.loaded-- {
		delete(st.b.chunks, loadedKey(st.loaded))
	}
	st.walks = [walksMax]walk{}
	clear(st.names)
	st.chains.clear()
	clear(st.sparse)
	clear(st.deleted)
}

// execute has act run Lua, protected.
func (st *State) execute(act func(*lua.LState)) error {
	st.act = act
	st.L.SetTop(0)
	st.L.Push(st.body)
	err := st.L.PCall(0, 0, nil)
	st.act = nil
	st.checkPanic(err)
	return err
}

// crash lets a panic of a command go on through all of Lua.
func (st *State) crash(text string) {
	st.broken = text
	panic(text)
}

// internalError answers for an error in this package or in gopher-lua. It ends
// the script as a limit does, with one text on all nodes.
const internalError = "ERR Script stopped: internal error"

// checkPanic notes an error that is no Lua error but a panic of Go code. A panic in a
// command goes on, through all of Lua: it may have left half of a change behind, and a
// node that goes on with that differs from the others.
func (st *State) checkPanic(err error) {
	if st.broken != "" {
		panic(st.broken)
	}
	if e, ok := err.(*lua.ApiError); ok && e.Type == lua.ApiErrorPanic && st.b.limitMet() == "" {
		st.b.stop(internalError)
	}
}

// instantiate runs the outer function of a chunk, which gives the chunk itself
// with the intrinsics in its reach. It costs the budget nothing.
func (st *State) instantiate(c *chunk) *lua.LFunction {
	st.b.chunks[c.key] = c
	restore := st.b.suspend()
	st.L.Push(st.L.NewFunctionFromProto(c.proto))
	for _, f := range st.intrinsics {
		st.L.Push(f)
	}
	st.L.Call(len(st.intrinsics), 1)
	fn := st.L.Get(-1).(*lua.LFunction)
	st.L.Pop(1)
	restore()
	return fn
}

// strictly makes a table read-only, and the read of what it does not have an error.
func (st *State) strictly(t *lua.LTable) *lua.LTable {
	t.Metatable = st.strict
	st.stricts = append(st.stricts, t)
	return t
}

// locking makes a table read-only.
func (st *State) locking(t *lua.LTable) *lua.LTable {
	t.Metatable = st.lock
	return t
}

// locked reports whether scripts may not change a table.
func (st *State) locked(t *lua.LTable) bool {
	return t.Metatable == st.lock || t.Metatable == st.strict && slices.Contains(st.stricts, t)
}

// unknownGlobal answers the read of what a strict table does not have.
func unknownGlobal(c libCall) int {
	name, ok := asText(c.L.Get(2))
	if !ok {
		name = "?"
	}
	c.fail("Script attempted to access nonexistent global variable '%s'", cText(name))
	return 0
}
