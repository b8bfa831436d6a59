package lauxlib

import (
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// Arg is an argument of a call. Its methods raise Lua's error if the argument is not what they read.
type Arg struct {
	c Call
	n int
}

// Arg returns argument n, counted from 1; it may be missing.
func (c Call) Arg(n int) Arg { return Arg{c, n} }

func (a Arg) value() lua.LValue { return a.c.L.Get(a.n) }

// Number reads a number, or a string that is one.
func (a Arg) Number() float64 {
	f, ok := a.c.AsNumber(a.value())
	if !ok {
		a.failType("number")
	}
	return f
}

// Integer reads an integer as luaL_checkinteger does.
func (a Arg) Integer() int64 { return libc.Int64(a.Number()) }

// OptInteger is Integer, or def for an argument that is nil or missing.
func (a Arg) OptInteger(def int64) int64 {
	if a.value() == lua.LNil {
		return def
	}
	return a.Integer()
}

// Small reads an integer as luaL_checkint does.
func (a Arg) Small() int { return int(int32(a.Integer())) }

// OptSmall is Small, or def for an argument that is nil or missing.
func (a Arg) OptSmall(def int) int {
	if a.value() == lua.LNil {
		return def
	}
	return a.Small()
}

// Text reads a string or a number.
func (a Arg) Text() string {
	text, ok := AsText(a.value())
	if !ok {
		a.failType("string")
	}
	return text
}

// OptText is Text, or def for an argument that is nil or missing.
func (a Arg) OptText(def string) string {
	if a.value() == lua.LNil {
		return def
	}
	return a.Text()
}

// Any reads any value; the argument may be nil but not missing.
func (a Arg) Any() lua.LValue {
	if a.n > a.c.L.GetTop() {
		a.Fail("value expected")
	}
	return a.value()
}

// Table reads a table.
func (a Arg) Table() *lua.LTable {
	t, ok := a.value().(*lua.LTable)
	if !ok {
		a.failType("table")
	}
	return t
}

// Function reads a function.
func (a Arg) Function() *lua.LFunction {
	f, ok := a.value().(*lua.LFunction)
	if !ok {
		a.failType("function")
	}
	return f
}

// Fail raises luaL_argerror's error.
func (a Arg) Fail(why string) {
	callee, n := a.c.Budget.callee(a.c.L), a.n
	if callee.Kind == "method" {
		if n--; n == 0 {
			a.c.Fail("calling '%s' on bad self (%s)", callee.Name, why)
		}
	}
	a.c.Fail("bad argument #%d to '%s' (%s)", n, callee.Name, why)
}

// failType raises luaL_typerror's error.
func (a Arg) failType(want string) {
	got := "no value"
	if a.n <= a.c.L.GetTop() {
		got = TypeName(a.value())
	}
	a.Fail(want + " expected, got " + got)
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
		f, ok := libc.ParseNumber(string(v))
		c.ChargeTiny(f, string(v))
		return f, ok
	}
	return 0, false
}

// tinySteps is the cost of reading a subnormal number, or one that rounds to 0: strconv takes far longer for some.
const tinySteps = 300

// ChargeTiny charges for reading f from s if that takes long.
func (c Call) ChargeTiny(f float64, s string) {
	if libc.IsTiny(f, s) {
		c.Charge(tinySteps)
	}
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
