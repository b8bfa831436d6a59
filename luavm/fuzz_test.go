package luavm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"lockd/resp"
)

// sourceOf makes a script of fuzzing bytes: of an odd first byte, the bytes
// themselves; otherwise each further byte chooses in a grammar.
func sourceOf(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	if data[0]%2 == 1 {
		return string(data[1:])
	}
	w := writer{choices: data[1:]}
	w.block(0)
	return "local function O(...) redis.call('echo', tostring((...)) .. select('#', ...)) return ... end local T, u = {1, 2, x = 3}, 0 " +
		w.out.String() + " return {O(u), #T, T.x, T}"
}

// writer writes a script; when the choices are used up, the shortest form.
type writer struct {
	choices []byte
	out     strings.Builder
	names   []string
	loops   int
}

func (w *writer) pick(n int) int {
	if len(w.choices) == 0 {
		return 0
	}
	c := w.choices[0]
	w.choices = w.choices[1:]
	return int(c) % n
}

func (w *writer) put(format string, args ...any) { fmt.Fprintf(&w.out, format, args...) }

var fuzzAtoms = []string{
	"1", "nil", "true", "'s'", "'10'", "0.5", "-1", "2^53", "1/0", "0/0", "{}", "{1,2,nil,4}", "T", "u", "T.x", "...", "KEYS[1]", "ARGV",
	"redis", "string", "_G", "nosuch", "'%d+'", "'(.)%1'", "'a.b-c*'", "math.random(10)", "tostring({})", "function(a) u = u + 1 return a end",
}

var fuzzFuncs = []string{
	"O", "tostring", "tonumber", "type", "select", "unpack", "next", "pairs", "ipairs", "pcall", "xpcall", "error", "assert", "rawget", "rawset",
	"setmetatable", "getmetatable", "loadstring", "string.format", "string.rep", "string.find", "string.gsub", "string.gmatch", "string.byte",
	"string.char", "string.sub", "table.insert", "table.remove", "table.concat", "table.sort", "math.floor", "math.max", "cjson.encode",
	"cjson.decode", "cmsgpack.pack", "cmsgpack.unpack", "struct.pack", "bit.band", "redis.call", "redis.pcall", "redis.error_reply", "redis.setresp", "redis.sha1hex", "table.foreach",
}

func (w *writer) expr(depth int) {
	if depth > 4 {
		w.put("%s", fuzzAtoms[w.pick(len(fuzzAtoms))])
		return
	}
	switch w.pick(12) {
	default:
		w.put("%s", fuzzAtoms[w.pick(len(fuzzAtoms))])
	case 4, 5:
		w.call(depth)
	case 6, 7:
		w.put("(")
		w.expr(depth + 1)
		w.put(" %s ", []string{"+", "..", "==", "<", "<=", "and", "or", "%", "*", "^", "~="}[w.pick(11)])
		w.expr(depth + 1)
		w.put(")")
	case 8:
		w.put("%s(", []string{"-", "#", "not "}[w.pick(3)])
		w.expr(depth + 1)
		w.put(")")
	case 9:
		w.put("{")
		for range w.pick(4) {
			w.put("%s", []string{"", "[u]=", "x=", "[{}]=", "[3]="}[w.pick(5)])
			w.expr(depth + 1)
			w.put(",")
		}
		w.put("}")
	case 10:
		w.name()
	case 11:
		w.put("function(p, ...) ")
		w.block(depth + 1)
		w.put(" return p end")
	}
}

func (w *writer) call(depth int) {
	w.put("%s(", fuzzFuncs[w.pick(len(fuzzFuncs))])
	for i := range w.pick(4) {
		if i > 0 {
			w.put(", ")
		}
		w.expr(depth + 1)
	}
	w.put(")")
}

func (w *writer) name() {
	if len(w.names) == 0 {
		w.put("u")
		return
	}
	w.put("%s", w.names[w.pick(len(w.names))])
}

func (w *writer) block(depth int) {
	mark, loops := len(w.names), w.loops
	for range 1 + w.pick(3) {
		w.statement(depth)
		w.put(" ; ")
	}
	w.names, w.loops = w.names[:mark], loops
}

