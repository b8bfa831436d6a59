package luavm

import (
	"reflect"
	"strings"
	"testing"

	"lockd/resp"
)

// called calls a function of a library, within few steps, and renders the reply.
func (v *VM) called(source, name string, argv ...string) string {
	reply, _, _ := v.Call(script(source), name, []string{"k"}, argv, resp.ScriptLimits{Steps: 10_000, MemBytes: 1 << 20}, stubCall)
	return render(reply)
}

// Load reports the functions that a library registers, and leaves no trace in the VM.
func TestLoad(t *testing.T) {
	v := New()
	source := script(`local function f() end redis.register_function('one', f)
		redis.register_function{function_name='Two', callback=f, description='', flags={'no-writes', 'ALLOW-OOM'}}`)
	want := []resp.Function{{Name: "one"}, {Name: "Two", Described: true, Flags: resp.NoWrites | resp.AllowOOM}}
	for range 3 {
		got, left, err := v.Load(source, limits)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("loads %+v, %v", got, err)
		}
		if left.Steps >= limits.Steps || left.MemBytes >= limits.MemBytes {
			t.Errorf("left are %+v", left)
		}
		if reply, _, _ := v.Run(script("return redis.register_function"), nil, nil, limits, stubCall); !reply.IsNil() {
			t.Errorf("a script sees %s", render(reply))
		}
	}
}

// No call sees changes of another call to the variables of the library, nor those of a script, and a script sees none
// of a library.
func TestCallStartsFromLoad(t *testing.T) {
	v := New()
	source := `local n, seen, r = 0, {}, redis
		redis.register_function('count', function() n = n + 1 seen[#seen + 1] = n return {n, #seen} end)
		redis.register_function('spoil', function() n, seen, r = 'x', nil, nil error('spoiled') end)
		redis.register_function('endless', function() n = 7 while true do end end)
		redis.register_function('keys', function(keys, argv) return {keys[1], argv[1], pcall(function() return KEYS end)} end)
		redis.register_function('late', function() return r.register_function('x', function() end) end)
		redis.register_function('random', function() return math.random(1000000) end)
		redis.register_function('name', function() return tostring({}) end)`
	random := v.called(source, "random")
	for range 3 {
		for name, want := range map[string]string{
			"count": "[(integer) 1, (integer) 1]", "random": random, "name": `"table: 0x00000000000010"`,
			"spoil":   "(error) ERR user_function:3: spoiled script: spoil, on @user_function:3.",
			"endless": "(error) ERR Script stopped: it needs more than its limit of 10000 steps",
			"late":    "(error) ERR redis.register_function can only be called on FUNCTION LOAD command script: late, on @user_function:6.",
		} {
			if got := v.called(source, name); got != want {
				t.Errorf("%s answers %s, want %s", name, got, want)
			}
		}
		got := v.called(source, "keys", "a")
		if !strings.Contains(got, `"k", "a"`) || !strings.Contains(got, "nonexistent global variable 'KEYS'") {
			t.Errorf("keys answers %s", got)
		}
		if reply, _, _ := v.Run(script("return {KEYS[1], n, seen}"), []string{"k"}, nil, limits, stubCall); !strings.Contains(render(reply), "nonexistent global variable 'n'") {
			t.Errorf("a script answers %s", render(reply))
		}
	}
}

// The same text is one thing as a script and another as a library.
func TestScriptAndLibraryOfOneText(t *testing.T) {
	v := New()
	source := "return redis.register_function('f', function() return 1 end)"
	want := "(error) ERR user_script:1: attempt to call field 'register_function' (a nil value)"
	for range 2 {
		if reply, _, _ := v.Run(script(source), nil, nil, limits, stubCall); !strings.HasPrefix(render(reply), want) {
			t.Errorf("the script answers %s", render(reply))
		}
		if got := v.called(source, "f"); got != "(integer) 1" {
			t.Errorf("the function answers %s", got)
		}
	}
}

