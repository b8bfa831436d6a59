package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"lockd/jepsen-lite/target"
)

// newScripts runs random scripts, whose results must be equal on all nodes. One worker sends scripts that exceed
// limits, one after the other, so that the other scripts have time.
func newScripts(env *Env) Plan {
	var turn atomic.Int64
	return Plan{Step: func(c *Client) {
		if c.ID == 0 {
			runPoison(c, turn.Add(1)-1+int64(env.Seed))
			return
		}
		key := c.Key("k" + itoa(c.Rand.Int64N(8)))
		text := script(c.Rand)
		c.Do(Call{
			Op:        "script",
			Key:       key,
			In:        []string{text},
			Cmds:      [][]string{{"EVAL", text, "2", key, c.Key("sum"), itoa(env.Unique())}},
			Out:       anything,
			Refusable: true,
		})
	}}
}

// runPoison runs a script that writes and then exceeds a limit, and reads what it left. Every third script is nested
// too deeply instead.
func runPoison(c *Client, turn int64) {
	key, body := c.Key("p"+itoa(c.env.Unique())), poison[turn%int64(len(poison))]
	cmd := []string{"EVAL", "redis.call('set', KEYS[1], 'left') " + body, "2", key, key + ":2"}
	if turn%3 == 2 {
		body = nested[turn/3%int64(len(nested))]
		cmd[1] = body
	}
	c.Do(Call{
		Op:        "poison",
		Key:       key,
		In:        []string{body[:min(len(body), 80)]},
		Cmds:      [][]string{cmd},
		Out:       anything,
		Refusable: true,
	})
	if turn%3 != 2 {
		c.Do(Call{Op: "left", Key: key, Cmds: [][]string{{"STRLEN", key}}, Out: someOrNil})
	}
	c.Do(Call{Op: "clear", Key: key, Cmds: [][]string{{"DEL", key, key + ":2"}}, Out: number})
}

// someOrNil makes a result of a length; "nil" for 0.
func someOrNil(replies []target.Reply) ([]string, error) {
	out, err := number(replies)
	if err == nil && out[0] == "0" {
		out[0] = "nil"
	}
	return out, err
}

