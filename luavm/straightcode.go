package luavm

import (
	"lockd/luavm/compiler"

	lua "github.com/yuin/gopher-lua"
)

// straightCode is the code of a straight script: gopher-lua's, instruction by instruction, so that each costs the
// same. All jumps lead forward.
type straightCode struct {
	ops       []straightOp
	constants []value
}

// straightOp is an instruction with its operands. A negative operand that may be a register or a constant is a
// constant: constants[^i].
type straightOp struct{ code, a, b, c int }

// opLoad loads a constant: one of the source, or the value of a global, an intrinsic, or a field of redis, none of
// which a script can change.
const opLoad = lua.OP_LOADK

// Limits of a straight script.
const (
	straightOpsMax       = 256 // Redisson's unlock has 85
	straightRegistersMax = 32
)

// The names that a straight script may read: globals, fields of redis, and functions of the compiler.
var (
	straightGlobals = map[string]kind{"redis": isRedis, "KEYS": isKeys, "ARGV": isArgv, "tonumber": isToNumber}
	straightFields  = map[string]kind{"call": isCall, "pcall": isCall}
	straightInner   = map[string]kind{
		"(eq)": isEqual, "(lt)": isLess, "(le)": isLessEqual, "(gt)": isGreater, "(ge)": isGreaterEqual,
		"(concat)": isConcat,
	}
)

// bytes returns an upper estimate of the memory of the code.
func (s *straightCode) bytes() int {
	if s == nil {
		return 0
	}
	return 32*cap(s.ops) + 64*cap(s.constants)
}

// value is a Lua value.
type value struct {
	kind   kind
	number float64 // of a boolean, 0 or 1
	text   string  // of a status reply too
}

type kind uint8

const (
	isNil kind = iota
	isBool
	isNumber
	isText
	// Tables:
	isStatus // a reply such as OK
	isRedis
	isKeys
	isArgv
	// Functions:
	isCall
	isToNumber
	isEqual
	isLess
	isLessEqual
	isGreater
	isGreaterEqual
	isConcat
)

func number(f float64) value { return value{kind: isNumber, number: f} }
func text(s string) value    { return value{kind: isText, text: s} }

func boolean(b bool) value {
	if b {
		return value{kind: isBool, number: 1}
	}
	return value{kind: isBool}
}

// truth reports whether v is true as a condition.
func (v *value) truth() bool { return v.kind > isBool || v.kind == isBool && v.number != 0 }

// straighten translates a script; nil if it is not straight.
func straighten(c *compiler.Chunk) *straightCode {
	main := c.Proto.FunctionPrototypes[0]
	if len(main.Code) > straightOpsMax || main.NumUsedRegisters > straightRegistersMax {
		return nil
	}
	s := &straightener{main: main}
	for _, constant := range main.Constants {
		s.out.constants = append(s.out.constants, constantValue(constant))
	}
	for _, inst := range main.Code {
		op, ok := s.translate(inst)
		if !ok {
			return nil
		}
		s.out.ops = append(s.out.ops, op)
	}
	return &s.out
}

func constantValue(constant lua.LValue) value {
	if f, ok := constant.(lua.LNumber); ok {
		return number(float64(f))
	}
	return text(string(constant.(lua.LString)))
}

type straightener struct {
	main *lua.FunctionProto
	out  straightCode
}

// The parts of an instruction of gopher-lua.
const (
	constantMark = 1 << 8 // in an operand
	jumpBase     = 1<<17 - 1
)

// translate translates the next instruction; false if straight scripts cannot have it.
func (s *straightener) translate(inst uint32) (straightOp, bool) {
	op := straightOp{code: int(inst >> 26), a: int(inst >> 18 & 0xff), b: int(inst & 0x1ff), c: int(inst >> 9 & 0x1ff)}
	wide := int(inst & 0x3ffff)
	switch op.code {
	case lua.OP_MOVE, lua.OP_MOVEN, lua.OP_LOADBOOL, lua.OP_LOADNIL, lua.OP_NOT, lua.OP_TEST, lua.OP_TESTSET,
		lua.OP_CALL, lua.OP_TAILCALL, lua.OP_RETURN, lua.OP_NOP:
		return op, true
	case lua.OP_LOADK:
		op.b = wide
		return op, true
	case lua.OP_GETGLOBAL:
		return s.load(op.a, straightGlobals[string(s.main.Constants[wide].(lua.LString))])
	case lua.OP_GETUPVAL:
		return s.load(op.a, straightInner[s.main.DbgUpvalues[op.b]])
	case lua.OP_GETTABLEKS:
		return s.field(op)
	case lua.OP_GETTABLE:
		op.c = operandOf(op.c)
		return op, true
	case lua.OP_ADD, lua.OP_SUB, lua.OP_MUL, lua.OP_DIV, lua.OP_EQ, lua.OP_LT, lua.OP_LE:
		op.b, op.c = operandOf(op.b), operandOf(op.c)
		return op, true
	case lua.OP_JMP:
		op.b = wide - jumpBase
		return op, op.b >= 0
	}
	return op, false
}

func operandOf(b int) int {
	if b&constantMark != 0 {
		return ^(b &^ constantMark)
	}
	return b
}

// load makes an instruction that loads the value of a name.
func (s *straightener) load(a int, what kind) (straightOp, bool) {
	s.out.constants = append(s.out.constants, value{kind: what})
	return straightOp{code: opLoad, a: a, b: len(s.out.constants) - 1}, what != isNil
}

// field makes an instruction that reads a field of redis; running it checks that the object is redis.
func (s *straightener) field(op straightOp) (straightOp, bool) {
	if op.c&constantMark == 0 {
		return op, false
	}
	load, ok := s.load(op.a, straightFields[s.out.constants[op.c&^constantMark].text])
	op.c = load.b
	return op, ok
}
