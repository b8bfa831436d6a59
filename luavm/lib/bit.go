package lib

import (
	"math"
	"math/bits"

	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// bitLibrary is Lua BitOp: operations on 32 bits, with signed results.
var bitLibrary = []lauxlib.Func{
	{"tobit", func(c lauxlib.Call) int { return pushBits(c, bitsOf(c, 1)) }},
	{"bnot", func(c lauxlib.Call) int { return pushBits(c, ^bitsOf(c, 1)) }},
	{"band", func(c lauxlib.Call) int { return foldBits(c, func(x, y uint32) uint32 { return x & y }) }},
	{"bor", func(c lauxlib.Call) int { return foldBits(c, func(x, y uint32) uint32 { return x | y }) }},
	{"bxor", func(c lauxlib.Call) int { return foldBits(c, func(x, y uint32) uint32 { return x ^ y }) }},
	{"lshift", func(c lauxlib.Call) int { return shiftBits(c, func(x uint32, n int) uint32 { return x << n }) }},
	{"rshift", func(c lauxlib.Call) int { return shiftBits(c, func(x uint32, n int) uint32 { return x >> n }) }},
	{"arshift", func(c lauxlib.Call) int {
		return shiftBits(c, func(x uint32, n int) uint32 { return uint32(int32(x) >> n) })
	}},
	{"rol", func(c lauxlib.Call) int { return shiftBits(c, bits.RotateLeft32) }},
	{"ror", func(c lauxlib.Call) int {
		return shiftBits(c, func(x uint32, n int) uint32 { return bits.RotateLeft32(x, -n) })
	}},
	{"bswap", func(c lauxlib.Call) int { return pushBits(c, bits.ReverseBytes32(bitsOf(c, 1))) }},
	{"tohex", bitToHex},
}

// OpenBit returns the table of the library bit.
func OpenBit(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	return lauxlib.NewLibrary(L, b, bitLibrary)
}

// bitsOf reads argument n as BitOp does: adding 2^52+2^51 rounds the number to an
// integer whose low 32 bits are those of the sum. Beyond 2^51 the sum rounds further, as in BitOp.
func bitsOf(c lauxlib.Call, n int) uint32 {
	f := c.Arg(n).Number()
	if math.IsNaN(f) {
		return 0
	}
	return uint32(math.Float64bits(f + 0x1.8p52))
}

func pushBits(c lauxlib.Call, x uint32) int {
	c.L.Push(lua.LNumber(int32(x)))
	return 1
}

// foldBits combines all arguments. Like BitOp it reads them from the last on, which decides which of two bad
// arguments is reported.
func foldBits(c lauxlib.Call, op func(x, y uint32) uint32) int {
	c.Charge(c.L.GetTop())
	x := bitsOf(c, 1)
	for n := c.L.GetTop(); n > 1; n-- {
		x = op(x, bitsOf(c, n))
	}
	return pushBits(c, x)
}

func shiftBits(c lauxlib.Call, op func(x uint32, n int) uint32) int {
	x := bitsOf(c, 1)
	return pushBits(c, op(x, int(bitsOf(c, 2)&31)))
}

// bitToHex writes the last n digits, in capitals if n is negative.
func bitToHex(c lauxlib.Call) int {
	x, n := bitsOf(c, 1), int64(8)
	if c.L.GetTop() >= 2 {
		n = int64(int32(bitsOf(c, 2)))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n, digits = -n, "0123456789ABCDEF"
	}
	out := make([]byte, min(n, 8))
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[x&15]
		x >>= 4
	}
	c.Need(len(out))
	c.L.Push(lua.LString(out))
	return 1
}
