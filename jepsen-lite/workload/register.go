package workload

import (
	"sync/atomic"
)

const casScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0`

// Keys are used by few workers and not for long, so that the search for an order
// stays small.
const (
	workersPerKey = 4
	opsPerKey     = 150
	doubtWeight   = 12 // an unknown outcome counts as many: each may double the orders to try
)

// shortLived hands out keys: worker id shares its key with few others, and all move
// on to a new one after a number of operations.
type shortLived struct {
	name string
	used []atomic.Int64
	seen []int64 // doubts of each worker that have been counted
}

func newShortLived(env *Env, name string) *shortLived {
	return &shortLived{name, make([]atomic.Int64, (env.Workers+workersPerKey-1)/workersPerKey), make([]int64, env.Workers)}
}

func (s *shortLived) key(c *Client) string {
	slot := c.ID / workersPerKey
	n := s.used[slot].Add(1 + doubtWeight*(c.doubts-s.seen[c.ID]))
	s.seen[c.ID] = c.doubts
	return c.Key(s.name + itoa(int64(slot)) + "-" + itoa(n/opsPerKey))
}

func newRegister(env *Env) Plan {
	keys := newShortLived(env, "r")
	seen := make([]string, env.Workers) // the last value each worker saw
	return Plan{Step: func(c *Client) {
		key := keys.key(c)
		switch c.Rand.IntN(10) {
		case 0, 1, 2, 3:
			if out, ok := c.Do(Call{Op: "get", Key: key, Cmds: [][]string{{"GET", key}}}); ok {
				seen[c.ID] = out[0]
			}
		case 4, 5:
			v := itoa(env.Unique())
			c.Do(Call{Op: "set", Key: key, In: []string{v}, Cmds: [][]string{{"SET", key, v}}, Out: word("OK")})
			seen[c.ID] = v
		case 6:
			v := itoa(env.Unique())
			c.Do(Call{Op: "setnx", Key: key, In: []string{v}, Cmds: [][]string{{"SET", key, v, "NX"}}, Out: word("OK", "nil")})
		case 7, 8:
			v, old := itoa(env.Unique()), seen[c.ID]
			if old == "nil" {
				old = ""
			}
			c.Do(Call{Op: "cas", Key: key, In: []string{old, v}, Cmds: [][]string{{"EVAL", casScript, "1", key, old, v}}, Out: word("0", "1")})
		case 9:
			c.Do(Call{Op: "del", Key: key, Cmds: [][]string{{"DEL", key}}, Out: word("0", "1")})
		}
	}}
}