// To load a library and to call a function costs exactly the same again.
func TestLibraryBudgetIsExact(t *testing.T) {
	source := script(`local t = {} for i = 1, 20 do t[i] = i .. 'x' end
		redis.register_function('f', function(k, a) redis.call('echo', t[1]) return t end)`)
	v := New()
	need := func() resp.ScriptLimits {
		_, left, limited := v.Call(source, "f", nil, nil, limits, stubCall)
		if limited {
			t.Fatal("met a limit")
		}
		return resp.ScriptLimits{Steps: limits.Steps - left.Steps, MemBytes: limits.MemBytes - left.MemBytes}
	}
	first := need()
	v.called("redis.register_function('f', function() error({}) end)", "f")
	if again := need(); again != first {
		t.Errorf("needs %+v, then %+v", first, again)
	}
	if _, _, limited := v.Call(source, "f", nil, nil, first, stubCall); limited {
		t.Error("meets a limit with just enough")
	}
	if _, _, limited := v.Call(source, "f", nil, nil, resp.ScriptLimits{Steps: first.Steps - 1, MemBytes: first.MemBytes}, stubCall); !limited {
		t.Error("does with a step less")
	}
	_, left, _ := v.Load(source, limits)
	if _, again, _ := New().Load(source, limits); again != left {
		t.Errorf("loading leaves %+v, then %+v", left, again)
	}
	exact := resp.ScriptLimits{Steps: limits.Steps - left.Steps, MemBytes: limits.MemBytes - left.MemBytes}
	if _, _, err := v.Load(source, exact); err != nil {
		t.Errorf("does not load with just enough: %v", err)
	}
	exact.Steps--
	if _, left, err := v.Load(source, exact); err == nil || left.Steps != 0 {
		t.Errorf("loads with a step less, %d left", left.Steps)
	}
}

// libraryOf makes a library of a script: once as its own code, with a function that shows its effects, once as a
// function.
func libraryOf(source string) string {
	return "local O, T, u = function() end, {1, 2, x = 3}, 0 local function own(...) " + source + " end redis.register_function('code', function() return {u, #T, T.x} end) " +
		"redis.register_function('body', own) if redis.LOG_DEBUG == 0 and u == 0 then u = 1 end"
}

// A library loads the same functions, and each answers and calls the same, on a VM
// that has run thousands of others as on a new one. Nothing makes either panic.
func FuzzLibrary(f *testing.F) {
	f.Add([]byte("\x01return redis.call('get', (...)[1])"))
	f.Add([]byte("\x01redis.register_function('f', function() end)"))
	f.Add([]byte("\x01redis.register_function{function_name='f', callback=function() return tostring({}) end, flags={'no-writes'}, description='x'}"))
	f.Add([]byte("\x01T = {} u = u + 1 O = nil return {u, math.random(), tostring(print)}"))
	f.Add([]byte("\x01end redis.register_function('f', function() return own end) local function other()"))
	f.Add([]byte("\x01end for i = 1, 1000 do redis.register_function('f' .. i, own) end local function other()"))
	f.Add([]byte("\x01local f = loadstring('return KEYS') return f()"))
	f.Add([]byte{0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte{4, 1, 7, 1, 6, 3, 8, 9, 5, 4, 1, 9, 2, 3, 6, 11, 1, 6, 0, 1, 3, 6, 9, 2})
	used := New()
	f.Fuzz(func(t *testing.T, data []byte) {
		source, lim := libraryOf(sourceOf(data)), resp.ScriptLimits{Steps: 100_000, MemBytes: 4 << 20}
		fresh := New()
		list1, left1, err1 := used.Load(script(source), lim)
		list2, left2, err2 := fresh.Load(script(source), lim)
		if left1 != left2 || !reflect.DeepEqual(list1, list2) || !reflect.DeepEqual(err1, err2) {
			t.Errorf("%s\n used %v %+v %v\nfresh %v %+v %v", source, list1, left1, err1, list2, left2, err2)
		}
		if err1 != nil && strings.Contains(err1.Error(), "internal error") {
			t.Errorf("%s\n internal error", source)
		}
		for _, fn := range list1[:min(len(list1), 5)] { // each call registers all of them again
			reply1, limited1, calls1 := tracedCall(used, source, fn.Name, lim)
			reply2, limited2, calls2 := tracedCall(New(), source, fn.Name, lim)
			if !reflect.DeepEqual(reply1, reply2) || limited1 != limited2 || !reflect.DeepEqual(calls1, calls2) {
				t.Errorf("%s\n used %v %s %q\nfresh %v %s %q", source, limited1, render(reply1), calls1, limited2, render(reply2), calls2)
			}
		}
	})
}

func tracedCall(v *VM, source, name string, lim resp.ScriptLimits) (reply resp.Reply, limited bool, calls []resp.Args) {
	reply, _, limited = v.Call(script(source), name, []string{"k1", "k2"}, []string{"a1"}, lim, func(args resp.Args, left int64) (resp.Reply, int64) {
		calls = append(calls, args)
		return resp.Int(int64(len(calls))), left
	})
	return reply, limited, calls
}
