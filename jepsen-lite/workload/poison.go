package workload

// poison are scripts that kill or hang a Lua that does not count what it does, or
// Redis itself: each asks for far more than a limit, or comes close to one. A node
// that dies of one takes all others with it, again at each restart.
var poison = []string{
	// memory in one call
	`return string.rep('x', 1e10)`,
	`local s = 'x' for i = 1, 40 do s = s:rep(1000) end return #s`,
	`local s = 'x' while true do s = s .. s end`,
	`local s = '' while true do s = s .. 1 end`,
	`local s = 'x' for i = 1, 100 do s = s:gsub('.', '%0%0%0%0') end return #s`,
	`local t, s = {}, ('x'):rep(1e5) for i = 1, 1e4 do t[i] = s end return table.concat(t)`,
	`return table.concat({}, ('x'):rep(1e6), 1, 1e6)`,
	`return ('%099999999d'):format(1)`,
	`for i = 1, 1e7 do local s = ('%99d'):rep(100):format(1) end`,
	`local f, t = ('%99s'):rep(90), {} for i = 1, 90 do t[i] = 'x' end while true do f:format(unpack(t)) end`,
	`return unpack({}, 1, 1e8)`,
	`return unpack({}, -2147483647, 2147483647)`,
	`return string.char(unpack({}, 1, 1e6))`,
	// tables
	`local t = {} t[2^22] = 1 return #t`,
	`local t = {} t[67108863] = 1 return #t`,
	`for i = 1, 1e6 do local t = {} t[65535] = 1 end`,
	`local t, i = {}, 0 while true do i = i + 1 t[i] = i end`,
	`local t, i = {}, 0 while true do i = i + 1 t['k' .. i] = i end`,
	`local t = {} while true do table.insert(t, 1, 1) end`,
	`local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() return true end)`,
	`local t = {} for i = 1, 1e4 do t['k' .. i] = i end for i = 1, 9999 do t['k' .. i] = nil end while true do ` +
		`next(t) end`,
	`local t = {} setmetatable(t, {__index = t}) return t.x`,
	`local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x`,
	// patterns
	`return string.find(('a'):rep(1e5), '.-b')`,
	`return string.find(('a'):rep(100), ('a?'):rep(100) .. ('a'):rep(100))`,
	`return ('x'):rep(1e4):match('x*x*x*x*x*y')`,
	`return ('x'):rep(1e5):find(('x?'):rep(1e5))`,
	`return ('('):rep(3e5):find('%b()')`,
	`local function f(s) return (s:gsub('.', f)) end return f('x')`,
	// depth
	`local function f() return 1 + f() end return f()`,
	`local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(15000)`,
	`local function f() return pcall(f) end while true do f() end`,
	`local t = {} for i = 1, 1e5 do t = {t} end return t`,
	`local t = {} t[1] = t return t`,
	`local t = {1} for i = 1, 40 do t = {t, t} end return t`,
	`return loadstring('return ' .. ('('):rep(5e4) .. '1' .. (')'):rep(5e4))`,
	`return loadstring('return ' .. ('{'):rep(5e4) .. ('}'):rep(5e4))`,
	`return loadstring('return ' .. ('-'):rep(1e5) .. '1')`,
	`while true do loadstring('return 1') end`,
	`return load(function() return 'x = 1 ' end)`,
	// libraries
	`local t = {} for i = 1, 1e5 do t[i] = i end while true do cjson.encode(t) end`,
	`local t = {} for i = 1, 999 do t = {t} end return cjson.encode(t)`,
	`return cjson.decode(('['):rep(1e5) .. (']'):rep(1e5))`,
	`return #cjson.decode('[' .. ('1,'):rep(1e6) .. '1]')`,
	`return cmsgpack.unpack(('\221\255\255\255\255'):rep(100))`,
	`return cmsgpack.unpack(('\145'):rep(1e5))`,
	`return struct.pack('i99999999', 1)`,
	`return struct.unpack('c99999999', 'x')`,
	`local s = ('x'):rep(1e6) while true do redis.sha1hex(s) end`,
	`while true do redis.call('echo', ('x'):rep(1000)) end`,
	`while true do redis.call('append', KEYS[1], ('x'):rep(1e5)) end`,
	`for i = 1, 1e9 do redis.call('setrange', KEYS[1], i * 1e6, 'x') end`,
	`for i = 1, 1e9 do redis.call('hset', KEYS[2], i, i) end`,
	`for i = 1, 1e9 do redis.call('publish', KEYS[1], ('x'):rep(1000)) end`,
	// time
	`while true do end`,
	`repeat until false`,
	`for i = 1, math.huge do end`,
	`for i = 1, 1, 0 do end`,
	`while true do pcall(error, 'x') end`,
	`while true do pcall(string.rep, 'x', 1e10) end`,
	`while true do pcall(function() while true do end end) end`,
	`xpcall(function() while true do end end, function() while true do end end)`,
	`while true do math.fmod(1e308, 1e-300) end`,
	`error(setmetatable({}, {__index = function(t, k) return t[k] end}))`,
	`local t = {} t.err = t error(t)`,
}

// nested are sources that use up the stack of whoever parses them, or its memory.
var nested = []string{
	"return " + repeat("{", 20_000) + repeat("}", 20_000),
	"return " + repeat("(", 20_000) + "1" + repeat(")", 20_000),
	"return " + repeat("not ", 15_000) + "1",
	"return " + repeat("1+", 30_000) + "1",
	"return 1" + repeat("..1", 20_000),
	repeat("do ", 10_000) + repeat("end ", 10_000),
	repeat("if true then ", 4_000) + repeat("end ", 4_000),
	repeat("return function() ", 3_000) + repeat("end ", 3_000),
	"local t = {} return t" + repeat(".t", 30_000),
	"local f return f" + repeat("()", 30_000),
	"local a = " + repeat("[[", 30_000),
	repeat("x=1 ", 60_000), // more than a source may have
}
