package workload

import "lockd/jepsen-lite/model"

// newCounter: INCR and HINCRBY on two counters each, and reads.
func newCounter(*Env) Plan {
	read := func(c *Client, n int) {
		if n < 2 {
			key := c.Key("c" + itoa(int64(n)))
			c.Do(Call{Op: "read", Key: key, Cmds: [][]string{{"GET", key}}, Out: number})
		} else {
			key := c.Key("h")
			f := itoa(int64(n))
			c.Do(Call{Op: "read", Key: key + f, Cmds: [][]string{{"HGET", key, f}}, Out: number})
		}
	}
	return Plan{
		Step: func(c *Client) {
			n := c.Rand.IntN(4)
			switch {
			case c.Rand.IntN(4) == 0:
				read(c, n)
			case n < 2:
				key := c.Key("c" + itoa(int64(n)))
				c.Do(Call{Op: "add", Key: key, Cmds: [][]string{{"INCR", key}}, Out: number})
			default:
				key, f := c.Key("h"), itoa(int64(n))
				c.Do(Call{Op: "add", Key: key + f, Cmds: [][]string{{"HINCRBY", key, f, "1"}}, Out: number})
			}
		},
		Final: func(c *Client) {
			for n := range 4 {
				read(c, n)
			}
		},
	}
}

const stockScript = `local left = tonumber(redis.call('get', KEYS[1])) if left == nil then return 'missing' end ` +
	`if left < 1 then return -1 end return redis.call('decr', KEYS[1])`

// newStock: the script that sells one piece if there is one.
func newStock(*Env) Plan {
	read := func(c *Client) {
		key := c.Key("stock")
		c.Do(Call{Op: "read", Key: key, Cmds: [][]string{{"GET", key}}, Out: number})
	}
	return Plan{
		Setup: func(c *Client) {
			key := c.Key("stock")
			for c.ctx.Err() == nil {
				if _, ok := c.Do(Call{Op: "init", Key: key, Cmds: [][]string{{"SET", key, model.StockStart()}}, Out: word("OK")}); ok {
					return
				}
			}
		},
		Step: func(c *Client) {
			if c.Rand.IntN(5) == 0 {
				read(c)
				return
			}
			key := c.Key("stock")
			c.Do(Call{Op: "take", Key: key, Cmds: [][]string{{"EVAL", stockScript, "1", key}}, Out: number})
		},
		Final: read,
	}
}
