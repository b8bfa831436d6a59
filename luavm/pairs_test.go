package luavm

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"lockd/resp"
)

// A traversal by pairs visits each remaining key exactly once, after any assignments and deletions, and with any
// existing keys deleted or changed on the way.
func TestPairsWithDeletion(t *testing.T) {
	if reply, _, _ := New().Run(script(`local t = {1, 2, 3, a = 1, b = 2} for k in pairs(t) do t[k] = nil end return tostring(next(t))`),
		nil, nil, limits, stubCall); reply.Str != "nil" {
		t.Errorf("a key outlives its deletion: %s", render(reply))
	}
	random := rand.New(rand.NewSource(1))
	v := New()
	for range 500 {
		source := walkScript(random)
		reply, _, limited := v.Run(script(source), nil, nil, limits, stubCall)
		if limited || reply.Kind != resp.KindStatus {
			t.Fatalf("%s\n%s", source, render(reply))
		}
	}
}

// walkScript writes a script that fills a table, removes keys, walks through it while it deletes or changes some, and
// compares the walk with a list of its own.
func walkScript(random *rand.Rand) string {
	var b strings.Builder
	key := func() string {
		return []string{"%d", "'k%d'", "%d.5", "-%d"}[random.Intn(4)]
	}
	b.WriteString("local t, model = {}, {} ")
	for range random.Intn(30) {
		k := fmt.Sprintf(key(), 1+random.Intn(12))
		value := []string{"1", "2", "nil"}[random.Intn(3)]
		fmt.Fprintf(&b, "t[%s] = %s model[tostring(%s)] = %s ", k, value, k, value)
	}
	b.WriteString("local seen = {} for k, v in pairs(t) do local s = tostring(k) ")
	b.WriteString("if seen[s] or model[s] ~= v then return redis.error_reply('visits ' .. s) end seen[s] = true ")
	for range random.Intn(4) {
		// The present key, any other key of the table, or a new value for one.
		target := []string{"k", fmt.Sprintf(key(), 1+random.Intn(12))}[random.Intn(2)]
		value := []string{"nil", "nil", "3"}[random.Intn(3)]
		fmt.Fprintf(&b, "do local d = %s if t[d] ~= nil then t[d] = %s model[tostring(d)] = %s end end ", target, value, value)
	}
	b.WriteString("end for s in pairs(model) do if not seen[s] then return redis.error_reply('passes over ' .. s) end end ")
	b.WriteString("for k, v in pairs(t) do if model[tostring(k)] ~= v then return redis.error_reply('keeps ' .. tostring(k)) end end return redis.status_reply('OK')")
	return b.String()
}
