package lauxlib

import (
	lua "github.com/yuin/gopher-lua"
)

// nestedCallsMax is LUAI_MAXCCALLS: the depth to which calls from Go into Lua (pcall, sort, gsub) may nest.
const nestedCallsMax = 195

// Call calls a value with arguments and returns its first result.
func (c Call) Call(fn lua.LValue, args ...lua.LValue) lua.LValue {
	c.L.Push(fn)
	for _, a := range args {
		c.L.Push(a)
	}
	c.CallStack(len(args), 1)
	result := c.L.Get(-1)
	c.L.Pop(1)
	return result
}

// CallStack is L.Call with its depth bounded and its callee checked. Calls from Go nest on
// Go's stack, so their depth is bounded, as in Lua.
func (c Call) CallStack(nargs, nret int) {
	if fn := c.L.Get(-nargs - 1); !Callable(c.L, fn) {
		c.FailBare("attempt to call a " + TypeName(fn) + " value")
	}
	c.nest()
	c.L.Call(nargs, nret)
	c.Budget.nested--
}

// nest counts one more nested call from Go into Lua. It returns the depth.
func (c Call) nest() int {
	if c.Budget.nested++; c.Budget.nested > nestedCallsMax {
		c.FailBare("C stack overflow")
	}
	return c.Budget.nested
}

// Protect calls the function below nargs arguments on the stack, with enter around it. If the call fails, Protect
// cuts the stack to below the function and returns the error.
func (c Call) Protect(enter *lua.LFunction, nargs int) error {
	nested := c.nest()
	c.L.Insert(enter, -nargs-1)
	err := c.L.PCall(nargs+1, lua.MultRet, nil)
	c.Budget.nested = nested - 1
	return err
}

// Callable reports whether a value can be called.
func Callable(L *lua.LState, fn lua.LValue) bool {
	if fn.Type() == lua.LTFunction {
		return true
	}
	return L.GetMetaField(fn, "__call").Type() == lua.LTFunction
}

// Index returns t[k], evaluated by the machine itself, for the cost of an instruction.
func (c Call) Index(object, key lua.LValue) lua.LValue {
	c.Charge(int(c.Budget.price))
	return c.L.GetTable(object, key)
}
