package luavm

import (
	"fmt"
	"strings"
	"testing"

	"lockd/luavm/compiler"
	"lockd/resp"
)

const unlockScript = `if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end`

// redissonLock is RedissonLock.tryLockInnerAsync.
const redissonLock = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
	`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`

func BenchmarkRun(b *testing.B) {
	one := resp.Int(1)
	for _, c := range []struct {
		name, source string
		keys, argv   []string
		call         resp.ScriptCall
	}{
		{"unlock", unlockScript, []string{"lock:a"}, []string{"0123456789abcdef"}, func(a resp.Args, left int64) (resp.Reply, int64) {
			if a[0] == "get" {
				return resp.Bulk("0123456789abcdef"), left
			}
			return one, left
		}},
		{"redisson", redissonLock, []string{"lock:a"}, []string{"30000", "uuid:1"}, func(_ resp.Args, left int64) (resp.Reply, int64) { return one, left }},
		{"empty", `return 1`, nil, nil, nil},
		{"loop", `local s = 0 for i = 1, 1000 do s = s + i * 2 end return s`, nil, nil, nil},
		{"table", `local t = {} for i = 1, 1000 do t[#t + 1] = i end return #t`, nil, nil, nil},
		{"concat", `local s = '' for i = 1, 100 do s = s .. i .. ',' end return s`, nil, nil, nil},
		{"error", `return redis.call('nosuch')`, nil, nil, func(_ resp.Args, left int64) (resp.Reply, int64) { return resp.Err("ERR x"), left }},
	} {
		b.Run(c.name, func(b *testing.B) {
			v, s := New(), script(c.source)
			b.ReportAllocs()
			for b.Loop() {
				v.Run(s, c.keys, c.argv, limits, c.call)
			}
		})
		b.Run(c.name+",by=gopher-lua", func(b *testing.B) {
			v, s := New(), script(c.source)
			p, _ := v.program(&scripts, s)
			b.ReportAllocs()
			for b.Loop() {
				v.interpret(p, s.SHA, c.keys, c.argv, limits, c.call)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, message := compiler.Compile("@"+scriptName, "key", unlockScript); message != "" {
			b.Fatal(message)
		}
	}
}

// A call of one of ten functions: the code of the library, then the callback.
func BenchmarkFunctionCall(b *testing.B) {
	code := "local function unlock(keys, args) " + strings.NewReplacer("KEYS", "keys", "ARGV", "args").Replace(unlockScript) + " end\n"
	for i := range 10 {
		code += fmt.Sprintf("redis.register_function('unlock%d', unlock)\n", i)
	}
	v, keys, argv := New(), []string{"lock"}, []string{"token"}
	lib := script(code)
	b.ReportAllocs()
	for b.Loop() {
		v.Call(lib, "unlock7", keys, argv, limits, stubCall)
	}
}
