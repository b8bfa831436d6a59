package state

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// raised is the state's panic function: gopher-lua calls it with the error on top of the stack. It translates the
// error, records its origin, and unwinds.
func (st *State) raised(L *lua.LState) {
	object := L.Get(-1)
	ours := st.b.Caught(object)
	chargeUnwinding(L, st.b)
	switch s, isText := object.(lua.LString); {
	case st.b.LimitMet() != "":
		object = lua.LString(st.b.LimitMet())
	case isText && !ours && strings.HasPrefix(string(s), compiler.KeyMark):
		object = lua.LString(translate(L, st.b, string(s)))
	}
	st.recordOrigin(L)
	// A stack trace that is not empty keeps PCall from making one, which takes
	// time quadratic in the depth of the stack.
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: object, StackTrace: "-"})
}

// chargeUnwinding charges for gopher-lua's work to raise an error: for each function on the stack it walks the list
// of open upvalues.
func chargeUnwinding(L *lua.LState, b *lauxlib.Budget) {
	depth := 16
	for depth < callsMax {
		if _, ok := L.GetStack(depth); !ok {
			break
		}
		depth *= 2
	}
	b.Take(depth * depth / 64)
}

// recordOrigin records what Redis's error handler adds to an error: the source and the line of the function that raised
// it, or of its caller if it is not Lua.
func (st *State) recordOrigin(L *lua.LState) {
	p, _ := st.b.PlaceAt(L, 0)
	if p.Chunk == nil {
		p, _ = st.b.PlaceAt(L, 1)
	}
	st.Origin = "=[C]:-1"
	if p.Chunk != nil {
		st.Origin = p.Chunk.Source + ":" + strconv.Itoa(p.Site.Line)
	}
}

// translate turns a message of gopher-lua's machine into Lua 5.1's.
func translate(L *lua.LState, b *lauxlib.Budget, text string) string {
	var p lauxlib.Place
	for level := 0; p.Chunk == nil; level++ {
		var ok bool
		if p, ok = b.PlaceAt(L, level); !ok {
			break
		}
	}
	_, message, _ := strings.Cut(text, ": ")
	return p.String() + reword(L, p.Site, message)
}

func reword(L *lua.LState, s compiler.Site, m string) string {
	var first compiler.Desc
	if len(s.Operands) > 0 {
		first = s.Operands[0]
	}
	switch {
	case m == "attempt to call a non-function object":
		return typeMessage("call", s.Callee, lauxlib.TypeName(operand(L, registerA)))
	case strings.HasPrefix(m, "attempt to index a non-table object("):
		m = strings.TrimPrefix(m, "attempt to index a non-table object(")
		kind, _, _ := strings.Cut(m, ")")
		return typeMessage("index", first, kind)
	case strings.HasPrefix(m, "cannot perform "):
		return rewordArithmetic(s, m)
	case m == "__unm undefined":
		return typeMessage("perform arithmetic on", first, lauxlib.TypeName(operand(L, registerB)))
	case strings.HasPrefix(m, "attempt to compare "):
		a, b, _ := strings.Cut(strings.TrimPrefix(m, "attempt to compare "), " with ")
		return compareMessage(a, b)
	case m == "registry overflow":
		return "stack overflow"
	case m == "too many recursions in gettable":
		return "loop in gettable"
	}
	return m
}

// rewordArithmetic names the wrong operand: the first unless it is a number.
func rewordArithmetic(s compiler.Site, m string) string {
	_, m, _ = strings.Cut(m, " between ")
	a, b, _ := strings.Cut(m, " and ")
	wrong, i := a, 0
	if a == "number" {
		wrong, i = b, 1
	}
	var d compiler.Desc
	if i < len(s.Operands) {
		d = s.Operands[i]
	}
	return typeMessage("perform arithmetic on", d, wrong)
}

// typeMessage returns luaG_typeerror's text.
func typeMessage(op string, d compiler.Desc, kind string) string {
	if d.Kind == "" {
		return fmt.Sprintf("attempt to %s a %s value", op, kind)
	}
	return fmt.Sprintf("attempt to %s %s '%s' (a %s value)", op, d.Kind, d.Name, kind)
}

// compareMessage returns luaG_ordererror's text.
func compareMessage(a, b string) string {
	if a == b {
		return fmt.Sprintf("attempt to compare two %s values", a)
	}
	return fmt.Sprintf("attempt to compare %s with %s", a, b)
}

// frameField and pcField are the indices of the unexported fields that lead to the program counter of a stack frame.
var frameField, pcField = func() ([]int, []int) {
	frame, ok := reflect.TypeFor[lua.Debug]().FieldByName("frame")
	if ok {
		if pc, ok := frame.Type.Elem().FieldByName("Pc"); ok {
			return frame.Index, pc.Index
		}
	}
	panic("luavm: this gopher-lua keeps its frames otherwise")
}()

// registerA and registerB return the first and second register of an instruction of gopher-lua.
func registerA(inst uint32) int { return int(inst >> 18 & 0xff) }
func registerB(inst uint32) int { return int(inst & 0x1ff) }

// operand returns the value of a register of the running instruction of a Lua function.
func operand(L *lua.LState, register func(inst uint32) int) lua.LValue {
	dbg, ok := L.GetStack(0)
	if !ok {
		return lua.LNil
	}
	f, err := L.GetInfo("f", dbg, lua.LNil)
	fn, isFunc := f.(*lua.LFunction)
	if err != nil || !isFunc || fn.IsG {
		return lua.LNil
	}
	pc := int(reflect.ValueOf(dbg).Elem().FieldByIndex(frameField).Elem().FieldByIndex(pcField).Int()) - 1
	if pc < 0 || pc >= len(fn.Proto.Code) {
		return lua.LNil
	}
	return L.Get(register(fn.Proto.Code[pc]) + 1)
}
