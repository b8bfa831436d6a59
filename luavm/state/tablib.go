package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// The table library (ltablib.c).

// TableFuncs returns the functions of the table library.
func (st *State) TableFuncs() []lauxlib.Func {
	return []lauxlib.Func{
		{"concat", st.concat}, {"foreach", st.foreach}, {"foreachi", st.foreachi}, {"getn", st.getn},
		{"insert", st.insert}, {"maxn", st.maxn}, {"remove", st.remove}, {"setn", setn}, {"sort", st.sort},
	}
}

func (st *State) getn(c lauxlib.Call) int { return c.PushNumber(float64(st.length(c, c.Table(1)))) }

func setn(c lauxlib.Call) int {
	c.Table(1)
	c.Fail("'setn' is obsolete")
	return 0
}

func (st *State) foreachi(c lauxlib.Call) int {
	t := c.Table(1)
	n := st.length(c, t)
	fn := c.Function(2)
	for i := 1; i <= n; i++ {
		result := c.Call(fn, lua.LNumber(i), t.RawGet(lua.LNumber(i)))
		if result != lua.LNil {
			return c.Push(result)
		}
	}
	return 0
}

func (st *State) foreach(c lauxlib.Call) int {
	t, fn := c.Table(1), c.Function(2)
	for key, value := st.NextKey(c, t, lua.LNil); key != lua.LNil; key, value = st.NextKey(c, t, key) {
		if result := c.Call(fn, key, value); result != lua.LNil {
			return c.Push(result)
		}
	}
	return 0
}

func (st *State) maxn(c lauxlib.Call) int {
	t := c.Table(1)
	most := lua.LNumber(0)
	for key, _ := st.NextKey(c, t, lua.LNil); key != lua.LNil; key, _ = st.NextKey(c, t, key) {
		c.Charge(1)
		if n, ok := key.(lua.LNumber); ok && n > most {
			most = n
		}
	}
	return c.Push(most)
}

func (st *State) insert(c lauxlib.Call) int {
	t := c.Table(1)
	end := st.length(c, t) + 1
	pos, value := end, c.L.Get(2)
	switch c.L.GetTop() {
	case 2:
	case 3:
		pos, value = c.Small(2), c.L.Get(3)
		end = max(end, pos)
		st.writable(c, t)
		st.shiftUp(c, t, pos, end)
	default:
		c.Fail("wrong number of arguments to 'insert'")
	}
	st.writable(c, t)
	st.set(c, t, pos, value)
	return 0
}

// shiftUp moves t[pos..end-1] one place up.
func (st *State) shiftUp(c lauxlib.Call, t *lua.LTable, pos, end int) {
	chargeShift(c, pos, end)
	for i := end; i > pos; i-- {
		if i%1024 == 0 {
			c.Charge(0)
		}
		st.set(c, t, i, t.RawGet(lua.LNumber(i-1)))
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

func (st *State) remove(c lauxlib.Call) int {
	t := c.Table(1)
	end := st.length(c, t)
	pos := c.OptSmall(2, end)
	if pos < 1 || pos > end {
		return 0
	}
	st.writable(c, t)
	removed := t.RawGet(lua.LNumber(pos))
	chargeShift(c, pos, end)
	for ; pos < end; pos++ {
		st.set(c, t, pos, t.RawGet(lua.LNumber(pos+1)))
	}
	st.set(c, t, end, lua.LNil)
	return c.Push(removed)
}

func (st *State) concat(c lauxlib.Call) int {
	separator := c.OptText(2, "")
	t := c.Table(1)
	first := c.OptSmall(3, 1)
	last := st.optLast(c, 4, t)
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
