package state

import (
	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// Fixed sizes of the Lua state. They influence the results of scripts, so they are constants, not settings.
const (
	callsMax          = 16000   // functions on the stack, each 96 bytes
	registersStart    = 4 << 10 // values of all functions on the stack, each 16 bytes
	registersGrow     = 64 << 10
	registersTotalMax = 512 << 10
)

func init() { lua.MaxTableGetLoop = metaLoopMax }

// State is a Lua state in which Lua code runs within a budget. It is not safe for concurrent use. All that a script
// can see in it is read-only, so one run finds no trace of the one before.
type State struct {
	L       *lua.LState
	Globals *lua.LTable
	Origin  string // position at which the last error was raised
	b       *lauxlib.Budget

	lock       *lua.LTable    // metatable of tables that scripts cannot change
	strict     *lua.LTable    // the same for tables where reading an absent key is an error
	stricts    []*lua.LTable  // the tables with it
	strings    *lua.LTable    // metatable of strings
	body       *lua.LFunction // runs act for Execute
	enter      *lua.LFunction // calls functions for protect
	intrinsics []*lua.LFunction
	ipairsStep *lua.LFunction

	// Of the present run:
	act     func(*lua.LState)
	names   map[lua.LValue]int // numbers that tostring gave to tables and functions
	chains  chains
	sparse  map[*lua.LTable]struct{}
	deleted map[*lua.LTable]int // number of keys that a table has lost
	walks   [walksMax]walk
	loaded  int    // number of chunks compiled by loadstring
	broken  string // the panic of a command
}

// New returns a state without library functions; see BaseFuncs and TableFuncs.
func New(b *lauxlib.Budget) *State {
	st := &State{
		L: lua.NewState(lua.Options{
			SkipOpenLibs: true, CallStackSize: callsMax,
			RegistrySize: registersStart, RegistryMaxSize: registersTotalMax, RegistryGrowStep: registersGrow,
		}),
		b: b, names: map[lua.LValue]int{}, chains: newChains(),
		sparse: map[*lua.LTable]struct{}{}, deleted: map[*lua.LTable]int{},
	}
	st.L.SetContext(b)
	b.Chunks = map[string]*compiler.Chunk{}
	st.Globals = st.L.G.Global
	st.L.Env = st.Globals
	st.lock = st.L.CreateTable(0, 0)
	st.lock.Metatable = st.lock
	st.strict = st.L.CreateTable(0, 1)
	st.strict.RawSetString("__index", b.Function(st.L, unknownGlobal))
	st.Lock(st.strict)
	st.openIntrinsics()
	return st
}

// UseStrings makes the functions of a library the methods of strings.
func (st *State) UseStrings(library *lua.LTable) {
	st.strings = st.Lock(st.L.CreateTable(0, 8))
	st.strings.RawSetString("__index", library)
	st.stringArithmetic(st.strings)
	st.L.SetMetatable(lua.LString(""), st.strings)
}

func (st *State) openIntrinsics() {
	funcs := st.intrinsicFuncs()
	for _, name := range compiler.Intrinsics {
		st.intrinsics = append(st.intrinsics, st.b.Function(st.L, funcs[name]))
	}
	st.ipairsStep = st.b.Function(st.L, st.ipairsNext)
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

// Begin resets the state of the previous run.
func (st *State) Begin() {
	st.broken = ""
	for ; st.loaded > 0; st.loaded-- {
		delete(st.b.Chunks, loadedKey(st.loaded))
	}
	st.walks = [walksMax]walk{}
	clear(st.names)
	st.chains.clear()
	clear(st.sparse)
	clear(st.deleted)
}
