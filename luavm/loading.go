package luavm

import (
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/state"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Libraries of functions. Each call of a function runs the code of its library again, from the top, and then the
// callback that it has registered: so no call can see the effects of another (DESIGN.md).

// loading holds the functions that the code of a library has registered so far.
type loading struct {
	functions []resp.Function
	names     map[string]struct{} // of functions, in lower case

	wanted   string     // in a call, the only function that is kept
	callback lua.LValue // its callback
}

// functionBytes is the memory cost of a registered function.
const functionBytes = 512

// registrar returns the table redis that the code of a library sees.
func (b *sandbox) registrar() *lua.LTable {
	t := lauxlib.NewLibrary(b.state.L, b.budget, []lauxlib.Func{
		{"register_function", b.registerFunction}, {"log", redisLog},
	})
	addConstants(t)
	return t
}

func (b *sandbox) registerFunction(c lauxlib.Call) int {
	c.Charge(callSteps)
	if b.loading == nil {
		refuse(c, "redis.register_function can only be called on FUNCTION LOAD command")
	} else if err := b.loading.readFunction(c, b.state.Tables); err != nil {
		refuse(c, err.Error())
	}
	return 0
}

// readFunction reads the arguments of register_function, in either form, and registers the function.
func (l *loading) readFunction(c lauxlib.Call, tables *state.Tables) error {
	switch c.L.GetTop() {
	case 1:
		return l.readNamed(c, tables)
	case 2:
		name, ok := lauxlib.AsText(c.L.Get(1))
		if !ok {
			return resp.Error("first argument to redis.register_function must be a string")
		}
		callback, ok := c.L.Get(2).(*lua.LFunction)
		if !ok {
			return resp.Error("second argument to redis.register_function must be a function")
		}
		return l.add(c, resp.Function{Name: name}, callback)
	}
	return resp.Error("wrong number of arguments to redis.register_function")
}

// readNamed reads a table of named arguments.
func (l *loading) readNamed(c lauxlib.Call, tables *state.Tables) error {
	t, ok := c.L.Get(1).(*lua.LTable)
	if !ok {
		return resp.Error("calling redis.register_function with a single argument is only applicable to Lua table " +
			"(representing named arguments).")
	}
	var a namedArguments
	for key, value := tables.NextKey(c, t, lua.LNil); key != lua.LNil; key, value = tables.NextKey(c, t, key) {
		name, ok := lauxlib.AsText(key)
		if !ok {
			return resp.Error("named argument key given to redis.register_function is not a string")
		}
		if err := a.read(c, name, value); err != nil {
			return err
		}
	}
	switch {
	case !a.named:
		return resp.Error("redis.register_function must get a function name argument")
	case a.callback == nil:
		return resp.Error("redis.register_function must get a callback argument")
	}
	return l.add(c, a.function, a.callback)
}

// namedArguments are the named arguments read so far.
type namedArguments struct {
	function resp.Function
	named    bool
	callback *lua.LFunction
}

func (a *namedArguments) read(c lauxlib.Call, name string, value lua.LValue) error {
	var ok bool
	switch {
	case resp.Is(name, "function_name"):
		if a.function.Name, ok = lauxlib.AsText(value); !ok {
			return resp.Error("function_name argument given to redis.register_function must be a string")
		}
		a.named = true
	case resp.Is(name, "description"):
		if a.function.Description, ok = lauxlib.AsText(value); !ok {
			return resp.Error("description argument given to redis.register_function must be a string")
		}
		a.function.Described = true
	case resp.Is(name, "callback"):
		if a.callback, ok = value.(*lua.LFunction); !ok {
			return resp.Error("callback argument given to redis.register_function must be a function")
		}
	case resp.Is(name, "flags"):
		return a.readFlags(c, value)
	default:
		return resp.Error("unknown argument given to redis.register_function")
	}
	return nil
}

func (a *namedArguments) readFlags(c lauxlib.Call, value lua.LValue) error {
	list, ok := value.(*lua.LTable)
	if !ok {
		return resp.Error("flags argument to redis.register_function must be a table representing function flags")
	}
	a.function.Flags = 0
	for i := 1; ; i++ {
		c.Charge(1)
		item := list.RawGet(lua.LNumber(i))
		if item == lua.LNil {
			return nil
		}
		word, _ := lauxlib.AsText(item)
		flag := resp.FunctionFlag(word)
		if flag == 0 {
			return resp.Error("unknown flag given")
		}
		a.function.Flags |= flag
	}
}

// add registers a function. FCALL does not distinguish names that differ in case only; Redis accepts both and loses
// one. In a call all names were checked by Load before.
func (l *loading) add(c lauxlib.Call, f resp.Function, callback *lua.LFunction) error {
	c.Need(functionBytes + 2*len(f.Name) + len(f.Description))
	if l.wanted != "" {
		if f.Name == l.wanted {
			l.callback = callback
		}
		return nil
	}
	key := strings.ToLower(f.Name)
	if !resp.IsFunctionName(f.Name) {
		return resp.Error(resp.FunctionNameRule)
	} else if _, taken := l.names[key]; taken {
		return resp.Error("Function already exists in the library")
	}
	l.names[key] = struct{}{}
	f.Name, f.Description = strings.Clone(f.Name), strings.Clone(f.Description)
	l.functions = append(l.functions, f)
	return nil
}
