package workload

import (
	"strconv"
	"sync"
	"time"
)

const (
	releaseScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`
	renewScript   = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`
)

// leaseMs draws the length of a lease.
func leaseMs(c *Client) int64 { return 300 + c.Rand.Int64N(2200) }

// resource is what locks protect: it refuses a fence that is smaller than one it
// has seen.
type resource struct {
	mu   sync.Mutex
	seen map[string]int64
}

func (r *resource) write(key string, fence int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.seen[key] {
		return "refused"
	}
	r.seen[key] = fence
	return "accepted"
}

// newLock: take a lock, ask for its fence, write to the resource, perhaps renew,
// perhaps sleep beyond the lease, write again, release.
func newLock(env *Env) Plan {
	keys := newShortLived(env, "lock")
	res := &resource{seen: map[string]int64{}}
	return Plan{Step: func(c *Client) {
		key, token, ms := keys.key(c), "t"+itoa(env.Unique()), leaseMs(c)
		if c.Rand.IntN(10) == 0 {
			c.Do(Call{Op: "holder", Key: key, Cmds: [][]string{{"GET", key}}})
		}
		out, ok := c.Do(Call{Op: "acquire", Key: key, In: []string{token, itoa(ms)},
			Cmds: [][]string{{"SET", key, token, "NX", "PX", itoa(ms)}}, Out: word("OK", "nil")})
		if ok && out[0] == "OK" {
			c.hold(key, token, ms, res)
		}
	}}
}

// hold is what a holder does until it releases.
func (c *Client) hold(key, token string, ms int64, res *resource) {
	fence := c.fence(key, token)
	write := func() {
		if fence >= 0 {
			c.Local("write", key, []string{token, itoa(fence)}, func() string { return res.write(key, fence) })
		}
	}
	write()
	c.Sleep(time.Duration(c.Rand.Int64N(60)) * time.Millisecond)
	if c.Rand.IntN(3) == 0 {
		again := itoa(leaseMs(c))
		c.Do(Call{Op: "renew", Key: key, In: []string{token, again}, Cmds: [][]string{{"EVAL", renewScript, "1", key, token, again}}, Out: word("0", "1")})
	}
	switch c.Rand.IntN(12) {
	case 0: // a holder that is paused for longer than its lease
		c.Sleep(time.Duration(ms)*time.Millisecond + time.Duration(c.Rand.IntN(500))*time.Millisecond)
	case 1: // one that dies
		return
	}
	write()
	c.Do(Call{Op: "release", Key: key, In: []string{token}, Cmds: [][]string{{"EVAL", releaseScript, "1", key, token}}, Out: word("0", "1")})
}

// fence asks for the fencing token of a lock; -1: there is none.
func (c *Client) fence(key, token string) int64 {
	cmd := c.env.Target.Fence(key)
	if cmd == nil {
		return -1
	}
	out, ok := c.Do(Call{Op: "fence", Key: key, In: []string{token}, Cmds: [][]string{cmd}, Out: number})
	if !ok {
		return -1
	}
	n, err := strconv.ParseInt(out[0], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
