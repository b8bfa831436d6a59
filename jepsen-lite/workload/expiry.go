package workload

import "time"

// lookAfter is for how long after its time a key is looked at.
const lookAfter = 15 * time.Second

// newExpiry: set a key with a time to live and look at it until it is gone, and a
// little longer, through changing nodes; and write something beside it now and then.
func newExpiry(env *Env) Plan {
	return Plan{Step: func(c *Client) {
		key, value, ms := c.Key("e"+itoa(env.Unique())), itoa(env.Unique()), c.timeToLive()
		if _, ok := c.Do(Call{Op: "set", Key: key, In: []string{value, itoa(ms)}, Cmds: [][]string{{"SET", key, value, "PX", itoa(ms)}}, Out: word("OK")}); !ok {
			return
		}
		after := 0 // looks after it was gone
		for until := time.Now().Add(time.Duration(ms)*time.Millisecond + lookAfter); time.Now().Before(until) && after < 3 && c.ctx.Err() == nil; {
			if c.look(key) {
				after++
			}
			if c.Rand.IntN(2) == 0 {
				c.Do(Call{Op: "beat", Key: c.Key("beat"), Cmds: [][]string{{"SET", c.Key("beat"), "1"}}, Out: word("OK")})
			}
			c.Sleep(time.Duration(1+c.Rand.Int64N(1+min(ms/8, 300))) * time.Millisecond)
		}
	}}
}

// timeToLive draws one, in milliseconds: half of them are short, and some are longer
// than a fault lasts.
func (c *Client) timeToLive() int64 {
	switch c.Rand.IntN(8) {
	case 0, 1, 2, 3:
		return 50 + c.Rand.Int64N(450)
	case 4, 5, 6:
		return 500 + c.Rand.Int64N(4500)
	}
	return 5000 + c.Rand.Int64N(5000)
}

// look asks for the key in one of three ways and reports whether it was gone.
func (c *Client) look(key string) bool {
	call := Call{Op: "get", Key: key, Cmds: [][]string{{"GET", key}}}
	switch c.Rand.IntN(3) {
	case 0:
		call = Call{Op: "pttl", Key: key, Cmds: [][]string{{"PTTL", key}}, Out: number}
	case 1:
		call = Call{Op: "exists", Key: key, Cmds: [][]string{{"EXISTS", key}}, Out: word("0", "1")}
	}
	out, ok := c.Do(call)
	return ok && (out[0] == "nil" || out[0] == "-2" || call.Op == "exists" && out[0] == "0")
}
