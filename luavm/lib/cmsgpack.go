package lib

import (
	"encoding/binary"
	"math"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// cmsgpack is lua-cmsgpack 0.4.0 as Redis has it.
var msgpackLibrary = []lauxlib.Func{
	{"pack", msgpackPack},
	{"unpack", func(c lauxlib.Call) int { return msgpackUnpack(c, 0, 0) }},
	{"unpack_one", func(c lauxlib.Call) int {
		offset := c.Arg(2).OptInteger(0)
		return msgpackUnpack(c, 1, offset)
	}},
	{"unpack_limit", func(c lauxlib.Call) int {
		limit := c.Arg(2).Integer()
		return msgpackUnpack(c, limit, c.Arg(3).OptInteger(0))
	}},
}

// OpenCMsgpack returns the table of the library cmsgpack.
func OpenCMsgpack(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	t := lauxlib.NewLibrary(L, b, msgpackLibrary)
	t.RawSetString("_NAME", lua.LString("cmsgpack"))
	t.RawSetString("_VERSION", lua.LString("lua-cmsgpack 0.4.0"))
	t.RawSetString("_COPYRIGHT", lua.LString("Copyright (C) 2012, Salvatore Sanfilippo"))
	t.RawSetString("_DESCRIPTION", lua.LString("MessagePack C implementation for Lua"))
	return t
}

// msgpackDepthMax bounds the depth of packed tables; a deeper table is packed as nil, so that packing a table that
// contains itself ends.
const msgpackDepthMax = 16

// The first bytes of MessagePack.
const (
	mpFixMap    = 0x80 // | length below 16
	mpFixArray  = 0x90 // | length below 16
	mpFixString = 0xa0 // | length below 32
	mpNil       = 0xc0
	mpFalse     = 0xc2
	mpTrue      = 0xc3
	mpFloat32   = 0xca
	mpFloat64   = 0xcb
	mpUint8     = 0xcc
	mpUint16    = 0xcd
	mpUint32    = 0xce
	mpUint64    = 0xcf
	mpInt8      = 0xd0
	mpInt16     = 0xd1
	mpInt32     = 0xd2
	mpInt64     = 0xd3
	mpString8   = 0xd9
	mpString16  = 0xda
	mpString32  = 0xdb
	mpArray16   = 0xdc
	mpArray32   = 0xdd
	mpMap16     = 0xde
	mpMap32     = 0xdf
)

func msgpackPack(c lauxlib.Call) int {
	args := c.L.GetTop()
	if args == 0 {
		c.Arg(0).Fail("MessagePack pack needs input.")
	}
	if 2*args > lauxlib.CStackMax {
		c.Arg(0).Fail("Too many arguments for MessagePack pack.")
	}
	w := &msgpackWriter{lauxlib.Buffer{C: c}}
	for i := 1; i <= args; i++ {
		w.value(c.L.Get(i), 0)
	}
	return w.Push()
}

type msgpackWriter struct{ lauxlib.Buffer }

// head writes a first byte and, after it, a number of size bytes.
func (w *msgpackWriter) head(mark byte, n uint64, size int) {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], n)
	w.C.Need(lauxlib.BufferPrice * (1 + size))
	w.Bytes = append(append(w.Bytes, mark), buf[8-size:]...)
}

func (w *msgpackWriter) value(v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LString:
		w.string(string(v))
	case lua.LNumber:
		w.number(float64(v))
	case lua.LBool:
		if v {
			w.AddByte(mpTrue)
		} else {
			w.AddByte(mpFalse)
		}
	case *lua.LTable:
		if depth < msgpackDepthMax {
			w.table(v, depth)
			return
		}
		w.AddByte(mpNil)
	default:
		w.AddByte(mpNil)
	}
}

