package luavm

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The basic functions (lbaselib.c), without those that Redis removes and without
// coroutines (DESIGN.md).

func (v *VM) baseFuncs() []libFunc {
	return []libFunc{
		{"assert", v.assert}, {"collectgarbage", collectGarbage}, {"error", v.error}, {"gcinfo", gcInfo},
		{"getmetatable", v.getMetatable}, {"ipairs", v.ipairs}, {"load", v.load}, {"loadstring", v.loadString},
		{"next", v.next}, {"pairs", v.pairs}, {"pcall", v.pcall}, {"rawequal", v.rawEqual}, {"rawget", v.rawGet},
		{"rawset", v.rawSetFunc}, {"select", v.selectFunc}, {"setmetatable", v.setMetatable}, {"tonumber", toNumber},
		{"tostring", v.toString}, {"type", typeFunc}, {"unpack", v.unpack}, {"xpcall", v.xpcall},
	}
}

// any raises the error for an argument that is missing altogether.
func (c libCall) any(n int) lua.LValue {
	if n > c.L.GetTop() {
		c.argError(n, "value expected")
	}
	return c.L.Get(n)
}

// table reads argument n, a table.
func (c libCall) table(n int) *lua.LTable {
	t, ok := c.L.Get(n).(*lua.LTable)
	if !ok {
		c.typeError(n, "table")
	}
	return t
}

// function reads argument n, a function.
func (c libCall) function(n int) *lua.LFunction {
	f, ok := c.L.Get(n).(*lua.LFunction)
	if !ok {
		c.typeError(n, "function")
	}
	return f
}

// small reads argument n as luaL_checkint does; optSmall takes def for one that
// is nil or missing.
func (c libCall) small(n int) int { return int(int32(c.integer(n))) }

func (c libCall) optSmall(n, def int) int {
	if c.L.Get(n) == lua.LNil {
		return def
	}
	return c.small(n)
}

// push pushes values and returns their number.
func (c libCall) push(values ...lua.LValue) int {
	for _, v := range values {
		c.L.Push(v)
	}
	return len(values)
}

func (c libCall) pushText(s string) int { return c.push(lua.LString(s)) }

func (v *VM) assert(c libCall) int {
	c.any(1)
	if lua.LVIsFalse(c.L.Get(1)) {
		message := "assertion failed!"
		if c.L.Get(2) != lua.LNil {
			message = c.text(2)
		}
		c.fail("%s", message)
	}
	return c.L.GetTop()
}

func collectGarbage(c libCall) int { return c.pushNumber(0) }

// gcInfo answers a constant where Redis tells the memory in use.
func gcInfo(c libCall) int { return c.pushNumber(0) }

func (v *VM) error(c libCall) int {
	level := c.optSmall(2, 1)
	object := c.L.Get(1)
	if text, ok := asText(object); ok && level > 0 {
		p, _ := c.b.placeAt(c.L, level)
		text = p.String() + text
		c.need(len(text))
		object = lua.LString(text)
	}
	c.b.raise(c.L, object)
	return 0
}

func (v *VM) getMetatable(c libCall) int {
	value := c.any(1)
	mt := lua.LNil
	switch x := value.(type) {
	case *lua.LTable:
		mt = x.Metatable
	case lua.LString:
		mt = v.strings
	}
	t, ok := mt.(*lua.LTable)
	if !ok || t == v.lock {
		return c.push(lua.LNil)
	}
	if protected := t.RawGetString("__metatable"); protected != lua.LNil {
		return c.push(protected)
	}
	return c.push(t)
}

func (v *VM) setMetatable(c libCall) int {
	t := c.table(1)
	mt := c.L.Get(2)
	if c.L.GetTop() < 2 || mt != lua.LNil && mt.Type() != lua.LTTable {
		c.argError(2, "nil or table expected")
	}
	if v.meta(c.L, t, "__metatable") != lua.LNil {
		c.fail("cannot change a protected metatable")
	}
	if v.locked(t) {
		c.failBare(readonlyTable)
	}
	t.Metatable = mt
	v.linked(c, t)
	return c.push(t)
}

