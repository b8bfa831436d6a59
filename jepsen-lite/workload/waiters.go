package workload

import (
	"context"
	"time"

	"lockd/jepsen-lite/target"
)

// releaseTellScript releases a lock and publishes that, like Redisson's.
const releaseTellScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) ` +
	`redis.call('publish', KEYS[2], '0') return 1 end return 0`

// patience bounds the whole wait of a waiter.
const patience = 10 * time.Second

// newWaiters makes the losers of a lock subscribe to its releases, try again, and then sleep until a release is
// published, or as long as the lock can be held. Some holders die without a release.
func newWaiters(env *Env) Plan {
	keys := newShortLived(env, "w")
	return Plan{Setup: startClock, Final: keys.holders, Step: func(c *Client) {
		h := &holder{c: c, key: keys.key(c), ms: leaseMs(c)}
		told, ok := h.try()
		if told != nil {
			ok = h.wait()
		}
		if !ok {
			return
		}
		c.Sleep(time.Duration(c.Rand.Int64N(h.ms/2)) * time.Millisecond)
		if c.Rand.IntN(8) == 0 {
			c.Close()
			return
		}
		call := Call{Op: "release", Key: h.key, In: []string{h.token}, Out: word("0", "1"),
			Cmds: [][]string{{"EVAL", releaseTellScript, "2", h.key, h.channel(), h.token}}}
		c.Do(usuallyTelling(c, call, "EVAL", releaseTellScript, holderOfString, []string{h.key, h.channel()}, h.token))
	}}
}

// channel returns the channel of the releases.
func (h *holder) channel() string { return "ch:" + h.key }

// try tries to take the lock under a new token, with a script that tells the log clock, too. If another client holds
// the lock, told is the remaining time of its lease in milliseconds, and its token; else told is nil.
func (h *holder) try() (told []string, held bool) {
	askTermSometimes(h.c)
	h.token = "t" + itoa(h.c.env.Unique())
	call := Call{Op: "acquire", Key: h.key, In: []string{h.token, itoa(h.ms)}, Out: word("OK", "nil")}
	out, ok := h.c.Do(telling(h.c, call, "EVAL", acquireScript, holderOfString, []string{h.key}, h.token, itoa(h.ms)))
	if !ok || out[0] == "OK" {
		return nil, ok
	}
	return out[1:3], false
}

// wait listens on a connection of its own until the lock is taken, or patience is over. It reports whether the lock is
// held.
func (h *holder) wait() (held bool) {
	ctx, cancel := context.WithTimeout(h.c.ctx, patience)
	defer cancel()
	ear := NewClient(ctx, h.c.env, h.c.Rand.IntN(len(h.c.env.Target.Nodes())))
	defer ear.Close()
	for ctx.Err() == nil {
		if ear.conn == nil {
			listen := [][]string{{"SUBSCRIBE", h.channel()}}
			if _, ok := ear.Do(Call{Op: "listen", Key: h.key, Cmds: listen, Out: subscribed}); !ok {
				continue
			}
		}
		told, held := h.try()
		if told == nil {
			return held // false if the outcome is unknown
		}
		sleepUntilTold(ear, h.key, told)
	}
	return false
}

// sleepUntilTold waits for a message, for as long as it was told, but not beyond patience.
func sleepUntilTold(c *Client, key string, told []string) {
	ms, err := time.ParseDuration(told[0] + "ms")
	if err != nil || ms < 0 || c.conn == nil {
		return // the checker judges such an answer
	}
	c.Local("wait", key, told, func() string {
		for until := time.Now().Add(ms); c.ctx.Err() == nil; {
			left := time.Until(until)
			if left <= 0 {
				return "timeout"
			}
			_, err := c.conn.Wait(min(left, 100*time.Millisecond))
			if err == nil {
				return "woken"
			}
			if err != target.ErrQuiet {
				c.Close()
				return "cut"
			}
		}
		return "left"
	})
}
