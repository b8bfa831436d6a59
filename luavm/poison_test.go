package luavm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockd/internal/strict"
	"lockd/luavm/lauxlib"
	"lockd/resp"
)

// poison are scripts that kill or hang a plain gopher-lua, or Redis itself.
var poison = []struct{ name, source, want string }{
	{"rep", `return string.rep("x", 1e10)`, lauxlib.LimitBytes},
	{"rep of rep", `local s = "x" for i = 1, 40 do s = s:rep(1000) end return #s`, lauxlib.LimitBytes},
	{"concat doubling", `local s = "x" while true do s = s .. s end`, lauxlib.LimitBytes},
	{"concat of numbers", `local s = "" while true do s = s .. 1 end`, "limit of"},
	{"sparse table", `local t = {} t[2^22] = 1 return #t`, ""},
	{"sparse tables", `for i = 1, 1e6 do local t = {} t[65535] = 1 end`, lauxlib.LimitBytes},
	{"growing table", `local t = {} local i = 0 while true do i = i + 1 t[i] = i end`, lauxlib.LimitBytes},
	{"growing hash", `local t = {} local i = 0 while true do i = i + 1 t["k" .. i] = i end`, lauxlib.LimitBytes},
	{"many tables", `local t = {} while true do t = {t} end`, lauxlib.LimitBytes},
	{"many closures", `local f while true do local g = f f = function() return g end end`, lauxlib.LimitBytes},
	{"polynomial match", `return string.find(("a"):rep(1e5), ".-b")`, lauxlib.LimitSteps},
	{"exponential match", `return string.find(("a"):rep(100), ("a?"):rep(100) .. ("a"):rep(100))`, lauxlib.LimitSteps},
	{"backtracking", `return ("x"):rep(1e4):match("x*x*x*x*x*y")`, lauxlib.LimitSteps},
	{"deep pattern", `return ("x"):rep(1e5):find(("x?"):rep(1e5))`, "pattern too complex"},
	{"long set", `local s = ("a"):rep(1e5) return s:find("[" .. ("b"):rep(1e5) .. "]")`, lauxlib.LimitSteps},
	{"gsub grows", `local s = "x" for i = 1, 100 do s = s:gsub(".", "%0%0%0%0") end return #s`, "limit of"},
	{"gsub calls itself", `local function f(s) return (s:gsub(".", f)) end return f("x")`, "C stack overflow"},
	{"format width", `for i = 1, 1e7 do local s = ("%99d"):rep(100):format(1) end`, "bad argument"},
	{"formats", `local f, t = ("%99s"):rep(90), {} for i = 1, 90 do t[i] = "x" end while true do f:format(unpack(t)) end`, "limit of"},
	{"table.concat", `local t, s = {}, ("x"):rep(1e5) for i = 1, 1e4 do t[i] = s end return table.concat(t)`, lauxlib.LimitBytes},
	{"insert at 1", `local t = {} while true do table.insert(t, 1, 1) end`, "limit of"},
	{"sort", `local t = {} for i = 1, 1e5 do t[i] = (i * 7919) % 100003 end while true do table.sort(t) table.sort(t, function(a, b) return a > b end) end`, lauxlib.LimitSteps},
	{"sort without order", `local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() return true end)`, "invalid order function"},
	{"unpack", `return unpack({}, 1, 1e8)`, "too many results to unpack"},
	{"unpacks", `local t = {} for i = 1, 7990 do t[i] = i end while true do local n = select("#", unpack(t)) end`, lauxlib.LimitSteps},
	{"varargs", `local function f(n, ...) if n == 0 then return ... end return f(n - 1, ...) end while true do f(100, unpack({}, 1, 7000)) end`, lauxlib.LimitSteps},
	{"values in depth", `local t = {} local function f(n) if n == 0 then return unpack(t, 1, 7000) end return 1, f(n - 1) end while true do pcall(f, 150) end`, lauxlib.LimitSteps},
	{"recursion", `local function f() return 1 + f() end return f()`, "stack overflow"},
	{"recursion in pcall", `local function f() return 1 + f() end while true do pcall(f) end`, lauxlib.LimitSteps},
	{"pcall in pcall", `local function f() return pcall(f) end while true do f() end`, lauxlib.LimitSteps},
	{"pcall of errors", `while true do pcall(error, "x") end`, lauxlib.LimitSteps},
	{"pcall of limits", `while true do pcall(string.rep, "x", 1e10) end`, lauxlib.LimitBytes},
	{"xpcall of limits", `while true do xpcall(function() while true do end end, function() end) end`, lauxlib.LimitSteps},
	{"handler fails", `local function h() return error("x") end while true do xpcall(error, h) end`, lauxlib.LimitSteps},
	{"captured in depth", `local function f(n) local x = n local g = function() return x end return f(n + 1) + g() end while true do pcall(f, 1) end`, "limit of"},
	{"__index chain", `local t = {} for i = 1, 90 do t = setmetatable({}, {__index = t}) end while true do local x = t.x end`, lauxlib.LimitSteps},
	{"__index chain of one metatable", `local m, t = {}, {} for i = 1, 90 do local n = {} m.__index = t t = setmetatable(n, {__index = t}) end while true do local x = t.x end`, lauxlib.LimitSteps},
	{"__index chain from its end", `local first = {} local t = first for i = 1, 90 do local n = {} setmetatable(t, {__index = n}) t = n end while true do local x = first.x end`, lauxlib.LimitSteps},
	{"__index chain closed last", `local first, m = {}, {} setmetatable(first, m) local t = {} for i = 1, 90 do t = setmetatable({}, {__index = t}) end m.__index = t while true do local x = first.x end`, lauxlib.LimitSteps},
	{"__index chain in gsub", `local t = {} for i = 1, 90 do t = setmetatable({}, {__index = t}) end local s = ("x"):rep(1000) while true do s:gsub(".", t) end`, lauxlib.LimitSteps},
	{"__newindex chain", `local t = {} for i = 1, 90 do t = setmetatable({}, {__newindex = t}) end while true do t.x = nil end`, lauxlib.LimitSteps},
	{"__index loop", `local t = {} setmetatable(t, {__index = t}) return t.x`, "loop in gettable"},
	{"__newindex loop", `local t = {} setmetatable(t, {__newindex = t}) t.x = 1`, "loop in settable"},
	{"__index recursion", `local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x`, "stack overflow"},
	{"__index recursion in pcall", `local t = setmetatable({}, {__index = function(t, k) return t[k] end}) while true do pcall(function() return t.x end) end`, lauxlib.LimitSteps},
	{"__tostring recursion", `local t = setmetatable({}, {__tostring = tostring}) return tostring(t)`, "stack overflow"},
	{"__eq recursion", `local m = {} m.__eq = function(a, b) return a == b end return setmetatable({}, m) == setmetatable({}, m)`, "stack overflow"},
	{"__concat recursion", `local m = {} m.__concat = function(a, b) return a .. b end return setmetatable({}, m) .. "x"`, "stack overflow"},
	{"__call chain", `local t = {} for i = 1, 1e5 do t = setmetatable({}, {__call = t}) end return t()`, "limit of"},
	{"loadstring", `while true do loadstring("return 1") end`, "limit of"},
	{"loadstring of long", `local s = "return " .. ("1+"):rep(1e4) .. "1" while true do loadstring(s) end`, "limit of"},
	{"load without end", `return load(function() return "x = 1 " end)`, "limit of"},
	{"nested loadstring", `local function f(s) return loadstring("return loadstring(...)")(s) end while true do f("x") end`, "limit of"},
	{"long keys", `local k, t = ("k"):rep(1e6), {x = 1} while true do local y = t[k] end`, lauxlib.LimitSteps},
	{"long equal strings", `local a = ("x"):rep(1e6) local b = a .. "" while true do local y = a == b end`, lauxlib.LimitSteps},
	{"long ordered strings", `local a = ("x"):rep(1e6) local b = a .. "" while true do local y = a < b end`, lauxlib.LimitSteps},
	{"next over deleted", `local t = {} for i = 1, 1e4 do t["k" .. i] = i end for i = 1, 9999 do t["k" .. i] = nil end while true do next(t) end`, lauxlib.LimitSteps},
	{"next over holes", `local t = {} t[65000] = 1 while true do next(t) end`, lauxlib.LimitSteps},
	{"# of trailing nils", `local t = {} for i = 1, 6e4 do t[i] = i end for i = 6e4, 1, -1 do t[i] = nil end while true do local n = #t end`, lauxlib.LimitSteps},
	{"tostring keeps", `while true do tostring({}) end`, "limit of"},
	{"reply of itself", `local t = {} t[1] = t return t`, ""},
	{"wide reply", `local t = {1} for i = 1, 40 do t = {t, t} end return t`, "limit of"},
	{"deep reply", `local t = {} for i = 1, 1e5 do t = {t} end return t`, ""},
	{"endless loop", `while true do end`, lauxlib.LimitSteps},
	{"endless repeat", `repeat until false`, lauxlib.LimitSteps},
	{"endless for", `for i = 1, math.huge do end`, lauxlib.LimitSteps},
	{"endless for of step 0", `for i = 1, 1, 0 do end`, lauxlib.LimitSteps},
	{"error object", `error(setmetatable({}, {__index = function(t, k) return t[k] end}))`, "execution failure"},
	{"error of itself", `local t = {} t.err = t error(t)`, "execution failure"},
	{"calls", `while true do redis.call("echo", ("x"):rep(1000)) end`, "limit of"},
	{"cjson", `local t = {} for i = 1, 1e5 do t[i] = i end while true do cjson.encode(t) end`, "limit of"},
	{"sha1", `local s = ("x"):rep(1e6) while true do redis.sha1hex(s) end`, lauxlib.LimitSteps},
	{"upper", `local s = ("x"):rep(1e6) while true do s:upper() end`, "limit of"},
	{"find plain", `local s = ("x"):rep(1e6) while true do s:find("y", 1, true) end`, lauxlib.LimitSteps},
	{"fmod of far apart", `while true do math.fmod(1e308, 1e-300) end`, lauxlib.LimitSteps},
	{"byte", `local s = ("x"):rep(7000) while true do s:byte(1, -1) end`, lauxlib.LimitSteps},
}

