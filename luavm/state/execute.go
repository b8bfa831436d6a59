package state

import (
	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// Execute runs act, and returns the error that ends it: a *lua.ApiError, already translated. It panics with the text
// given to Crash.
func (st *State) Execute(act func(*lua.LState)) error {
	st.act = act
	st.L.SetTop(0)
	st.L.Push(st.body)
	err := st.L.PCall(0, 0, nil)
	st.act = nil
	st.checkPanic(err)
	return err
}

// Crashed reports whether a command has panicked.
func (st *State) Crashed() bool { return st.broken != "" }

// Crash propagates a panic of a command through all of Lua, out of Execute.
func (st *State) Crash(text string) {
	st.broken = text
	panic(text)
}

// internalError reports an error in this package or in gopher-lua. It ends the script as a limit does, with one text
// on all nodes.
const internalError = "ERR Script stopped: internal error"

// checkPanic detects an error that is a panic of Go code, not a Lua error. A panic in a command propagates through
// all of Lua: it may have left half of a change behind, and a node that continued with that would differ from the
// others.
func (st *State) checkPanic(err error) {
	if st.broken != "" {
		panic(st.broken)
	}
	if e, ok := err.(*lua.ApiError); ok && e.Type == lua.ApiErrorPanic && st.b.LimitMet() == "" {
		st.b.Stop(internalError)
	}
}

// Instantiate makes a function of a chunk: it runs the outer function, which returns the chunk itself with access to
// the intrinsics. It costs the budget nothing.
func (st *State) Instantiate(c *compiler.Chunk) *lua.LFunction {
	st.b.Chunks[c.Key] = c
	restore := st.b.Suspend()
	st.L.Push(st.L.NewFunctionFromProto(c.Proto))
	for _, f := range st.intrinsics {
		st.L.Push(f)
	}
	st.L.Call(len(st.intrinsics), 1)
	fn := st.L.Get(-1).(*lua.LFunction)
	st.L.Pop(1)
	restore()
	return fn
}

// protect calls the function below nargs arguments on the stack. If the call fails, protect cuts the stack to below
// the function and returns the error. A limit propagates.
func (st *State) protect(c lauxlib.Call, nargs int) *lua.ApiError {
	err := c.Protect(st.enter, nargs)
	st.checkPanic(err)
	if text := st.b.LimitMet(); text != "" {
		c.Raise(lua.LString(text))
	}
	if err == nil {
		return nil
	}
	c.Charge(failureSteps)
	return err.(*lua.ApiError)
}

// failureSteps is the cost of a caught error: Go's panic and recover.
const failureSteps = 32
