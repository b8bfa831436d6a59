package state

import (
	"slices"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// Locks makes tables read-only and tells which are.
type Locks struct {
	lock    *lua.LTable   // metatable of tables that scripts cannot change
	strict  *lua.LTable   // the same for tables where reading an absent key is an error
	stricts []*lua.LTable // the tables with it
}

func newLocks(L *lua.LState, b *lauxlib.Budget) *Locks {
	lk := &Locks{lock: L.CreateTable(0, 0), strict: L.CreateTable(0, 1)}
	lk.Lock(lk.lock)
	lk.strict.RawSetString("__index", b.Function(L, unknownGlobal))
	lk.Lock(lk.strict)
	return lk
}

// Lock makes a table read-only.
func (lk *Locks) Lock(t *lua.LTable) *lua.LTable {
	t.Metatable = lk.lock
	return t
}

// LockStrictly makes a table read-only, and reading an absent key an error.
func (lk *Locks) LockStrictly(t *lua.LTable) *lua.LTable {
	t.Metatable = lk.strict
	lk.stricts = append(lk.stricts, t)
	return t
}

// locked reports whether scripts may not change a table.
func (lk *Locks) locked(t *lua.LTable) bool {
	return t.Metatable == lk.lock || t.Metatable == lk.strict && slices.Contains(lk.stricts, t)
}

// writable raises an error for a table that scripts may not change.
func (lk *Locks) writable(c lauxlib.Call, t *lua.LTable) {
	if lk.locked(t) {
		c.FailBare(readonlyTable)
	}
}

// readonlyTable is Redis's error for a write to a library or a global.
const readonlyTable = "Attempt to modify a readonly table"

// unknownGlobal raises the error for reading an absent key of a strict table.
func unknownGlobal(c lauxlib.Call) int {
	name, ok := lauxlib.AsText(c.L.Get(2))
	if !ok {
		name = "?"
	}
	c.Fail("Script attempted to access nonexistent global variable '%s'", libc.CString(name))
	return 0
}
