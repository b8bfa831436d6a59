package lauxlib

import (
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// Number reads argument n, a number or a string that is one.
func (c Call) Number(n int) float64 {
	f, ok := c.AsNumber(c.L.Get(n))
	if !ok {
		c.typeError(n, "number")
	}
	return f
}

// NumeralPrice is the cost of reading a byte as part of a number, in bytes touched.
const NumeralPrice = 4

// AsNumber converts a number, or a string that is one, to a number.
func (c Call) AsNumber(v lua.LValue) (float64, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		c.Touch(NumeralPrice * len(v))
		return c.parse(string(v))
	}
	return 0, false
}

// tinySteps is the cost of reading a subnormal number, or one that rounds to 0: strconv takes far longer for some.
const tinySteps = 300

func (c Call) parse(s string) (float64, bool) {
	f, ok := libc.ParseNumber(s)
	c.ChargeTiny(f, s)
	return f, ok
}

// ChargeTiny charges for reading f from s if that takes long.
func (c Call) ChargeTiny(f float64, s string) {
	if libc.IsTiny(f, s) {
		c.Charge(tinySteps)
	}
}

// Integer reads argument n as luaL_checkinteger does.
func (c Call) Integer(n int) int64 { return libc.Int64(c.Number(n)) }

// OptInteger is Integer, or def for an argument that is nil or missing.
func (c Call) OptInteger(n int, def int64) int64 {
	if c.L.Get(n) == lua.LNil {
		return def
	}
	return c.Integer(n)
}

// Text reads argument n, a string or a number.
func (c Call) Text(n int) string {
	switch v := c.L.Get(n).(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return libc.FormatNumber(float64(v))
	}
	c.typeError(n, "string")
	return ""
}

// OptText is Text, or def for an argument that is nil or missing.
func (c Call) OptText(n int, def string) string {
	if c.L.Get(n) == lua.LNil {
		return def
	}
	return c.Text(n)
}

// Any reads argument n, which may be nil but not missing.
func (c Call) Any(n int) lua.LValue {
	if n > c.L.GetTop() {
		c.ArgError(n, "value expected")
	}
	return c.L.Get(n)
}

// Table reads argument n, a table.
func (c Call) Table(n int) *lua.LTable {
	t, ok := c.L.Get(n).(*lua.LTable)
	if !ok {
		c.typeError(n, "table")
	}
	return t
}

// Function reads argument n, a function.
func (c Call) Function(n int) *lua.LFunction {
	f, ok := c.L.Get(n).(*lua.LFunction)
	if !ok {
		c.typeError(n, "function")
	}
	return f
}

// Small reads argument n as luaL_checkint does.
func (c Call) Small(n int) int { return int(int32(c.Integer(n))) }

// OptSmall is Small, or def for an argument that is nil or missing.
func (c Call) OptSmall(n, def int) int {
	if c.L.Get(n) == lua.LNil {
		return def
	}
	return c.Small(n)
}

// AsText converts a string or a number to the text that .. and the string functions take.
func AsText(v lua.LValue) (string, bool) {
	switch x := v.(type) {
	case lua.LString:
		return string(x), true
	case lua.LNumber:
		return libc.FormatNumber(float64(x)), true
	}
	return "", false
}
