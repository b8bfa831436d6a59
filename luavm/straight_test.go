package luavm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"lockd/resp"
)

// lockScripts are scripts by which client libraries take, renew and free locks.
var lockScripts = map[string]string{
	"release":       unlockScript,
	"release, else": `if redis.call('GET',KEYS[1])==ARGV[1]then return redis.call('DEL',KEYS[1])end return 0`,
	"renew":         `if ((redis.call("get", KEYS[1])) == ARGV[1]) then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`,
	"redisson lock": redissonLock,
	"redisson unlock": `local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; ` +
		`if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
		`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; ` +
		`else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;`,
	"redisson renew": `if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end; return 0;`,
	"redis-py release": "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n return 0\nend\n" +
		"redis.call('del', KEYS[1])\nreturn 1",
	"redis-py extend": "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n return 0\nend\n" +
		"local expiration = redis.call('pttl', KEYS[1])\nif not expiration then\n expiration = 0\nend\nif expiration < 0 then\n return 0\nend\n" +
		"local newttl = ARGV[2]\nif ARGV[3] == \"0\" then\n newttl = ARGV[2] + expiration\nend\nredis.call('pexpire', KEYS[1], newttl)\nreturn 1",
	"redsync": `local val = redis.call("GET", KEYS[1]) if val == ARGV[1] then return redis.call("DEL", KEYS[1]) elseif val == false then return -1 else return 0 end`,
	"spring": `local id = redis.call('GET', KEYS[1]) if id == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return true ` +
		`elseif not id then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return true end return false`,
	"take": `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.status_reply end return nil`,
	"set":  `return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`,
}

// straightNot are lock scripts above that are not straight.
var straightNot = map[string]bool{"take": true}

var (
	straightKeys = []string{"lock:a", "channel", "latch"}
	straightArgv = []string{"token", "30000", "0", "PUBLISH", "10000", strings.Repeat("x", 200)}
)

// trail is all that a run shows: to the client, to the commands, and to the request that pays.
type trail struct {
	Reply   resp.Reply
	Left    resp.ScriptLimits
	Limited bool
	Calls   []resp.Args
	Told    []int64 // the steps left at each call
}

// conduct answers the calls of a script from bytes, which also give the steps of each call.
func (tr *trail) conduct(choices []byte) resp.ScriptCall {
	replies := []resp.Reply{
		resp.Int(1), resp.Int(0), resp.Bulk("token"), resp.Nil(), resp.OK(), resp.Int(-1), resp.Bulk("17"), resp.Bool(true),
		resp.Int(1 << 40), resp.Bulk(strings.Repeat("x", 200)), resp.Double(1.5), resp.Status("a\x00b"), resp.NilArray(),
		resp.Err("ERR x"), resp.Array(resp.Int(1), resp.Nil()), resp.Map(resp.Bulk("k"), resp.Int(2)), resp.Verbatim("text"),
	}
	return func(args resp.Args, left int64) (resp.Reply, int64) {
		tr.Calls, tr.Told = append(tr.Calls, args), append(tr.Told, left)
		choice := len(tr.Calls)
		if len(choices) > 0 {
			choice = int(choices[choice%len(choices)])
		}
		switch choice % 16 {
		case 7:
			left -= int64(choice)
		case 15:
			left = -1
		}
		return replies[choice%len(replies)], left
	}
}

// bothWays runs a script as Run does and by gopher-lua alone, and says whether the trails are one, and
// whether it went straight to its end.
func bothWays(t *testing.T, v *VM, source string, lim resp.ScriptLimits, choices []byte) (used resp.ScriptLimits, failed, through bool) {
	t.Helper()
	s := script(source)
	p, err := v.program(&scripts, s)
	if err != nil {
		return lim, true, false
	}
	var a, b trail
	a.Reply, a.Left, a.Limited = v.Run(s, straightKeys, straightArgv, lim, a.conduct(choices))
	b.Reply, b.Left, b.Limited = v.interpret(p, s.SHA, straightKeys, straightArgv, lim, b.conduct(choices))
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s\n%+v\n    run: %s %+v\ngopher: %s %+v", source, lim, render(a.Reply), a, render(b.Reply), b)
	}
	if p.straight != nil {
		var c trail
		_, _, through = v.runStraight(p.straight, straightKeys, straightArgv, lim, c.conduct(choices))
		v.straight.called = nil
	}
	used = resp.ScriptLimits{Steps: lim.Steps - b.Left.Steps, MemBytes: lim.MemBytes - b.Left.MemBytes}
	return used, b.Reply.IsErr(), through
}

// The scripts of lock libraries run straight on all replies but errors, and do the same as in gopher-lua, with any
// budget that runs out on the way.
func TestLockScriptsGoStraight(t *testing.T) {
	v := New()
	for name, source := range lockScripts {
		for _, choices := range [][]byte{{0}, {1}, {2}, {3}, {2, 0, 2, 0}, {3, 0, 1, 2}, {3, 1, 0}, {2, 4, 5}, {4, 7}, {6}, {13}, {14}, {15}} {
			used, failed, through := bothWays(t, v, source, limits, choices)
			if table := choices[0] == 14; !table && through == (failed || straightNot[name]) {
				t.Errorf("%s, answered %d: went straight to its end: %v, failed: %v", name, choices, through, failed)
			}
			if len(choices) > 2 {
				cutShort(t, v, source, used, choices)
			}
		}
	}
}

// Rare cases of a straight script do the same both ways.
func TestStraightCorners(t *testing.T) {
	v := New()
	for _, source := range []string{
		`return redis.call('set', 'a') == redis.call('set', 'b')`, `return redis.call == redis.pcall`, `return KEYS == ARGV`,
		`local a = redis.call('set') return a == a and 1 or 2`, `local a = redis.call('set') local b = a return a ~= b`,
		`return ARGV[1] + KEYS[1]`, `return tonumber('0x10' + 1)`, `return 'nan' + 1 .. ''`, `return '-nan' + '1' .. ''`, `return 0/0 .. ''`,
		`return 1 - 'inf' - '-inf' .. ''`, `local a, b, c = redis.call('get'), 1 return c or b or a`, `local a, b = redis.call('get') return b`,
		`return redis.call('get', 1e15, 0.1, -0, 1/0, 0/0, 2^0.5)`, `return 'a' < 'b'`, `return 1 < 'b'`, `return ARGV[6] .. ARGV[6] .. 1e15`,
		`local a = ARGV[6] .. ARGV[6] a = a .. a a = a .. a a = a .. a return a .. a`, `return redis.call()`, `return redis.call(nil)`,
		`return redis.call(true)`, `return tonumber()`, `return tonumber('10', 16)`, `return tonumber(nil)`, `return tonumber('x')`,
		`return tonumber(tonumber(redis.call('get')))`, `return redis.call(redis.call('get'))`, `return redis.call('get', redis.call('get'))`,
		`return tonumber('1e-310')`, `return KEYS[0/0]`, `return KEYS[1e300]`, `return KEYS[0]`, `return KEYS[4]`, `return KEYS.call`, `return redis[1]`,
		`return KEYS[1].call`, `return 1, redis.call('get')`, `return`, ``, `return redis`, `return redis.call`, `return 1e300`, `return -1.9`,
		`if KEYS and redis.call then return 1 end`, `return not KEYS`, `do return 1 end`, `local KEYS = 1 return KEYS`, `return KEYS()`,
		`return redis.call('get', 'x' .. redis.call('get'))`, `return redis.call('get') .. redis.call('get')`, `return redis.call("get") == nil`,
		`local a = 1 if redis.call('get') then a = 2 end return a`, `local r = redis return r.call('get')`, `return (redis or KEYS).call('get')`,
		`return ARGV[6] == redis.call('get')`, `return redis.call('get') ~= ARGV[6]`, `local a = ARGV[6] .. ARGV[6] return a == ARGV[6] .. ARGV[6]`,
		`return ARGV[6] .. ARGV[1] == ARGV[6] .. ARGV[2]`, `return ARGV[6] == ARGV[6] and KEYS[1] == KEYS[1]`,
		`local x = tonumber(ARGV[3]) * -1 return 1 / x .. ''`, `return tonumber(ARGV[3]) * -1 .. ''`, `return ARGV[3] / -1 .. ''`,
		`local x = tonumber(ARGV[3]) / -1 return redis.call('echo', x)`,
		`local x = ARGV[3] * -1 return x + x .. ' ' .. x - 0 .. ' ' .. x + 0 .. ' ' .. 0 - x .. ' ' .. 1e-300 * -1e-300`,
	} {
		for choice := range byte(17) {
			bothWays(t, v, source, limits, []byte{choice})
		}
		bothWays(t, v, source, resp.ScriptLimits{Steps: limits.Steps, MemBytes: 1000}, []byte{4})
	}
}

// cutShort compares a script that needs used where it gets less, or just that.
func cutShort(t *testing.T, v *VM, source string, used resp.ScriptLimits, choices []byte) {
	t.Helper()
	for part := range int64(5) {
		for off := range int64(2) {
			lim := resp.ScriptLimits{Steps: used.Steps*part/4 - off, MemBytes: limits.MemBytes, StepsOf: limits.Steps}
			bothWays(t, v, source, lim, choices)
		}
		bothWays(t, v, source, resp.ScriptLimits{Steps: limits.Steps, MemBytes: used.MemBytes*part/4 - 1}, choices)
	}
}

// Comparing two long texts that are equal costs the same both ways, by their length.
func TestStraightComparesLongTexts(t *testing.T) {
	v := New()
	for doublings := range 5 {
		source := "local a = ARGV[6] " + strings.Repeat("a = a .. a ", doublings) + "local b = a .. '' return a == b"
		if _, failed, through := bothWays(t, v, source, limits, nil); failed || !through {
			t.Errorf("%d doublings: failed: %v, went straight to its end: %v", doublings, failed, through)
		}
	}
}

// Values are compared and joined without gopher-lua, and a reply such as OK is no text: comparing it with one costs
// nothing by its length.
func TestStraightOperators(t *testing.T) {
	v := New()
	for _, source := range []string{
		`local a, b = tonumber(ARGV[2]), tonumber(ARGV[5]) return a < b`, `local a, b = tonumber(ARGV[2]), tonumber(ARGV[5]) return a > b`,
		`local a, b = tonumber(ARGV[2]), tonumber(ARGV[5]) return a <= b`, `local a, b = tonumber(ARGV[2]), tonumber(ARGV[5]) return a >= b`,
		`local a = tonumber(ARGV[2]) return ARGV[1] .. a`,
	} {
		if _, failed, through := bothWays(t, v, source, limits, nil); failed || !through {
			t.Errorf("%s: failed: %v, went straight to its end: %v", source, failed, through)
		}
	}
	s := straight{steps: 100}
	long := text(strings.Repeat("x", 640))
	status := value{kind: isStatus, text: long.text}
	for _, pair := range [][2]*value{{&status, &long}, {&long, &status}} {
		if holds, ok := s.relation(isEqual, pair[0], pair[1]); !ok || holds.truth() || s.steps != 100 {
			t.Errorf("equal: %v, %v, and %d steps are left", holds, ok, s.steps)
		}
	}
}

// A script goes straight to its end with just the steps and the memory that it takes, and with less of them it makes no
// call behind the place where they run out.
func TestStraightWithJustEnough(t *testing.T) {
	v := New()
	for _, source := range []string{
		`return redis.call('time')`, `return ARGV[6] .. ARGV[6]`, `local a = ARGV[6] .. ARGV[6] return redis.call('get')`,
		`local a = redis.call('get') return redis.call('get')`, `local a = ARGV[2] + 1 return redis.call('get')`,
		`local a = tonumber(ARGV[2]) return redis.call('get')`, `local a = ARGV[6] .. '' == ARGV[6] return redis.call('get')`,
	} {
		long := []byte{9} // each call is answered with a long text
		used, _, _ := bothWays(t, v, source, limits, long)
		if _, _, through := bothWays(t, v, source, resp.ScriptLimits{Steps: used.Steps, MemBytes: used.MemBytes}, long); !through {
			t.Errorf("%s: it does not go straight to its end with %+v", source, used)
		}
		for less := int64(1); less <= used.Steps; less *= 3 {
			bothWays(t, v, source, resp.ScriptLimits{Steps: used.Steps - less, MemBytes: limits.MemBytes}, long)
		}
		for _, less := range []int64{1, 300, 500} {
			bothWays(t, v, source, resp.ScriptLimits{Steps: limits.Steps, MemBytes: max(used.MemBytes-less, 0)}, long)
		}
	}
}

// A fault behind a command is the script's, not the command's: gopher-lua runs the script again.
func TestFaultBehindACommand(t *testing.T) {
	v := New()
	p, err := v.program(&scripts, script(`local a = redis.call('get') return a`))
	if err != nil {
		t.Fatal(err)
	}
	code := *p.straight
	for i, op := range code.ops {
		if op.code == lua.OP_RETURN {
			code.ops = code.ops[:i] // it runs over the end
			break
		}
	}
	var tr trail
	if _, _, ok := v.runStraight(&code, straightKeys, straightArgv, limits, tr.conduct(nil)); ok || len(tr.Calls) != 1 {
		t.Errorf("ended well: %v, after %d calls", ok, len(tr.Calls))
	}
}

// straightSource makes a script of choices that has little a straight script has not.
func straightSource(choices []byte) string {
	w := straightWriter{writer{choices: choices, names: []string{"u"}}}
	w.put("local u, call = ARGV[1], redis.call; ")
	for range 1 + w.pick(5) {
		w.statement(0)
	}
	w.put("return ")
	w.expr(0)
	return w.out.String()
}

type straightWriter struct{ writer }

var straightAtoms = []string{
	"1", "0", "true", "false", "'token'", "'17'", "-1", "0.5", "KEYS[1]", "KEYS[2]", "ARGV[1]", "ARGV[2]", "(ARGV[3])",
	"' 0x10 '", "1e300", "ARGV[6]",
}

// What goes wrong in most places.
var straightOddAtoms = []string{
	"nil", "redis", "KEYS", "call", "1e-310", "'1e-310'", "-0", "ARGV[9]", "ARGV[1.5]", "KEYS['1']", "redis.call", "tonumber", "0/0",
}

func (w *straightWriter) atom() {
	switch n := w.pick(32); {
	case n == 0:
		w.put("%s", straightOddAtoms[w.pick(len(straightOddAtoms))])
	case n > 16:
		w.name()
	default:
		w.put("%s", straightAtoms[n-1])
	}
}

func (w *straightWriter) expr(depth int) {
	if depth > 4 {
		w.atom()
		return
	}
	switch w.pick(12) {
	case 0, 1, 2:
		w.atom()
	case 3, 4, 5:
		w.command(depth)
	case 6, 7, 8, 9:
		w.put("(")
		w.expr(depth + 1)
		w.put(" %s ", []string{"==", "~=", "and", "or", "==", "~=", "and", "or", "==", "~=", "and", "or", "<", "<=", ">", ">=", "+", "-", "*", "/", ".."}[w.pick(21)])
		w.expr(depth + 1)
		w.put(")")
	case 10:
		w.put("not ")
		w.expr(depth + 1)
	case 11:
		w.put("tonumber(")
		w.expr(depth + 1)
		w.put(")")
	}
}

func (w *straightWriter) command(depth int) {
	w.put("%s(", []string{"redis.call", "redis.pcall", "call", `redis["call"]`}[w.pick(4)])
	for i := range 1 + w.pick(4) {
		if i > 0 {
			w.put(", ")
		}
		if w.pick(4) == 0 {
			w.expr(depth + 2)
		} else {
			w.put("%s", []string{"'get'", "KEYS[1]", "ARGV[1]", "1", "'px'"}[w.pick(5)])
		}
	}
	w.put(")")
}

func (w *straightWriter) statement(depth int) {
	switch w.pick(8) {
	case 0, 1:
		name := string(rune('a' + w.pick(4)))
		w.put("local %s = ", name)
		w.expr(depth)
		w.names = append(w.names, name)
	case 2:
		w.put("local x, y = ")
		w.expr(depth)
		w.names = append(w.names, "x", "y")
	case 3:
		w.put("local call = redis.call")
	case 4:
		w.name()
		w.put(" = ")
		w.expr(depth)
	case 5:
		w.command(depth)
	case 6, 7:
		w.choice(depth)
	}
	w.put("; ")
}

func (w *straightWriter) choice(depth int) {
	w.put("if ")
	w.expr(depth + 1)
	w.put(" then ")
	mark := len(w.names)
	if depth < 3 {
		w.statement(depth + 1)
	}
	if w.pick(3) == 0 {
		w.put("return ")
		w.expr(depth + 2)
	}
	w.names = w.names[:mark]
	if w.pick(2) == 0 {
		w.put(" else ")
		w.statement(depth + 3)
	}
	w.names = w.names[:mark]
	w.put(" end")
}

// A random script does the same both ways: its reply and calls, its cost, the steps left at each command, and the end
// by a budget that runs out on the way.
func FuzzStraight(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomBytes(random, 60), randomBytes(random, 6))
	}
	v := New()
	f.Fuzz(func(t *testing.T, script, choices []byte) {
		straightCase(t, v, straightSource(script), choices)
	})
}

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// straightCase compares a script with all the budget it needs, and with parts of that.
func straightCase(t *testing.T, v *VM, source string, choices []byte) (through bool) {
	t.Helper()
	lim := resp.ScriptLimits{Steps: 100_000, MemBytes: 1 << 20}
	used, _, through := bothWays(t, v, source, lim, choices)
	for i, c := range choices {
		part := resp.ScriptLimits{Steps: used.Steps, MemBytes: used.MemBytes, StepsOf: lim.Steps}
		if i%2 == 0 {
			part.Steps = used.Steps * int64(c) / 256
		} else {
			part.MemBytes = used.MemBytes * int64(c) / 256
		}
		bothWays(t, v, source, part, choices)
	}
	return through
}

// Most of the scripts that the fuzz target generates are straight, as intended.
func TestRandomScriptsGoStraight(t *testing.T) {
	const scripts = 500
	random := rand.New(rand.NewPCG(3, 4))
	v, through := New(), 0
	for range scripts {
		if straightCase(t, v, straightSource(randomBytes(random, 80)), randomBytes(random, 1)) {
			through++
		}
	}
	t.Logf("%d of %d went straight to their end", through, scripts)
	if through < scripts/8 {
		t.Errorf("only %d of %d scripts went straight to their end", through, scripts)
	}
}

// What has a loop, a function, a table or another global is left to gopher-lua.
func TestNotStraight(t *testing.T) {
	for _, source := range []string{
		`for i = 1, 2 do redis.call('get', KEYS[1]) end`, `while true do end`, `local function f() end return f()`, `return {1}`,
		`return #KEYS`, `return KEYS[ARGV[1]]`, `return cjson`, `KEYS[1] = 'x'`, `redis.call = 1`, `x = 1`, `return redis.status_reply('x')`,
		`return redis.setresp(3)`, `return ('x'):rep(9)`, `return ...`, `return pcall(redis.call, 'x')`, `return -ARGV[1]`, `return _G`,
		"return " + strings.Repeat("(1 == KEYS[1]) == ", 100) + "true", registersFull(),
	} {
		v := New()
		p, err := v.program(&scripts, script(source))
		if err != nil {
			t.Fatal(err)
		}
		if p.straight != nil {
			t.Errorf("%.100s is straight", source)
		}
	}
}

