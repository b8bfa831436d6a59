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

func (st *State) baseFuncs() []libFunc {
	return []libFunc{
		{"assert", st.assert}, {"collectgarbage", collectGarbage}, {"error", st.error}, {"gcinfo", gcInfo},
		{"getmetatable", st.getMetatable}, {"ipairs", st.ipairs}, {"load", st.load}, {"loadstring", st.loadString},
		{"next", st.next}, {"pairs", st.pairs}, {"pcall", st.pcall}, {"rawequal", st.rawEqual}, {"rawget", st.rawGet},
		{"rawset", st.rawSetFunc}, {"select", st.selectFunc}, {"setmetatable", st.setMetatable}, {"tonumber", toNumber},
		{"tostring", st.toString}, {"type", typeFunc}, {"unpack", st.unpack}, {"xpcall", st.xpcall},
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

func (st *State) assert(c libCall) int {
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

func (st *State) error(c libCall) int {
	level := c.optSmall(2, 1)
	object := c.L.Get(1)
	if text, ok := asText(object); ok && level > 0 {
		p, _ := c.b.placeAt(c.L, level)
		text = p.String() + text
		c.need(len(text))
		object = lua.LString(text)
	}
	c.raise(object)
	return 0
}

func (st *State) getMetatable(c libCall) int {
	value := c.any(1)
	mt := lua.LNil
	switch x := value.(type) {
	case *lua.LTable:
		mt = x.Metatable
	case lua.LString:
		mt = st.strings
	}
	t, ok := mt.(*lua.LTable)
	if !ok || t == st.lock {
		return c.push(lua.LNil)
	}
	if protected := t.RawGetString("__metatable"); protected != lua.LNil {
		return c.push(protected)
	}
	return c.push(t)
}

func (st *State) setMetatable(c libCall) int {
	t := c.table(1)
	mt := c.L.Get(2)
	if c.L.GetTop() < 2 || mt != lua.LNil && mt.Type() != lua.LTTable {
		c.argError(2, "nil or table expected")
	}
	if c.L.GetMetaField(t, "__metatable") != lua.LNil {
		c.fail("cannot change a protected metatable")
	}
	if st.locked(t) {
		c.failBare(readonlyTable)
	}
	t.Metatable = mt
	st.linked(c, t)
	return c.push(t)
}

func (st *State) ipairs(c libCall) int {
	t := c.table(1)
	return c.push(st.ipairsStep, t, lua.LNumber(0))
}

func (st *State) ipairsNext(c libCall) int {
	i := c.small(2) + 1
	value := c.table(1).RawGet(lua.LNumber(i))
	if value == lua.LNil {
		return 0
	}
	return c.push(lua.LNumber(i), value)
}

func (st *State) pairs(c libCall) int {
	t := c.table(1)
	return c.push(st.globals.RawGetString("next"), t, lua.LNil)
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

func (st *State) next(c libCall) int {
	t := c.table(1)
	key, value := st.nextKey(c, t, c.L.Get(2))
	if key == lua.LNil {
		return c.push(lua.LNil)
	}
	return c.push(key, value)
}

// nextKey is lua_next.
func (st *State) nextKey(c libCall, t *lua.LTable, key lua.LValue) (lua.LValue, lua.LValue) {
	if s, ok := key.(lua.LString); ok {
		c.touch(len(s))
	}
	w := st.walkOf(t, key)
	if w.table != t || key == lua.LNil || w.last != key {
		c.charge(arraySlots(t)/32 + st.deleted[t])
	}
	from := key
	if index, ok := arrayIndex(key); ok {
		slots := arraySlots(t)
		if index > slots && st.deleted[t] == 0 {
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
func (st *State) walkOf(t *lua.LTable, key lua.LValue) *walk {
	for i := range st.walks {
		if w := &st.walks[i]; w.table == t && (w.last == key || key == lua.LNil) {
			return w
		}
	}
	copy(st.walks[1:], st.walks[:])
	return &st.walks[0]
}

var indexField = privateField[lua.LTable]("k2i")

// everHad reports whether a key outside the array was ever in a table.
func everHad(t *lua.LTable, key lua.LValue) bool {
	keys := reflect.ValueOf(t).Elem().FieldByIndex(indexField)
	return keys.MapIndex(reflect.ValueOf(&key).Elem()).IsValid()
}

// protect calls the function below nargs arguments on the stack. When it fails,
// the stack is cut to below it, and the error is returned. A limit goes on.
func (st *State) protect(c libCall, nargs int) *lua.ApiError {
	err := c.protect(st.enter, nargs)
	st.checkPanic(err)
	c.raiseSpent()
	if err == nil {
		return nil
	}
	c.charge(failureSteps)
	return err.(*lua.ApiError)
}

// failureSteps is the price of a caught error: Go's panic and recover.
const failureSteps = 32

// pcall is Redis's: of an error that is a table with a field err, only that field.
func (st *State) pcall(c libCall) int {
	if c.L.GetTop() == 0 {
		return c.push(lua.LFalse, lua.LString("attempt to call a boolean value")) // Redis calls its own place holder
	}
	fn := c.L.Get(1)
	if !c.callable(fn) {
		return c.push(lua.LFalse, lua.LString("attempt to call a "+typeName(fn)+" value"))
	}
	err := st.protect(c, c.L.GetTop()-1)
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

func (st *State) xpcall(c libCall) int {
	handler := c.any(2)
	fn := c.L.Get(1)
	c.L.SetTop(2)
	var object lua.LValue
	if !c.callable(fn) {
		object = lua.LString("attempt to call a " + typeName(fn) + " value")
	} else {
		c.L.Push(fn)
		err := st.protect(c, 0)
		if err == nil {
			c.L.Insert(lua.LTrue, 3)
			return c.L.GetTop() - 2
		}
		object = err.Object
	}
	c.L.SetTop(2)
	if !c.callable(handler) {
		return c.push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.push(handler, object)
	if err := st.protect(c, 1); err != nil {
		return c.push(lua.LFalse, lua.LString("error in error handling"))
	}
	c.L.SetTop(3) // the handler's first result
	return c.push(lua.LFalse, c.L.Get(3))
}

func (st *State) rawEqual(c libCall) int {
	a, b := c.any(1), c.any(2)
	return c.result(rawEqual(c, a, b))
}

func (st *State) rawGet(c libCall) int {
	t, key := c.table(1), c.any(2)
	if s, ok := key.(lua.LString); ok {
		c.touch(len(s))
	}
	return c.push(t.RawGet(key))
}

func (st *State) rawSetFunc(c libCall) int {
	t, key, value := c.table(1), c.any(2), c.any(3)
	if st.locked(t) {
		c.failBare(readonlyTable)
	}
	if key == lua.LNil {
		c.failBare("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && f != f {
		c.failBare("table index is NaN")
	}
	st.rawSet(c, t, key, value)
	return c.push(t)
}

func (st *State) selectFunc(c libCall) int {
	n := c.L.GetTop()
	c.charge(n / 8)
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

func typeFunc(c libCall) int { return c.pushText(typeName(c.any(1))) }

func (st *State) toString(c libCall) int {
	value := c.any(1)
	handler := c.L.GetMetaField(value, "__tostring")
	if handler != lua.LNil {
		return c.push(c.call(handler, value))
	}
	return c.pushText(st.display(value))
}

// display is what tostring shows. Instead of addresses, which differ from node to
// node, tables and functions show a number in the order in which a script asks.
func (st *State) display(value lua.LValue) string {
	switch x := value.(type) {
	case lua.LNumber:
		return formatNumber(float64(x))
	case *lua.LUserData:
		return "userdata: (nil)" // cjson.null, the only one there is
	case *lua.LTable, *lua.LFunction:
		n, ok := st.names[x]
		if !ok {
			n = len(st.names) + 1
			st.names[x] = n
			st.b.takeBytes(nameBytes)
		}
		return fmt.Sprintf("%s: 0x%014x", typeName(x), n*16)
	}
	return value.String()
}

// nameBytes is the price of a table or function that was shown and so is kept.
const nameBytes = 128

// unpackMax is how many values fit on Lua's stack.
const unpackMax = cStackMax

func (st *State) unpack(c libCall) int {
	t := c.table(1)
	first := c.optSmall(2, 1)
	var last int
	if c.L.Get(3) == lua.LNil {
		last = st.length(c, t)
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
	c.charge(n / 4)
	for i := first; i <= last; i++ {
		c.L.Push(t.RawGet(lua.LNumber(i)))
	}
	return n
}

// loadSteps and loadBytes are what compiling a byte of source costs.
const loadSteps, loadBytes = 16, 64

func (st *State) loadString(c libCall) int {
	source := c.text(1)
	name := source
	if c.L.Get(2) != lua.LNil {
		name = c.text(2)
	}
	return st.loadChunk(c, source, name)
}

// load compiles what a function returns piece by piece.
func (st *State) load(c libCall) int {
	fn := c.function(1)
	name := "=(load)"
	if c.L.Get(2) != lua.LNil {
		name = c.text(2)
	}
	var source strings.Builder
	for {
		piece := c.call(fn)
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
	return st.loadChunk(c, source.String(), name)
}

func (st *State) loadChunk(c libCall, source, name string) int {
	size := min(len(source), sourceBytesMax) + 256
	c.charge(size * loadSteps)
	c.alloc(size * loadBytes)
	if strings.HasPrefix(source, "\x1bLua") {
		return c.push(lua.LNil, lua.LString(chunkID(name)+": bad header in precompiled chunk"))
	}
	st.loaded++
	chunk, message := compileChunk(name, loadedKey(st.loaded), source)
	if message != "" {
		return c.push(lua.LNil, lua.LString(message))
	}
	return c.push(st.instantiate(chunk))
}

// loadedMark begins the keys of chunks that loadstring compiled.
const loadedMark = keyMark + "+"

func loadedKey(n int) string { return loadedMark + strconv.Itoa(n) }
