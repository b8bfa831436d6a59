package state

import (
	"math"
	"reflect"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// gopher-lua keeps the numbers from 0 to 127 ready, and takes the 0 among them for the result -0 of an operator, too:
// then 1/x, what x looks like as a text, and what a script makes of either, are others than in Lua. No rewriting of the
// tree helps, short of a call for each operator. So the four instructions are run by arithmeticOp.

// instruction is a function of gopher-lua that runs one; frame is its *callFrame.
type instruction = func(L *lua.LState, inst uint32, frame unsafe.Pointer) int

// instructions is gopher-lua's table of them, by code.
//
//go:linkname instructions github.com/yuin/gopher-lua.jumpTable
var instructions [lua.OP_NOP + 1]instruction

// plainArithmetic is gopher-lua's own function of the four.
var plainArithmetic instruction

func init() {
	plainArithmetic = instructions[lua.OP_ADD]
	for _, code := range []int{lua.OP_ADD, lua.OP_SUB, lua.OP_MUL, lua.OP_DIV} {
		instructions[code] = arithmeticOp
	}
}

var minusZero lua.LValue = lua.LNumber(math.Copysign(0, -1))

// arithmeticOp does what gopher-lua does, and gives its result the sign if that is -0.
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

// constantMark marks an operand that is a constant, and no register.
const constantMark = 1 << 8

func operandOf(L *lua.LState, i int) lua.LValue {
	if i&constantMark == 0 {
		return registersOf(L)[i]
	}
	frame := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.frame)
	return (*fieldOf[*lua.LFunction](frame, offsets.fn)).Proto.Constants[i&^constantMark]
}

// registersOf are those of the running function, and what lies beyond them.
func registersOf(L *lua.LState) []lua.LValue {
	frame := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.frame)
	registry := *fieldOf[unsafe.Pointer](unsafe.Pointer(L), offsets.registry)
	return (*fieldOf[[]lua.LValue](registry, offsets.array))[*fieldOf[int](frame, offsets.base):]
}

func fieldOf[T any](of unsafe.Pointer, offset uintptr) *T { return (*T)(unsafe.Add(of, offset)) }

// offsets are the places of fields that gopher-lua does not show.
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
