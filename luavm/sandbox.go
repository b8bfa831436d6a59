package luavm

import (
	"lockd/luavm/lauxlib"
	"lockd/luavm/lib"
	"lockd/luavm/libc"
	"lockd/luavm/state"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// sandbox is a Lua state with all that a script can see in it. All of it is read-only, so a sandbox serves one script
// after another, and none finds a trace of the one before.
type sandbox struct {
	budget *lauxlib.Budget
	state  *state.State
	api    *api
	mains  map[*program]*lua.LFunction // the programs as functions of the state

	// Of libraries of functions:
	environment     *lua.LTable // of their functions
	loadGlobals     *lua.LTable // the globals in it while their code runs
	functionGlobals *lua.LTable // ... and in a call
	loading         *loading    // in a run that registers functions
}

func newSandbox(budget *lauxlib.Budget) *sandbox {
	st := state.New(budget)
	b := &sandbox{
		budget: budget, state: st, api: &api{budget: budget, state: st}, mains: map[*program]*lua.LFunction{},
	}
	b.openGlobals()
	b.openLibraries()
	return b
}

func (b *sandbox) openGlobals() {
	globals, L := b.state.Globals, b.state.L
	add := func(name string, value lua.LValue) { globals.RawSetString(name, value) }
	library := func(open func(*lua.LState, *lauxlib.Budget) *lua.LTable) *lua.LTable {
		return b.state.Locks.Lock(open(L, b.budget))
	}
	for _, f := range b.state.BaseFuncs() {
		add(f.Name, b.budget.Function(L, f.Run))
	}
	add("_G", globals)
	add("_VERSION", lua.LString("Lua 5.1"))
	strings := library(lib.OpenString)
	add("string", strings)
	add("table", b.state.Locks.Lock(lauxlib.NewLibrary(L, b.budget, b.state.TableFuncs())))
	add("math", library(lib.OpenMath))
	add("redis", b.api.scriptLibrary())
	add("bit", library(lib.OpenBit))
	add("struct", library(lib.OpenStruct))
	add("cjson", library(lib.OpenCJSON))
	add("cmsgpack", library(lib.OpenCMsgpack))
	add("KEYS", lua.LNil)
	add("ARGV", lua.LNil)
	b.state.UseStrings(strings)
	b.state.Locks.LockStrictly(globals)
}

// openLibraries makes the environment of libraries of functions: an empty table, in which all their functions run,
// and the globals that it refers to: while the code of a library runs, almost none; in a call, those of scripts,
// except KEYS and ARGV.
func (b *sandbox) openLibraries() {
	b.loadGlobals = b.state.L.CreateTable(0, 1)
	b.loadGlobals.RawSetString("redis", b.state.Locks.LockStrictly(b.registrar()))
	b.state.Locks.LockStrictly(b.loadGlobals)

	b.functionGlobals = b.state.L.CreateTable(0, 32)
	for name, value := b.state.Globals.Next(lua.LNil); name != lua.LNil; name, value = b.state.Globals.Next(name) {
		b.functionGlobals.RawSet(name, value)
	}
	b.functionGlobals.RawSetString("_G", b.functionGlobals)
	b.functionGlobals.RawSetString("redis", b.state.Locks.Lock(b.api.commandLibrary()))
	b.state.Locks.LockStrictly(b.functionGlobals)

	b.environment = b.state.L.CreateTable(0, 0)
	b.environment.Metatable = b.state.Locks.Lock(b.state.L.CreateTable(0, 1))
}

// seeGlobals makes the functions of libraries see the globals of a table.
func (b *sandbox) seeGlobals(globals *lua.LTable) {
	b.environment.Metatable.(*lua.LTable).RawSetString("__index", globals)
}

// begin resets the sandbox after the previous run, for a run of a program, and returns the program as a function.
func (b *sandbox) begin(p *program, call resp.ScriptCall) *lua.LFunction {
	b.api.run, b.api.proto = call, 2
	b.state.Begin()
	b.state.L.Env = b.state.Globals
	if p.kind.library {
		b.state.L.Env = b.environment
	}
	fn := b.mains[p]
	if fn == nil {
		fn = b.state.Instantiate(p.chunk)
		b.mains[p] = fn
	}
	return fn
}

// end forgets what belongs to the present run.
func (b *sandbox) end() { b.api.run, b.loading = nil, nil }

// errorText returns the text of an error that ends a run.
func (b *sandbox) errorText(err error) string {
	object := err.(*lua.ApiError).Object
	if t, ok := object.(*lua.LTable); ok {
		text, ok := lauxlib.AsText(t.RawGetString("err"))
		if !ok {
			text = "ERR execution failure" // Redis crashes here
		}
		return libc.CString(text)
	}
	return "ERR " + libc.CString(b.state.Display(object))
}
