package luavm

import (
	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/luavm/state"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// VM runs scripts. It is not safe for concurrent use. The state that it keeps between runs (a Lua state, compiled
// scripts) makes runs faster and changes no result.
type VM struct {
	b        *lauxlib.Budget
	state    *state.State // nil after a run met a limit: the next run makes a new one
	programs map[string]*program
	bytes    int                         // of programs, by estimate
	mains    map[*program]*lua.LFunction // the programs as functions of the state
	straight straight

	// Of libraries of functions:
	libraryEnv      *lua.LTable // the environment of their functions
	loadGlobals     *lua.LTable // the globals in it while their code runs
	functionGlobals *lua.LTable // ... and in a call

	// Of the present run:
	run     resp.ScriptCall
	proto   int // of replies, as redis.setresp chose
	reply   resp.Reply
	loading *loading
}

// New returns a VM.
func New() *VM {
	return &VM{b: lauxlib.NewBudget(), programs: map[string]*program{}}
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
	v.state.Globals.RawSetString("KEYS", stringTable(v.state.L, keys))
	v.state.Globals.RawSetString("ARGV", stringTable(v.state.L, argv))
	v.b.Fill(lim)
	return v.finish(sha, v.state.Execute(func(L *lua.LState) {
		L.Push(main)
		v.answer(L, 0)
	}))
}

// prepare prepares the state for a run of a program, and returns the program as a function of the state.
func (v *VM) prepare(p *program, call resp.ScriptCall) *lua.LFunction {
	if v.state == nil || v.state.Crashed() {
		v.open()
	}
	v.begin(call)
	v.state.L.Env = v.state.Globals
	if p.kind.library {
		v.state.L.Env = v.libraryEnv
	}
	return v.main(p)
}

// answer calls the function below nargs arguments on the stack; its result becomes the reply.
func (v *VM) answer(L *lua.LState, nargs int) {
	L.Call(nargs, 1)
	v.reply = v.toReply(lauxlib.Call{L: L, Budget: v.b}, L.Get(-1), 0)
}

// finish returns the outcome of a run that ended with err. name is Redis's name of the script in errors.
func (v *VM) finish(name string, err error) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	v.run, v.loading = nil, nil
	left = v.b.Left()
	switch {
	case err == nil:
		return v.reply, left, false
	case v.b.LimitMet() != "":
		return resp.Fail(v.limitMet()), left, true
	}
	return resp.Err(v.errorText(err) + " script: " + name + ", on " + v.state.Origin + "."), left, false
}

// limitMet returns the error of a run that met a limit. The state is dropped, whatever it holds.
func (v *VM) limitMet() error {
	v.state = nil
	return resp.Error(v.b.LimitMet())
}

// begin resets the state of the previous run.
func (v *VM) begin(call resp.ScriptCall) {
	v.run, v.proto, v.reply = call, 2, resp.Reply{}
	v.state.Begin()
}

// main returns a program as a function of the present state.
func (v *VM) main(p *program) *lua.LFunction {
	fn := v.mains[p]
	if fn == nil {
		fn = v.state.Instantiate(p.chunk)
		v.mains[p] = fn
	}
	return fn
}

func stringTable(L *lua.LState, items []string) *lua.LTable {
	t := L.CreateTable(len(items), 0)
	for i, s := range items {
		t.RawSetInt(i+1, lua.LString(s))
	}
	return t
}

// errorText returns the text of an error that ends a run.
func (v *VM) errorText(err error) string {
	object := err.(*lua.ApiError).Object
	if t, ok := object.(*lua.LTable); ok {
		text, ok := lauxlib.AsText(t.RawGetString("err"))
		if !ok {
			text = "ERR execution failure" // Redis crashes here
		}
		return libc.CString(text)
	}
	return "ERR " + libc.CString(v.state.Display(object))
}
