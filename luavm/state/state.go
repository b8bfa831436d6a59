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
	Locks   *Locks
	Tables  *Tables
	Origin  string // position at which the last error was raised
	b       *lauxlib.Budget

	strings    *lua.LTable    // metatable of strings
	body       *lua.LFunction // runs act for Execute
	enter      *lua.LFunction // calls functions for protect
	intrinsics []*lua.LFunction
	ipairsStep *lua.LFunction

	// Of the present run:
	act    func(*lua.LState)
	names  map[lua.LValue]int // numbers that tostring gave to tables and functions
	loaded int                // number of chunks compiled by loadstring
	broken string             // the panic of a command
}

// New returns a state without library functions; see BaseFuncs and TableFuncs.
func New(b *lauxlib.Budget) *State {
	st := &State{
		L: lua.NewState(lua.Options{
			SkipOpenLibs: true, CallStackSize: callsMax,
			RegistrySize: registersStart, RegistryMaxSize: registersTotalMax, RegistryGrowStep: registersGrow,
		}),
		b: b, names: map[lua.LValue]int{},
	}
	st.L.SetContext(b)
	b.Chunks = map[string]*compiler.Chunk{}
	st.Globals = st.L.G.Global
	st.L.Env = st.Globals
	st.Locks = newLocks(st.L, b)
	st.Tables = newTables(st.Locks)
	st.openIntrinsics()
	return st
}

// UseStrings makes the functions of a library the methods of strings.
func (st *State) UseStrings(library *lua.LTable) {
	st.strings = st.Locks.Lock(st.L.CreateTable(0, 8))
	st.strings.RawSetString("__index", library)
	stringArithmetic(st.L, st.b, st.strings)
	st.L.SetMetatable(lua.LString(""), st.strings)
}

func (st *State) openIntrinsics() {
	funcs := st.Tables.intrinsicFuncs()
	for _, name := range compiler.Intrinsics {
		st.intrinsics = append(st.intrinsics, st.b.Function(st.L, funcs[name]))
	}
	st.ipairsStep = st.b.Function(st.L, ipairsNext)
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
	clear(st.names)
	st.Tables.begin()
}
