package lib

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// libState is a bare Lua state with the four libraries, and S as in the probes.
func libState(lim resp.ScriptLimits) (*lua.LState, *lauxlib.Budget) {
	b := lauxlib.NewBudget()
	b.Fill(lim)
	L := lua.NewState(lua.Options{RegistrySize: 1 << 14, RegistryMaxSize: 1 << 17, RegistryGrowStep: 1 << 12})
	L.SetGlobal("bit", OpenBit(L, b))
	L.SetGlobal("struct", OpenStruct(L, b))
	L.SetGlobal("cjson", OpenCJSON(L, b))
	L.SetGlobal("cmsgpack", OpenCMsgpack(L, b))
	L.SetGlobal("S", L.NewFunction(func(L *lua.LState) int {
		var parts []string
		for i := 1; i <= L.GetTop(); i++ {
			parts = append(parts, tostring(L.Get(i)))
		}
		L.Push(lua.LString(strings.Join(parts, ",")))
		return 1
	}))
	L.SetGlobal("tostring", L.NewFunction(func(L *lua.LState) int {
		L.Push(lua.LString(tostring(L.Get(1))))
		return 1
	}))
	L.SetContext(b)
	return L, b
}

func tostring(v lua.LValue) string {
	if f, ok := v.(lua.LNumber); ok {
		return libc.FormatNumber(float64(f))
	}
	if v == cjsonNull {
		return "userdata: (nil)"
	}
	return v.String()
}

var plenty = resp.ScriptLimits{Steps: 1e7, MemBytes: 64 << 20}

// Libraries charge in advance for all that they build or walk: with any arguments the budget ends a script, and no
// pcall saves it.
func TestLibraryBudget(t *testing.T) {
	lim := resp.ScriptLimits{Steps: 1e6, MemBytes: 32 << 20}
	for _, c := range []struct {
		name, src, want string
	}{
		{"sparse array", `cjson.encode_sparse_array(true, 0) return cjson.encode({[2^30] = 1})`, lauxlib.LimitSteps},
		{"wide array", `for i = 1, 1000 do cmsgpack.unpack("\129\205\255\255\1") end`, "limit of"},
		{"wide array refilled", `local s = "\131\206\0\16\0\0\1\206\0\16\0\0\192\206\0\31\0\0\1" for i = 1, 1e6 do cmsgpack.unpack(s) end`, "limit of"},
		{"many tables", `local s = "[" .. ("[],"):rep(1e5) .. "[]]" for i = 1, 1e6 do cjson.decode(s) end`, "limit of"},
		{"escapes", `local s = ("\0"):rep(1e6) for i = 1, 1e6 do cjson.encode(s) end`, "limit of"},
		{"formats", `local f = ("i0"):rep(1e6) for i = 1, 1e6 do struct.size(f) end`, lauxlib.LimitSteps},
		{"white space", `local s = (" "):rep(1e6) for i = 1, 1e6 do pcall(cjson.decode, s) end`, lauxlib.LimitSteps},
		{"deleted keys", `local t = {} for i = 1, 1e4 do t["k" .. i] = 1 t["k" .. i] = nil end for i = 1, 1e6 do cjson.encode(t) end`, lauxlib.LimitSteps},
		{"deleted slots", `local t = {} for i = 1, 1e5 do t[i] = 1 end for i = 1, 1e5 do t[i] = nil end for i = 1, 1e6 do cmsgpack.pack(t) end`, lauxlib.LimitSteps},
		{"tree of itself", `local t = {1} for i = 1, 40 do t = {t, t} end return cjson.encode(t)`, "limit of"},
		{"packed tree of itself", `local t = {1} for i = 1, 15 do t = {t, t, t, t} end return cmsgpack.pack(t)`, "limit of"},
		{"unfinished string", `local s = ("a"):rep(1e6) for i = 1, 1e6 do pcall(struct.unpack, "s", s) end`, lauxlib.LimitSteps},
		{"new libraries", `for i = 1, 1e7 do cjson.new() end`, "limit of"},
		{"long options", `local s = ("a"):rep(1e6) for i = 1, 1e6 do pcall(cjson.encode_keep_buffer, s) end`, "limit of"},
	} {
		L, b := libState(lim)
		fn, err := L.Load(strings.NewReader(c.src), "user_script")
		if err != nil {
			t.Fatal(err)
		}
		L.Push(fn)
		err = L.PCall(0, 0, nil)
		if met := b.LimitMet(); err == nil || !strings.Contains(met, c.want) || met == "" {
			t.Errorf("%s: error %v, budget %q, want %q", c.name, err, met, c.want)
		}
		L.Close()
	}
}

