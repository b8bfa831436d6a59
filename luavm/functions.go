package luavm

import (
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Load runs the code of a library and returns the functions that it registers, in their order, and the rest of the
// limits. The error is that of FUNCTION LOAD in Redis.
func (v *VM) Load(
	lib resp.Script, lim resp.ScriptLimits,
) (functions []resp.Function, left resp.ScriptLimits, err error) {
	p, err := v.program(&libraries, lib)
	if err != nil {
		return nil, lim, err
	}
	code := v.prepare(p, nil)
	v.budget.Fill(lim)
	v.box.loading = &loading{names: map[string]struct{}{}}
	err = v.box.state.Execute(func(L *lua.LState) {
		v.box.register(L, code)
		functions = v.box.loading.functions
	})
	v.box.end()
	left = v.budget.Left()
	if err == nil {
		return functions, left, nil
	}
	if v.budget.LimitMet() != "" {
		return nil, left, v.limitMet()
	}
	return nil, left, resp.Error("ERR Error registering functions: " + v.box.errorText(err))
}

// Call runs a function of a library that Load has accepted: name is the name under which the function was registered.
// Otherwise it behaves as Run.
func (v *VM) Call(
	lib resp.Script, name string, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall,
) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	p, err := v.program(&libraries, lib)
	if err != nil {
		return resp.Fail(err), lim, false
	}
	code := v.prepare(p, call)
	v.budget.Fill(lim)
	v.box.loading = &loading{wanted: name, callback: lua.LNil}
	return v.finish(name, v.box.state.Execute(func(L *lua.LState) {
		v.box.register(L, code)
		L.Push(v.box.loading.callback)
		v.box.loading = nil
		v.box.seeGlobals(v.box.functionGlobals)
		L.Push(stringTable(L, keys))
		L.Push(stringTable(L, argv))
		v.answer(L, 2)
	}))
}

// register runs the code of a library in the environment for loading.
func (b *sandbox) register(L *lua.LState, code *lua.LFunction) {
	b.seeGlobals(b.loadGlobals)
	L.Push(code)
	L.Call(0, 0)
}