// registersFull is a script of more locals than a straight one may have.
func registersFull() string {
	var b strings.Builder
	for i := range straightRegistersMax + 1 {
		fmt.Fprintf(&b, "local l%d = ARGV[1] ", i)
	}
	return b.String()
}

// A script that makes other calls when it is run again, or fewer, is ended with an error that says so, and is to be
// taken back. The difference is planted: a command changes the arguments that were kept of its call.
func TestReplayCompares(t *testing.T) {
	const given = `redis.call('set', KEYS[1], ARGV[1]) redis.call('get', KEYS[1]) local list = redis.call('lrange', KEYS[2]) ` +
		`return redis.call('del', KEYS[1])`
	for _, c := range []struct {
		name    string
		change  int // of which call
		want    string
		limited bool
		calls   int
	}{
		{"none", 0, "(integer) 1", false, 4},
		{"the first", 1, "(error) " + errReplay, true, 3},
		{"the second", 2, "(error) " + errReplay, true, 3},
		{"the one that is answered with an array", 3, "(error) " + errReplay, true, 3},
		{"one that comes after the first run", 4, "(integer) 1", false, 4},
	} {
		v, calls := New(), 0
		call := func(args resp.Args, left int64) (resp.Reply, int64) {
			if calls++; calls == c.change {
				args[len(args)-1] += "x"
			}
			if args[0] == "lrange" {
				return resp.Array(resp.Bulk("a")), left
			}
			return resp.Int(1), left
		}
		reply, _, limited := v.Run(script(given), straightKeys, straightArgv, limits, call)
		if got := render(reply); got != c.want || limited != c.limited || calls != c.calls {
			t.Errorf("changed %s: %s, limited %v, %d calls; want %s, %v, %d", c.name, got, limited, calls, c.want, c.limited, c.calls)
		}
		if reply, _, _ := v.Run(script(`return redis.call('get')`), nil, nil, limits, call); render(reply) != "(integer) 1" {
			t.Errorf("changed %s: the next script is answered %s", c.name, render(reply))
		}
	}
}