func (w *msgpackWriter) string(s string) {
	switch n := uint64(len(s)); {
	case n < 32:
		w.head(mpFixString|byte(n), 0, 0)
	case n <= math.MaxUint8:
		w.head(mpString8, n, 1)
	case n <= math.MaxUint16:
		w.head(mpString16, n, 2)
	default:
		w.head(mpString32, n, 4)
	}
	w.Add(s)
}

// number writes an integer if the number is one, a float of 4 bytes if that loses nothing, and else one of 8 bytes.
func (w *msgpackWriter) number(f float64) {
	single := libc.Float32(f)
	switch n := libc.Int64(f); {
	case float64(n) == f:
		w.integer(n)
	case float64(single) == f:
		w.head(mpFloat32, uint64(math.Float32bits(single)), 4)
	default:
		w.head(mpFloat64, math.Float64bits(libc.OneNaN(f)), 8)
	}
}

func (w *msgpackWriter) integer(n int64) {
	switch u := uint64(n); {
	case n >= -32 && n <= math.MaxInt8:
		w.head(byte(n), 0, 0)
	case n > math.MaxUint32:
		w.head(mpUint64, u, 8)
	case n > math.MaxUint16:
		w.head(mpUint32, u, 4)
	case n > math.MaxUint8:
		w.head(mpUint16, u, 2)
	case n >= 0:
		w.head(mpUint8, u, 1)
	case n >= math.MinInt8:
		w.head(mpInt8, u, 1)
	case n >= math.MinInt16:
		w.head(mpInt16, u, 2)
	case n >= math.MinInt32:
		w.head(mpInt32, u, 4)
	default:
		w.head(mpInt64, u, 8)
	}
}

// table writes an array if the keys are 1 to n, a map otherwise; an empty table
// is an array.
func (w *msgpackWriter) table(t *lua.LTable, depth int) {
	w.C.Scan(t)
	count, isArray := 0, true
	most := 0.0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		count++
		f, ok := k.(lua.LNumber)
		isArray = isArray && ok && f > 0 && f <= math.MaxInt32 && float64(f) == math.Floor(float64(f))
		most = max(most, float64(f))
	}
	if isArray && int(most) == count {
		w.array(t, count, depth)
	} else {
		w.mapping(t, count, depth)
	}
}

func (w *msgpackWriter) array(t *lua.LTable, n, depth int) {
	w.length(n, mpFixArray, mpArray16, mpArray32)
	for i := 1; i <= n; i++ {
		w.value(t.RawGet(lua.LNumber(i)), depth+1)
	}
}

func (w *msgpackWriter) mapping(t *lua.LTable, n, depth int) {
	w.length(n, mpFixMap, mpMap16, mpMap32)
	w.C.Scan(t)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		w.value(k, depth+1)
		w.value(v, depth+1)
	}
}

func (w *msgpackWriter) length(n int, fix, mark16, mark32 byte) {
	switch {
	case n < 16:
		w.head(fix|byte(n), 0, 0)
	case n <= math.MaxUint16:
		w.head(mark16, uint64(n), 2)
	default:
		w.head(mark32, uint64(n), 4)
	}
}

