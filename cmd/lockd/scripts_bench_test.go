package main

import (
	"testing"

	"lockd/keyspace"
	"lockd/luavm"
	"lockd/resp"
)

// Scripts of Redisson's RLock.
const (
	redissonLockSource = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
		`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	redissonUnlockSource = `local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; ` +
		`if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
		`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; ` +
		`else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;`
)

// BenchmarkEval measures the machine's part of the scripts that programs lock with, through the real Lua: one entry
// per call. It includes the commands that set up each script's keys.
func BenchmarkEval(b *testing.B) {
	lock := resp.Args{"SET", "lock", "token", "NX", "PX", "30000"}
	for _, c := range []struct {
		name   string
		source string
		before []resp.Args
		args   []string // KEYS and ARGV, after their number
		want   resp.Reply
	}{
		{"release", `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
			[]resp.Args{lock}, []string{"1", "lock", "token"}, resp.Int(1)},
		{"renew", `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`,
			[]resp.Args{lock}, []string{"1", "lock", "token", "30000"}, resp.Int(1)},
		{"redisson-lock", redissonLockSource, []resp.Args{{"DEL", "rlock"}}, []string{"1", "rlock", "30000", "uuid:1"}, resp.Nil()},
		{"redisson-unlock", redissonUnlockSource, []resp.Args{{"DEL", "latch"}, {"HSET", "rlock", "uuid:1", "1"}},
			[]string{"3", "rlock", "channel", "latch", "0", "30000", "uuid:1", "PUBLISH", "10000"}, resp.Int(1)},
	} {
		b.Run("script="+c.name, func(b *testing.B) {
			m, index := keyspace.New(luavm.New()), uint64(0)
			apply := func(cmds ...resp.Cmd) []resp.Reply {
				index++
				results, _ := m.Apply(resp.Stamp{Tick: 1, Index: index}, []resp.Request{{Cmds: cmds}})
				return results[0].Replies
			}
			sha := apply(resp.Cmd{Args: resp.Args{"SCRIPT", "LOAD", c.source}})[0].Str
			var cmds []resp.Cmd
			for _, args := range append(c.before, append(resp.Args{"EVALSHA", sha}, c.args...)) {
				cmds = append(cmds, resp.Cmd{Args: args})
			}
			b.ReportAllocs()
			for b.Loop() {
				replies := apply(cmds...)
				if got := replies[len(replies)-1]; got.Kind != c.want.Kind || got.Int != c.want.Int {
					b.Fatalf("answered %+v, want %+v", got, c.want)
				}
			}
		})
	}
}
