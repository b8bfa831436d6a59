package lauxlib

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// Table builds a new table and pays for it before it grows.
type Table struct {
	c     Call
	t     *lua.LTable // nil until the first key decides which part it needs
	slots int         // length of the array part, holes included
}

// NewTable returns an empty Table.
func NewTable(c Call) *Table {
	c.Need(TableBytes)
	return &Table{c: c}
}

// firstRoom is the initial size of a new table's part: gopher-lua would take 32, and a text of many small tables
// would cost ten times the memory.
const firstRoom = 4

// Table returns the table built. Its array ends with a value that is not nil.
func (t *Table) Table() *lua.LTable {
	if t.t == nil {
		t.t = t.c.L.CreateTable(0, 0)
	}
	Trim(t.t)
	return t.t
}

// Set stores a value as lua_settable does. For a key far beyond the array's end gopher-lua fills the gap, which is
// charged, too.
func (t *Table) Set(key, value lua.LValue) {
	t.checkKey(key)
	if value == lua.LNil {
		t.remove(key)
		return
	}
	index, isIndex := ArrayIndex(key)
	switch {
	case t.t != nil:
	case isIndex:
		t.t = t.c.L.CreateTable(firstRoom, 0)
	default:
		t.t = t.c.L.CreateTable(0, firstRoom)
	}
	if !isIndex {
		t.c.Need(EntryBytes)
	} else if index > t.slots {
		t.c.Need((index - t.slots) * SlotBytes)
		t.slots = index
	}
	t.t.RawSet(key, value)
}

// remove removes a key by copying the rest. gopher-lua would keep an empty slot or a dead key, which # and next then
// pass at every call, unpaid.
func (t *Table) remove(key lua.LValue) {
	if t.t == nil || t.t.RawGet(key) == lua.LNil {
		return
	}
	old := t.t
	t.c.Scan(old)
	t.c.Need(ArraySlots(old)*SlotBytes + HashKeys(old)*EntryBytes)
	t.t = t.c.L.CreateTable(0, 0)
	for k, v := old.Next(lua.LNil); k != lua.LNil; k, v = old.Next(k) {
		if k != key {
			t.t.RawSet(k, v)
		}
	}
	t.slots = ArraySlots(t.t)
}

func (t *Table) checkKey(key lua.LValue) {
	if key == lua.LNil {
		t.c.FailBare("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && math.IsNaN(float64(f)) {
		t.c.FailBare("table index is NaN")
	}
}
