package lauxlib

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// What is said of a table's inside is true: slots count holes, keys count the dead.
func TestTableMeasures(t *testing.T) {
	L := lua.NewState()
	defer L.Close()
	table := L.NewTable()
	check := func(slots, keys int) {
		t.Helper()
		if s, k := ArraySlots(table), HashKeys(table); s != slots || k != keys {
			t.Errorf("%d slots and %d keys, want %d and %d", s, k, slots, keys)
		}
	}
	check(0, 0)
	table.RawSetInt(10, lua.LTrue)
	check(10, 0)
	table.RawSetInt(10, lua.LNil)
	check(10, 0)
	for _, key := range []lua.LValue{lua.LString("a"), lua.LNumber(1.5), lua.LNumber(-1), lua.LTrue} {
		table.RawSet(key, lua.LTrue)
	}
	check(10, 4)
	table.RawSetString("a", lua.LNil)
	check(10, 4)
}