// msgpackUnpack pushes the values from offset on, at most limit of them; limit and offset 0 mean all. Otherwise the
// next offset comes first, -1 at the end.
func msgpackUnpack(c lauxlib.Call, limit, offset int64) int {
	s := c.Arg(1).Text()
	if offset < 0 || limit < 0 {
		// The original shows the input's length where the words promise the limit.
		c.Fail("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), int32(len(s)))
	}
	if offset > int64(len(s)) {
		c.Fail("Start offset %d greater than input length %d.", int32(offset), len(s))
	}
	all := limit == 0 && offset == 0
	if all {
		limit = math.MaxInt32
	}
	r := &msgpackReader{c: c, rest: s[offset:]}
	values := r.values(limit)
	if all {
		return c.Push(values...)
	}
	next := len(s) - len(r.rest)
	if len(r.rest) == 0 {
		next = -1
	}
	return c.Push(lua.LNumber(next)) + c.Push(values...)
}

// msgpackReader decodes. used counts the values on the original's stack, which bounds results and nesting.
type msgpackReader struct {
	c    lauxlib.Call
	rest string
}

func (r *msgpackReader) values(limit int64) []lua.LValue {
	var values []lua.LValue
	for r.rest != "" && int64(len(values)) < limit {
		r.c.Need(lauxlib.SlotBytes)
		values = append(values, r.value(1+len(values)))
	}
	return values
}

// take removes the next n bytes and returns them.
func (r *msgpackReader) take(n uint64) string {
	if n > uint64(len(r.rest)) {
		r.c.Fail("Missing bytes in input.")
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// uint reads a number of size bytes, int one with a sign.
func (r *msgpackReader) uint(size uint64) uint64 {
	n := uint64(0)
	for _, b := range []byte(r.take(size)) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *msgpackReader) int(size uint64) lua.LValue {
	return lua.LNumber(signExtend(r.uint(size), size))
}

func (r *msgpackReader) text(n uint64) lua.LValue {
	s := r.take(n)
	r.c.Need(len(s))
	return lua.LString(strings.Clone(s))
}

// value reads one value, with used values on the original's stack before it.
func (r *msgpackReader) value(used int) lua.LValue {
	r.c.Charge(1)
	mark := r.take(1)[0]
	r.c.CheckStack(used, 1, "too many return values at once; use unpack_one or unpack_limit instead.")
	switch mark {
	case mpNil:
		return lua.LNil
	case mpFalse:
		return lua.LFalse
	case mpTrue:
		return lua.LTrue
	case mpFloat32:
		return lua.LNumber(libc.OneNaN(float64(math.Float32frombits(uint32(r.uint(4))))))
	case mpFloat64:
		return lua.LNumber(libc.OneNaN(math.Float64frombits(r.uint(8))))
	case mpUint8, mpUint16, mpUint32, mpUint64:
		return lua.LNumber(int64(r.uint(1 << (mark - mpUint8)))) // 64 bits with a sign, as the original
	case mpInt8, mpInt16, mpInt32, mpInt64:
		return r.int(1 << (mark - mpInt8))
	case mpString8, mpString16, mpString32:
		return r.text(r.uint(1 << (mark - mpString8)))
	case mpArray16, mpArray32:
		return r.array(r.uint(2<<(mark-mpArray16)), used)
	case mpMap16, mpMap32:
		return r.mapping(r.uint(2<<(mark-mpMap16)), used)
	}
	return r.fixed(mark, used)
}

// fixed reads a value whose first byte also holds its number or length.
func (r *msgpackReader) fixed(mark byte, used int) lua.LValue {
	switch {
	case mark < mpFixMap:
		return lua.LNumber(mark)
	case mark >= 0xe0:
		return lua.LNumber(int8(mark))
	case mark&0xe0 == mpFixString:
		return r.text(uint64(mark & 0x1f))
	case mark&0xf0 == mpFixArray:
		return r.array(uint64(mark&0xf), used)
	case mark&0xf0 == mpFixMap:
		return r.mapping(uint64(mark&0xf), used)
	}
	r.c.Fail("Bad data format in input.")
	return lua.LNil
}

func (r *msgpackReader) array(n uint64, used int) lua.LValue {
	t := lauxlib.NewTable(r.c)
	r.c.CheckStack(used+1, 1, "in function mp_decode_to_lua_array")
	for i := uint64(1); i <= n; i++ {
		t.Set(lua.LNumber(i), r.value(used+2))
	}
	return t.Table()
}

func (r *msgpackReader) mapping(n uint64, used int) lua.LValue {
	t := lauxlib.NewTable(r.c)
	for ; n > 0; n-- {
		key := r.value(used + 1)
		t.Set(key, r.value(used+2))
	}
	return t.Table()
}
