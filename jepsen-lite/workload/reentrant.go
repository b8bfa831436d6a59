package workload

import (
	"time"

	"lockd/jepsen-lite/target"
)

// The scripts of Redisson's RLock (RedissonLock and RedissonBaseLock), with their
// arguments in its order.
const (
	redissonLock = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
		`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; ` +
		`return redis.call('pttl', KEYS[1]);`
	redissonUnlock = `if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; ` +
		`local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
		`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; ` +
		`else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1; end; return nil;`
	redissonRenew = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); ` +
		`return 1; end; return 0;`
)

// newReentrant: each worker is one owner, who locks up to three times, renews,
// unlocks, and now and then does it in the wrong order, or not at all.
func newReentrant(env *Env) Plan {
	keys := newShortLived(env, "re")
	return Plan{Final: func(c *Client) { c.lockOnce(keys.all(c)) }, Step: func(c *Client) {
		key, owner := keys.key(c), "o"+itoa(int64(c.ID))
		depth := 0
		for range 1 + c.Rand.IntN(5) {
			ms := itoa(leaseMs(c))
			in := []string{owner, ms}
			switch c.Rand.IntN(5) {
			case 0, 1:
				lock := [][]string{{"EVAL", redissonLock, "1", key, ms, owner}}
				if out, ok := c.Do(Call{Op: "lock", Key: key, In: in, Cmds: lock, Out: taken}); ok && out[0] == "nil" {
					depth++
				}
			case 2:
				c.Do(Call{
					Op:   "renew",
					Key:  key,
					In:   in,
					Cmds: [][]string{{"EVAL", redissonRenew, "1", key, ms, owner}},
					Out:  word("0", "1"),
				})
			case 3:
				c.Do(Call{Op: "count", Key: key, In: in, Cmds: [][]string{{"HGET", key, owner}}, Out: number})
			case 4:
				c.unlock(key, owner, ms)
				depth--
			}
			c.Sleep(time.Duration(c.Rand.IntN(15)) * time.Millisecond)
		}
		if c.Rand.IntN(12) == 0 {
			return // as one who dies
		}
		for ; depth > 0; depth-- {
			c.unlock(key, owner, itoa(leaseMs(c)))
		}
	}}
}

// lockOnce takes each of these locks as another owner, and lets it go: those who held them
// have lost them long since.
func (c *Client) lockOnce(keys []string) {
	for _, key := range keys {
		owner, ms := "last"+itoa(int64(c.ID)), itoa(leaseMs(c))
		in, lock := []string{owner, ms}, [][]string{{"EVAL", redissonLock, "1", key, ms, owner}}
		if out, ok := c.Do(Call{Op: "lock", Key: key, In: in, Cmds: lock, Out: taken}); ok && out[0] == "nil" {
			c.unlock(key, owner, ms)
		}
	}
}

func (c *Client) unlock(key, owner, ms string) {
	c.Do(Call{Op: "unlock", Key: key, In: []string{owner, ms},
		Cmds: [][]string{
			{"EVAL", redissonUnlock, "2", key, "ch:" + key, "0", ms, owner, "publish"},
		}, Out: word("nil", "0", "1")})
}

// taken is nil, or "held" for any time that is left.
func taken(replies []target.Reply) ([]string, error) {
	out, err := number(replies)
	if err == nil && out[0] != "nil" {
		out[0] = "held"
	}
	return out, err
}
