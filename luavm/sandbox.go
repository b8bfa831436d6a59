package luavm

import (
	lua "github.com/yuin/gopher-lua"
)

// open makes the Lua state and everything a script can see in it. All of it is
// read-only, so a state serves one script after another and none finds a trace
// of the one before.
func (v *VM) open() {
	v.state = newState(v.b)
	v.mains = map[*program]*lua.LFunction{}
	v.openGlobals()
	v.openLibraries()
}

func (v *VM) openGlobals() {
	globals, L := v.state.globals, v.state.L
	add := func(name string, value lua.LValue) { globals.RawSetString(name, value) }
	for _, f := range v.state.baseFuncs() {
		add(f.name, v.b.function(L, f.run))
	}
	add("_G", globals)
	add("_VERSION", lua.LString("Lua 5.1"))
	strings := v.library(openString)
	add("string", strings)
	add("table", v.state.locking(newLibrary(L, v.b, v.state.tableFuncs())))
	add("math", v.library(openMath))
	add("redis", v.redisLibrary())
	add("bit", v.library(openBit))
	add("struct", v.library(openStruct))
	add("cjson", v.library(openCJSON))
	add("cmsgpack", v.library(openCMsgpack))
	add("KEYS", lua.LNil)
	add("ARGV", lua.LNil)
	v.state.useStrings(strings)
	v.state.strictly(globals)
}

// library makes a library that scripts cannot change.
func (v *VM) library(open func(*lua.LState, *budget) *lua.LTable) *lua.LTable {
	return v.state.locking(open(v.state.L, v.b))
}
