package lauxlib

import (
	"fmt"

	"lockd/luavm/compiler"

	lua "github.com/yuin/gopher-lua"
)

// Place is the position of a function on the stack.
type Place struct {
	Chunk *compiler.Chunk // nil in a Go function
	Site  compiler.Site
}

// String returns the position as messages begin with it.
func (p Place) String() string {
	if p.Chunk == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", p.Chunk.Name, p.Site.Line)
}

// PlaceAt returns the position of the function at a level of the stack, 0 being the running one; false if the stack
// is not that deep.
func (b *Budget) PlaceAt(L *lua.LState, level int) (Place, bool) {
	dbg, ok := L.GetStack(level)
	if !ok {
		return Place{}, false
	}
	if _, err := L.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.CurrentLine < 0 {
		return Place{}, true
	}
	c := b.Chunks[dbg.Source]
	if c == nil || dbg.CurrentLine >= len(c.Sites) {
		return Place{}, true
	}
	return Place{c, c.Sites[dbg.CurrentLine]}, true
}

// where is luaL_where: it returns the position of the function that called the running one.
func (b *Budget) where(L *lua.LState) string {
	p, _ := b.PlaceAt(L, 1)
	return p.String()
}

// callee returns the caller's name for the running function. Without a name, or if the caller is not Lua code, it is
// "?".
func (b *Budget) callee(L *lua.LState) compiler.Desc {
	p, _ := b.PlaceAt(L, 1)
	if p.Site.Callee.Kind == "" {
		return compiler.Desc{Name: "?"}
	}
	return p.Site.Callee
}

// TypeName returns the name of a value's type.
func TypeName(v lua.LValue) string { return v.Type().String() }

// CStackMax is LUAI_MAXCSTACK: the number of values that a C function may have on its stack. It bounds results and
// nesting as it does in Redis.
const CStackMax = 8000

// Fail raises an error as luaL_error does: with the script's position where Lua
// code made the call, without one where another function did (pcall).
func (c Call) Fail(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	c.Need(len(msg))
	msg = c.Budget.where(c.L) + msg
	c.Raise(lua.LString(msg))
}

// FailBare raises an error without a position, as the Lua machine itself does for errors of C functions.
func (c Call) FailBare(msg string) { c.Raise(lua.LString(msg)) }

// CheckStack raises luaL_checkstack's error if n more values would not fit beside the used ones.
func (c Call) CheckStack(used, n int, what string) {
	if used+n > CStackMax {
		c.Fail("stack overflow (%s)", what)
	}
}
