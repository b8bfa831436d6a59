package luavm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockd/internal/strict"
	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"
	"lockd/resp"
)

// repeat writes pattern with 0, 1, 2 ... for its verb until the source is full.
func repeat(before, pattern, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; ; i++ {
		piece := strings.ReplaceAll(pattern, "#", fmt.Sprint(i))
		if b.Len()+len(piece)+len(after) > compiler.SourceBytesMax {
			return b.String() + after
		}
		b.WriteString(piece)
	}
}

// Whatever a source of the greatest length holds, it is compiled, or refused with
// a clear error, in short time.
func TestCompileBounds(t *testing.T) {
	const longest = 2 * time.Second // under the race detector, on a busy machine; by itself it takes a fraction
	for _, c := range []struct{ name, source, want string }{
		{"too long", strings.Repeat(" ", compiler.SourceBytesMax+1), "script longer than 65536 bytes"},
		{"tables in tables", "return " + strings.Repeat("{", 50000), "chunk has too many syntax levels"},
		{"parentheses", "return " + strings.Repeat("(", 50000), "chunk has too many syntax levels"},
		{"functions in functions", strings.Repeat("return function() ", 3000), "chunk has too many syntax levels"},
		{"blocks in blocks", strings.Repeat("do ", 20000), "chunk has too many syntax levels"},
		{"powers", "return " + strings.Repeat("2^", 30000) + "2", "chunk has too many syntax levels"},
		{"concats", "return " + strings.Repeat("a..", 20000) + "a", "chunk has too many syntax levels"},
		{"nots", "return " + strings.Repeat("not ", 15000) + "1", "chunk has too many syntax levels"},
		{"sums", "return " + strings.Repeat("a+", 30000) + "a", "operators in a row"},
		{"calls", "return f" + strings.Repeat("()", 30000), "operators in a row"},
		{"fields", "return f" + strings.Repeat(".a", 30000), "operators in a row"},
		{"many sums", repeat("", "local _ = "+strings.Repeat("a+", 900)+"a;_()", ""), ""},
		{"elseifs", repeat("if a then ", "elseif a# then ", " end"), ""},
		{"constants", repeat("return {", "'#',", "}"), "too many constants in a function"},
		{"numbers", repeat("return {", "#,", "}"), "too many constants in a function"},
		{"negative numbers", repeat("return {", "-#,", "}"), "too many constants in a function"},
		{"computed numbers", repeat("return {", "#/7,", "}"), "too many constants in a function"},
		{"no numbers", repeat("return {", "0/0,", "}"), "too many constants in a function"},
		{"globals", repeat("", "a#() ", ""), "too many constants in a function"},
		{"methods", repeat("", "a:b#() ", ""), "too many constants in a function"},
		{"tiny numbers", repeat("return {", "#e-320,", "}"), "numbers of less than 2^-1022"},
		{"many constants", repeat("return {", "#,", "}")[:15000] + "0}", ""},
		{"minuses", repeat("", "a("+strings.Repeat("- ", 190)+"a)", ""), ""},
		{"assignments", repeat("", strings.Repeat("a,", 150)+"c=1 ", ""), ""},
		{"functions", repeat("", "f(function() end)", ""), "more than 1000 functions"},
		{"small tables", strings.Repeat("a{#a,#a}", 8000), ""},
		{"locals", repeat("", "local a# ", ""), "local variables"},
		{"blocks of locals", repeat("", "do local a#,b,c,d,e,f,g,h,i,j=1 end ", ""), ""},
		{"assignment", repeat("", "a#,", "a=1"), "variables in assignment"},
		{"arguments", repeat("f(", "a,", "a)"), "too complex"},
		{"parameters", repeat("return function(", "a#,", "a) end"), "local variables"},
		{"upvalues", repeat("", "local a,b,c,d,e,f,g,h,i,j do local function x() return a,b,c,d,e,f,g,h,i,j end end do end ", ""), "local variables"},
		{"computed fields", repeat("return {", "[f]=1,", "}"), "too complex"},
		{"nested computed fields", "return " + strings.Repeat("{[f]=", 30) + "1" + strings.Repeat("}", 30), ""},
		{"goto labels", repeat("local function f() return f end ", "while f do do local name=1 f=function() return name end break end end ", ""), ""},
		{"name", strings.Repeat("a", 2000) + "=1", "name longer than 1024 bytes"},
		{"string", "return '" + strings.Repeat("a", 60000) + "'", ""},
		{"comment", "--[[" + strings.Repeat("[", 60000), "unfinished long comment"},
		{"sum of 900", "local a = 1 return a" + strings.Repeat("+a", 900), ""},
		{"local functions", localFunctions(190), ""},
		{"lines", strings.Repeat("\n", 60000) + "x", "user_script:60001: '=' expected near '<eof>'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			err := New().Compile(script(c.source))
			took := time.Since(began)
			t.Log(took.Round(time.Millisecond))
			strict.AtMost(t, c.name, took, longest)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("compiled: %.200v, want %q", err, c.want)
			}
		})
	}
}