// A map whose entries are deleted again leaves no empty slots and no dead keys, which # and next would have to pass at
// every call.
func TestUnpackedNilLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name, in    string
		slots, keys int
	}{
		{"far index", "\x82\xcd\x10\x00\x01\xcd\x10\x00\xc0", 0, 0},
		{"key", "\x82\xa1a\x01\xa1a\xc0", 0, 0},
		{"one of three", "\x84\xa1a\x01\xa1b\x02\xa1c\x03\xa1b\xc0", 0, 2},
		{"last of three", "\x84\x01\x01\x02\x02\x03\x03\x03\xc0", 2, 0},
		{"array", "\x94\x01\xc0\x03\xc0", 3, 0},
	} {
		v, why := callLib(t, "cmsgpack", "unpack", lua.LString(c.in))
		if len(v) != 1 {
			t.Errorf("%s: %s", c.name, why)
			continue
		}
		table := v[0].(*lua.LTable)
		if s, k := lauxlib.ArraySlots(table), lauxlib.HashKeys(table); s != c.slots || k != c.keys {
			t.Errorf("%s: %d slots and %d keys, want %d and %d", c.name, s, k, c.slots, c.keys)
		}
	}
}

// The budget's bytes bound the process's real allocations, garbage included, to within a factor of four.
func TestLibraryPrices(t *testing.T) {
	const limit = 16 << 20
	for _, c := range []struct{ name, lib, fn, in string }{
		{"empty arrays", "cjson", "decode", "[" + strings.Repeat("[],", 1e6)},
		{"arrays of one", "cjson", "decode", "[" + strings.Repeat("[1],", 1e6)},
		{"arrays of five", "cjson", "decode", "[" + strings.Repeat("[1,1,1,1,1],", 1e5)},
		{"objects of one", "cjson", "decode", "[" + strings.Repeat(`{"":1},`, 1e6)},
		{"objects of nine", "cjson", "decode", "[" + strings.Repeat(`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1},`, 1e5)},
		{"small strings", "cjson", "decode", "[" + strings.Repeat(`"a",`, 1e6)},
		{"numbers", "cjson", "decode", "[" + strings.Repeat(`1,`, 1e7)},
		{"escapes", "cjson", "decode", `"` + strings.Repeat(`\n`, 2e7)},
		{"text", "cjson", "encode", strings.Repeat("a", 1e7)},
		{"control characters", "cjson", "encode", strings.Repeat("\x00", 1e7)},
		{"maps of one", "cmsgpack", "unpack", "\xdd\xff\xff\xff\xff" + strings.Repeat("\x81\xc2\x01", 1e6)},
		{"far index", "cmsgpack", "unpack", "\xdd\xff\xff\xff\xff" + strings.Repeat("\x81\xcd\x27\x10\x01", 1e5)},
		{"map of floats", "cmsgpack", "unpack", "\xdf\xff\xff\xff\xff" + floats(1e6)},
		{"text", "cmsgpack", "pack", strings.Repeat("a", 1e7)},
	} {
		L, b := libState(resp.ScriptLimits{Steps: 1e12, MemBytes: limit})
		L.RemoveContext()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		L.Push(L.GetField(L.GetGlobal(c.lib), c.fn))
		L.Push(lua.LString(c.in))
		err := L.PCall(1, 0, nil)
		runtime.ReadMemStats(&after)
		if !strings.Contains(b.LimitMet(), lauxlib.LimitBytes) {
			t.Errorf("%s.%s of %s: %v, %d bytes left", c.lib, c.fn, c.name, err, b.Left().MemBytes)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4*limit {
			t.Errorf("%s.%s of %s allocated %d MiB of %d", c.lib, c.fn, c.name, got>>20, limit>>20)
		}
		L.Close()
	}
}

// floats are n pairs of MessagePack, each with another key.
func floats(n int) string {
	var b []byte
	for i := range n {
		b = binary.BigEndian.AppendUint64(append(b, mpFloat64), math.Float64bits(float64(i)+0.5))
		b = append(b, mpTrue)
	}
	return string(b)
}

// A setting of cjson ends with the run that made it.
func TestCJSONSettingsEnd(t *testing.T) {
	L, b := libState(plenty)
	defer L.Close()
	for range 2 {
		b.Fill(plenty)
		src := `local was = cjson.encode_max_depth() cjson.encode_max_depth(5) return was, cjson.encode_max_depth()`
		if err := L.DoString(src); err != nil {
			t.Fatal(err)
		}
		if was, is := L.Get(-2), L.Get(-1); was != lua.LNumber(1000) || is != lua.LNumber(5) {
			t.Errorf("encode_max_depth was %v, is %v", was, is)
		}
	}
}

// fuzzLimits keep one fuzz run short; the fuzz target checks that they hold.
var fuzzLimits = resp.ScriptLimits{Steps: 1e5, MemBytes: 1 << 20}

// callLib runs a library function on arguments and returns its results, or the
// text of the error it raised.
func callLib(t *testing.T, lib, name string, args ...lua.LValue) ([]lua.LValue, string) {
	L, b := libState(fuzzLimits)
	defer L.Close()
	L.RemoveContext() // no instructions here: only what libraries charge
	L.Push(L.GetField(L.GetGlobal(lib), name))
	for _, a := range args {
		L.Push(a)
	}
	if err := L.PCall(len(args), lua.MultRet, nil); err != nil {
		api, ok := err.(*lua.ApiError)
		if !ok || api.Type != lua.ApiErrorRun {
			t.Fatalf("%s.%s: %v", lib, name, err)
		}
		return nil, api.Object.String()
	}
	var results []lua.LValue
	for i := 1; i <= L.GetTop(); i++ {
		results = append(results, L.Get(i))
	}
	L.Push(b.Function(L, func(c lauxlib.Call) int {
		c.Charge(0) // raises an error if less than 0 are left
		c.Alloc(0)
		return 0
	}))
	if err := L.PCall(0, 0, nil); err != nil {
		t.Fatalf("%s.%s went over its budget: %v", lib, name, err)
	}
	return results, ""
}

// Any text decodes to an error or to a value that encodes to the same text again
// and again.
func FuzzCJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5e3,true,null,"\u00e9\ud83d\ude00\n"],"b":{}}`, `[[[]]]`, `-0x1p4`, `"\ud800"`, "nan(1)", "1e999", `{"a":`, "[1,]", "\xff\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, _ := callLib(t, "cjson", "decode", lua.LString(s))
		if v == nil {
			return
		}
		once, why := callLib(t, "cjson", "encode", v...)
		if once == nil {
			if !strings.Contains(why, "Cannot serialise") && !strings.Contains(why, "Script stopped") {
				t.Fatal(why)
			}
			return
		}
		back, why := callLib(t, "cjson", "decode", once...)
		if back == nil {
			t.Fatalf("%q: %s", once[0], why)
		}
		if twice, why := callLib(t, "cjson", "encode", back...); twice == nil || twice[0] != once[0] {
			t.Fatalf("%q became %q, %s", once, twice, why)
		}
	})
}

// Any bytes unpack to an error or to values that pack and unpack to the same. What
// is nested deeper than Redis packs becomes nil at first, and a nil that ends an
// array is no element any more: so the second round must be like the first. A key that
// is a table so deep is packed as nil as well, which no table takes back, as in Redis.
func FuzzCMsgpack(f *testing.F) {
	for _, s := range []string{
		"\x93\x01\xc0\xa1a", "\x81\xa1a\x91\xcb?\xb9\x99\x99\x99\x99\x99\x9a", "\xdd\xff\xff\xff\xff", "\xdf\x00\x00\x00\x01\xce\x00\xff\xff\xff\x01",
		"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xca\x7f\xc0\x00\x00", "\xdb\x00\x00\x00\x02ab", "\x91\x91\x91\x91", "\xc1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, _ := callLib(t, "cmsgpack", "unpack", lua.LString(s))
		if len(v) == 0 {
			return
		}
		var packed [3]lua.LValue
		for i := range packed {
			p, _ := callLib(t, "cmsgpack", "pack", v...)
			if p == nil {
				return
			}
			packed[i] = p[0]
			back, why := callLib(t, "cmsgpack", "unpack", p...)
			if strings.Contains(why, "Script stopped") || strings.Contains(why, "table index is nil") {
				return
			}
			if back == nil {
				t.Fatalf("%q: %s", p[0], why)
			}
			v = back
		}
		if packed[2] != packed[1] {
			t.Fatalf("%q became %q", packed[1], packed[2])
		}
	})
}

// Any format and data give an error or values, and size agrees with unpack where
// both give an answer.
func FuzzStruct(f *testing.F) {
	f.Add("bBhHlLTiI", "aaaabbbbccccddddeeeeffffgggghhhhiiiijjjjkkkk", 1.0)
	f.Add(">!8bi3dfs", "\x01\x00\x00\x02abcdefghijklmnopqrstuvwxyz\x00", 1.0)
	f.Add("Bc0", "\x03abcd", 2.0)
	f.Add("i16i0x c3", "0123456789abcdef0123", -1.0)
	f.Fuzz(func(t *testing.T, format, data string, pos float64) {
		size, _ := callLib(t, "struct", "size", lua.LString(format))
		callLib(t, "struct", "unpack", lua.LString(format), lua.LString(data), lua.LNumber(pos))
		v, _ := callLib(t, "struct", "unpack", lua.LString(format), lua.LString(data))
		if v == nil || size == nil {
			return
		}
		if next := v[len(v)-1]; next != size[0].(lua.LNumber)+1 {
			t.Fatalf("%q: size %v, next position %v", format, size[0], next)
		}
		args := append([]lua.LValue{lua.LString(format)}, v[:len(v)-1]...)
		if packed, why := callLib(t, "struct", "pack", args...); packed == nil && why == "" {
			t.Fatalf("%q: nothing packed", format)
		}
	})
}
