package workload

import "time"

// newExpiry: set a key with a time to live and look at it until it is gone, and a
// little longer, through changing nodes.
func newExpiry(env *Env) Plan {
	return Plan{Step: func(c *Client) {
		key, value := c.Key("e"+itoa(env.Unique())), itoa(env.Unique())
		ms := 50 + c.Rand.Int64N(450)
		if c.Rand.IntN(2) == 0 {
			ms = 500 + c.Rand.Int64N(4500)
		}
		if _, ok := c.Do(Call{Op: "set", Key: key, In: []string{value, itoa(ms)}, Cmds: [][]string{{"SET", key, value, "PX", itoa(ms)}}, Out: word("OK")}); !ok {
			return
		}
		after := 0 // looks after it was gone
		for until := time.Now().Add(time.Duration(ms)*time.Millisecond + 15*time.Second); time.Now().Before(until) && after < 3 && c.ctx.Err() == nil; {
			if c.look(key) {
				after++
			}
			c.Sleep(time.Duration(1+c.Rand.Int64N(1+ms/8)) * time.Millisecond)
		}
	}}
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