func (v *VM) ipairs(c libCall) int {
	t := c.table(1)
	return c.push(v.ipairsStep, t, lua.LNumber(0))
}

func (v *VM) ipairsNext(c libCall) int {
	i := c.small(2) + 1
	value := c.table(1).RawGet(lua.LNumber(i))
	if value == lua.LNil {
		return 0
	}
	return c.push(lua.LNumber(i), value)
}

func (v *VM) pairs(c libCall) int {
	t := c.table(1)
	return c.push(v.env.RawGetString("next"), t, lua.LNil)
}

// A walk is a traversal by next. As long as each call goes on where the one
// before stopped, all of them together pass each slot once; a call from
// elsewhere has to pay for the empty slots it may pass.
type walk struct {
	table *lua.LTable
	last  lua.LValue
}

// walksMax is how many traversals may go on within each other at no cost.
const walksMax = 8

func (v *VM) next(c libCall) int {
	t := c.table(1)
	key, value := v.nextKey(c, t, c.L.Get(2))
	if key == lua.LNil {
		return c.push(lua.LNil)
	}
	return c.push(key, value)
}

// nextKey is lua_next.
func (v *VM) nextKey(c libCall, t *lua.LTable, key lua.LValue) (lua.LValue, lua.LValue) {
	if s, ok := key.(lua.LString); ok {
		c.touch(len(s))
	}
	w := v.walkOf(t, key)
	if w.table != t || key == lua.LNil || w.last != key {
		c.b.charge(c.L, arraySlots(t)/32+v.deleted[t])
	}
	from := key
	if index, ok := arrayIndex(key); ok {
		slots := arraySlots(t)
		if index > slots && v.deleted[t] == 0 {
			c.failBare("invalid key to 'next'")
		}
		from = lua.LNumber(min(index, slots)) // the array may have been cut since
		if slots == 0 {
			from = lua.LNil // to Next, 0 is a key like any other
		}
	} else if key != lua.LNil && t.RawGetH(key) == lua.LNil && !everHad(t, key) {
		c.failBare("invalid key to 'next'")
	}
	k, value := t.Next(from)
	if s, ok := k.(lua.LString); ok {
		c.touch(len(s))
	}
	*w = walk{t, k}
	return k, value
}

// walkOf finds the walk that key continues, or the one to give up for a new one.
func (v *VM) walkOf(t *lua.LTable, key lua.LValue) *walk {
	for i := range v.walks {
		if w := &v.walks[i]; w.table == t && (w.last == key || key == lua.LNil) {
			return w
		}
	}
	copy(v.walks[1:], v.walks[:])
	return &v.walks[0]
}

var indexField = privateField[lua.LTable]("k2i")

// everHad reports whether a key outside the array was ever in a table.
func everHad(t *lua.LTable, key lua.LValue) bool {
	keys := reflect.ValueOf(t).Elem().FieldByIndex(indexField)
	return keys.MapIndex(reflect.ValueOf(&key).Elem()).IsValid()
}

// protect calls the function below nargs arguments on the stack. When it fails,
// the stack is cut to below it, and the error is returned. A limit goes on.
func (v *VM) protect(c libCall, nargs int) *lua.ApiError {
	if v.nested++; v.nested > nestedCallsMax {
		c.failBare("C stack overflow")
	}
	nested := v.nested
	c.L.Insert(v.enter, -nargs-1)
	err := c.L.PCall(nargs+1, lua.MultRet, nil)
	v.nested = nested - 1
	v.checkPanic(err)
	if v.b.spent != "" {
		c.b.raise(c.L, lua.LString(v.b.spent))
	}
	if err == nil {
		return nil
	}
	c.b.charge(c.L, failureSteps)
	return err.(*lua.ApiError)
}

// failureSteps is the price of a caught error: Go's panic and recover.
const failureSteps = 32

