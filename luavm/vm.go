package luavm

import (
	"lockd/luavm/lauxlib"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// VM runs scripts. It is not safe for concurrent use. The state that it keeps between runs (a Lua state, compiled
// scripts) makes runs faster and changes no result.
type VM struct {
	budget   *lauxlib.Budget
	box      *sandbox // nil after a run met a limit: the next run makes a new one
	programs programs
	straight straight
	reply    resp.Reply // of the present run
}

// New returns a VM.
func New() *VM {
	return &VM{budget: lauxlib.NewBudget(), programs: programs{kept: map[string]*program{}}}
}

// Compile checks a script without running it. The error is that of Redis.
func (v *VM) Compile(s resp.Script) error {
	_, err := v.program(&scripts, s)
	return err
}

// Run runs a script with KEYS and ARGV. call runs its commands. The reply is EVAL's answer. limited is true if the
// script met one of its limits: the caller takes back the script's changes, and the reply names the limit. left is
// the rest of the limits, the same on every node.
func (v *VM) Run(
	s resp.Script, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall,
) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	p, err := v.program(&scripts, s)
	if err != nil {
		return resp.Fail(err), lim, false
	}
	if p.straight != nil {
		if reply, left, ok := v.runStraight(p.straight, keys, argv, lim, call); ok {
			return reply, left, false
		}
		return v.runAgain(p, s.SHA, keys, argv, lim, call)
	}
	return v.interpret(p, s.SHA, keys, argv, lim, call)
}

// interpret is Run on gopher-lua, which runs any script.
func (v *VM) interpret(
	p *program, sha string, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall,
) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	main := v.prepare(p, call)
	v.box.state.Globals.RawSetString("KEYS", stringTable(v.box.state.L, keys))
	v.box.state.Globals.RawSetString("ARGV", stringTable(v.box.state.L, argv))
	v.budget.Fill(lim)
	return v.finish(sha, v.box.state.Execute(func(L *lua.LState) {
		L.Push(main)
		v.answer(L, 0)
	}))
}

// prepare prepares the sandbox for a run of a program, and returns the program as a function.
func (v *VM) prepare(p *program, call resp.ScriptCall) *lua.LFunction {
	if v.box == nil || v.box.state.Crashed() {
		v.box = newSandbox(v.budget)
	}
	v.reply = resp.Reply{}
	return v.box.begin(p, call)
}

// answer calls the function below nargs arguments on the stack; its result becomes the reply.
func (v *VM) answer(L *lua.LState, nargs int) {
	L.Call(nargs, 1)
	v.reply = v.box.api.converter(lauxlib.Call{L: L, Budget: v.budget}).toReply(L.Get(-1), 0)
}

// finish returns the outcome of a run that ended with err. name is Redis's name of the script in errors.
func (v *VM) finish(name string, err error) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	v.box.end()
	left = v.budget.Left()
	switch {
	case err == nil:
		return v.reply, left, false
	case v.budget.LimitMet() != "":
		return resp.Fail(v.limitMet()), left, true
	}
	return resp.Err(v.box.errorText(err) + " script: " + name + ", on " + v.box.state.Origin + "."), left, false
}

// limitMet returns the error of a run that met a limit. It drops the sandbox, whatever that holds.
func (v *VM) limitMet() error {
	v.box = nil
	return resp.Error(v.budget.LimitMet())
}

func stringTable(L *lua.LState, items []string) *lua.LTable {
	t := L.CreateTable(len(items), 0)
	for i, s := range items {
		t.RawSetInt(i+1, lua.LString(s))
	}
	return t
}
