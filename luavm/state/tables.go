package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// Tables reads and changes tables as Lua 5.1 does, charges for it, and keeps what gopher-lua does not tell of them.
type Tables struct {
	locks  *Locks
	chains chains

	// Of the present run:
	sparse  map[*lua.LTable]struct{} // tables with a gap in their array
	deleted map[*lua.LTable]int      // number of keys that a table has lost
	walks   [walksMax]walk
}

func newTables(lk *Locks) *Tables {
	return &Tables{
		locks: lk, chains: newChains(lk), sparse: map[*lua.LTable]struct{}{}, deleted: map[*lua.LTable]int{},
	}
}

// begin forgets the tables of the previous run.
func (ts *Tables) begin() {
	ts.chains.clear()
	clear(ts.sparse)
	clear(ts.deleted)
	ts.walks = [walksMax]walk{}
}

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
func (ts *Tables) RawSet(c lauxlib.Call, t *lua.LTable, key, value lua.LValue) {
	checkKey(c, key)
	index, isIndex := lauxlib.ArrayIndex(key)
	if value == lua.LNil {
		ts.rawDelete(t, key, index)
		return
	}
	if isIndex {
		if slots := t.Len(); index > slots {
			if index > slots+1 {
				ts.sparse[t] = struct{}{}
				ts.deleted[t] += index - slots
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
		ts.chains.redirected(c, t)
	}
}

// firstEntryBytes is the cost of the maps that gopher-lua makes, for 32 keys, at a table's first key outside the
// array.
const firstEntryBytes = 2048

func (ts *Tables) rawDelete(t *lua.LTable, key lua.LValue, index int) {
	if t.RawGet(key) == lua.LNil {
		return
	}
	ts.deleted[t]++
	if index == 0 {
		t.RawSetH(key, lua.LNil)
		return
	}
	t.RawSetInt(index, lua.LNil)
	lauxlib.Trim(t)
}

// length returns #t: a border, the one that Lua 5.1 would find if that is known.
func (ts *Tables) length(c lauxlib.Call, t *lua.LTable) int {
	n := t.Len()
	if _, gaps := ts.sparse[t]; !gaps && n < lua.MaxArrayIndex-1 {
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
func (ts *Tables) set(c lauxlib.Call, t *lua.LTable, i int, value lua.LValue) {
	ts.RawSet(c, t, lua.LNumber(i), value)
}

// optLast returns argument n, an index of a table; the last index if it is nil or missing.
func (ts *Tables) optLast(c lauxlib.Call, n int, t *lua.LTable) int {
	if c.L.Get(n) == lua.LNil {
		return ts.length(c, t)
	}
	return c.Arg(n).Small()
}
