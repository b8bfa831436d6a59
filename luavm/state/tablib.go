package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// tableLib holds the functions of the table library (ltablib.c).
type tableLib struct{ tables *Tables }

// TableFuncs returns the functions of the table library.
func (st *State) TableFuncs() []lauxlib.Func {
	lib := tableLib{st.Tables}
	return []lauxlib.Func{
		{"concat", lib.concat}, {"foreach", lib.foreach}, {"foreachi", lib.foreachi}, {"getn", lib.getn},
		{"insert", lib.insert}, {"maxn", lib.maxn}, {"remove", lib.remove}, {"setn", setn}, {"sort", lib.sort},
	}
}

func (lib tableLib) getn(c lauxlib.Call) int {
	return c.PushNumber(float64(lib.tables.length(c, c.Arg(1).Table())))
}

func setn(c lauxlib.Call) int {
	c.Arg(1).Table()
	c.Fail("'setn' is obsolete")
	return 0
}

func (lib tableLib) foreachi(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	n := lib.tables.length(c, t)
	fn := c.Arg(2).Function()
	for i := 1; i <= n; i++ {
		result := c.Call(fn, lua.LNumber(i), t.RawGet(lua.LNumber(i)))
		if result != lua.LNil {
			return c.Push(result)
		}
	}
	return 0
}

func (lib tableLib) foreach(c lauxlib.Call) int {
	t, fn := c.Arg(1).Table(), c.Arg(2).Function()
	for key, value := lib.tables.NextKey(c, t, lua.LNil); key != lua.LNil; key, value = lib.tables.NextKey(c, t, key) {
		if result := c.Call(fn, key, value); result != lua.LNil {
			return c.Push(result)
		}
	}
	return 0
}

func (lib tableLib) maxn(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	most := lua.LNumber(0)
	for key, _ := lib.tables.NextKey(c, t, lua.LNil); key != lua.LNil; key, _ = lib.tables.NextKey(c, t, key) {
		c.Charge(1)
		if n, ok := key.(lua.LNumber); ok && n > most {
			most = n
		}
	}
	return c.Push(most)
}

func (lib tableLib) insert(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	end := lib.tables.length(c, t) + 1
	pos, value := end, c.L.Get(2)
	switch c.L.GetTop() {
	case 2:
	case 3:
		pos, value = c.Arg(2).Small(), c.L.Get(3)
		end = max(end, pos)
		lib.tables.locks.writable(c, t)
		lib.shiftUp(c, t, pos, end)
	default:
		c.Fail("wrong number of arguments to 'insert'")
	}
	lib.tables.locks.writable(c, t)
	lib.tables.set(c, t, pos, value)
	return 0
}

// shiftUp moves t[pos..end-1] one place up.
func (lib tableLib) shiftUp(c lauxlib.Call, t *lua.LTable, pos, end int) {
	chargeShift(c, pos, end)
	for i := end; i > pos; i-- {
		if i%1024 == 0 {
			c.Charge(0)
		}
		lib.tables.set(c, t, i, t.RawGet(lua.LNumber(i-1)))
	}
}

// chargeShift charges for moving elements by one place. Elements beyond the array are in a Go map.
func chargeShift(c lauxlib.Call, pos, end int) {
	if pos < end {
		c.Charge((end - pos) / 2)
	}
	if beyond := max(pos, lauxlib.ArrayIndexMax); beyond < end {
		c.Charge(8 * (end - beyond))
	}
}

func (lib tableLib) remove(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	end := lib.tables.length(c, t)
	pos := c.Arg(2).OptSmall(end)
	if pos < 1 || pos > end {
		return 0
	}
	lib.tables.locks.writable(c, t)
	removed := t.RawGet(lua.LNumber(pos))
	chargeShift(c, pos, end)
	for ; pos < end; pos++ {
		lib.tables.set(c, t, pos, t.RawGet(lua.LNumber(pos+1)))
	}
	lib.tables.set(c, t, end, lua.LNil)
	return c.Push(removed)
}

func (lib tableLib) concat(c lauxlib.Call) int {
	separator := c.Arg(2).OptText("")
	t := c.Arg(1).Table()
	first := c.Arg(3).OptSmall(1)
	last := lib.tables.optLast(c, 4, t)
	w := lauxlib.Buffer{C: c}
	for i := first; i <= last; i++ {
		value := t.RawGet(lua.LNumber(i))
		text, ok := lauxlib.AsText(value)
		if !ok {
			c.Fail("invalid value (%s) at index %d in table for 'concat'", lauxlib.TypeName(value), i)
		}
		w.Add(text)
		if i < last {
			w.Add(separator)
		}
	}
	return w.Push()
}
