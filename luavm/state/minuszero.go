package state

import (
	"math"
	"reflect"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// gopher-lua preallocates the numbers from 0 to 127, and uses its 0 for an operator's result -0, too: then 1/x and
// the text of x, and all that follows from them, differ from Lua. Rewriting the tree would need a call for each
// operator. So arithmeticOp replaces the four instructions.

// instruction is gopher-lua's type of a function that runs one instruction; frame is its *callFrame.
type instruction = func(L *lua.LState, inst uint32, frame unsafe.Pointer) int

// instructions is gopher-lua's table of these functions, by code.
//
//go:linkname instructions github.com/yuin/gopher-lua.jumpTable
var instructions [lua.OP_NOP + 1]instruction

// plainArithmetic is gopher-lua's own function for the four instructions.
var plainArithmetic instruction

func init() {
	plainArithmetic = instructions[lua.OP_ADD]
	for _, code := range []int{lua.OP_ADD, lua.OP_SUB, lua.OP_MUL, lua.OP_DIV} {
		instructions[code] = arithmeticOp
	}
}

var minusZero lua.LValue = lua.LNumber(math.Copysign(0, -1))

// arithmeticOp does what gopher-lua does, and restores the sign of a result -0.
func arithmeticOp(L *lua.LState, inst uint32, frame unsafe.Pointer) int {
	x, ok1 := operandOf(L, int(inst&0x1ff)).(lua.LNumber)
	y, ok2 := operandOf(L, int(inst>>9&0x1ff)).(lua.LNumber)
	negative := ok1 && ok2 && isMinusZero(int(inst>>26), float64(x), float64(y))
	done := plainArithmetic(L, inst, frame)
	if negative {
		registersOf(L)[registerA(inst)] = minusZero
	}
	return done
}

func isMinusZero(code int, x, y float64) bool {
	result := 1.0
	switch code {
	case lua.OP_ADD:
		result = x + y
	case lua.OP_SUB:
		result = x - y
	case lua.OP_MUL:
		result = x * y
	case lua.OP_DIV:
		result = x / y
	}
	return result == 0 && math.Signbit(result)
}

// constantMark marks an operand that is a constant, not a register.
const constantMark = 1 << 8

func operandOf(L *lua.LState, i int) lua.LValue {
	if i&constantMark == 0 {
		return registersOf(L)[i]
	}
	frame := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.frame)
	return (*fieldOf[*lua.LFunction](frame, offsets.fn)).Proto.Constants[i&^constantMark]
}

// registersOf returns the registers of the running function, and all beyond them.
func registersOf(L *lua.LState) []lua.LValue {
	frame := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.frame)
	registry := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.registry)
	return (*fieldOf[[]lua.LValue](registry, offsets.array))[*fieldOf[int](frame, offsets.base):]
}

func fieldOf[T any](of unsafe.Pointer, offset uintptr) *T { return (*T)(unsafe.Add(of, offset)) }

// offsets are the offsets of unexported fields of gopher-lua.
var offsets = func() (o struct{ registry, array, frame, fn, base uintptr }) {
	find := func(t reflect.Type, name string, like reflect.Type) (uintptr, reflect.Type) {
		f, ok := t.FieldByName(name)
		if !ok || f.Type.Kind() != like.Kind() || like.Kind() != reflect.Pointer && f.Type != like {
			panic("luavm: this gopher-lua has no field " + name)
		}
		return f.Offset, f.Type
	}
	pointer, state := reflect.TypeFor[*int](), reflect.TypeFor[lua.LState]()
	var registry, frame reflect.Type
	o.registry, registry = find(state, "reg", pointer)
	o.array, _ = find(registry.Elem(), "array", reflect.TypeFor[[]lua.LValue]())
	o.frame, frame = find(state, "currentFrame", pointer)
	o.fn, _ = find(frame.Elem(), "Fn", pointer)
	o.base, _ = find(frame.Elem(), "LocalBase", reflect.TypeFor[int]())
	return o
}()
