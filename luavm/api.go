package luavm

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/luavm/state"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// The version of Redis that scripts see: that of the commands lockd offers.
const (
	redisVersion    = "7.2.4"
	redisVersionNum = 0x070204
)

// api implements the table redis of scripts and functions, and runs the commands that they call.
type api struct {
	budget *lauxlib.Budget
	state  *state.State

	// Of the present run:
	run   resp.ScriptCall
	proto int // of replies, as redis.setresp chose
}

func (a *api) converter(c lauxlib.Call) converter { return converter{c, a.state.Tables, a.proto} }

// scriptLibrary returns the table redis of scripts.
func (a *api) scriptLibrary() *lua.LTable {
	t := a.commandLibrary()
	for _, f := range []lauxlib.Func{
		{"replicate_commands", func(c lauxlib.Call) int { return c.Push(lua.LTrue) }},
		{"breakpoint", func(c lauxlib.Call) int { return c.Push(lua.LFalse) }},
		{"debug", func(lauxlib.Call) int { return 0 }},
	} {
		t.RawSetString(f.Name, a.budget.Function(a.state.L, f.Run))
	}
	return a.state.Locks.Lock(t)
}

// commandLibrary returns the table redis of functions, on which that of scripts builds.
func (a *api) commandLibrary() *lua.LTable {
	t := lauxlib.NewLibrary(a.state.L, a.budget, []lauxlib.Func{
		{"call", func(c lauxlib.Call) int { return a.command(c, true) }},
		{"pcall", func(c lauxlib.Call) int { return a.command(c, false) }},
		{"log", redisLog}, {"setresp", a.setResp}, {"sha1hex", sha1Hex},
		{"error_reply", errorReply}, {"status_reply", statusReply},
		{"set_repl", setRepl}, {"acl_check_cmd", a.aclCheck},
	})
	for i, name := range []string{"REPL_NONE", "REPL_AOF", "REPL_SLAVE", "REPL_ALL"} {
		t.RawSetString(name, lua.LNumber(i))
	}
	t.RawSetString("REPL_REPLICA", lua.LNumber(2))
	addConstants(t)
	return t
}

// addConstants adds the constants common to scripts, functions and the code of a library.
func addConstants(t *lua.LTable) {
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(name, lua.LNumber(i))
	}
	t.RawSetString("REDIS_VERSION", lua.LString(redisVersion))
	t.RawSetString("REDIS_VERSION_NUM", lua.LNumber(redisVersionNum))
}

// Texts of the API's own errors.
const (
	noArguments  = "Please specify at least one argument for this redis lib call"
	badArguments = "Lua redis lib command arguments must be strings or integers"
)

// arguments returns all arguments as those of a command.
func arguments(c lauxlib.Call) (resp.Args, error) {
	n := c.L.GetTop()
	if n == 0 {
		return nil, resp.Error(noArguments)
	}
	c.Charge(n)
	args := make(resp.Args, n)
	for i := range args {
		switch x := c.L.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(x)
		case lua.LNumber:
			args[i] = formatArgument(float64(x))
		default:
			return nil, resp.Error(badArguments)
		}
	}
	return args, nil
}

