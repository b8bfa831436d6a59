package state

import (
	"math"
	"strings"

	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// concatOp evaluates "..", of all its operands at once.
func concatOp(c lauxlib.Call) int {
	var room [8]string
	n, size := c.L.GetTop(), 0
	parts := room[:0]
	for i := 1; i <= n; i++ {
		text, ok := lauxlib.AsText(c.L.Get(i))
		if !ok {
			return concatSlowly(c, n)
		}
		parts = append(parts, text)
		size += len(text)
	}
	c.Need(size)
	c.L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// concatSlowly concatenates from the right, two at a time, by metamethods where needed.
func concatSlowly(c lauxlib.Call, n int) int {
	right := c.L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := c.L.Get(i)
		a, aText := lauxlib.AsText(left)
		b, bText := lauxlib.AsText(right)
		if aText && bText {
			c.Need(len(a) + len(b))
			right = lua.LString(a + b)
			continue
		}
		handler := c.L.GetMetaField(left, "__concat")
		if handler == lua.LNil {
			handler = c.L.GetMetaField(right, "__concat")
		}
		if handler == lua.LNil {
			if aText {
				blame(c, "concatenate", i, right)
			}
			blame(c, "concatenate", i-1, left)
		}
		right = c.Call(handler, left, right)
	}
	c.L.Push(right)
	return 1
}

// indexOp evaluates t[k] for a key that may be a long string.
func indexOp(c lauxlib.Call) int {
	object, key := c.L.Get(1), c.L.Get(2)
	if s, ok := key.(lua.LString); ok {
		c.Touch(len(s))
	}
	if t, ok := object.(*lua.LTable); ok {
		if value := t.RawGet(key); value != lua.LNil || t.Metatable == lua.LNil {
			c.L.Push(value)
			return 1
		}
	} else if c.L.GetMetaField(object, "__index") == lua.LNil {
		blame(c, "index", 0, object)
	}
	c.L.Push(c.Index(object, key))
	return 1
}

// metaLoopMax is Lua's MAXTAGLOOP: the number of tables that __newindex may lead through.
const metaLoopMax = 100

// setIndexOp executes t[k] = value.
func (ts *Tables) setIndexOp(c lauxlib.Call) int {
	object, key, value := c.L.Get(1), c.L.Get(2), c.L.Get(3)
	target := object
	for hops := range metaLoopMax {
		if hops > 0 {
			c.Charge(1)
		}
		t, isTable := target.(*lua.LTable)
		if isTable {
			if ts.locks.locked(t) {
				c.Fail(readonlyTable)
			}
			if t.Metatable == lua.LNil || t.RawGet(key) != lua.LNil {
				ts.RawSet(c, t, key, value)
				return 0
			}
		}
		handler := c.L.GetMetaField(target, "__newindex")
		switch {
		case handler == lua.LNil && isTable:
			ts.RawSet(c, t, key, value)
			return 0
		case handler == lua.LNil:
			blame(c, "index", 0, target)
		case handler.Type() == lua.LTFunction:
			c.Call(handler, target, key, value)
			return 0
		}
		target = handler
	}
	c.Fail("loop in settable")
	return 0
}

func setGlobalOp(c lauxlib.Call) int {
	c.Fail(readonlyTable)
	return 0
}

func equalOp(c lauxlib.Call) int { return c.PushBool(equal(c, c.L.Get(1), c.L.Get(2))) }

// equal evaluates ==.
func equal(c lauxlib.Call, a, b lua.LValue) bool {
	if rawEqual(c, a, b) {
		return true
	}
	x, ok1 := a.(*lua.LTable)
	y, ok2 := b.(*lua.LTable)
	if !ok1 || !ok2 {
		return false
	}
	handler := c.L.GetMetaField(x, "__eq")
	if handler == lua.LNil || !rawEqual(c, handler, c.L.GetMetaField(y, "__eq")) {
		return false
	}
	return lua.LVAsBool(c.Call(handler, a, b))
}

// rawEqual compares without metamethods and charges for long strings.
func rawEqual(c lauxlib.Call, a, b lua.LValue) bool {
	if x, ok := a.(lua.LString); ok {
		y, ok := b.(lua.LString)
		if !ok || len(x) != len(y) {
			return false
		}
		c.Charge(len(x) / 64)
		return x == y
	}
	return a == b
}

// less evaluates a < b.
func less(c lauxlib.Call, a, b lua.LValue) bool {
	if less, ok := plainLess(c, a, b); ok {
		return less
	}
	result, ok := compareBy(c, "__lt", a, b)
	if !ok {
		c.Fail("%s", compareMessage(lauxlib.TypeName(a), lauxlib.TypeName(b)))
	}
	return result
}

// lessEqual evaluates a <= b; without __le, as not (b < a).
func lessEqual(c lauxlib.Call, a, b lua.LValue) bool {
	if x, ok := a.(lua.LNumber); ok {
		if y, ok := b.(lua.LNumber); ok {
			return x <= y
		}
	}
	if less, ok := plainLess(c, b, a); ok {
		return !less
	}
	if result, ok := compareBy(c, "__le", a, b); ok {
		return result
	}
	result, ok := compareBy(c, "__lt", b, a)
	if !ok {
		c.Fail("%s", compareMessage(lauxlib.TypeName(a), lauxlib.TypeName(b)))
	}
	return !result
}

// plainLess compares two numbers or two strings; ok is false for anything else.
func plainLess(c lauxlib.Call, a, b lua.LValue) (less, ok bool) {
	switch x := a.(type) {
	case lua.LNumber:
		if y, ok := b.(lua.LNumber); ok {
			return x < y, true
		}
	case lua.LString:
		if y, ok := b.(lua.LString); ok {
			c.Charge(min(len(x), len(y)) / 64)
			return x < y, true
		}
	}
	return false, false
}

func compareBy(c lauxlib.Call, event string, a, b lua.LValue) (result, ok bool) {
	if a.Type() != b.Type() {
		return false, false
	}
	handler := c.L.GetMetaField(a, event)
	if handler == lua.LNil || !rawEqual(c, handler, c.L.GetMetaField(b, event)) {
		return false, false
	}
	return lua.LVAsBool(c.Call(handler, a, b)), true
}

// modulo is Lua 5.1's %: a - floor(a/b)*b.
func modulo(a, b float64) float64 {
	// The conversion keeps the compiler from fusing the operations, which it does for some processors only.
	return libc.NaNLikeX86(a-float64(math.Floor(a/b)*b), a, b)
}

// arithmetic applies op to two operands as luaV_arith does. It serves %, ^ and,
// as a metamethod of strings, the other operators.
func arithmetic(c lauxlib.Call, event string, op func(a, b float64) float64) int {
	a, b := c.L.Get(1), c.L.Get(2)
	if x, ok := a.(lua.LNumber); ok {
		if y, ok := b.(lua.LNumber); ok {
			return c.PushNumber(op(float64(x), float64(y)))
		}
	}
	x, ok1 := c.AsNumber(a)
	y, ok2 := c.AsNumber(b)
	if ok1 && ok2 {
		return c.PushNumber(op(x, y))
	}
	handler := tableMeta(a, event)
	if handler == lua.LNil {
		handler = tableMeta(b, event)
	}
	if handler == lua.LNil {
		if ok1 {
			blame(c, "perform arithmetic on", 1, b)
		}
		blame(c, "perform arithmetic on", 0, a)
	}
	c.L.Push(c.Call(handler, a, b))
	return 1
}

// tableMeta returns a table's metamethod: strings have none of their own in Lua.
func tableMeta(value lua.LValue, event string) lua.LValue {
	if t, ok := value.(*lua.LTable); ok {
		if mt, ok := t.Metatable.(*lua.LTable); ok {
			return mt.RawGetString(event)
		}
	}
	return lua.LNil
}

// lenOp evaluates #.
func (ts *Tables) lenOp(c lauxlib.Call) int {
	switch x := c.L.Get(1).(type) {
	case lua.LString:
		return c.PushNumber(float64(len(x)))
	case *lua.LTable:
		return c.PushNumber(float64(ts.length(c, x)))
	default:
		blame(c, "get length of", 0, x)
	}
	return 0
}

// stringArithmetic gives strings the operators that gopher-lua's machine leaves to metamethods: Lua reads "010" as
// ten, gopher-lua as eight.
func stringArithmetic(L *lua.LState, b *lauxlib.Budget, mt *lua.LTable) {
	ops := []struct {
		event string
		op    func(a, b float64) float64
	}{
		{"__add", func(a, b float64) float64 { return a + b }},
		{"__sub", func(a, b float64) float64 { return a - b }},
		{"__mul", func(a, b float64) float64 { return a * b }},
		{"__div", func(a, b float64) float64 { return a / b }},
	}
	for _, o := range ops {
		op := func(a, b float64) float64 { return libc.NaNLikeX86(o.op(a, b), a, b) }
		run := func(c lauxlib.Call) int { return arithmetic(c, o.event, op) }
		mt.RawSetString(o.event, b.Function(L, run))
	}
	mt.RawSetString("__unm", b.Function(L, negateString))
}

func negateString(c lauxlib.Call) int {
	f, ok := c.AsNumber(c.L.Get(1))
	if !ok {
		blame(c, "perform arithmetic on", 0, c.L.Get(1))
	}
	return c.PushNumber(-f)
}

// operandDesc returns the name of operand i (from 0) of the running intrinsic or metamethod.
func operandDesc(c lauxlib.Call, i int) compiler.Desc {
	p, _ := c.Budget.PlaceAt(c.L, 1)
	if i < len(p.Site.Operands) {
		return p.Site.Operands[i]
	}
	return compiler.Desc{}
}

// blame raises a type error about operand i of the running intrinsic.
func blame(c lauxlib.Call, op string, i int, value lua.LValue) {
	c.Fail("%s", typeMessage(op, operandDesc(c, i), lauxlib.TypeName(value)))
}
