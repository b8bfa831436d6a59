package luavm

import (
	"fmt"
	"math"
	"reflect"

	lua "github.com/yuin/gopher-lua"
)

// What bit, struct, cjson and cmsgpack share: how a library function reads its
// arguments, charges the budget, reports errors and builds strings and tables,
// in the words and with the limits of Lua 5.1's C interface.

// libCall is one call of a library function.
type libCall struct {
	L *lua.LState
	b *budget
}

// libFunc is a library function; it pushes its results and returns their number.
type libFunc struct {
	name string
	run  func(c libCall) int
}

// Costs, in bytes of the budget. They are rounded up: the budget has to bound
// what the process really holds, on every architecture alike.
const (
	tableBytes = 256 // an empty table
	slotBytes  = 48  // an element of its array, with what growing wastes
	entryBytes = 256 // a key with its value, in two maps and a list
)

// cStackMax is LUAI_MAXCSTACK: how many values a C function may have on its
// stack. It bounds results and nesting as it does in Redis.
const cStackMax = 8000

// newLibrary makes a library's table.
func newLibrary(L *lua.LState, b *budget, funcs []libFunc) *lua.LTable {
	t := L.CreateTable(0, len(funcs))
	for _, f := range funcs {
		t.RawSetString(f.name, b.function(L, f.run))
	}
	return t
}

func (c libCall) charge(steps int) { c.b.charge(c.L, steps) }

func (c libCall) alloc(bytes int) { c.b.alloc(c.L, bytes) }

func (c libCall) raise(object lua.LValue) { c.b.raise(c.L, object) }

// raiseSpent raises the error of a limit that has been met.
func (c libCall) raiseSpent() {
	if c.b.spent != "" {
		c.raise(lua.LString(c.b.spent))
	}
}

// touch charges for n bytes that are read or compared.
func (c libCall) touch(n int) { c.charge(1 + n/16) }

// need charges for n bytes that are about to be built.
func (c libCall) need(n int) {
	c.alloc(n)
	c.charge(1 + n/16)
}

// fail raises an error as luaL_error does: with the script's position where Lua
// code made the call, without one where another function did (pcall).
func (c libCall) fail(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	c.need(len(msg))
	msg = c.b.where(c.L) + msg
	c.raise(lua.LString(msg))
}

// failBare raises an error without a position, as the Lua machine itself does
// when a C function offends it.
func (c libCall) failBare(msg string) { c.raise(lua.LString(msg)) }

// callee is how the caller named the function that runs. Without a name, or
// where no Lua code made the call, it is "?".
func (c libCall) callee() desc {
	p, _ := c.b.placeAt(c.L, 1)
	if p.site.callee.kind == "" {
		return desc{name: "?"}
	}
	return p.site.callee
}

// argError raises luaL_argerror's error for argument n.
func (c libCall) argError(n int, why string) {
	callee := c.callee()
	if callee.kind == "method" {
		if n--; n == 0 {
			c.fail("calling '%s' on bad self (%s)", callee.name, why)
		}
	}
	c.fail("bad argument #%d to '%s' (%s)", n, callee.name, why)
}

// typeError raises luaL_typerror's error for argument n.
func (c libCall) typeError(n int, want string) {
	got := "no value"
	if n <= c.L.GetTop() {
		got = c.L.Get(n).Type().String()
	}
	c.argError(n, want+" expected, got "+got)
}

// number reads argument n, a number or a string that is one.
func (c libCall) number(n int) float64 {
	f, ok := c.asNumber(c.L.Get(n))
	if !ok {
		c.typeError(n, "number")
	}
	return f
}

// numeralPrice is the price of a byte that is read as a number, in bytes touched.
const numeralPrice = 4

func (c libCall) asNumber(v lua.LValue) (float64, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		c.touch(numeralPrice * len(v))
		return c.parse(string(v))
	}
	return 0, false
}

// tinySteps is the price of reading a number that is not 0 but below the least that
// has all its digits, or rounds to it: strconv takes 30 microseconds for some.
const tinySteps = 300

func (c libCall) parse(s string) (float64, bool) {
	f, ok := parseNumber(s)
	c.chargeTiny(f, s)
	return f, ok
}

func (c libCall) chargeTiny(f float64, s string) {
	if isTiny(f, s) {
		c.charge(tinySteps)
	}
}

// isTiny reports whether reading f from s takes strconv long.
func isTiny(f float64, s string) bool {
	return math.Abs(f) < 0x1p-1022 && (f != 0 || len(s) > len("0.000"))
}

// integer reads argument n as luaL_checkinteger does; optInteger takes def for
// an argument that is nil or missing.
func (c libCall) integer(n int) int64 { return truncInt64(c.number(n)) }

func (c libCall) optInteger(n int, def int64) int64 {
	if c.L.Get(n) == lua.LNil {
		return def
	}
	return c.integer(n)
}

// text reads argument n, a string or a number.
func (c libCall) text(n int) string {
	switch v := c.L.Get(n).(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return formatNumber(float64(v))
	}
	c.typeError(n, "string")
	return ""
}

// checkStack raises luaL_checkstack's error where n more values would not fit
// beside the used ones.
func (c libCall) checkStack(used, n int, what string) {
	if used+n > cStackMax {
		c.fail("stack overflow (%s)", what)
	}
}

// libBuffer builds a string and pays for it before it grows: bufferPrice for each
// byte, because growing copies, and so does making the string.
type libBuffer struct {
	c     libCall
	bytes []byte
}

const bufferPrice = 2

