package luavm

import (
	"testing"

	"lockd/luavm/lauxlib"
	"lockd/resp"
)

// What redis.call returns in each protocol, by the script's own eyes.
func TestReplyToLua(t *testing.T) {
	const look = `local function look(v)
  if type(v) ~= 'table' then return type(v) .. ':' .. tostring(v) end
  local keys = {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  local out = {}
  for i, k in ipairs(keys) do out[i] = tostring(k) .. '=' .. look(v[k]) end
  return '{' .. table.concat(out, ' ') .. '}'
end
if ARGV[1] then redis.setresp(ARGV[1]) end
return look(redis.call('x'))`
	for _, c := range []struct {
		reply    resp.Reply
		two, thr string
	}{
		{resp.Int(5), "number:5", "number:5"},
		{resp.Bulk("a\x00b"), "string:a\x00b", "string:a\x00b"},
		{resp.OK(), "{ok=string:OK}", "{ok=string:OK}"},
		{resp.Nil(), "boolean:false", "nil:nil"},
		{resp.NilArray(), "boolean:false", "nil:nil"},
		{resp.Bool(true), "number:1", "boolean:true"},
		{resp.Bool(false), "number:0", "boolean:false"},
		{resp.Double(1.5), "string:1.5", "{double=number:1.5}"},
		{resp.BigNumber("123"), "string:123", "{big_number=string:123}"},
		{resp.Verbatim("hi"), "string:hi", "{verbatim_string={format=string:txt string=string:hi}}"},
		{resp.Array(resp.Int(1), resp.Nil(), resp.Bulk("x")), "{1=number:1 2=boolean:false 3=string:x}", "{1=number:1 3=string:x}"},
		{resp.Map(resp.Bulk("k"), resp.Int(1)), "{1=string:k 2=number:1}", "{map={k=number:1}}"},
		{resp.Set(resp.Bulk("m"), resp.Int(2)), "{1=string:m 2=number:2}", "{set={2=boolean:true m=boolean:true}}"},
		{resp.Pairs(resp.Bulk("k"), resp.Int(1)), "{1=string:k 2=number:1}", "{1={1=string:k 2=number:1}}"},
		{resp.PairMap(resp.Bulk("k"), resp.Int(1)), "{1={1=string:k 2=number:1}}", "{map={k=number:1}}"},
		{resp.Push(resp.Bulk("p")), "{1=string:p}", "{1=string:p}"},
		{resp.Array(), "{}", "{}"},
	} {
		for proto, want := range map[string]string{"": c.two, "2": c.two, "3": c.thr} {
			var argv []string
			if proto != "" {
				argv = []string{proto}
			}
			got, _, _ := New().Run(script(look), nil, argv, limits, func(_ resp.Args, left int64) (resp.Reply, int64) { return c.reply, left })
			if got.Str != want {
				t.Errorf("%+v in RESP%s is %s, want %s", c.reply, proto, render(got), want)
			}
		}
	}
}

// Typed tables become typed replies, and booleans do after setresp(3).
func TestLuaToReply(t *testing.T) {
	for _, c := range []struct {
		source string
		want   resp.Reply
	}{
		{"return {double = 1.5}", resp.Double(1.5)},
		{"return {map = {k = {double = 2}}}", resp.Map(resp.Bulk("k"), resp.Double(2))},
		{"return {set = {m = true}}", resp.Set(resp.Bulk("m"))},
		{"return {big_number = '12'}", resp.BigNumber("12")},
		{"return {verbatim_string = {format = 'txt', string = 's'}}", resp.Verbatim("s")},
		{"return true", resp.Int(1)},
		{"redis.setresp(3) return true", resp.Bool(true)},
		{"redis.setresp(3) return {false}", resp.Array(resp.Bool(false))},
		{"return {false}", resp.Array(resp.Nil())},
		{"return {err = 'E x\\r\\n'}", resp.Err("E x")},
	} {
		got, _, _ := New().Run(script(c.source), nil, nil, limits, stubCall)
		if string(got.AppendTo(nil, 3)) != string(c.want.AppendTo(nil, 3)) {
			t.Errorf("%s gives %q, want %q", c.source, got.AppendTo(nil, 3), c.want.AppendTo(nil, 3))
		}
	}
}

// An error of a command keeps its code, and the script's position follows.
func TestCommandErrors(t *testing.T) {
	fail := func(_ resp.Args, left int64) (resp.Reply, int64) { return resp.Err(resp.ErrWrongType), left }
	s := script("\nreturn redis.call('x')")
	got, _, limited := New().Run(s, nil, nil, limits, fail)
	if want := resp.ErrWrongType + " script: " + s.SHA + ", on @user_script:2."; got.Str != want || limited {
		t.Errorf("redis.call gives %v %s, want %s", limited, got.Str, want)
	}
	got, _, _ = New().Run(script("return redis.pcall('x')"), nil, nil, limits, fail)
	if got.Str != resp.ErrWrongType || !got.IsErr() {
		t.Errorf("redis.pcall gives %s", render(got))
	}
	got, _, _ = New().Run(script("return redis.pcall('x').err"), nil, nil, limits, fail)
	if got.Str != resp.ErrWrongType || got.IsErr() {
		t.Errorf("redis.pcall().err is %s", render(got))
	}
}

// Lists longer than gopher-lua's array part are whole in both directions.
func TestLongReply(t *testing.T) {
	const n = lauxlib.ArrayIndexMax + 100
	elems := make([]resp.Reply, n)
	for i := range elems {
		elems[i] = resp.Int(int64(i))
	}
	list := func(_ resp.Args, left int64) (resp.Reply, int64) { return resp.Array(elems...), left }
	got, _, limited := New().Run(script(`local t = redis.call('x') t[#t + 1] = 'end' return {#t, t[#t - 1], t}`), nil, nil, limits, list)
	if limited || got.IsErr() {
		t.Fatalf("reply %s", render(got))
	}
	if got.Elems[0].Int != n+1 || got.Elems[1].Int != n-1 || len(got.Elems[2].Elems) != n+1 {
		t.Errorf("lengths %d, %d, %d", got.Elems[0].Int, got.Elems[1].Int, len(got.Elems[2].Elems))
	}
}
