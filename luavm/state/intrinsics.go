package state

import (
	"reflect"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// The intrinsics that the code of a chunk calls: operations of the Lua machine in which gopher-lua differs from Lua
// 5.1, or lacks a bound.

// intrinsicFuncs returns the functions of compiler.Intrinsics.
func (ts *Tables) intrinsicFuncs() map[string]func(lauxlib.Call) int {
	return map[string]func(lauxlib.Call) int{
		"(concat)": concatOp, "(index)": indexOp, "(setindex)": ts.setIndexOp, "(setglobal)": setGlobalOp,
		"(eq)":  equalOp,
		"(lt)":  func(c lauxlib.Call) int { return c.PushBool(less(c, c.L.Get(1), c.L.Get(2))) },
		"(le)":  func(c lauxlib.Call) int { return c.PushBool(lessEqual(c, c.L.Get(1), c.L.Get(2))) },
		"(gt)":  func(c lauxlib.Call) int { return c.PushBool(less(c, c.L.Get(2), c.L.Get(1))) },
		"(ge)":  func(c lauxlib.Call) int { return c.PushBool(lessEqual(c, c.L.Get(2), c.L.Get(1))) },
		"(mod)": func(c lauxlib.Call) int { return arithmetic(c, "__mod", modulo) },
		"(pow)": func(c lauxlib.Call) int { return arithmetic(c, "__pow", libc.Pow) },
		"(len)": ts.lenOp, "(forprep)": forPrepOp, "(closure)": closureOp,
		"(table)": tableOp, "(item)": ts.itemOp, "(field)": ts.fieldOp,
		"(vararg)": varargOp, "(arg)": argOp,
	}
}

// forPrepOp converts the bounds of a numeric for to numbers.
func forPrepOp(c lauxlib.Call) int {
	for i, what := range []string{"initial value", "limit", "step"} {
		f, ok := c.AsNumber(c.L.Get(i + 1))
		if !ok {
			c.Fail("'for' %s must be a number", what)
		}
		c.L.Push(lua.LNumber(f))
	}
	return 3
}

// closureOp charges for a function value. gopher-lua keeps the variables that functions share in one list while they
// are on the stack. It walks the list for each new variable, and at each return: so while the list is long, each
// instruction costs more.
func closureOp(c lauxlib.Call) int {
	fn := c.L.Get(1).(*lua.LFunction)
	open := openUpvalues(c.L)
	c.Budget.SetOpen(open / openUpvaluesFree)
	c.Charge(open / 2)
	c.Alloc(lauxlib.FunctionBytes + 64*len(fn.Upvalues))
	c.L.Push(fn)
	return 1
}

// openUpvaluesFree is the number of open upvalues that the cost of one step covers.
const openUpvaluesFree = 64

var (
	upvaluesField    = lauxlib.PrivateField[lua.LState]("uvcache")
	nextUpvalueField = lauxlib.PrivateField[lua.Upvalue]("next")
)

// openUpvalues counts the variables on the stack that functions share.
func openUpvalues(L *lua.LState) (n int) {
	for uv := reflect.ValueOf(L).Elem().FieldByIndex(upvaluesField); !uv.IsNil(); n++ {
		uv = uv.Elem().FieldByIndex(nextUpvalueField)
	}
	return n
}

// tableOp charges for a constructor's table with a number of named fields.
func tableOp(c lauxlib.Call) int {
	t := c.L.Get(1).(*lua.LTable)
	if named := count(c, 2); named > 0 {
		c.Need(firstEntryBytes + named*lauxlib.EntryBytes)
	}
	c.Need(lauxlib.TableBytes + lauxlib.ArraySlots(t)*lauxlib.SlotBytes)
	lauxlib.Trim(t)
	return c.Push(t)
}

// count returns a number that the lowered tree passes; nil is 0.
func count(c lauxlib.Call, n int) int {
	f, _ := c.L.Get(n).(lua.LNumber)
	return int(f)
}

// itemOp sets positional fields of a constructor, from the given index on.
func (ts *Tables) itemOp(c lauxlib.Call) int {
	t := c.L.Get(1).(*lua.LTable)
	place := count(c, 2)
	for i := 3; i <= c.L.GetTop(); i++ {
		ts.RawSet(c, t, lua.LNumber(place+i-3), c.L.Get(i))
	}
	return c.Push(t)
}

// fieldOp sets a field with a computed key, unless one of the positional fields so far has that key.
func (ts *Tables) fieldOp(c lauxlib.Call) int {
	t := c.L.Get(1).(*lua.LTable)
	key := c.L.Get(3)
	index, isIndex := lauxlib.ArrayIndex(key)
	if !isIndex || index > count(c, 2) {
		checkKey(c, key)
		ts.RawSet(c, t, key, c.L.Get(4))
	}
	return c.Push(t)
}

// varargOp returns its arguments and charges for their number.
func varargOp(c lauxlib.Call) int {
	n := c.L.GetTop()
	c.Charge(n / 8)
	return n
}

// argOp makes the table "arg" of a vararg function.
func argOp(c lauxlib.Call) int {
	n := c.L.GetTop()
	c.Need(lauxlib.TableBytes + firstEntryBytes + n*lauxlib.SlotBytes)
	t := c.L.CreateTable(n, 1)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, c.L.Get(i))
	}
	lauxlib.Trim(t)
	t.RawSetString("n", lua.LNumber(n))
	c.L.Push(t)
	return 1
}
