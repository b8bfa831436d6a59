package lauxlib

import (
	"math"
	"reflect"

	lua "github.com/yuin/gopher-lua"
)

// Costs, in bytes of the budget. They are rounded up: the budget has to bound the real memory of the process, equally
// on every architecture.
const (
	FunctionBytes = 192 // a function value and its share of common data
	TableBytes    = 256 // an empty table
	SlotBytes     = 48  // an element of its array, with the waste of growing
	EntryBytes    = 256 // a key with its value, in two maps and a list
)

// Scan charges for a walk through the whole of t with Next, which also passes over the holes of its array and over
// deleted keys.
func (c Call) Scan(t *lua.LTable) {
	c.Charge(1 + ArraySlots(t)/16 + HashKeys(t))
}

// gopher-lua does not tell how long a table's array and its list of keys are, yet
// Next and Len walk them: ten deleted megabytes would cost nothing.
var arrayField, keysField = PrivateField[lua.LTable]("array"), PrivateField[lua.LTable]("keys")

// PrivateField returns the index of an unexported field of gopher-lua.
func PrivateField[T any](name string) []int {
	f, ok := reflect.TypeFor[T]().FieldByName(name)
	if !ok {
		panic("lauxlib: this gopher-lua has no field " + name)
	}
	return f.Index
}

// ArraySlots returns the length of a table's array part, holes included.
func ArraySlots(t *lua.LTable) int { return reflect.ValueOf(t).Elem().FieldByIndex(arrayField).Len() }

// HashKeys returns how many keys a table ever had beside its array.
func HashKeys(t *lua.LTable) int { return reflect.ValueOf(t).Elem().FieldByIndex(keysField).Len() }

// ArrayIndexMax is the greatest key + 1 of a table's array; other integers are in its hash part. It influences the
// results of scripts, so it is fixed, not a setting.
const ArrayIndexMax = 1 << 16

func init() { lua.MaxArrayIndex = ArrayIndexMax }

// ArrayIndex returns the index of a key that gopher-lua keeps in a table's array; false for other keys.
func ArrayIndex(key lua.LValue) (int, bool) {
	f, ok := key.(lua.LNumber)
	if !ok || f < 1 || f >= lua.LNumber(lua.MaxArrayIndex) || f != lua.LNumber(math.Trunc(float64(f))) {
		return 0, false
	}
	return int(f), true
}

// Trim removes the nils at the end of a table's array.
func Trim(t *lua.LTable) {
	for n := ArraySlots(t); n > 0 && t.RawGetInt(n) == lua.LNil; n-- {
		t.Remove(n)
	}
}
