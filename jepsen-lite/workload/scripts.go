package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"lockd/jepsen-lite/target"
)

// newScripts: random scripts. What they answer is not judged, only that the nodes
// survive them and compute the same.
func newScripts(env *Env) Plan {
	return Plan{Step: func(c *Client) {
		key := c.Key("k" + itoa(c.Rand.Int64N(8)))
		text := script(c.Rand)
		c.Do(Call{Op: "script", Key: key, In: []string{text}, Cmds: [][]string{{"EVAL", text, "1", key, itoa(env.Unique())}}, Out: anything, Refusable: true})
	}}
}

// anything notes how an answer begins.
func anything(replies []target.Reply) ([]string, error) {
	text := replies[0].Text()
	if replies[0].IsErr() {
		text = "error " + text
	}
	return []string{text[:min(len(text), 80)]}, nil
}

// statements are the pieces of a random script; %d is a small number. t is a table,
// s a string, n a number, k the key.
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
	`for f, v in pairs(t) do redis.call('hset', k, f, tostring(v):sub(1, 50)) end n = n + %d`,
	`redis.call('hincrby', k, 'c', %d)`,
	`redis.call('pexpire', k, 1000 + %d)`,
	`redis.call('del', k) n = %d`,
	`redis.call('set', k .. ':s', s:sub(1, 300), 'PX', 500 + %d)`,
	`n = n + (redis.call('hlen', k) or %d)`,
	`s = tostring(redis.pcall('incr', k).err) .. %d`,
	`pcall(function() error('no ' .. %d) end)`,
	`if redis.sha1hex(s):sub(1, 1) < '8' then n = n + %d else error({err = 'ERR chosen'}) end`,
	`s = cjson.encode({a = n, b = {s:sub(1, 20), %d}})`,
	`redis.call('hset', k, 'r', (redis.call('hrandfield', k) or 'none') .. %d)`,
	`redis.call('hset', k, 'm', math.random(1, 1000 + %d))`,
	`s = cmsgpack.pack({n, %d, s:sub(1, 20)})`,
	`local x = redis.call('time') n = n + x[1] %% (%d + 1)`,
	`s = s:lower():upper():reverse():sub(1, 100 + %d)`,
	`redis.call('publish', k, 'p%d')`,
	`for i, f in ipairs(redis.call('hkeys', k)) do s = s:sub(1, 500) .. f end n = n + %d`,
	`local function deep(d) if d > 0 then return 1 + deep(d - 1) end return 0 end n = n + deep(%d0)`,
	`n = 0 while n < %d000 do n = n + 1 end`,
	`n = bit.bxor(math.floor(n) %% 65536, %d)`,
	`s = struct.pack('>I4', math.floor(n) %% 1000 + %d)`,
}

// script makes a random script. A few run into a limit on purpose.
func script(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("local k, s, n, t = KEYS[1], ARGV[1], tonumber(ARGV[1]), {}\n")
	for range 1 + r.IntN(8) {
		fmt.Fprintf(&b, statements[r.IntN(len(statements))]+"\n", 1+r.IntN(40))
	}
	if r.IntN(60) == 0 {
		b.WriteString("while true do n = n + 1 end\n")
	}
	b.WriteString([]string{"return n", "return s:sub(1, 100)", "return t", "return redis.call('hgetall', k)", "return {n, s:sub(1, 10)}"}[r.IntN(5)])
	return b.String()
}