// pcall is Redis's: of an error that is a table with a field err, only that field.
func (v *VM) pcall(c libCall) int {
	if c.L.GetTop() == 0 {
		return c.push(lua.LFalse, lua.LString("attempt to call a boolean value")) // Redis calls its own place holder
	}
	fn := c.L.Get(1)
	if !v.callable(c.L, fn) {
		return c.push(lua.LFalse, lua.LString("attempt to call a "+typeName(fn)+" value"))
	}
	err := v.protect(c, c.L.GetTop()-1)
	if err == nil {
		c.L.Insert(lua.LTrue, 1)
		return c.L.GetTop()
	}
	object := err.Object
	if t, ok := object.(*lua.LTable); ok {
		if text, ok := asText(c.L.GetField(t, "err")); ok {
			object = lua.LString(text)
		}
	}
	return c.push(lua.LFalse, object)
}

func (v *VM) xpcall(c libCall) int {
	handler := c.any(2)
	fn := c.L.Get(1)
	c.L.SetTop(2)
	var object lua.LValue
	if !v.callable(c.L, fn) {
		object = lua.LString("attempt to call a " + typeName(fn) + " value")
	} else {
		c.L.Push(fn)
		err := v.protect(c, 0)
		if err == nil {
			c.L.Insert(lua.LTrue, 3)
			return c.L.GetTop() - 2
		}
		object = err.Object
	}
	c.L.SetTop(2)
	if !v.callable(c.L, handler) {
		return c.push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.push(handler, object)
	if err := v.protect(c, 1); err != nil {
		return c.push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.L.SetTop(3) // the handler's first result
	return c.push(lua.LFalse, c.L.Get(3))
}

func (v *VM) rawEqual(c libCall) int {
	a, b := c.any(1), c.any(2)
	return c.result(rawEqual(c, a, b))
}

func (v *VM) rawGet(c libCall) int {
	t, key := c.table(1), c.any(2)
	if s, ok := key.(lua.LString); ok {
		c.touch(len(s))
	}
	return c.push(t.RawGet(key))
}

func (v *VM) rawSetFunc(c libCall) int {
	t, key, value := c.table(1), c.any(2), c.any(3)
	if v.locked(t) {
		c.failBare(readonlyTable)
	}
	if key == lua.LNil {
		c.failBare("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && f != f {
		c.failBare("table index is NaN")
	}
	v.rawSet(c, t, key, value)
	return c.push(t)
}

func (v *VM) selectFunc(c libCall) int {
	n := c.L.GetTop()
	c.b.charge(c.L, n/8)
	if s, ok := c.L.Get(1).(lua.LString); ok && strings.HasPrefix(string(s), "#") {
		return c.pushNumber(float64(n - 1))
	}
	i := c.small(1)
	if i < 0 {
		i += n
	} else if i > n {
		i = n
	}
	if i < 1 {
		c.argError(1, "index out of range")
	}
	return n - i
}

func toNumber(c libCall) int {
	base := c.optSmall(2, 10)
	if base == 10 {
		if f, ok := c.asNumber(c.any(1)); ok {
			return c.pushNumber(f)
		}
		return c.push(lua.LNil)
	}
	s := c.text(1)
	if base < 2 || base > 36 {
		c.argError(2, "base out of range")
	}
	c.touch(numeralPrice * len(s))
	if n, ok := parseBase(s, base); ok {
		return c.pushNumber(n)
	}
	return c.push(lua.LNil)
}

// parseBase reads an integer as strtoul does, with space around it.
func parseBase(s string, base int) (float64, bool) {
	s = strings.Trim(cText(s), cSpace)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	if strings.ContainsAny(s, "_+-") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && !isOutOfRange(err) {
		return 0, false
	}
	if negative && err == nil {
		n = -n
	}
	return float64(n), true
}

func typeFunc(c libCall) int { return c.pushText(typeName(c.any(1))) }

func (v *VM) toString(c libCall) int {
	value := c.any(1)
	handler := v.meta(c.L, value, "__tostring")
	if handler != lua.LNil {
		return c.push(v.call(c.L, handler, value))
	}
	return c.pushText(v.display(value))
}

// display is what tostring shows. Instead of addresses, which differ from node to
// node, tables and functions show a number in the order in which a script asks.
func (v *VM) display(value lua.LValue) string {
	switch x := value.(type) {
	case lua.LNumber:
		return formatNumber(float64(x))
	case *lua.LUserData:
		return "userdata: (nil)" // cjson.null, the only one there is
	case *lua.LTable, *lua.LFunction:
		n, ok := v.names[x]
		if !ok {
			n = len(v.names) + 1
			v.names[x] = n
			v.b.bytes -= nameBytes
		}
		return fmt.Sprintf("%s: 0x%014x", typeName(x), n*16)
	}
	return value.String()
}

// nameBytes is the price of a table or function that was shown and so is kept.
const nameBytes = 128

// unpackMax is how many values fit on Lua's stack.
const unpackMax = cStackMax

func (v *VM) unpack(c libCall) int {
	t := c.table(1)
	first := c.optSmall(2, 1)
	var last int
	if c.L.Get(3) == lua.LNil {
		last = v.length(c, t)
	} else {
		last = c.small(3)
	}
	if first > last {
		return 0
	}
	n := last - first + 1
	if n >= unpackMax {
		c.fail("too many results to unpack")
	}
	c.b.charge(c.L, n/4)
	for i := first; i <= last; i++ {
		c.L.Push(t.RawGet(lua.LNumber(i)))
	}
	return n
}

// loadSteps and loadBytes are what compiling a byte of source costs.
const loadSteps, loadBytes = 16, 64

func (v *VM) loadString(c libCall) int {
	source := c.text(1)
	name := source
	if c.L.Get(2) != lua.LNil {
		name = c.text(2)
	}
	return v.loadChunk(c, source, name)
}

// load compiles what a function returns piece by piece.
func (v *VM) load(c libCall) int {
	fn := c.function(1)
	name := "=(load)"
	if c.L.Get(2) != lua.LNil {
		name = c.text(2)
	}
	var source strings.Builder
	for {
		piece := v.call(c.L, fn)
		if piece == lua.LNil {
			break
		}
		text, ok := asText(piece)
		if !ok {
			return c.push(lua.LNil, lua.LString("reader function must return a string"))
		}
		if text == "" {
			break
		}
		c.need(2 * len(text))
		source.WriteString(text)
	}
	return v.loadChunk(c, source.String(), name)
}

func (v *VM) loadChunk(c libCall, source, name string) int {
	size := min(len(source), sourceBytesMax) + 256
	c.b.charge(c.L, size*loadSteps)
	c.b.alloc(c.L, size*loadBytes)
	if strings.HasPrefix(source, "\x1bLua") {
		return c.push(lua.LNil, lua.LString(chunkID(name)+": bad header in precompiled chunk"))
	}
	v.loaded++
	p, message := compile(chunkID(name), name, loadedKey(v.loaded), source)
	if message != "" {
		return c.push(lua.LNil, lua.LString(message))
	}
	return c.push(v.instantiate(p))
}

// chunkID is luaO_chunkid: how messages show the name of a chunk.
func chunkID(name string) string {
	const idSize = 60
	name = cText(name)
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), idSize)]
	case strings.HasPrefix(name, "@"):
		name = name[1:]
		if most := idSize - len(" '...' ") - 1; len(name) > most {
			return "..." + name[len(name)-most:]
		}
		return name
	}
	line := name
	if i := strings.IndexAny(line, "\n\r"); i >= 0 {
		line = line[:i]
	}
	line = line[:min(len(line), idSize-len(` [string "..."] `)-1)]
	if len(line) < len(name) {
		line += "..."
	}
	return `[string "` + line + `"]`
}
