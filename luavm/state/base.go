package state

import (
	"fmt"
	"slices"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// The basic functions (lbaselib.c), without those that Redis removes and without
// coroutines (DESIGN.md).

// baseLib holds the basic functions that need the state.
type baseLib struct{ st *State }

// BaseFuncs returns the basic functions.
func (st *State) BaseFuncs() []lauxlib.Func {
	lib := baseLib{st}
	return []lauxlib.Func{
		{"assert", assertFunc}, {"collectgarbage", gcInfo}, {"error", lib.error}, {"gcinfo", gcInfo},
		{"getmetatable", lib.getMetatable}, {"ipairs", lib.ipairs}, {"load", lib.load}, {"loadstring", lib.loadString},
		{"next", lib.next}, {"pairs", lib.pairs}, {"pcall", lib.pcall}, {"rawequal", rawEqualFunc}, {"rawget", rawGetFunc},
		{"rawset", lib.rawSetFunc}, {"select", selectFunc}, {"setmetatable", lib.setMetatable}, {"tonumber", toNumber},
		{"tostring", lib.toString}, {"type", typeFunc}, {"unpack", lib.unpack}, {"xpcall", lib.xpcall},
	}
}

func assertFunc(c lauxlib.Call) int {
	c.Arg(1).Any()
	if lua.LVIsFalse(c.L.Get(1)) {
		c.Fail("%s", c.Arg(2).OptText("assertion failed!"))
	}
	return c.L.GetTop()
}

// gcInfo returns a constant where Redis shows the memory in use.
func gcInfo(c lauxlib.Call) int { return c.PushNumber(0) }

func (lib baseLib) error(c lauxlib.Call) int {
	level := c.Arg(2).OptSmall(1)
	object := c.L.Get(1)
	if text, ok := lauxlib.AsText(object); ok && level > 0 {
		p, _ := c.Budget.PlaceAt(c.L, lib.levelOf(c, level))
		text = p.String() + text
		c.Need(len(text))
		object = lua.LString(text)
	}
	c.Raise(object)
	return 0
}

// levelOf returns the level on gopher-lua's stack of a level of Lua's, whose stack lacks the functions that stand for
// instructions, or for the inside of pcall.
func (lib baseLib) levelOf(c lauxlib.Call, level int) int {
	for at := 1; ; at++ {
		c.Charge((at + 30) / 32) // gopher-lua walks to each level from the top
		dbg, ok := c.L.GetStack(at)
		if !ok {
			return at
		}
		f, _ := c.L.GetInfo("f", dbg, lua.LNil)
		if fn, ok := f.(*lua.LFunction); ok && (fn == lib.st.enter || slices.Contains(lib.st.intrinsics, fn)) {
			continue
		}
		if level--; level == 0 {
			return at
		}
	}
}

func (lib baseLib) getMetatable(c lauxlib.Call) int {
	value := c.Arg(1).Any()
	mt := lua.LNil
	switch x := value.(type) {
	case *lua.LTable:
		mt = x.Metatable
	case lua.LString:
		mt = lib.st.strings
	}
	t, ok := mt.(*lua.LTable)
	if !ok || t == lib.st.Locks.lock {
		return c.Push(lua.LNil)
	}
	if protected := t.RawGetString("__metatable"); protected != lua.LNil {
		return c.Push(protected)
	}
	return c.Push(t)
}

func (lib baseLib) setMetatable(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	mt := c.L.Get(2)
	if c.L.GetTop() < 2 || mt != lua.LNil && mt.Type() != lua.LTTable {
		c.Arg(2).Fail("nil or table expected")
	}
	if c.L.GetMetaField(t, "__metatable") != lua.LNil {
		c.Fail("cannot change a protected metatable")
	}
	lib.st.Locks.writable(c, t)
	t.Metatable = mt
	lib.st.Tables.chains.linked(c, t)
	return c.Push(t)
}

func (lib baseLib) ipairs(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	return c.Push(lib.st.ipairsStep, t, lua.LNumber(0))
}

func ipairsNext(c lauxlib.Call) int {
	i := c.Arg(2).Small() + 1
	value := c.Arg(1).Table().RawGet(lua.LNumber(i))
	if value == lua.LNil {
		return 0
	}
	return c.Push(lua.LNumber(i), value)
}

func (lib baseLib) pairs(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	return c.Push(lib.st.Globals.RawGetString("next"), t, lua.LNil)
}

func (lib baseLib) next(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	key, value := lib.st.Tables.NextKey(c, t, c.L.Get(2))
	if key == lua.LNil {
		return c.Push(lua.LNil)
	}
	return c.Push(key, value)
}

// pcall is Redis's: for an error that is a table with a field err it returns only that field.
func (lib baseLib) pcall(c lauxlib.Call) int {
	if c.L.GetTop() == 0 {
		return c.Push(lua.LFalse, lua.LString("attempt to call a boolean value")) // Redis calls a place holder of its own
	}
	fn := c.L.Get(1)
	if !lauxlib.Callable(c.L, fn) {
		return c.Push(lua.LFalse, lua.LString("attempt to call a "+lauxlib.TypeName(fn)+" value"))
	}
	err := lib.st.protect(c, c.L.GetTop()-1)
	if err == nil {
		c.L.Insert(lua.LTrue, 1)
		return c.L.GetTop()
	}
	object := err.Object
	if t, ok := object.(*lua.LTable); ok {
		field := c.L.GetField(t, "err")
		text, ok := lauxlib.AsText(field)
		if !ok {
			return c.Push(lua.LFalse, object, field) // Redis leaves the value it looked at on the stack
		}
		object = lua.LString(text)
	}
	return c.Push(lua.LFalse, object)
}

func (lib baseLib) xpcall(c lauxlib.Call) int {
	handler := c.Arg(2).Any()
	fn := c.L.Get(1)
	c.L.SetTop(2)
	var object lua.LValue
	if !lauxlib.Callable(c.L, fn) {
		object = lua.LString("attempt to call a " + lauxlib.TypeName(fn) + " value")
	} else {
		c.L.Push(fn)
		err := lib.st.protect(c, 0)
		if err == nil {
			c.L.Insert(lua.LTrue, 3)
			return c.L.GetTop() - 2
		}
		object = err.Object
	}
	c.L.SetTop(2)
	if !lauxlib.Callable(c.L, handler) {
		return c.Push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.Push(handler, object)
	if err := lib.st.protect(c, 1); err != nil {
		return c.Push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.L.SetTop(3) // the handler's first result
	return c.Push(lua.LFalse, c.L.Get(3))
}

func rawEqualFunc(c lauxlib.Call) int {
	a, b := c.Arg(1).Any(), c.Arg(2).Any()
	return c.PushBool(rawEqual(c, a, b))
}

func rawGetFunc(c lauxlib.Call) int {
	t, key := c.Arg(1).Table(), c.Arg(2).Any()
	if s, ok := key.(lua.LString); ok {
		c.Touch(len(s))
	}
	return c.Push(t.RawGet(key))
}

func (lib baseLib) rawSetFunc(c lauxlib.Call) int {
	t, key, value := c.Arg(1).Table(), c.Arg(2).Any(), c.Arg(3).Any()
	lib.st.Locks.writable(c, t)
	if key == lua.LNil {
		c.FailBare("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && f != f {
		c.FailBare("table index is NaN")
	}
	lib.st.Tables.RawSet(c, t, key, value)
	return c.Push(t)
}

func selectFunc(c lauxlib.Call) int {
	n := c.L.GetTop()
	c.Charge(n / 8)
	if s, ok := c.L.Get(1).(lua.LString); ok && strings.HasPrefix(string(s), "#") {
		return c.PushNumber(float64(n - 1))
	}
	i := c.Arg(1).Small()
	if i < 0 {
		i += n
	} else if i > n {
		i = n
	}
	if i < 1 {
		c.Arg(1).Fail("index out of range")
	}
	return n - i
}

func toNumber(c lauxlib.Call) int {
	base := c.Arg(2).OptSmall(10)
	if base == 10 {
		if f, ok := c.AsNumber(c.Arg(1).Any()); ok {
			return c.PushNumber(f)
		}
		return c.Push(lua.LNil)
	}
	s := c.Arg(1).Text()
	if base < 2 || base > 36 {
		c.Arg(2).Fail("base out of range")
	}
	c.Touch(lauxlib.NumeralPrice * len(s))
	if n, ok := libc.ParseBase(s, base); ok {
		return c.PushNumber(n)
	}
	return c.Push(lua.LNil)
}

func typeFunc(c lauxlib.Call) int { return c.PushText(lauxlib.TypeName(c.Arg(1).Any())) }

func (lib baseLib) toString(c lauxlib.Call) int {
	value := c.Arg(1).Any()
	handler := c.L.GetMetaField(value, "__tostring")
	if handler != lua.LNil {
		return c.Push(c.Call(handler, value))
	}
	return c.PushText(lib.st.Display(value))
}

// Display returns the result of tostring. Instead of addresses, which differ from node to node, tables and functions
// show a number, in the order in which the script displays them.
func (st *State) Display(value lua.LValue) string {
	switch x := value.(type) {
	case lua.LNumber:
		return libc.FormatNumber(float64(x))
	case *lua.LUserData:
		return "userdata: (nil)" // cjson.null, the only one there is
	case *lua.LTable, *lua.LFunction:
		n, ok := st.names[x]
		if !ok {
			n = len(st.names) + 1
			st.names[x] = n
			st.b.TakeBytes(nameBytes)
		}
		return fmt.Sprintf("%s: 0x%014x", lauxlib.TypeName(x), n*16)
	}
	return value.String()
}

// nameBytes is the cost of a table or function that was displayed: its number is remembered.
const nameBytes = 128

// unpackMax is the number of values that fit on Lua's stack.
const unpackMax = lauxlib.CStackMax

func (lib baseLib) unpack(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	first := c.Arg(2).OptSmall(1)
	last := lib.st.Tables.optLast(c, 3, t)
	if first > last {
		return 0
	}
	n := last - first + 1
	if n >= unpackMax {
		c.Fail("too many results to unpack")
	}
	c.Charge(n / 4)
	for i := first; i <= last; i++ {
		c.L.Push(t.RawGet(lua.LNumber(i)))
	}
	return n
}
