package state

import (
	"reflect"

	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// A walk is a traversal by next. While each call continues where the one before stopped, all of them together pass
// each slot once; a call from elsewhere has to pay for the empty slots that it may pass.
type walk struct {
	table *lua.LTable
	last  lua.LValue
}

// walksMax is the number of nested traversals that cost nothing extra.
const walksMax = 8

// NextKey is lua_next.
func (ts *Tables) NextKey(c lauxlib.Call, t *lua.LTable, key lua.LValue) (lua.LValue, lua.LValue) {
	if s, ok := key.(lua.LString); ok {
		c.Touch(len(s))
	}
	w := ts.walkOf(t, key)
	if w.table != t || key == lua.LNil || w.last != key {
		c.Charge(lauxlib.ArraySlots(t)/32 + ts.deleted[t])
	}
	from := key
	if index, ok := lauxlib.ArrayIndex(key); ok {
		slots := lauxlib.ArraySlots(t)
		if index > slots && ts.deleted[t] == 0 {
			c.FailBare("invalid key to 'next'")
		}
		from = lua.LNumber(min(index, slots)) // the array may have been cut since
		if slots == 0 {
			from = lua.LNil // to Next, 0 is a key like any other
		}
	} else if key != lua.LNil && t.RawGetH(key) == lua.LNil && !everHad(t, key) {
		c.FailBare("invalid key to 'next'")
	}
	k, value := t.Next(from)
	if s, ok := k.(lua.LString); ok {
		c.Touch(len(s))
	}
	*w = walk{t, k}
	return k, value
}

// walkOf returns the walk that key continues, or one to replace by a new one.
func (ts *Tables) walkOf(t *lua.LTable, key lua.LValue) *walk {
	for i := range ts.walks {
		if w := &ts.walks[i]; w.table == t && (w.last == key || key == lua.LNil) {
			return w
		}
	}
	copy(ts.walks[1:], ts.walks[:])
	return &ts.walks[0]
}

var indexField = lauxlib.PrivateField[lua.LTable]("k2i")

// everHad reports whether a key outside the array was ever in a table.
func everHad(t *lua.LTable, key lua.LValue) bool {
	keys := reflect.ValueOf(t).Elem().FieldByIndex(indexField)
	return keys.MapIndex(reflect.ValueOf(&key).Elem()).IsValid()
}
