package luavm

import (
	"lockd/luavm/lauxlib"
	"lockd/luavm/lib"
	"lockd/luavm/state"

	lua "github.com/yuin/gopher-lua"
)

// open makes the Lua state and everything that a script can see in it. All of it is read-only, so a state serves one
// script after another and none finds a trace of the one before.
func (v *VM) open() {
	v.state = state.New(v.b)
	v.mains = map[*program]*lua.LFunction{}
	v.openGlobals()
	v.openLibraries()
}

func (v *VM) openGlobals() {
	globals, L := v.state.Globals, v.state.L
	add := func(name string, value lua.LValue) { globals.RawSetString(name, value) }
	for _, f := range v.state.BaseFuncs() {
		add(f.Name, v.b.Function(L, f.Run))
	}
	add("_G", globals)
	add("_VERSION", lua.LString("Lua 5.1"))
	strings := v.library(lib.OpenString)
	add("string", strings)
	add("table", v.state.Locks.Lock(lauxlib.NewLibrary(L, v.b, v.state.TableFuncs())))
	add("math", v.library(lib.OpenMath))
	add("redis", v.redisLibrary())
	add("bit", v.library(lib.OpenBit))
	add("struct", v.library(lib.OpenStruct))
	add("cjson", v.library(lib.OpenCJSON))
	add("cmsgpack", v.library(lib.OpenCMsgpack))
	add("KEYS", lua.LNil)
	add("ARGV", lua.LNil)
	v.state.UseStrings(strings)
	v.state.Locks.LockStrictly(globals)
}

// library returns a library that scripts cannot change.
func (v *VM) library(open func(*lua.LState, *lauxlib.Budget) *lua.LTable) *lua.LTable {
	return v.state.Locks.Lock(open(v.state.L, v.b))
}

// openLibraries makes the environment of libraries of functions: an empty table, in which all their functions run,
// and the globals that it refers to: while the code of a library runs, almost none; in a call, those of scripts,
// except KEYS and ARGV.
func (v *VM) openLibraries() {
	v.loadGlobals = v.state.L.CreateTable(0, 1)
	v.loadGlobals.RawSetString("redis", v.state.Locks.LockStrictly(v.registrar()))
	v.state.Locks.LockStrictly(v.loadGlobals)

	v.functionGlobals = v.state.L.CreateTable(0, 32)
	for name, value := v.state.Globals.Next(lua.LNil); name != lua.LNil; name, value = v.state.Globals.Next(name) {
		v.functionGlobals.RawSet(name, value)
	}
	v.functionGlobals.RawSetString("_G", v.functionGlobals)
	v.functionGlobals.RawSetString("redis", v.state.Locks.Lock(v.commandLibrary()))
	v.state.Locks.LockStrictly(v.functionGlobals)

	v.libraryEnv = v.state.L.CreateTable(0, 0)
	v.libraryEnv.Metatable = v.state.Locks.Lock(v.state.L.CreateTable(0, 1))
}

// seeGlobals makes the functions of libraries see the globals of a table.
func (v *VM) seeGlobals(globals *lua.LTable) {
	v.libraryEnv.Metatable.(*lua.LTable).RawSetString("__index", globals)
}