// formatArgument formats a number as Redis passes it to a command, by "%.17g".
func formatArgument(f float64) string {
	if s, ok := libc.FormatSpecial(f); ok {
		return s
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

// callSteps is the cost of a command, besides the bytes of its arguments and reply.
const callSteps = 50

// command implements redis.call, which raises errors, and redis.pcall, which returns them.
func (a *api) command(c lauxlib.Call, raise bool) int {
	args, err := arguments(c)
	if err != nil {
		return failed(c, errorTable(c, err.Error()), raise)
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	c.Charge(callSteps + size/16)
	reply := a.runCommand(args)
	c.Charge(0) // the command may have taken the last steps
	if reply.IsErr() {
		t := errorTable(c, "-"+reply.Str)
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		return failed(c, t, raise)
	}
	return c.Push(a.converter(c).fromReply(reply, 0))
}

// runCommand records a panic of the command, which gopher-lua would take for one of its own.
func (a *api) runCommand(args resp.Args) (reply resp.Reply) {
	defer func() {
		if r := recover(); r != nil {
			a.state.Crash(commandPanic(r))
		}
	}()
	reply, left := a.run(args, a.budget.StepsLeft())
	a.budget.SetSteps(left)
	return reply
}

// commandPanic returns the text of a panic in a command.
func commandPanic(r any) string {
	return fmt.Sprintf("luavm: panic in a command of a script: %v\n\n%s", r, debug.Stack())
}

func failed(c lauxlib.Call, t *lua.LTable, raise bool) int {
	if raise {
		c.Raise(t)
	}
	return c.Push(t)
}

func sha1Hex(c lauxlib.Call) int {
	if c.L.GetTop() != 1 {
		refuse(c, "wrong number of arguments")
	}
	text, _ := lauxlib.AsText(c.L.Get(1))
	c.Touch(4 * len(text))
	sum := sha1.Sum([]byte(text))
	return c.PushText(hex.EncodeToString(sum[:]))
}

// oneString returns the argument of error_reply and status_reply.
func oneString(c lauxlib.Call) (string, bool) {
	s, ok := c.L.Get(1).(lua.LString)
	return string(s), ok && c.L.GetTop() == 1
}

func errorReply(c lauxlib.Call) int {
	s, ok := oneString(c)
	if !ok {
		return c.Push(errorTable(c, "wrong number or type of arguments"))
	}
	return c.Push(errorTable(c, "-"+strings.TrimPrefix(s, "-")))
}

func statusReply(c lauxlib.Call) int {
	s, ok := oneString(c)
	if !ok {
		return c.Push(errorTable(c, "wrong number or type of arguments"))
	}
	return c.Push(fieldTable(c, "ok", s))
}

// toInt reads argument n as a C int: 0 if it is not a number.
func toInt(c lauxlib.Call, n int) int {
	f, _ := c.AsNumber(c.L.Get(n))
	return int(libc.Int32(f))
}

// redisLog checks its arguments and logs nothing: every replica would write the line, again at each replay.
func redisLog(c lauxlib.Call) int {
	if c.L.GetTop() < 2 {
		refuse(c, "redis.log() requires two arguments or more.")
	} else if _, ok := c.AsNumber(c.L.Get(1)); !ok {
		refuse(c, "First argument must be a number (log level).")
	}
	if level := toInt(c, 1); level < 0 || level > 3 {
		refuse(c, "Invalid debug level.")
	}
	return 0
}

func (a *api) setResp(c lauxlib.Call) int {
	if c.L.GetTop() != 1 {
		refuse(c, "redis.setresp() requires one argument.")
	}
	proto := toInt(c, 1)
	if proto != 2 && proto != 3 {
		refuse(c, "RESP version must be 2 or 3.")
	}
	a.proto = proto
	return 0
}

// setRepl changes nothing: scripts are replicated as such, not their effects.
func setRepl(c lauxlib.Call) int {
	if c.L.GetTop() != 1 {
		refuse(c, "redis.set_repl() requires two arguments.")
	}
	if flags := toInt(c, 1); flags&^3 != 0 {
		refuse(c, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

// aclCheck answers whether the user of the script may make a call.
func (a *api) aclCheck(c lauxlib.Call) int {
	args, err := arguments(c)
	if err != nil {
		refuse(c, err.Error())
	}
	c.Charge(callSteps)
	reply := a.runCommand(append(resp.Args{resp.ScriptMay}, args...))
	c.Charge(0) // the check may have taken the last steps
	if reply.IsErr() {
		refuse(c, reply.Str)
	}
	return c.Push(lua.LBool(reply.Int != 0))
}
