package luavm

import (
	"strings"

	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Libraries of functions. Each call of a function runs the code of its library anew,
// from the top, and then the callback that it has registered: so nothing that a call
// leaves behind can reach another one (DESIGN.md).

// loading is what the code of a library has registered so far.
type loading struct {
	functions []resp.Function
	names     map[string]struct{} // of functions, in lower case

	wanted   string     // in a call, the only function that matters
	callback lua.LValue // its callback
}

// functionBytes is the price in memory of a function that is registered.
const functionBytes = 512

// Load runs the code of a library and returns the functions that it registers, in
// their order, and what is left of the limits. Where ok is false the reply is the
// error that Redis gives for FUNCTION LOAD.
func (v *VM) Load(lib resp.Script, lim resp.ScriptLimits) (functions []resp.Function, left resp.ScriptLimits, fail resp.Reply, ok bool) {
	p, fail, ok := v.program(&libraries, lib)
	if !ok {
		return nil, lim, fail, false
	}
	code := v.prepare(p, nil)
	v.b.fill(lim)
	v.loading = &loading{names: map[string]struct{}{}}
	err := v.state.execute(func(L *lua.LState) {
		v.register(L, code)
		functions = v.loading.functions
	})
	v.loading = nil
	left = v.b.left()
	if err == nil {
		return functions, left, resp.Reply{}, true
	}
	if v.b.limitMet() != "" {
		return nil, left, v.limitMet(), false
	}
	return nil, left, resp.Err("ERR Error registering functions: " + v.errorText(err)), false
}

// Call runs a function of a library that Load has accepted: name is that of the
// function as it was registered. Otherwise it is Run.
func (v *VM) Call(lib resp.Script, name string, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	p, fail, ok := v.program(&libraries, lib)
	if !ok {
		return fail, lim, false
	}
	code := v.prepare(p, call)
	v.b.fill(lim)
	v.loading = &loading{wanted: name, callback: lua.LNil}
	return v.finish(name, v.state.execute(func(L *lua.LState) {
		v.register(L, code)
		L.Push(v.loading.callback)
		v.loading = nil
		v.seeGlobals(v.functionGlobals)
		L.Push(stringTable(L, keys))
		L.Push(stringTable(L, argv))
		v.answer(L, 2)
	}))
}

// register runs the code of a library in the environment for that.
func (v *VM) register(L *lua.LState, code *lua.LFunction) {
	v.seeGlobals(v.loadGlobals)
	L.Push(code)
	L.Call(0, 0)
}

// openLibraries makes what libraries see. Their globals are an empty table, the
// environment of all their functions, and what it refers to: while the code of a
// library runs, next to nothing; in a call, what scripts see, but for KEYS and ARGV.
func (v *VM) openLibraries() {
	v.loadGlobals = v.state.L.CreateTable(0, 1)
	v.loadGlobals.RawSetString("redis", v.state.strictly(v.registrar()))
	v.state.strictly(v.loadGlobals)

	v.functionGlobals = v.state.L.CreateTable(0, 32)
	for name, value := v.state.globals.Next(lua.LNil); name != lua.LNil; name, value = v.state.globals.Next(name) {
		v.functionGlobals.RawSet(name, value)
	}
	v.functionGlobals.RawSetString("_G", v.functionGlobals)
	v.functionGlobals.RawSetString("redis", v.state.locking(v.commandLibrary()))
	v.state.strictly(v.functionGlobals)

	v.libraryEnv = v.state.L.CreateTable(0, 0)
	v.libraryEnv.Metatable = v.state.locking(v.state.L.CreateTable(0, 1))
}

// seeGlobals lets the functions of libraries see the globals of a table.
func (v *VM) seeGlobals(globals *lua.LTable) {
	v.libraryEnv.Metatable.(*lua.LTable).RawSetString("__index", globals)
}

// registrar is the table redis that the code of a library sees.
func (v *VM) registrar() *lua.LTable {
	t := newLibrary(v.state.L, v.b, []libFunc{{"register_function", v.registerFunction}, {"log", v.redisLog}})
	addLogLevels(t)
	addVersion(t)
	return t
}

func (v *VM) registerFunction(c libCall) int {
	c.charge(callSteps)
	why := "redis.register_function can only be called on FUNCTION LOAD command"
	if v.loading != nil {
		why = v.readFunction(c)
	}
	if why != "" {
		v.refuse(c, why)
	}
	return 0
}

// readFunction reads the arguments of register_function, in either form, and
// registers what they describe. why is an error's text.
func (v *VM) readFunction(c libCall) (why string) {
	switch c.L.GetTop() {
	case 1:
		return v.readNamed(c)
	case 2:
		name, ok := asText(c.L.Get(1))
		if !ok {
			return "first argument to redis.register_function must be a string"
		}
		callback, ok := c.L.Get(2).(*lua.LFunction)
		if !ok {
			return "second argument to redis.register_function must be a function"
		}
		return v.loading.add(c, resp.Function{Name: name}, callback)
	}
	return "wrong number of arguments to redis.register_function"
}

// readNamed reads a table of named arguments.
func (v *VM) readNamed(c libCall) (why string) {
	t, ok := c.L.Get(1).(*lua.LTable)
	if !ok {
		return "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
	}
	var a namedArguments
	for key, value := v.state.nextKey(c, t, lua.LNil); key != lua.LNil; key, value = v.state.nextKey(c, t, key) {
		name, ok := asText(key)
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		if why := a.read(c, name, value); why != "" {
			return why
		}
	}
	switch {
	case !a.named:
		return "redis.register_function must get a function name argument"
	case a.callback == nil:
		return "redis.register_function must get a callback argument"
	}
	return v.loading.add(c, a.function, a.callback)
}

// namedArguments are those that have been read so far.
type namedArguments struct {
	function resp.Function
	named    bool
	callback *lua.LFunction
}

func (a *namedArguments) read(c libCall, name string, value lua.LValue) (why string) {
	var ok bool
	switch {
	case resp.Is(name, "function_name"):
		if a.function.Name, ok = asText(value); !ok {
			return "function_name argument given to redis.register_function must be a string"
		}
		a.named = true
	case resp.Is(name, "description"):
		if a.function.Description, ok = asText(value); !ok {
			return "description argument given to redis.register_function must be a string"
		}
		a.function.Described = true
	case resp.Is(name, "callback"):
		if a.callback, ok = value.(*lua.LFunction); !ok {
			return "callback argument given to redis.register_function must be a function"
		}
	case resp.Is(name, "flags"):
		return a.readFlags(c, value)
	default:
		return "unknown argument given to redis.register_function"
	}
	return ""
}

func (a *namedArguments) readFlags(c libCall, value lua.LValue) (why string) {
	list, ok := value.(*lua.LTable)
	if !ok {
		return "flags argument to redis.register_function must be a table representing function flags"
	}
	a.function.Flags = 0
	for i := 1; ; i++ {
		c.charge(1)
		item := list.RawGet(lua.LNumber(i))
		if item == lua.LNil {
			return ""
		}
		word, _ := asText(item)
		flag := resp.FunctionFlag(word)
		if flag == 0 {
			return "unknown flag given"
		}
		a.function.Flags |= flag
	}
}

// add registers a function. Names that differ in case only are the same to FCALL;
// Redis takes both and loses one. In a call all names have been found right before.
func (l *loading) add(c libCall, f resp.Function, callback *lua.LFunction) (why string) {
	c.need(functionBytes + 2*len(f.Name) + len(f.Description))
	if l.wanted != "" {
		if f.Name == l.wanted {
			l.callback = callback
		}
		return ""
	}
	key := strings.ToLower(f.Name)
	if !resp.IsFunctionName(f.Name) {
		return resp.FunctionNameRule
	} else if _, taken := l.names[key]; taken {
		return "Function already exists in the library"
	}
	l.names[key] = struct{}{}
	f.Name, f.Description = strings.Clone(f.Name), strings.Clone(f.Description)
	l.functions = append(l.functions, f)
	return ""
}
