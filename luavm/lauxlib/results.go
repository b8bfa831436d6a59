package lauxlib

import lua "github.com/yuin/gopher-lua"

// Push pushes values and returns their number.
func (c Call) Push(values ...lua.LValue) int {
	for _, v := range values {
		c.L.Push(v)
	}
	return len(values)
}

// PushText pushes a string.
func (c Call) PushText(s string) int { return c.Push(lua.LString(s)) }

// PushBool pushes a boolean.
func (c Call) PushBool(b bool) int {
	c.L.Push(lua.LBool(b))
	return 1
}

// smallInts are preallocated values of the integers that most scripts count with.
var smallInts = func() (values [1024]lua.LValue) {
	for i := range values {
		values[i] = lua.LNumber(i)
	}
	return values
}()

// Number returns f as a value.
func Number(f float64) lua.LValue {
	if i := int(f); f >= 1 && f < float64(len(smallInts)) && float64(i) == f {
		return smallInts[i]
	}
	return lua.LNumber(f)
}

// PushNumber pushes a number.
func (c Call) PushNumber(f float64) int {
	c.L.Push(Number(f))
	return 1
}
