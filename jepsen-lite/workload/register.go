package workload

import (
	"sync/atomic"
)

const casScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) ` +
	`redis.call('rpush', KEYS[2], ARGV[2]) return 1 end return 0`

// Few workers use a key, and not for long, so that the search for an order stays small.
const (
	workersPerKey = 4
	opsPerKey     = 150
	doubtWeight   = 12 // an unknown outcome counts as so many operations, since each may double the orders to try
)

// shortLived hands out keys. A worker shares its key with few others, and all of them move on to a new key after some
// operations.
type shortLived struct {
	name string
	used []atomic.Int64
	seen []int64 // by worker: its doubts that were counted
}

func newShortLived(env *Env, name string) *shortLived {
	return &shortLived{
		name,
		make([]atomic.Int64, (env.Workers+workersPerKey-1)/workersPerKey),
		make([]int64, env.Workers),
	}
}

// key returns the present key of a client.
func (s *shortLived) key(c *Client) string {
	slot := c.ID / workersPerKey
	n := s.used[slot].Add(1 + doubtWeight*(c.doubts-s.seen[c.ID]))
	s.seen[c.ID] = c.doubts
	return c.Key(s.name + itoa(int64(slot)) + "-" + itoa(n/opsPerKey))
}

// all returns a worker's share of the keys of this run.
func (s *shortLived) all(c *Client) (keys []string) {
	for slot := c.ID; slot < len(s.used); slot += len(s.seen) {
		for n := range s.used[slot].Load()/opsPerKey + 1 {
			keys = append(keys, c.Key(s.name+itoa(int64(slot))+"-"+itoa(n)))
		}
	}
	return keys
}

// newRegister reads, writes, compares and deletes short-lived registers.
func newRegister(env *Env) Plan {
	keys := newShortLived(env, "r")
	seen := make([]string, env.Workers) // by worker: the value that it saw last
	return Plan{
		Step: func(c *Client) {
			key := keys.key(c)
			switch v := itoa(env.Unique()); c.Rand.IntN(20) {
			case 0, 1, 2, 3, 4, 5, 6:
				if out, ok := c.Do(Call{Op: "get", Key: key, Cmds: [][]string{{"GET", key}}}); ok {
					seen[c.ID] = out[0]
				}
			case 7, 8:
				c.Do(Call{Op: "set", Key: key, In: []string{v}, Out: executed("OK"),
					Cmds: [][]string{{"MULTI"}, {"SET", key, v}, {"RPUSH", versionsOf(key), v}, {"EXEC"}}})
				seen[c.ID] = v
			case 9, 10:
				c.Do(Call{Op: "swap", Key: key, In: []string{v}, Cmds: [][]string{{"SET", key, v, "GET"}}})
				seen[c.ID] = v
			case 11, 12:
				c.Do(Call{
					Op:   "setnx",
					Key:  key,
					In:   []string{v},
					Cmds: [][]string{{"SET", key, v, "NX"}},
					Out:  word("OK", "nil"),
				})
			case 13, 14, 15, 16:
				old := seen[c.ID]
				if old == "nil" {
					old = ""
				}
				c.Do(Call{Op: "cas", Key: key, In: []string{old, v}, Out: word("0", "1"),
					Cmds: [][]string{{"EVAL", casScript, "2", key, versionsOf(key), old, v}}})
			case 17, 18:
				c.Do(Call{Op: "del", Key: key, Cmds: [][]string{{"DEL", key}}, Out: word("0", "1")})
			case 19:
				readVersions(c, key)
			}
		},
		Final: func(c *Client) {
			for _, key := range keys.all(c) {
				c.Do(Call{Op: "get", Key: key, Cmds: [][]string{{"GET", key}}})
				readVersions(c, key)
			}
		},
	}
}

// versionsOf returns the key of the list of all values of a register.
func versionsOf(key string) string { return key + ":versions" }

// readVersions reads that list.
func readVersions(c *Client, key string) {
	c.Do(Call{Op: "versions", Key: key, Cmds: [][]string{{"LRANGE", versionsOf(key), "0", "-1"}}, Out: members})
}