// No script takes the node's memory or its time: each ends soon, and says why.
func TestPoison(t *testing.T) {
	const (
		longest     = 8 * time.Second // under the race detector, on a busy machine; the worst by itself takes a fraction
		memoryBytes = 1 << 30
	)
	for _, p := range poison {
		lim := limits
		if p.want == lauxlib.LimitSteps || p.want == "limit of" {
			lim.Steps /= 5 // more of the same shows no more
		}
		t.Run(p.name, func(t *testing.T) {
			v := New()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			reply, _, limited := v.Run(script(p.source), nil, nil, lim, stubCall)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if limited != strings.Contains(reply.Str, "limit of") {
				t.Errorf("limited is %v with reply %s", limited, render(reply))
			}
			if p.want != "" && (!reply.IsErr() || !strings.Contains(reply.Str, p.want)) {
				t.Errorf("reply %.300s, want an error about %q", render(reply), p.want)
			}
			if p.want == "" && limited {
				t.Errorf("met a limit: %s", reply.Str)
			}
			strict.AtMost(t, p.name, took, longest)
			if held := after.Sys - before.Sys; held > memoryBytes {
				t.Errorf("took %d MB from the system", held>>20)
			}
			t.Logf("%v, %d MB allocated", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
			reply, _, _ = v.Run(script("return 7"), nil, nil, limits, stubCall)
			if reply.Kind != resp.KindInt || reply.Int != 7 {
				t.Errorf("the next script answers %s", render(reply))
			}
		})
	}
}

// A script cannot survive a panic in a command: the panic reaches the caller of the script, and the VM serves other
// scripts.
func TestPanicInCommand(t *testing.T) {
	v := New()
	for _, source := range []string{
		`redis.call("x")`,
		`redis.pcall("x")`,
		`pcall(redis.call, "x")`,
		`pcall(pcall, redis.pcall, "x")`,
		`xpcall(function() return redis.call("x") end, function(e) return e end)`,
		`xpcall(error, function() return redis.call("x") end)`,
		`pcall(table.sort, {3, 2, 1}, function() return redis.call("x") end)`,
		`pcall(string.gsub, "a", "a", function() return redis.call("x") end)`,
		`return setmetatable({}, {__index = function() return redis.call("x") end}).y`,
		`return tostring(setmetatable({}, {__tostring = function() return redis.call("x") end}))`,
	} {
		got, calls := panicOf(v, source)
		if !strings.Contains(got, "half of a change") || !strings.Contains(got, "poison_test.go") || calls != 1 {
			t.Errorf("%s: %q, after %d calls", source, got, calls)
		}
		if reply, _, limited := v.Run(script("return 7"), nil, nil, limits, stubCall); limited || reply.Int != 7 {
			t.Errorf("%s: the next script answers %s", source, render(reply))
		}
	}
}

// panicOf runs a script whose commands panic, and returns the panic that reaches the caller, "" if none does, and how many
// commands were called.
func panicOf(v *VM, source string) (text string, calls int) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	v.Run(script(source), nil, nil, limits, func(resp.Args, int64) (resp.Reply, int64) {
		calls++
		panic("half of a change")
	})
	return "", calls
}
