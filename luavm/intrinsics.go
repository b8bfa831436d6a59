package luavm

import (
	"math"
	"reflect"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// What the lowered tree calls (lower.go): the operations of the Lua machine that
// gopher-lua does otherwise than Lua 5.1, or without a bound.

// operators are the functions of intrinsicNames.
func (st *State) operators() map[string]func(libCall) int {
	return map[string]func(libCall) int{
		"(concat)": st.concatOp, "(index)": st.indexOp, "(setindex)": st.setIndexOp, "(setglobal)": setGlobalOp, "(eq)": st.equalOp,
		"(lt)":  func(c libCall) int { return c.result(st.less(c, c.L.Get(1), c.L.Get(2))) },
		"(le)":  func(c libCall) int { return c.result(st.lessEqual(c, c.L.Get(1), c.L.Get(2))) },
		"(gt)":  func(c libCall) int { return c.result(st.less(c, c.L.Get(2), c.L.Get(1))) },
		"(ge)":  func(c libCall) int { return c.result(st.lessEqual(c, c.L.Get(2), c.L.Get(1))) },
		"(mod)": func(c libCall) int { return st.arithmetic(c, "__mod", modulo) },
		"(pow)": func(c libCall) int { return st.arithmetic(c, "__pow", pow) },
		"(len)": st.lenOp, "(forprep)": forPrepOp, "(closure)": closureOp, "(table)": tableOp, "(item)": st.itemOp, "(field)": st.fieldOp,
		"(vararg)": varargOp, "(arg)": st.argOp,
	}
}

func (c libCall) result(b bool) int {
	c.L.Push(lua.LBool(b))
	return 1
}

// smallInts are the integers that most scripts count with, so that they need not
// be allocated each time.
var smallInts = func() (values [1024]lua.LValue) {
	for i := range values {
		values[i] = lua.LNumber(i)
	}
	return values
}()

func (c libCall) pushNumber(f float64) int {
	if i := int(f); f >= 1 && f < float64(len(smallInts)) && float64(i) == f {
		c.L.Push(smallInts[i])
		return 1
	}
	c.L.Push(lua.LNumber(f))
	return 1
}

// operandDesc names operand i (from 0) of the running intrinsic or metamethod.
func operandDesc(c libCall, i int) desc {
	p, _ := c.b.placeAt(c.L, 1)
	if i < len(p.site.operands) {
		return p.site.operands[i]
	}
	return desc{}
}

// blame raises a type error about operand i of the running intrinsic.
func blame(c libCall, op string, i int, value lua.LValue) {
	c.fail("%s", typeMessage(op, operandDesc(c, i), typeName(value)))
}

// asText is a value as .. and the string functions take it: strings and numbers.
func asText(v lua.LValue) (string, bool) {
	switch x := v.(type) {
	case lua.LString:
		return string(x), true
	case lua.LNumber:
		return formatNumber(float64(x)), true
	}
	return "", false
}

// concatOp is "..", of all its operands at once.
func (st *State) concatOp(c libCall) int {
	var room [8]string
	n, size := c.L.GetTop(), 0
	parts := room[:0]
	for i := 1; i <= n; i++ {
		text, ok := asText(c.L.Get(i))
		if !ok {
			return st.concatSlowly(c, n)
		}
		parts = append(parts, text)
		size += len(text)
	}
	c.need(size)
	c.L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// concatSlowly joins from the right, two at a time, by metamethods where needed.
func (st *State) concatSlowly(c libCall, n int) int {
	right := c.L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := c.L.Get(i)
		a, aText := asText(left)
		b, bText := asText(right)
		if aText && bText {
			c.need(len(a) + len(b))
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
		right = c.call(handler, left, right)
	}
	c.L.Push(right)
	return 1
}

// indexOp is t[k] for a key that may be a long string.
func (st *State) indexOp(c libCall) int {
	object, key := c.L.Get(1), c.L.Get(2)
	if s, ok := key.(lua.LString); ok {
		c.touch(len(s))
	}
	if t, ok := object.(*lua.LTable); ok {
		if value := t.RawGet(key); value != lua.LNil || t.Metatable == lua.LNil {
			c.L.Push(value)
			return 1
		}
	} else if c.L.GetMetaField(object, "__index") == lua.LNil {
		blame(c, "index", 0, object)
	}
	c.L.Push(c.index(object, key))
	return 1
}

// metaLoopMax is Lua's MAXTAGLOOP: how many tables __newindex may lead through.
const metaLoopMax = 100

// setIndexOp is t[k] = st.
func (st *State) setIndexOp(c libCall) int {
	object, key, value := c.L.Get(1), c.L.Get(2), c.L.Get(3)
	target := object
	for hops := range metaLoopMax {
		if hops > 0 {
			c.charge(1)
		}
		t, isTable := target.(*lua.LTable)
		if isTable {
			if st.locked(t) {
				c.fail(readonlyTable)
			}
			if t.Metatable == lua.LNil || t.RawGet(key) != lua.LNil {
				st.rawSet(c, t, key, value)
				return 0
			}
		}
		handler := c.L.GetMetaField(target, "__newindex")
		switch {
		case handler == lua.LNil && isTable:
			st.rawSet(c, t, key, value)
			return 0
		case handler == lua.LNil:
			blame(c, "index", 0, target)
		case handler.Type() == lua.LTFunction:
			c.call(handler, target, key, value)
			return 0
		}
		target = handler
	}
	c.fail("loop in settable")
	return 0
}

// readonlyTable is Redis's answer to a write to a library or a global.
const readonlyTable = "Attempt to modify a readonly table"

func setGlobalOp(c libCall) int {
	c.fail(readonlyTable)
	return 0
}

// checkKey raises the machine's error for a key no table can hold.
func checkKey(c libCall, key lua.LValue) {
	if key == lua.LNil {
		c.fail("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && f != f {
		c.fail("table index is NaN")
	}
}

// rawSet stores into a table and pays for its growth. It keeps the last slot of
// the array filled, so that # need not look for it.
func (st *State) rawSet(c libCall, t *lua.LTable, key, value lua.LValue) {
	checkKey(c, key)
	index, isIndex := arrayIndex(key)
	if value == lua.LNil {
		st.rawDelete(t, key, index)
		return
	}
	if isIndex {
		if slots := t.Len(); index > slots {
			if index > slots+1 {
				st.sparse[t] = struct{}{}
				st.deleted[t] += index - slots
			}
			c.need((index - slots) * slotBytes)
		}
		t.RawSetInt(index, value)
		return
	}
	s, isText := key.(lua.LString)
	if isText {
		c.touch(len(s))
	}
	if keys := hashKeys(t); keys == 0 {
		c.need(firstEntryBytes)
	} else if t.RawGetH(key) == lua.LNil {
		c.need(entryBytes)
	}
	t.RawSetH(key, value)
	if isText && s == "__index" {
		st.redirected(c, t)
	}
}

// firstEntryBytes is the price of the maps that gopher-lua makes, for 32 keys, when a
// table gets its first.
const firstEntryBytes = 2048

func (st *State) rawDelete(t *lua.LTable, key lua.LValue, index int) {
	if t.RawGet(key) == lua.LNil {
		return
	}
	st.deleted[t]++
	if index == 0 {
		t.RawSetH(key, lua.LNil)
		return
	}
	t.RawSetInt(index, lua.LNil)
	trim(t)
}

// trim cuts what is nil off the end of a table's array.
func trim(t *lua.LTable) {
	for n := arraySlots(t); n > 0 && t.RawGetInt(n) == lua.LNil; n-- {
		t.Remove(n)
	}
}

// length is #t: a border, the one Lua 5.1 would find where that is known.
func (st *State) length(c libCall, t *lua.LTable) int {
	n := t.Len()
	if _, gaps := st.sparse[t]; !gaps && n < lua.MaxArrayIndex-1 {
		return n
	}
	// Lua keeps the elements behind a gap in the hash part and finds the border
	// by doubling and halving (ltable.c, unbound_search).
	low, high := 0, 1
	for has(t, high) {
		low, high = high, high*2
		c.charge(1)
	}
	for high-low > 1 {
		if mid := (low + high) / 2; has(t, mid) {
			low = mid
		} else {
			high = mid
		}
		c.charge(1)
	}
	return low
}

func has(t *lua.LTable, i int) bool { return t.RawGet(lua.LNumber(i)) != lua.LNil }

func (st *State) equalOp(c libCall) int { return c.result(st.equal(c, c.L.Get(1), c.L.Get(2))) }

// equal is ==.
func (st *State) equal(c libCall, a, b lua.LValue) bool {
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
	return lua.LVAsBool(c.call(handler, a, b))
}

// rawEqual compares without metamethods and pays for long strings.
func rawEqual(c libCall, a, b lua.LValue) bool {
	if x, ok := a.(lua.LString); ok {
		y, ok := b.(lua.LString)
		if !ok || len(x) != len(y) {
			return false
		}
		c.charge(len(x) / 64)
		return x == y
	}
	return a == b
}

// less is a < b.
func (st *State) less(c libCall, a, b lua.LValue) bool {
	if less, ok := plainLess(c, a, b); ok {
		return less
	}
	result, ok := st.compareBy(c, "__lt", a, b)
	if !ok {
		c.fail("%s", compareMessage(typeName(a), typeName(b)))
	}
	return result
}

// lessEqual is a <= b; without __le, not (b < a).
func (st *State) lessEqual(c libCall, a, b lua.LValue) bool {
	if x, ok := a.(lua.LNumber); ok {
		if y, ok := b.(lua.LNumber); ok {
			return x <= y
		}
	}
	if less, ok := plainLess(c, b, a); ok {
		return !less
	}
	if result, ok := st.compareBy(c, "__le", a, b); ok {
		return result
	}
	result, ok := st.compareBy(c, "__lt", b, a)
	if !ok {
		c.fail("%s", compareMessage(typeName(a), typeName(b)))
	}
	return !result
}

// plainLess compares two numbers or two strings; ok is false for anything else.
func plainLess(c libCall, a, b lua.LValue) (less, ok bool) {
	switch x := a.(type) {
	case lua.LNumber:
		if y, ok := b.(lua.LNumber); ok {
			return x < y, true
		}
	case lua.LString:
		if y, ok := b.(lua.LString); ok {
			c.charge(min(len(x), len(y)) / 64)
			return x < y, true
		}
	}
	return false, false
}

func (st *State) compareBy(c libCall, event string, a, b lua.LValue) (result, ok bool) {
	if a.Type() != b.Type() {
		return false, false
	}
	handler := c.L.GetMetaField(a, event)
	if handler == lua.LNil || !rawEqual(c, handler, c.L.GetMetaField(b, event)) {
		return false, false
	}
	return lua.LVAsBool(c.call(handler, a, b)), true
}

// modulo is Lua 5.1's %: a - floor(a/b)*b.
func modulo(a, b float64) float64 {
	// The conversion keeps the compiler from fusing the operations, which some
	// processors do and some do not.
	return a - float64(math.Floor(a/b)*b)
}

// arithmetic applies op to two operands as luaV_arith does. It serves %, ^ and,
// as a metamethod of strings, the other operators.
func (st *State) arithmetic(c libCall, event string, op func(a, b float64) float64) int {
	a, b := c.L.Get(1), c.L.Get(2)
	if x, ok := a.(lua.LNumber); ok {
		if y, ok := b.(lua.LNumber); ok {
			return c.pushNumber(nanLikeX86(op(float64(x), float64(y)), float64(x), float64(y)))
		}
	}
	x, ok1 := c.asNumber(a)
	y, ok2 := c.asNumber(b)
	if ok1 && ok2 {
		return c.pushNumber(nanLikeX86(op(x, y), x, y))
	}
	handler := st.tableMeta(a, event)
	if handler == lua.LNil {
		handler = st.tableMeta(b, event)
	}
	if handler == lua.LNil {
		if ok1 {
			blame(c, "perform arithmetic on", 1, b)
		}
		blame(c, "perform arithmetic on", 0, a)
	}
	c.L.Push(c.call(handler, a, b))
	return 1
}

// nanLikeX86 gives an operation's NaN the sign x86 gives it: that of an operand that
// is NaN already, negative otherwise.
func nanLikeX86(f, a, b float64) float64 {
	if !math.IsNaN(f) {
		return f
	}
	switch {
	case math.IsNaN(a):
		return a
	case math.IsNaN(b):
		return b
	}
	return theNaN
}

// tableMeta is a table's metamethod: strings have none of their own in Lua.
func (st *State) tableMeta(value lua.LValue, event string) lua.LValue {
	if t, ok := value.(*lua.LTable); ok {
		if mt, ok := t.Metatable.(*lua.LTable); ok {
			return mt.RawGetString(event)
		}
	}
	return lua.LNil
}

// lenOp is #.
func (st *State) lenOp(c libCall) int {
	switch x := c.L.Get(1).(type) {
	case lua.LString:
		return c.pushNumber(float64(len(x)))
	case *lua.LTable:
		return c.pushNumber(float64(st.length(c, x)))
	default:
		blame(c, "get length of", 0, x)
	}
	return 0
}

// forPrepOp makes numbers of the bounds of a numeric for.
func forPrepOp(c libCall) int {
	for i, what := range []string{"initial value", "limit", "step"} {
		f, ok := c.asNumber(c.L.Get(i + 1))
		if !ok {
			c.fail("'for' %s must be a number", what)
		}
		c.L.Push(lua.LNumber(f))
	}
	return 3
}

// closureBytes is the price of a function value and what it shares.
const closureBytes = 192

// closureOp pays for a function value. gopher-lua keeps the variables that functions
// share in one list as long as they are on the stack. It walks through it for each new
// one, and at each return: so while there are many, each instruction costs more.
func closureOp(c libCall) int {
	fn := c.L.Get(1).(*lua.LFunction)
	open := openUpvalues(c.L)
	c.b.setOpen(open / openUpvaluesFree)
	c.charge(open / 2)
	c.alloc(closureBytes + 64*len(fn.Upvalues))
	c.L.Push(fn)
	return 1
}

// openUpvaluesFree is how many open upvalues the price of one step covers.
const openUpvaluesFree = 64

var upvaluesField, nextUpvalueField = privateField[lua.LState]("uvcache"), privateField[lua.Upvalue]("next")

// openUpvalues counts the variables on the stack that functions share.
func openUpvalues(L *lua.LState) (n int) {
	for uv := reflect.ValueOf(L).Elem().FieldByIndex(upvaluesField); !uv.IsNil(); n++ {
		uv = uv.Elem().FieldByIndex(nextUpvalueField)
	}
	return n
}

// tableOp pays for a constructor's table, with a number of named fields.
func tableOp(c libCall) int {
	t := c.L.Get(1).(*lua.LTable)
	if named := count(c, 2); named > 0 {
		c.need(firstEntryBytes + named*entryBytes)
	}
	c.need(tableBytes + arraySlots(t)*slotBytes)
	trim(t)
	return c.push(t)
}

// count reads a number that the lowered tree passes; nil is 0.
func count(c libCall, n int) int {
	f, _ := c.L.Get(n).(lua.LNumber)
	return int(f)
}

// itemOp sets positional fields of a constructor, from the given place on.
func (st *State) itemOp(c libCall) int {
	t := c.L.Get(1).(*lua.LTable)
	place := count(c, 2)
	for i := 3; i <= c.L.GetTop(); i++ {
		st.rawSet(c, t, lua.LNumber(place+i-3), c.L.Get(i))
	}
	return c.push(t)
}

// fieldOp sets a field with a computed key, unless one of the positional fields
// so far has its place.
func (st *State) fieldOp(c libCall) int {
	t := c.L.Get(1).(*lua.LTable)
	key := c.L.Get(3)
	index, isIndex := arrayIndex(key)
	if !isIndex || index > count(c, 2) {
		checkKey(c, key)
		st.rawSet(c, t, key, c.L.Get(4))
	}
	return c.push(t)
}

// varargOp hands its arguments on and pays for their number.
func varargOp(c libCall) int {
	n := c.L.GetTop()
	c.charge(n / 8)
	return n
}

// argOp makes the table "arg" of a vararg function.
func (st *State) argOp(c libCall) int {
	n := c.L.GetTop()
	c.need(tableBytes + firstEntryBytes + n*slotBytes)
	t := c.L.CreateTable(n, 1)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, c.L.Get(i))
	}
	trim(t)
	t.RawSetString("n", lua.LNumber(n))
	c.L.Push(t)
	return 1
}

// stringArithmetic gives strings the operators that gopher-lua's machine leaves
// to metamethods: Lua reads "010" as ten where gopher-lua reads eight.
func (st *State) stringArithmetic(mt *lua.LTable) {
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
		mt.RawSetString(o.event, st.b.function(st.L, func(c libCall) int { return st.arithmetic(c, o.event, o.op) }))
	}
	mt.RawSetString("__unm", st.b.function(st.L, st.negateString))
}

func (st *State) negateString(c libCall) int {
	f, ok := c.asNumber(c.L.Get(1))
	if !ok {
		blame(c, "perform arithmetic on", 0, c.L.Get(1))
	}
	return c.pushNumber(-f)
}

// setInt sets t[i] for i > 0.
func setInt(t *lua.LTable, i int, value lua.LValue) { t.RawSet(lua.LNumber(i), value) }
