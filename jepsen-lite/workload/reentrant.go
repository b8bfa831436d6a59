package workload

import (
	"time"

	"lockd/jepsen-lite/target"
)

// Scripts of Redisson's RLock (RedissonLock and RedissonBaseLock), with their arguments in its order.
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
	countScript = `return redis.call('hget', KEYS[1], ARGV[1])`
)

// newReentrant makes each worker one owner, which locks up to three times, renews and unlocks, sometimes in the wrong
// order or not at all.
func newReentrant(env *Env) Plan {
	keys := newShortLived(env, "re")
	return Plan{Setup: startClock, Final: func(c *Client) { lockOnce(c, keys.all(c)) }, Step: func(c *Client) {
		askTermSometimes(c)
		key, owner := keys.key(c), "o"+itoa(int64(c.ID))
		depth := 0
		for range 1 + c.Rand.IntN(5) {
			ms := itoa(leaseMs(c))
			in := []string{owner, ms}
			switch c.Rand.IntN(5) {
			case 0, 1:
				if lockReentrant(c, key, owner, ms) {
					depth++
				}
			case 2:
				call := Call{Op: "renew", Key: key, In: in, Out: word("0", "1"),
					Cmds: [][]string{{"EVAL", redissonRenew, "1", key, ms, owner}}}
				c.Do(usuallyTelling(c, call, "EVAL", redissonRenew, holderOfHash, []string{key}, ms, owner))
			case 3:
				call := Call{Op: "count", Key: key, In: in, Cmds: [][]string{{"HGET", key, owner}}, Out: number}
				c.Do(usuallyTelling(c, call, "EVAL_RO", countScript, holderOfHash, []string{key}, owner))
			case 4:
				unlockReentrant(c, key, owner, ms)
				depth--
			}
			c.Sleep(time.Duration(c.Rand.IntN(15)) * time.Millisecond)
		}
		if c.Rand.IntN(12) == 0 {
			return // like a client that dies
		}
		for ; depth > 0; depth-- {
			unlockReentrant(c, key, owner, itoa(leaseMs(c)))
		}
	}}
}

// lockOnce takes each of these locks as another owner, and releases it: the former owners have lost them long ago.
func lockOnce(c *Client, keys []string) {
	for _, key := range keys {
		owner, ms := "last"+itoa(int64(c.ID)), itoa(leaseMs(c))
		if lockReentrant(c, key, owner, ms) {
			unlockReentrant(c, key, owner, ms)
		}
	}
}

// lockReentrant runs Redisson's lock script.
func lockReentrant(c *Client, key, owner, ms string) (locked bool) {
	call := Call{Op: "lock", Key: key, In: []string{owner, ms}, Out: taken,
		Cmds: [][]string{{"EVAL", redissonLock, "1", key, ms, owner}}}
	out, ok := c.Do(usuallyTelling(c, call, "EVAL", redissonLock, holderOfHash, []string{key}, ms, owner))
	return ok && out[0] == "nil"
}

// unlockReentrant runs Redisson's unlock script.
func unlockReentrant(c *Client, key, owner, ms string) {
	channel, args := "ch:"+key, []string{"0", ms, owner, "publish"}
	call := Call{Op: "unlock", Key: key, In: []string{owner, ms}, Out: word("nil", "0", "1"),
		Cmds: [][]string{append([]string{"EVAL", redissonUnlock, "2", key, channel}, args...)}}
	c.Do(usuallyTelling(c, call, "EVAL", redissonUnlock, holderOfHash, []string{key, channel}, args...))
}

// taken makes a result of the lock script: nil, or "held" for any remaining time.
func taken(replies []target.Reply) ([]string, error) {
	out, err := number(replies)
	if err == nil && out[0] != "nil" {
		out[0] = "held"
	}
	return out, err
}