func (w *writer) statement(depth int) {
	if depth > 4 {
		w.put("u = u + 1")
		return
	}
	switch w.pick(10) {
	case 0:
		w.put("O(")
		w.expr(depth)
		w.put(")")
	case 1:
		name := string(rune('a' + w.pick(6)))
		w.put("local %s = ", name)
		w.expr(depth)
		w.names = append(w.names, name)
	case 2:
		w.name()
		w.put(", T[u] = ")
		w.expr(depth)
	case 3:
		w.put("if ")
		w.expr(depth)
		w.put(" then ")
		w.block(depth + 1)
		w.put("else ")
		w.block(depth + 1)
		w.put("end")
	case 4, 5:
		w.loop(depth)
	case 6:
		w.put("O(pcall(function(...) ")
		w.block(depth + 1)
		w.put("end))")
	case 7:
		w.put("local function f(n) if n and u < 50 then u = u + 1 ; ")
		w.names = append(w.names, "f")
		w.block(depth + 1)
		w.put(" return f(n) end end")
	case 8:
		w.put("setmetatable(T, {__index = ")
		w.expr(depth)
		w.put(", __newindex = rawset, __add = O, __lt = O, __concat = O, __call = O})")
	case 9:
		w.call(depth)
	}
}

func (w *writer) loop(depth int) {
	w.loops++
	w.put("%s", []string{"for i = 1, 3 do ", "for k, v in pairs(T) do ", "for i = 'x', {} do ", "while u < 9 do u = u + 1 ; ", "for w in ('a1'):gmatch('.') do "}[w.pick(5)])
	w.block(depth + 1)
	if w.pick(2) == 1 {
		w.put("if ")
		w.expr(depth)
		w.put(" then break end ")
	}
	w.put("end")
}

// traced runs a script and notes the commands it calls.
func traced(v *VM, source string) (reply resp.Reply, left resp.ScriptLimits, limited bool, calls []resp.Args) {
	lim := resp.ScriptLimits{Steps: 100_000, MemBytes: 4 << 20}
	replies := []resp.Reply{
		resp.Int(1), resp.Bulk("x"), resp.Nil(), resp.OK(), resp.Err("ERR x"), resp.Array(resp.Int(1), resp.Nil(), resp.Bulk("y")),
		resp.Map(resp.Bulk("k"), resp.Double(1.5)), resp.Set(resp.Bulk("m")), resp.Bool(true), resp.Verbatim("text"),
	}
	reply, left, limited = v.Run(script(source), []string{"k1", "k2"}, []string{"a1"}, lim, func(args resp.Args, left int64) (resp.Reply, int64) {
		calls = append(calls, args)
		return replies[len(calls)%len(replies)], left
	})
	return reply, left, limited, calls
}

// A script has the same reply, costs as much and calls the same commands on a VM that has run
// thousands of others as on a new one. Nothing makes either panic.
func FuzzScript(f *testing.F) {
	f.Add([]byte("\x01return redis.call('get', KEYS[1])"))
	f.Add([]byte("\x01local t = {} for i = 1, 10 do t[i] = tostring({}) end return t"))
	f.Add([]byte("\x01return {math.random(), tostring(print)}"))
	f.Add([]byte("\x01local f = loadstring('return ' .. 'KEYS') return f()"))
	f.Add([]byte("\x01error({err = 'x'})"))
	f.Add([]byte("\x01while true do end"))
	f.Add([]byte{0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte{2, 2, 4, 1, 7, 9, 8, 3, 2, 6, 11, 1, 0, 4, 3, 5, 30, 2, 1, 7, 4, 2})
	f.Add([]byte{4, 1, 7, 1, 6, 3, 8, 9, 5, 4, 1, 9, 2, 3, 6, 11, 1, 6, 0, 1, 3, 6, 9, 2})
	used := New()
	f.Fuzz(func(t *testing.T, data []byte) {
		source := sourceOf(data)
		reply1, left1, limited1, calls1 := traced(used, source)
		reply2, left2, limited2, calls2 := traced(New(), source)
		if !reflect.DeepEqual(reply1, reply2) || limited1 != limited2 {
			t.Errorf("%s\n used %v %s\nfresh %v %s", source, limited1, render(reply1), limited2, render(reply2))
		}
		if left1 != left2 {
			t.Errorf("%s\n used leaves %v\nfresh leaves %v", source, left1, left2)
		}
		if !reflect.DeepEqual(calls1, calls2) {
			t.Errorf("%s\n used calls %q\nfresh calls %q", source, calls1, calls2)
		}
		if strings.Contains(reply1.Str, "internal error") {
			t.Errorf("%s\n internal error", source)
		}
	})
}
