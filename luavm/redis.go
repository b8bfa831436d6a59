package luavm

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// The version that scripts are told, that of the commands lockd offers.
const (
	redisVersion    = "7.2.4"
	redisVersionNum = 0x070204
)

// redisLibrary is the table redis of scripts.
func (v *VM) redisLibrary() *lua.LTable {
	t := v.commandLibrary()
	for _, f := range []libFunc{
		{"replicate_commands", func(c libCall) int { return c.push(lua.LTrue) }},
		{"breakpoint", func(c libCall) int { return c.push(lua.LFalse) }}, {"debug", func(libCall) int { return 0 }},
	} {
		t.RawSetString(f.name, v.b.function(v.state.L, f.run))
	}
	return v.state.locking(t)
}

// commandLibrary is the table redis of functions, which that of scripts begins with.
func (v *VM) commandLibrary() *lua.LTable {
	t := newLibrary(v.state.L, v.b, []libFunc{
		{"call", func(c libCall) int { return v.command(c, true) }},
		{"pcall", func(c libCall) int { return v.command(c, false) }},
		{"log", v.redisLog}, {"setresp", v.setResp}, {"sha1hex", v.sha1Hex},
		{"error_reply", v.errorReply}, {"status_reply", v.statusReply},
		{"set_repl", v.setRepl}, {"acl_check_cmd", v.aclCheck},
	})
	for i, name := range []string{"REPL_NONE", "REPL_AOF", "REPL_SLAVE", "REPL_ALL"} {
		t.RawSetString(name, lua.LNumber(i))
	}
	t.RawSetString("REPL_REPLICA", lua.LNumber(2))
	addLogLevels(t)
	addVersion(t)
	return t
}

func addLogLevels(t *lua.LTable) {
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(name, lua.LNumber(i))
	}
}

func addVersion(t *lua.LTable) {
	t.RawSetString("REDIS_VERSION", lua.LString(redisVersion))
	t.RawSetString("REDIS_VERSION_NUM", lua.LNumber(redisVersionNum))
}

// errorTable is an error as redis.pcall returns it (luaPushErrorBuff). text may
// begin with '-' and a code; without a code it gets ERR.
func (v *VM) errorTable(c libCall, text string) *lua.LTable {
	text = cText(text)
	code, message := "ERR", text
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		message = rest
		if before, after, ok := strings.Cut(rest, " "); ok {
			code, message = before, after
		}
	}
	return v.fieldTable(c, "err", code+" "+strings.Trim(message, "\r\n"))
}

// fieldTable is a table with one field.
func (v *VM) fieldTable(c libCall, name, value string) *lua.LTable {
	t := v.recordTable(c, 1)
	c.need(len(value))
	t.RawSetString(name, lua.LString(value))
	return t
}

// recordTable is a table for a few named fields.
func (v *VM) recordTable(c libCall, fields int) *lua.LTable {
	c.need(tableBytes + fields*entryBytes)
	return c.L.CreateTable(0, fields)
}

// refuse raises an error of the API itself.
func (v *VM) refuse(c libCall, text string) { c.raise(v.errorTable(c, text)) }

// Texts of the API's own errors.
const (
	noArguments  = "Please specify at least one argument for this redis lib call"
	badArguments = "Lua redis lib command arguments must be strings or integers"
)

// arguments reads all arguments as those of a command. why is an error's text.
func arguments(c libCall) (args resp.Args, why string) {
	n := c.L.GetTop()
	if n == 0 {
		return nil, noArguments
	}
	c.charge(n)
	args = make(resp.Args, n)
	for i := range args {
		switch x := c.L.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(x)
		case lua.LNumber:
			args[i] = formatArgument(float64(x))
		default:
			return nil, badArguments
		}
	}
	return args, ""
}