// anything makes a result of the beginning of a reply.
func anything(replies []target.Reply) ([]string, error) {
	text := replies[0].Text()
	if replies[0].IsErr() {
		text = "error " + text
	}
	return []string{text[:min(len(text), 80)]}, nil
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// statements are the pieces of a random script. %d is a small number, t a table, s a string, n a number, k the key.
var statements = []string{
	`for i = 1, %d do t[#t + 1] = i * n end`,
	`for i = 1, %d do t['f' .. i] = s .. i end`,
	`s = s .. string.rep('ab', %d)`,
	`s = string.rep('x', %d00000)`, // up to the memory limit, and beyond
	`s = string.format('%%5.2f|%%s|%%d', n / 3, s, %d)`,
	`s = string.gsub(s, '(%%w)', '%%1-', %d)`,
	`s = tostring(string.find(s, '.-b', %d))`,
	`n = n + (tonumber(string.match(s, '%%d+')) or %d)`,
	`n = math.random(1, 1000 + %d)`,
	`n = math.floor(n / (%d + 1)) + 0.5`,
	`table.sort(t, function(a, b) return tostring(a) < tostring(b) end) n = n + %d`,
	`redis.call('hset', k, 'f%d', s:sub(1, 200))`,
	`for f, v in pairs(t) do redis.call('hset', k, f, tostring(v):sub(1, 50)) s = s:sub(1, 500) .. tostring(f) end n ` +
		`= n + %d`,
	`redis.call('hincrby', k, 'c', %d)`,
	`redis.call('pexpire', k, 1000 + %d)`,
	`redis.call('del', k) n = %d`,
	`redis.call('set', k .. ':s', s:sub(1, 300), 'PX', 500 + %d)`,
	`n = n + (redis.call('hlen', k) or %d)`,
	`s = redis.pcall('hincrby', k, 'c', 'x%d').err`,
	`pcall(function() error('no ' .. %d) end)`,
	`s = tostring(select(2, pcall(function() return t.a.b.c + %d end))) .. tostring(t) .. tostring(pcall)`,
	`if redis.sha1hex(s):sub(1, 1) < '8' then n = n + %d else error({err = 'ERR chosen'}) end`,
	`s = cjson.encode({a = n, b = {s:sub(1, 20), %d}})`,
	`redis.call('hset', k, 'r', (redis.call('hrandfield', k) or 'none') .. %d)`,
	`redis.call('hset', k, 'm', math.random(1, 1000 + %d))`,
	`s = cmsgpack.pack({n, %d, s:sub(1, 20)})`,
	`local x = redis.call('time') n = n + x[1] %% (%d + 1) + x[2]`,
	`s = s:lower():upper():reverse():sub(1, 100 + %d)`,
	`redis.call('publish', k, 'p%d')`,
	`for i, f in ipairs(redis.call('hkeys', k)) do s = s:sub(1, 500) .. f end n = n + %d`,
	`for i, f in ipairs(redis.call('hgetall', k)) do s = s:sub(1, 500) .. f:sub(1, 5) end n = n + %d`,
	`for i, f in ipairs(redis.call('hvals', k)) do s = s:sub(1, 500) .. f:sub(1, 5) end n = n + %d`,
	`for i, f in ipairs(redis.call('hscan', k, 0, 'COUNT', %d)[2]) do s = s:sub(1, 500) .. f:sub(1, 5) end`,
	`for i, f in ipairs(redis.call('keys', k .. '*')) do s = s:sub(1, 500) .. f end n = n + %d`,
	`for i, f in ipairs(redis.call('scan', 0, 'COUNT', %d)[2]) do s = s:sub(1, 500) .. f end`,
	`s = s:sub(1, 500) .. tostring(redis.call('randomkey')) n = n + %d`,
	`s = s:sub(1, 500) .. redis.call('dbsize') .. tostring(redis.call('pexpiretime', k)) .. ` +
		`tostring(redis.call('fence', k)) n = n + %d`,
	`redis.pcall('sadd', k .. ':set', 'm%d', n, s:sub(1, 20)) for i, f in ipairs(redis.pcall('smembers', k .. ` +
		`':set')) do s = s:sub(1, 500) .. f end`,
	`redis.pcall('zadd', k .. ':z', %d, s:sub(1, 20), n, 'm') for i, f in ipairs(redis.pcall('zrange', k .. ':z', 0, ` +
		`-1)) do s = s:sub(1, 500) .. f end`,
	`redis.pcall('rpush', k .. ':l', s:sub(1, 20), %d) s = s:sub(1, 500) .. tostring(redis.pcall('lpop', k .. ':l'))`,
	`s = s:sub(1, 500) .. tostring(redis.pcall('spop', k .. ':set')) .. tostring(redis.pcall('srandmember', k .. ` +
		`':set')) n = n + %d`,
	`local function deep(d) if d > 0 then return 1 + deep(d - 1) end return 0 end n = n + deep(%d0)`,
	`n = 0 while n < %d000 do n = n + 1 end`,
	`n = bit.bxor(math.floor(n) %% 65536, %d)`,
	`s = struct.pack('>I4', math.floor(n) %% 1000 + %d)`,
}

// remember stores the results of a script for good, so that a difference between two nodes is never overwritten: first
// the order in which a command answers, then the rest.
const remember = `local o = KEYS[2] .. ':o' redis.call('hset', o, 'f' .. math.floor(n) %% 9, s:sub(1, 5)) ` +
	`for i, f in ipairs(redis.pcall(%s)) do s = s:sub(1, 900) .. f end ` +
	`redis.call('set', KEYS[2], redis.sha1hex((redis.call('get', KEYS[2]) or '') .. tostring(n) .. '|' .. s:sub(1, ` +
	`1000) .. '|' .. #t))` + "\n"

// orders are commands whose reply has an order that a server may choose.
var orders = []string{
	"'hkeys', o",
	"'hvals', o",
	"'hgetall', o",
	"'keys', k .. '*'",
	"'smembers', k .. ':set'",
	"'hkeys', k",
}

// script makes a random script. A few exceed a limit on purpose.
func script(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("local k, s, n, t = KEYS[1], ARGV[1], tonumber(ARGV[1]), {}\n")
	for range 1 + r.IntN(8) {
		fmt.Fprintf(&b, statements[r.IntN(len(statements))]+"\n", 1+r.IntN(40))
	}
	fmt.Fprintf(&b, remember, orders[r.IntN(len(orders))])
	if r.IntN(60) == 0 {
		b.WriteString("while true do n = n + 1 end\n")
	}
	b.WriteString(
		[]string{"return n", "return s:sub(1, 100)", "return t", "return redis.call('hgetall', " +
			"k)", "return {n, s:sub(1, 10)}"}[r.IntN(5)],
	)
	return b.String()
}