// A script that ran once needs exactly the same steps and bytes again: with one
// less it meets its limit, compiled before or not.
func TestBudgetIsExact(t *testing.T) {
	source := script(`local t = {} for i = 1, 20 do t[#t + 1] = i .. 'x' end table.sort(t) redis.call('echo', t[1]) ` +
		`return pcall(string.gsub, table.concat(t, ','), '%d', function(d) return d + 1 end)`)
	used := func(v *VM) resp.ScriptLimits {
		reply, left, limited := v.Run(source, nil, nil, limits, stubCall)
		if limited || reply.IsErr() {
			t.Fatalf("reply %s", render(reply))
		}
		return resp.ScriptLimits{Steps: limits.Steps - left.Steps, MemBytes: limits.MemBytes - left.MemBytes}
	}
	need := used(New())
	v := New()
	for range 3 {
		if again := used(v); again != need {
			t.Fatalf("needs %+v, then %+v", need, again)
		}
		v.Run(script("local x = {} error(x)"), nil, nil, limits, stubCall)
	}
	if reply, _, limited := v.Run(source, nil, nil, need, stubCall); limited {
		t.Errorf("with just enough: %s", render(reply))
	}
	for name, lim := range map[string]resp.ScriptLimits{
		lauxlib.LimitSteps: {Steps: need.Steps - 1, MemBytes: need.MemBytes},
		lauxlib.LimitBytes: {Steps: need.Steps, MemBytes: need.MemBytes - 1},
	} {
		reply, _, limited := v.Run(source, nil, nil, lim, stubCall)
		most := lim.Steps
		if name == lauxlib.LimitBytes {
			most = lim.MemBytes
		}
		want := fmt.Sprintf("ERR Script stopped: it needs more than its limit of %d %s", most, name)
		if !limited || reply.Str != want {
			t.Errorf("one less: %v %s, want %s", limited, render(reply), want)
		}
	}
}

// A command may take steps of the script that calls it. It gets the number of steps left; if it takes more, the script
// ends: no pcall helps, and the error names the whole limit of which the script was given a part.
func TestCommandTakesSteps(t *testing.T) {
	lim := resp.ScriptLimits{Steps: 3000, MemBytes: 1 << 20, StepsOf: 5000}
	var told []int64
	take := func(_ resp.Args, left int64) (resp.Reply, int64) {
		told = append(told, left)
		return resp.Int(1), left - 1000
	}
	source := script(`for i = 1, 100 do pcall(redis.pcall, 'x') end return 'survived'`)
	reply, left, limited := New().Run(source, nil, nil, lim, take)
	if want := "ERR Script stopped: it needs more than its limit of 5000 steps"; !limited || reply.Str != want || left.Steps != 0 {
		t.Errorf("limited: %v, %d steps left, %s, want %s", limited, left.Steps, render(reply), want)
	}
	if len(told) != 3 || told[0] >= 3000 || told[0]-told[1] <= 1000 || told[1]-told[2] <= 1000 {
		t.Errorf("at the calls, %v steps are left", told)
	}
	reply, left, limited = New().Run(script(`redis.call('x') return 'done'`), nil, nil, lim, take)
	if limited || reply.Str != "done" || left.Steps < 1800 || left.Steps >= 2000 {
		t.Errorf("limited: %v, %d steps left, %s", limited, left.Steps, render(reply))
	}
}

// Compiled scripts are kept up to a number of bytes, whatever the size of each, and the cache changes no result.
func TestCacheIsBounded(t *testing.T) {
	v := New()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 40 {
		source := fmt.Sprintf("local a = %d if a < 0 then %s end return a", i, strings.Repeat("a{#a,#a}", 8000))
		for range 2 {
			reply, _, _ := v.Run(script(source), nil, nil, limits, stubCall)
			if reply.Kind != resp.KindInt || reply.Int != int64(i) {
				t.Fatalf("script %d answers %s", i, render(reply))
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > programsBytesMax {
		t.Errorf("the cache holds %d KiB", held>>10)
	}
	if v.programs.bytes > programsBytesMax || len(v.budget.Chunks) > len(v.programs.kept) {
		t.Errorf("%d bytes by estimate, %d programs, %d chunks", v.programs.bytes, len(v.programs.kept), len(v.budget.Chunks))
	}
	runtime.KeepAlive(v)
}

func localFunctions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "local function a%d() end ", i)
	}
	return b.String()
}

// A function with almost as many locals as there are registers computes the same as one with few, or is refused.
func TestFullRegisters(t *testing.T) {
	const localsMax = 200 // of Lua
	refused, v := 0, New()
	for n := 170; n <= localsMax; n++ {
		for _, use := range []string{
			"return l7 + l8 * (l9 - l10 / l11)", "return l7 .. l8 .. (l9 .. l10)", "return {l7, l8, {l9, k = l10}}", "return l7 % l8 ^ l9",
			"return S(l7, l8, S(l9, S(l10, l11)))", "local t = {l7, [l8] = l9} t[l10], t[l11] = l12, l13 return t[l10]", "return #{l7, l8} == l9 and l10 or l11",
			"for i = l7, l8 do l9 = l9 + i end return l9", "for k, v in pairs({l7, l8}) do l9 = l9 + v end return l9",
			"local f = function(...) l7 = l7 + 1 return l8, ... end return {f(l9, f(l10)), l7}", "return ('x'):rep(l7):gsub('x', function() return l8 end)",
			"while l7 < l8 do l7 = l7 + 1 if l7 == 8 then break end end return l7", "return {pcall(error, {l7, l8})}",
		} {
			few, many := "local function S(...) return ... end ", "local function S(...) return ... end "
			for i := range n {
				if i < 20 {
					few += fmt.Sprintf("local l%d = %d ", i, i)
				}
				many += fmt.Sprintf("local l%d = %d ", i, i)
			}
			want, _, _ := v.Run(script(few+use), nil, nil, limits, stubCall)
			got, _, _ := v.Run(script(many+use), nil, nil, limits, stubCall)
			if strings.Contains(got.Str, "too complex") || strings.Contains(got.Str, "local variables") {
				refused++
			} else if render(got) != render(want) {
				t.Errorf("%d locals: %s\n got %s\nwant %s", n, use, render(got), render(want))
			}
		}
	}
	if refused > 200 {
		t.Errorf("%d refused", refused)
	}
	t.Log(refused, "refused")
}
