package luavm

import lua "github.com/yuin/gopher-lua"

// nestedCallsMax is LUAI_MAXCCALLS: how many calls from Go into Lua (pcall, sort, gsub) may
// run within each other.
const nestedCallsMax = 195

// call calls a value with arguments and returns its first result.
func (c libCall) call(fn lua.LValue, args ...lua.LValue) lua.LValue {
	c.L.Push(fn)
	for _, a := range args {
		c.L.Push(a)
	}
	c.callStack(len(args), 1)
	result := c.L.Get(-1)
	c.L.Pop(1)
	return result
}

// callStack is L.Call with its depth bounded and its callee checked. Calls from Go nest on
// Go's stack, so their depth is bounded, as in Lua.
func (c libCall) callStack(nargs, nret int) {
	if fn := c.L.Get(-nargs - 1); !c.callable(fn) {
		c.failBare("attempt to call a " + typeName(fn) + " value")
	}
	c.nest()
	c.L.Call(nargs, nret)
	c.b.nested--
}

// nest counts one more call from Go into Lua. It returns how many there are.
func (c libCall) nest() int {
	if c.b.nested++; c.b.nested > nestedCallsMax {
		c.failBare("C stack overflow")
	}
	return c.b.nested
}

// protect calls the function below nargs arguments on the stack, with enter around it. When the
// call fails, protect cuts the stack to below the function and returns the error.
func (c libCall) protect(enter *lua.LFunction, nargs int) error {
	nested := c.nest()
	c.L.Insert(enter, -nargs-1)
	err := c.L.PCall(nargs+1, lua.MultRet, nil)
	c.b.nested = nested - 1
	return err
}

func (c libCall) callable(fn lua.LValue) bool {
	if fn.Type() == lua.LTFunction {
		return true
	}
	return c.L.GetMetaField(fn, "__call").Type() == lua.LTFunction
}

// index is t[k] by the machine itself, at the price of an instruction.
func (c libCall) index(object, key lua.LValue) lua.LValue {
	c.charge(int(c.b.price))
	return c.L.GetTable(object, key)
}

// function makes a Lua function of run.
func (b *budget) function(L *lua.LState, run func(c libCall) int) *lua.LFunction {
	return L.NewFunction(func(L *lua.LState) int { return run(libCall{L, b}) })
}
