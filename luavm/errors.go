package luavm

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Error messages are Lua 5.1's: "user_script:1: attempt to call local 'f' (a nil
// value)". gopher-lua's own are translated at the moment they are raised, while
// the stack still stands.

// A compiled chunk carries a key instead of a name, and instead of a line the
// index of a site: keyMark begins each such key, and so each position that
// gopher-lua itself writes before a message.
const keyMark = "\x1b"

// place is where a function on the stack stands.
type place struct {
	chunk *chunk // nil in a Go function
	site  site
}

// String is the position as messages begin with it.
func (p place) String() string {
	if p.chunk == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", p.chunk.name, p.site.line)
}

// placeAt finds the function at a level of the stack, 0 being the running one;
// false if the stack is not that deep.
func (b *budget) placeAt(L *lua.LState, level int) (place, bool) {
	dbg, ok := L.GetStack(level)
	if !ok {
		return place{}, false
	}
	if _, err := L.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.CurrentLine < 0 {
		return place{}, true
	}
	c := b.chunks[dbg.Source]
	if c == nil || dbg.CurrentLine >= len(c.sites) {
		return place{}, true
	}
	return place{c, c.sites[dbg.CurrentLine]}, true
}

// where is luaL_where: the position of the function that called the running one.
func (b *budget) where(L *lua.LState) string {
	p, _ := b.placeAt(L, 1)
	return p.String()
}

// raised is the state's panic function: gopher-lua calls it with the error on top
// of the stack. It translates the error, notes where it came from, and unwinds.
func (st *State) raised(L *lua.LState) {
	object := L.Get(-1)
	ours := st.b.caught(object)
	st.chargeUnwinding(L)
	switch s, isText := object.(lua.LString); {
	case st.b.limitMet() != "":
		object = lua.LString(st.b.limitMet())
	case isText && !ours && strings.HasPrefix(string(s), keyMark):
		object = lua.LString(st.translate(L, string(s)))
	}
	st.noteOrigin(L)
	// A stack trace that is not empty keeps PCall from making one, which takes
	// time quadratic in the depth of the stack.
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: object, StackTrace: "-"})
}

// chargeUnwinding charges for what raising an error costs gopher-lua: for each
// function on the stack it walks the list of open upvalues.
func (st *State) chargeUnwinding(L *lua.LState) {
	depth := 16
	for depth < callsMax {
		if _, ok := L.GetStack(depth); !ok {
			break
		}
		depth *= 2
	}
	st.b.take(depth * depth / 64)
}

// noteOrigin remembers what Redis's error handler adds to an error: the source
// and the line of the function that raised it, or of its caller if it is not Lua.
func (st *State) noteOrigin(L *lua.LState) {
	p, _ := st.b.placeAt(L, 0)
	if p.chunk == nil {
		p, _ = st.b.placeAt(L, 1)
	}
	st.origin = "=[C]:-1"
	if p.chunk != nil {
		st.origin = p.chunk.source + ":" + strconv.Itoa(p.site.line)
	}
}

// translate turns a message of gopher-lua's machine into Lua 5.1's.
func (st *State) translate(L *lua.LState, text string) string {
	var p place
	for level := 0; p.chunk == nil; level++ {
		var ok bool
		if p, ok = st.b.placeAt(L, level); !ok {
			break
		}
	}
	_, message, _ := strings.Cut(text, ": ")
	return p.String() + st.reword(L, p.site, message)
}

func (st *State) reword(L *lua.LState, s site, m string) string {
	var first desc
	if len(s.operands) > 0 {
		first = s.operands[0]
	}
	switch {
	case m == "attempt to call a non-function object":
		return typeMessage("call", s.callee, typeName(operand(L, func(inst uint32) int { return int(inst >> 18 & 0xff) })))
	case strings.HasPrefix(m, "attempt to index a non-table object("):
		m = strings.TrimPrefix(m, "attempt to index a non-table object(")
		kind, _, _ := strings.Cut(m, ")")
		return typeMessage("index", first, kind)
	case strings.HasPrefix(m, "cannot perform "):
		return rewordArithmetic(s, m)
	case m == "__unm undefined":
		return typeMessage("perform arithmetic on", first, typeName(operand(L, func(inst uint32) int { return int(inst & 0x1ff) })))
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

// rewordArithmetic names the operand that is wrong: the first unless it is a number.
func rewordArithmetic(s site, m string) string {
	_, m, _ = strings.Cut(m, " between ")
	a, b, _ := strings.Cut(m, " and ")
	wrong, i := a, 0
	if a == "number" {
		wrong, i = b, 1
	}
	var d desc
	if i < len(s.operands) {
		d = s.operands[i]
	}
	return typeMessage("perform arithmetic on", d, wrong)
}

// typeMessage is luaG_typeerror's text.
func typeMessage(op string, d desc, kind string) string {
	if d.kind == "" {
		return fmt.Sprintf("attempt to %s a %s value", op, kind)
	}
	return fmt.Sprintf("attempt to %s %s '%s' (a %s value)", op, d.kind, d.name, kind)
}

// compareMessage is luaG_ordererror's text.
func compareMessage(a, b string) string {
	if a == b {
		return fmt.Sprintf("attempt to compare two %s values", a)
	}
	return fmt.Sprintf("attempt to compare %s with %s", a, b)
}

func typeName(v lua.LValue) string { return v.Type().String() }

// frameField and pcField lead to the program counter of a stack frame, which
// gopher-lua does not show.
var frameField, pcField = func() ([]int, []int) {
	frame, ok := reflect.TypeFor[lua.Debug]().FieldByName("frame")
	if ok {
		if pc, ok := frame.Type.Elem().FieldByName("Pc"); ok {
			return frame.Index, pc.Index
		}
	}
	panic("luavm: this gopher-lua keeps its frames otherwise")
}()

// operand reads a register that the running instruction of a Lua function names.
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