func (w *libBuffer) add(s string) {
	w.c.need(bufferPrice * len(s))
	w.bytes = append(w.bytes, s...)
}

func (w *libBuffer) addByte(b byte) {
	w.c.need(bufferPrice)
	w.bytes = append(w.bytes, b)
}

// push makes the bytes the function's result.
func (w *libBuffer) push() int {
	w.c.need(len(w.bytes)) // the string, while the bytes are still held
	w.c.L.Push(lua.LString(w.bytes))
	return 1
}

// libTable builds a new table and pays for it before it grows.
type libTable struct {
	c     libCall
	t     *lua.LTable // nil until the first key tells which part it needs
	slots int         // length of the array part, holes included
}

func (c libCall) newTable() *libTable {
	c.need(tableBytes)
	return &libTable{c: c}
}

// firstRoom is the room of a new table's part: gopher-lua would take 32, and a
// text of many small tables would cost ten times the memory.
const firstRoom = 4

// table is what has been built; see trim.
func (t *libTable) table() *lua.LTable {
	if t.t == nil {
		t.t = t.c.L.CreateTable(0, 0)
	}
	trim(t.t)
	return t.t
}

// set stores a value as lua_settable does. A key far beyond the array's end makes
// gopher-lua fill the gap, which is paid for too.
func (t *libTable) set(key, value lua.LValue) {
	t.checkKey(key)
	if value == lua.LNil {
		t.remove(key)
		return
	}
	index, isIndex := arrayIndex(key)
	switch {
	case t.t != nil:
	case isIndex:
		t.t = t.c.L.CreateTable(firstRoom, 0)
	default:
		t.t = t.c.L.CreateTable(0, firstRoom)
	}
	if !isIndex {
		t.c.need(entryBytes)
	} else if index > t.slots {
		t.c.need((index - t.slots) * slotBytes)
		t.slots = index
	}
	t.t.RawSet(key, value)
}

// remove takes a key out again by copying the rest. gopher-lua would keep an empty
// slot or a dead key, which # and next then pass at every call, unpaid.
func (t *libTable) remove(key lua.LValue) {
	if t.t == nil || t.t.RawGet(key) == lua.LNil {
		return
	}
	old := t.t
	t.c.scan(old)
	t.c.need(arraySlots(old)*slotBytes + hashKeys(old)*entryBytes)
	t.t = t.c.L.CreateTable(0, 0)
	for k, v := old.Next(lua.LNil); k != lua.LNil; k, v = old.Next(k) {
		if k != key {
			t.t.RawSet(k, v)
		}
	}
	t.slots = arraySlots(t.t)
}

func (t *libTable) checkKey(key lua.LValue) {
	if key == lua.LNil {
		t.c.failBare("table index is nil")
	}
	if f, ok := key.(lua.LNumber); ok && math.IsNaN(float64(f)) {
		t.c.failBare("table index is NaN")
	}
}

// scan charges for a walk through the whole of t with Next, which also passes
// over the holes of its array and over keys that were deleted.
func (c libCall) scan(t *lua.LTable) {
	c.charge(1 + arraySlots(t)/16 + hashKeys(t))
}

// gopher-lua does not tell how long a table's array and its list of keys are, yet
// Next and Len walk them: ten deleted megabytes would cost nothing.
var arrayField, keysField = privateField[lua.LTable]("array"), privateField[lua.LTable]("keys")

// privateField leads to a field that gopher-lua does not show.
func privateField[T any](name string) []int {
	f, ok := reflect.TypeFor[T]().FieldByName(name)
	if !ok {
		panic("luavm: this gopher-lua has no field " + name)
	}
	return f.Index
}

// arraySlots is the length of a table's array part, holes included.
func arraySlots(t *lua.LTable) int { return reflect.ValueOf(t).Elem().FieldByIndex(arrayField).Len() }

// hashKeys is how many keys a table ever had beside its array.
func hashKeys(t *lua.LTable) int { return reflect.ValueOf(t).Elem().FieldByIndex(keysField).Len() }

// arrayIndex says whether gopher-lua keeps a key in a table's array.
func arrayIndex(key lua.LValue) (int, bool) {
	f, ok := key.(lua.LNumber)
	if !ok || f < 1 || f >= lua.LNumber(lua.MaxArrayIndex) || f != lua.LNumber(math.Trunc(float64(f))) {
		return 0, false
	}
	return int(f), true
}

// The conversions of C on a 64-bit x86 machine, where Redis's answers come from.
// Go leaves them to the processor when the number is out of range, and replicas
// on two architectures would differ.

// truncInt64 is (int64_t)f.
func truncInt64(f float64) int64 {
	if !(f >= -(1<<63) && f < 1<<63) {
		return math.MinInt64
	}
	return int64(f)
}

// truncInt32 is (int32_t)f.
func truncInt32(f float64) int32 {
	if !(f > -(1<<31)-1 && f < 1<<31) {
		return math.MinInt32
	}
	return int32(int64(f))
}

// truncUint64 is (uint64_t)f as gcc compiles it: negative numbers wrap around.
func truncUint64(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(truncInt64(f-(1<<63))) ^ 1<<63
	}
	return uint64(truncInt64(f))
}

// theNaN is the one NaN of the libraries, that which 0/0 gives on x86: sign and
// payload of a NaN depend on the processor and must not reach a reply.
var theNaN = math.Float64frombits(0xfff8000000000000)

func oneNaN(f float64) float64 {
	if math.IsNaN(f) {
		return theNaN
	}
	return f
}
