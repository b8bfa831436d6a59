package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// checkKey raises the machine's error for a key that no table can hold.
func checkKey(c lauxlib.Call, key lua.LValue) {
	if key == lua.LNil {
		c.Fail("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && f != f {
		c.Fail("table index is NaN")
	}
}

// RawSet stores into a table and charges for its growth. It keeps the last slot of the array filled, so that # need
// not search for it.
func (st *State) RawSet(c lauxlib.Call, t *lua.LTable, key, value lua.LValue) {
	checkKey(c, key)
	index, isIndex := lauxlib.ArrayIndex(key)
	if value == lua.LNil {
		st.rawDelete(t, key, index)
		return
	}
	if isIndex {
		if slots := t.Len(); index > slots {
			if index > slots+1 {
				st.sparse[t] = struct{}{}
				st.deleted[t] += index - slots
			}
			c.Need((index - slots) * lauxlib.SlotBytes)
		}
		t.RawSetInt(index, value)
		return
	}
	s, isText := key.(lua.LString)
	if isText {
		c.Touch(len(s))
	}
	if keys := lauxlib.HashKeys(t); keys == 0 {
		c.Need(firstEntryBytes)
	} else if t.RawGetH(key) == lua.LNil {
		c.Need(lauxlib.EntryBytes)
	}
	t.RawSetH(key, value)
	if isText && s == "__index" {
		st.redirected(c, t)
	}
}

// firstEntryBytes is the cost of the maps that gopher-lua makes, for 32 keys, at a table's first key outside the
// array.
const firstEntryBytes = 2048

func (st *State) rawDelete(t *lua.LTable, key lua.LValue, index int) {
	if t.RawGet(key) == lua.LNil {
		return
	}
	st.deleted[t]++
	if index == 0 {
		t.RawSetH(key, lua.LNil)
		return
	}
	t.RawSetInt(index, lua.LNil)
	lauxlib.Trim(t)
}

// length returns #t: a border, the one that Lua 5.1 would find if that is known.
func (st *State) length(c lauxlib.Call, t *lua.LTable) int {
	n := t.Len()
	if _, gaps := st.sparse[t]; !gaps && n < lua.MaxArrayIndex-1 {
		return n
	}
	// Lua keeps the elements behind a gap in the hash part and finds the border
	// by doubling and halving (ltable.c, unbound_search).
	low, high := 0, 1
	for has(t, high) {
		low, high = high, high*2
		c.Charge(1)
	}
	for high-low > 1 {
		if mid := (low + high) / 2; has(t, mid) {
			low = mid
		} else {
			high = mid
		}
		c.Charge(1)
	}
	return low
}

func has(t *lua.LTable, i int) bool { return t.RawGet(lua.LNumber(i)) != lua.LNil }

// set is lua_rawseti on a table that may be read-only.
func (st *State) set(c lauxlib.Call, t *lua.LTable, i int, value lua.LValue) {
	st.RawSet(c, t, lua.LNumber(i), value)
}

// optLast returns argument n, an index of a table; the last index if it is nil or missing.
func (st *State) optLast(c lauxlib.Call, n int, t *lua.LTable) int {
	if c.L.Get(n) == lua.LNil {
		return st.length(c, t)
	}
	return c.Small(n)
}

// writable raises an error for a table that scripts may not change.
func (st *State) writable(c lauxlib.Call, t *lua.LTable) {
	if st.locked(t) {
		c.FailBare(readonlyTable)
	}
}
