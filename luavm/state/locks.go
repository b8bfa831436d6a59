package state

import (
	"slices"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// LockStrictly makes a table read-only, and reading an absent key an error.
func (st *State) LockStrictly(t *lua.LTable) *lua.LTable {
	t.Metatable = st.strict
	st.stricts = append(st.stricts, t)
	return t
}

// Lock makes a table read-only.
func (st *State) Lock(t *lua.LTable) *lua.LTable {
	t.Metatable = st.lock
	return t
}

// locked reports whether scripts may not change a table.
func (st *State) locked(t *lua.LTable) bool {
	return t.Metatable == st.lock || t.Metatable == st.strict && slices.Contains(st.stricts, t)
}

// unknownGlobal raises the error for reading an absent key of a strict table.
func unknownGlobal(c lauxlib.Call) int {
	name, ok := lauxlib.AsText(c.L.Get(2))
	if !ok {
		name = "?"
	}
	c.Fail("Script attempted to access nonexistent global variable '%s'", libc.CString(name))
	return 0
}
