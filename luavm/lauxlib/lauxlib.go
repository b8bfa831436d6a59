package lauxlib

import lua "github.com/yuin/gopher-lua"

// Call is one call of a function that Go provides to Lua.
type Call struct {
	L      *lua.LState
	Budget *Budget
}

// Func is a library function. Run pushes its results and returns their number.
type Func = struct {
	Name string
	Run  func(c Call) int
}

// NewLibrary returns a table of functions.
func NewLibrary(L *lua.LState, b *Budget, funcs []Func) *lua.LTable {
	t := L.CreateTable(0, len(funcs))
	for _, f := range funcs {
		t.RawSetString(f.Name, b.Function(L, f.Run))
	}
	return t
}

// Charge takes steps for work beyond one instruction: usually one for each element and each 16 bytes touched. If the
// budget is spent it raises an error that no pcall catches.
func (c Call) Charge(steps int) { c.Budget.charge(c.L, steps) }

// Alloc takes bytes for a string or table that is about to be built. Garbage collection gives nothing back: the
// budget bounds all that a script builds.
func (c Call) Alloc(bytes int) { c.Budget.alloc(c.L, bytes) }

// Raise raises an error as it is.
func (c Call) Raise(object lua.LValue) { c.Budget.raise(c.L, object) }

// Touch charges for reading or comparing n bytes.
func (c Call) Touch(n int) { c.Charge(1 + n/16) }

// Need charges for building n bytes.
func (c Call) Need(n int) {
	c.Alloc(n)
	c.Charge(1 + n/16)
}

// Function returns a Lua function that calls run.
func (b *Budget) Function(L *lua.LState, run func(c Call) int) *lua.LFunction {
	return L.NewFunction(func(L *lua.LState) int { return run(Call{L: L, Budget: b}) })
}
