package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
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
	joinScript = `redis.call('hset', KEYS[1], 'mode', ARGV[2]) redis.call('hset', KEYS[1], ARGV[1], 1) ` +
		`if ARGV[3] ~= '' then redis.call('hdel', KEYS[1], ARGV[3]) end ` +
		`redis.call('pexpire', KEYS[1], 60000) return redis.call('fence', KEYS[1])`
	leaveScript = `return redis.call('hdel', KEYS[1], ARGV[1])`
	countScript = `return redis.call('hget', KEYS[1], ARGV[1])`
)

// newReentrant makes each worker one owner, which locks up to three times, renews and unlocks, sometimes in the wrong
// order or not at all. Now and then it plays holders of a read-write lock that join and leave.
func newReentrant(env *Env) Plan {
	keys := newShortLived(env, "re")
	return Plan{Setup: startClock, Final: func(c *Client) { lockOnce(c, keys.all(c)) }, Step: func(c *Client) {
		askTermSometimes(c)
		if c.compares() && c.Rand.IntN(6) == 0 {
			joinAndLeave(c, c.Key("rw"+itoa(env.Unique())))
			return
		}
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

// joinAndLeave has holders join a lock like Redisson's read-write lock, leave it, and hand it to each other, as long as
// all is answered, and asks for its history.
func joinAndLeave(c *Client, key string) {
	var held []string
	for range 8 {
		if len(held) > 0 && c.Rand.IntN(3) == 0 {
			i := c.Rand.IntN(len(held))
			call := Call{Op: "leave", Key: key, In: []string{held[i]}, Cmds: [][]string{{"EVAL", leaveScript, "1", key, held[i]}}, Out: word("1")}
			if _, ok := c.Do(call); !ok {
				return
			}
			held = slices.Delete(held, i, i+1)
			continue
		}
		token, mode, leaves := fmt.Sprintf("%08x-4b6d-4e7f-9a3b-0c1d2e3f4a5b:1", c.env.Unique()), "read", ""
		if c.Rand.IntN(2) == 0 {
			token, mode = token+model.AloneSuffix, "write"
		}
		if len(held) > 0 && c.Rand.IntN(2) == 0 {
			leaves = held[0]
			held = held[1:]
		}
		call := Call{Op: "join", Key: key, In: []string{token, leaves}, Out: number,
			Cmds: [][]string{{"EVAL", joinScript, "1", key, token, mode, leaves}}}
		if _, ok := c.Do(call); !ok {
			return
		}
		held = append(held, token)
	}
	c.Do(Call{Op: "joined", Key: key, Cmds: [][]string{{"LOCKS", "HISTORY", key}}, Out: toldJoins})
}

// toldJoins makes a result of LOCKS HISTORY: the kind, the beginning of the token and the fence of each event.
func toldJoins(replies []target.Reply) ([]string, error) {
	out := []string{}
	for _, r := range mapOf(replies[0])["events"].Elems {
		event := mapOf(r)
		token, _, _ := strings.Cut(event["token"].Text(), "...")
		out = append(out, strings.Join([]string{event["event"].Text(), token, event["fence"].Text()}, "|"))
	}
	return out, nil
}
