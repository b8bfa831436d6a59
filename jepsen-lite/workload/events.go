package workload

import (
	"strings"
	"time"
)

// The channel to which the workload listens, and the setting that publishes its messages.
const (
	expiredChannel = "__keyevent@0__:expired"
	notifySetting  = "notify-keyspace-events"
)

// newEvents has half of the workers listen through all nodes for the ends of leases, while the others set keys with a
// time to live, and renew or delete some of them.
func newEvents(env *Env) Plan {
	before := ""
	return Plan{
		Setup: func(c *Client) {
			for c.ctx.Err() == nil {
				out, ok := c.Do(Call{Op: "setting", Cmds: [][]string{{"CONFIG", "GET", notifySetting}}, Out: members})
				if ok && len(out) == 2 {
					before = out[1]
					break
				}
			}
			setNotifications(c, "Ex")
		},
		Listen: func(c *Client) {
			listen(c, expiredChannel, func(key string) []string {
				if !strings.HasPrefix(key, env.Prefix) {
					return nil
				}
				return []string{key}
			}, func(key string) bool { return strings.HasPrefix(key, c.Key("last")) })
		},
		Step: func(c *Client) { useLease(c, c.Key("x"+itoa(env.Unique()))) },
		Last: func(c *Client) { // its lease ends after all others
			for done := false; !done && c.ctx.Err() == nil; {
				done = setLease(c, c.Key("last"+itoa(env.Unique())), leaseLow+leaseRange)
			}
		},
		Final: func(c *Client) {
			if c.ID == 0 {
				setNotifications(c, before)
			}
		},
	}
}

// setNotifications sets which events the nodes publish.
func setNotifications(c *Client, classes string) {
	for c.ctx.Err() == nil {
		set := [][]string{{"CONFIG", "SET", notifySetting, classes}}
		if _, ok := c.Do(Call{Op: "setting", In: []string{classes}, Cmds: set, Out: word("OK")}); ok {
			return
		}
	}
}

// Bounds of leases, ms.
const leaseLow, leaseRange = 50, 2500

// setLease sets a key with a time to live.
func setLease(c *Client, key string, ms int64) bool {
	_, ok := c.Do(Call{
		Op:   "set",
		Key:  key,
		In:   []string{itoa(ms)},
		Cmds: [][]string{{"SET", key, "1", "PX", itoa(ms)}},
		Out:  word("OK"),
	})
	return ok
}

// useLease sets a key, and perhaps renews or deletes it, sometimes too late.
func useLease(c *Client, key string) {
	ms := leaseLow + c.Rand.Int64N(leaseRange)
	ok := setLease(c, key, ms)
	if !ok || c.Rand.IntN(2) == 0 {
		return
	}
	for c.Rand.IntN(3) > 0 && ok {
		c.Sleep(time.Duration(c.Rand.Int64N(ms*6/5)) * time.Millisecond)
		ms = leaseLow + c.Rand.Int64N(leaseRange)
		_, ok = c.Do(Call{
			Op:   "renew",
			Key:  key,
			In:   []string{itoa(ms)},
			Cmds: [][]string{{"PEXPIRE", key, itoa(ms)}},
			Out:  word("0", "1"),
		})
	}
	if ok && c.Rand.IntN(2) == 0 {
		c.Sleep(time.Duration(c.Rand.Int64N(ms*6/5)) * time.Millisecond)
		c.Do(Call{Op: "del", Key: key, Cmds: [][]string{{"DEL", key}}, Out: word("0", "1")})
	}
}
