package lib

import (
	"math"
	"slices"
	"strconv"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// cjson is lua-cjson 2.1.0 as Redis has it, with one deliberate difference: in Redis a setting such as
// encode_max_depth applies to all scripts until the server restarts, so that replicas of different age differ. Here
// it ends with the run that made it.

// cjsonNull is cjson.null. Like C's null pointer there is only one, for all VMs, and it is immutable.
var cjsonNull = &lua.LUserData{Metatable: lua.LNil}

// cjsonConfig holds one library table's settings.
type cjsonConfig struct {
	cjsonSettings
	run uint64 // the run of the budget that the settings belong to
}

type cjsonSettings struct {
	sparseConvert, keepBuffer    int // 0 off, 1 on
	sparseRatio, sparseSafe      int
	encodeDepthMax               int
	decodeDepthMax               int
	precision                    int
	encodeInvalid, decodeInvalid int // 0 off, 1 on; encodeInvalid 2: as null
}

var cjsonDefaults = cjsonSettings{
	sparseRatio: 2, sparseSafe: 10, encodeDepthMax: 1000, decodeDepthMax: 1000,
	precision: 14, keepBuffer: 1, decodeInvalid: 1,
}

// current returns the settings of this run.
func (cfg *cjsonConfig) current(b *lauxlib.Budget) *cjsonSettings {
	if cfg.run != b.Run() {
		cfg.cjsonSettings, cfg.run = cjsonDefaults, b.Run()
	}
	return &cfg.cjsonSettings
}

// OpenCJSON returns the table of the library cjson.
func OpenCJSON(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	cfg := &cjsonConfig{cjsonSettings: cjsonDefaults, run: b.Run()}
	// with gives a function the settings of the run, once it has few enough
	// arguments; one, once it has exactly one.
	with := func(args int, set func(c lauxlib.Call, s *cjsonSettings) int) func(lauxlib.Call) int {
		return func(c lauxlib.Call) int {
			if c.L.GetTop() > args {
				c.Arg(args + 1).Fail("found too many arguments")
			}
			return set(c, cfg.current(c.Budget))
		}
	}
	one := func(run func(c lauxlib.Call, s *cjsonSettings) int) func(lauxlib.Call) int {
		return func(c lauxlib.Call) int {
			if c.L.GetTop() != 1 {
				c.Arg(1).Fail("expected 1 argument")
			}
			return run(c, cfg.current(c.Budget))
		}
	}
	t := lauxlib.NewLibrary(L, b, []lauxlib.Func{
		{"encode", one(cjsonEncode)},
		{"decode", one(cjsonDecode)},
		{"encode_sparse_array", with(3, cjsonSparseArray)},
		{"encode_max_depth", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return intSetting(c, 1, &s.encodeDepthMax, 1, math.MaxInt32)
		})},
		{"decode_max_depth", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return intSetting(c, 1, &s.decodeDepthMax, 1, math.MaxInt32)
		})},
		{"encode_number_precision", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return intSetting(c, 1, &s.precision, 1, 14)
		})},
		{"encode_keep_buffer", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return enumSetting(c, &s.keepBuffer, "off", "on")
		})},
		{"encode_invalid_numbers", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return enumSetting(c, &s.encodeInvalid, "off", "on", "null")
		})},
		{"decode_invalid_numbers", with(1, func(c lauxlib.Call, s *cjsonSettings) int {
			return enumSetting(c, &s.decodeInvalid, "off", "on")
		})},
		{"new", func(c lauxlib.Call) int {
			c.Need(10 * (lauxlib.TableBytes + lauxlib.EntryBytes))
			c.L.Push(OpenCJSON(c.L, c.Budget))
			return 1
		}},
	})
	t.RawSetString("null", cjsonNull)
	t.RawSetString("_NAME", lua.LString("cjson"))
	t.RawSetString("_VERSION", lua.LString("2.1.0"))
	return t
}

// intSetting sets from argument n, if it is given, and pushes the setting. A value out of range is reported as
// argument 1, whichever it is, as in the original.
func intSetting(c lauxlib.Call, n int, setting *int, least, most int) int {
	if c.L.Get(n) != lua.LNil {
		v := int(int32(c.Arg(n).Integer()))
		if v < least || v > most {
			c.Arg(1).Fail("expected integer between " + strconv.Itoa(least) + " and " + strconv.Itoa(most))
		}
		*setting = v
	}
	c.L.Push(lua.LNumber(*setting))
	return 1
}

// enumSetting sets from argument 1, if it is given: a boolean or one of the words.
func enumSetting(c lauxlib.Call, setting *int, words ...string) int {
	switch v := c.L.Get(1).(type) {
	case *lua.LNilType:
	case lua.LBool:
		*setting = 0
		if v {
			*setting = 1
		}
	default:
		word := libc.CString(c.Arg(1).Text())
		i := slices.Index(words, word)
		if i < 0 {
			c.Need(len(word))
			c.Arg(1).Fail("invalid option '" + word + "'")
		}
		*setting = i
	}
	if *setting < 2 {
		c.L.Push(lua.LBool(*setting == 1))
	} else {
		c.L.Push(lua.LString(words[*setting]))
	}
	return 1
}

func cjsonSparseArray(c lauxlib.Call, s *cjsonSettings) int {
	c.L.SetTop(3) // missing arguments are nil, not the results pushed below
	enumSetting(c, &s.sparseConvert, "off", "on")
	intSetting(c, 2, &s.sparseRatio, 0, math.MaxInt32)
	intSetting(c, 3, &s.sparseSafe, 0, math.MaxInt32)
	return 3
}