// formatArgument writes a number as Redis passes it to a command, by "%.17g".
func formatArgument(f float64) string {
	if s, ok := formatSpecial(f); ok {
		return s
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

// callSteps is the price of a command besides the bytes of its arguments and reply.
const callSteps = 50

// command is redis.call, which raises errors, and redis.pcall, which returns them.
func (v *VM) command(c libCall, raise bool) int {
	args, why := arguments(c)
	if why != "" {
		return v.failed(c, v.errorTable(c, why), raise)
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	c.charge(callSteps + size/16)
	reply := v.runCommand(args)
	c.charge(0) // it may have taken the last steps
	if reply.IsErr() {
		t := v.errorTable(c, "-"+reply.Str)
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		return v.failed(c, t, raise)
	}
	return c.push(v.fromReply(c, reply, 0))
}

// runCommand notes a panic of the command, which gopher-lua takes for one of its own.
func (v *VM) runCommand(args resp.Args) (reply resp.Reply) {
	defer func() {
		if r := recover(); r != nil {
			v.state.crash(fmt.Sprintf("luavm: panic in a command of a script: %v\n\n%s", r, debug.Stack()))
		}
	}()
	reply, left := v.run(args, v.b.stepsLeft())
	v.b.setSteps(left)
	return reply
}

func (v *VM) failed(c libCall, t *lua.LTable, raise bool) int {
	if raise {
		c.raise(t)
	}
	return c.push(t)
}

func (v *VM) sha1Hex(c libCall) int {
	if c.L.GetTop() != 1 {
		v.refuse(c, "wrong number of arguments")
	}
	text, _ := asText(c.L.Get(1))
	c.touch(4 * len(text))
	sum := sha1.Sum([]byte(text))
	return c.pushText(hex.EncodeToString(sum[:]))
}

// oneString reads the argument of error_reply and status_reply.
func oneString(c libCall) (string, bool) {
	s, ok := c.L.Get(1).(lua.LString)
	return string(s), ok && c.L.GetTop() == 1
}

func (v *VM) errorReply(c libCall) int {
	s, ok := oneString(c)
	if !ok {
		return c.push(v.errorTable(c, "wrong number or type of arguments"))
	}
	return c.push(v.errorTable(c, "-"+strings.TrimPrefix(s, "-")))
}

func (v *VM) statusReply(c libCall) int {
	s, ok := oneString(c)
	if !ok {
		return c.push(v.errorTable(c, "wrong number or type of arguments"))
	}
	return c.push(v.fieldTable(c, "ok", s))
}

// toInt reads argument n as a C int: what is no number is 0.
func toInt(c libCall, n int) int {
	f, _ := c.asNumber(c.L.Get(n))
	return int(truncInt32(f))
}

// redisLog checks its arguments and logs nothing: the log of a node is no place
// for what every replica would write again at each replay.
func (v *VM) redisLog(c libCall) int {
	if c.L.GetTop() < 2 {
		v.refuse(c, "redis.log() requires two arguments or more.")
	} else if _, ok := c.asNumber(c.L.Get(1)); !ok {
		v.refuse(c, "First argument must be a number (log level).")
	}
	if level := toInt(c, 1); level < 0 || level > 3 {
		v.refuse(c, "Invalid debug level.")
	}
	return 0
}

func (v *VM) setResp(c libCall) int {
	if c.L.GetTop() != 1 {
		v.refuse(c, "redis.setresp() requires one argument.")
	}
	proto := toInt(c, 1)
	if proto != 2 && proto != 3 {
		v.refuse(c, "RESP version must be 2 or 3.")
	}
	v.proto = proto
	return 0
}

// setRepl changes nothing: scripts are replicated as such, not their effects.
func (v *VM) setRepl(c libCall) int {
	if c.L.GetTop() != 1 {
		v.refuse(c, "redis.set_repl() requires two arguments.")
	}
	if flags := toInt(c, 1); flags&^3 != 0 {
		v.refuse(c, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

// aclCheck answers true: there are no access lists.
func (v *VM) aclCheck(c libCall) int {
	if _, why := arguments(c); why != "" {
		v.refuse(c, why)
	}
	return c.push(lua.LTrue)
}
