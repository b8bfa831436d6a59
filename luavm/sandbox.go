package luavm

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// open makes the Lua state and everything a script can see in it. All of it is
// read-only, so a state serves one script after another and none finds a trace
// of the one before.
func (v *VM) open() {
	v.L = lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: callsMax,
		RegistrySize: registersStart, RegistryMaxSize: registersTotalMax, RegistryGrowStep: registersGrow,
	})
	v.L.SetContext(v.b)
	v.b.chunks = map[string]*chunk{}
	v.mains = map[*program]*lua.LFunction{}
	v.names = map[lua.LValue]int{}
	v.chains = newChains()
	v.sparse = map[*lua.LTable]struct{}{}
	v.deleted = map[*lua.LTable]int{}
	v.lock = v.L.CreateTable(0, 0)
	v.lock.Metatable = v.lock
	v.strict = v.L.CreateTable(0, 1)
	v.strict.RawSetString("__index", v.goFunction(unknownGlobal))
	v.locking(v.strict)
	v.stricts = nil
	v.openGlobals()
	v.openLibraries()
	v.openIntrinsics()
}

func (v *VM) openGlobals() {
	v.env = v.L.G.Global
	v.L.Env = v.env
	add := func(name string, value lua.LValue) { v.env.RawSetString(name, value) }
	for _, f := range v.baseFuncs() {
		add(f.name, v.goFunction(f.run))
	}
	add("_G", v.env)
	add("_VERSION", lua.LString("Lua 5.1"))
	strings := v.library(v.stringFuncs())
	add("string", strings)
	add("table", v.library(v.tableFuncs()))
	add("math", v.mathLibrary())
	add("redis", v.redisLibrary())
	add("bit", v.locking(openBit(v.L, v.b)))
	add("struct", v.locking(openStruct(v.L, v.b)))
	add("cjson", v.locking(openCJSON(v.L, v.b)))
	add("cmsgpack", v.locking(openCMsgpack(v.L, v.b)))
	add("KEYS", lua.LNil)
	add("ARGV", lua.LNil)

	v.strings = v.locking(v.L.CreateTable(0, 8))
	v.strings.RawSetString("__index", strings)
	v.stringArithmetic(v.strings)
	v.L.SetMetatable(lua.LString(""), v.strings)
	v.strictly(v.env)
}

// strictly makes a table read-only, and the read of what it does not have an error.
func (v *VM) strictly(t *lua.LTable) *lua.LTable {
	t.Metatable = v.strict
	v.stricts = append(v.stricts, t)
	return t
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

func (v *VM) openIntrinsics() {
	v.intrinsics = nil
	for _, run := range v.intrinsicFuncs() {
		v.intrinsics = append(v.intrinsics, v.goFunction(run))
	}
	v.ipairsStep = v.goFunction(v.ipairsNext)
	v.body = v.L.NewFunction(func(L *lua.LState) int {
		L.Panic = v.raised
		v.act(L)
		return 0
	})
	v.enter = v.L.NewFunction(func(L *lua.LState) int {
		L.Panic = v.raised // PCall has put its own in place
		L.Call(L.GetTop()-1, lua.MultRet)
		return L.GetTop()
	})
}

// locking makes a table read-only.
func (v *VM) locking(t *lua.LTable) *lua.LTable {
	t.Metatable = v.lock
	return t
}

// locked reports whether scripts may not change a table.
func (v *VM) locked(t *lua.LTable) bool {
	return t.Metatable == v.lock || t.Metatable == v.strict && slices.Contains(v.stricts, t)
}

// library makes a read-only table of functions.
func (v *VM) library(funcs []libFunc) *lua.LTable {
	return v.locking(newLibrary(v.L, v.b, funcs))
}
