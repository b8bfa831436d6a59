package workload

// newList pushes unique values at both ends of short lists and takes them, and appends to long lists. It reads both as
// a whole.
func newList(env *Env) Plan {
	queues := newShortLived(env, "q")
	return Plan{
		Step: func(c *Client) {
			if c.Rand.IntN(2) == 0 {
				useQueue(c, queues.key(c))
				return
			}
			n := env.Unique()
			key := c.Key("l" + itoa(n/membersMax))
			if c.Rand.IntN(6) == 0 {
				readList(c, "all", key)
				return
			}
			c.Do(Call{
				Op:   "append",
				Key:  key,
				In:   []string{itoa(n)},
				Cmds: [][]string{{"RPUSH", key, itoa(n)}},
				Out:  number,
			})
		},
		Final: func(c *Client) {
			for n := int64(c.ID); n <= env.Unique()/membersMax; n += int64(env.Workers) {
				readList(c, "all", c.Key("l"+itoa(n)))
			}
		},
	}
}

// useQueue performs a random operation on a short list.
func useQueue(c *Client, key string) {
	value := itoa(c.env.Unique())
	switch c.Rand.IntN(8) {
	case 0, 1, 2:
		c.Do(Call{Op: "rpush", Key: key, In: []string{value}, Cmds: [][]string{{"RPUSH", key, value}}, Out: number})
	case 3:
		c.Do(Call{Op: "lpush", Key: key, In: []string{value}, Cmds: [][]string{{"LPUSH", key, value}}, Out: number})
	case 4, 5:
		c.Do(Call{Op: "lpop", Key: key, Cmds: [][]string{{"LPOP", key}}})
	case 6:
		c.Do(Call{Op: "llen", Key: key, Cmds: [][]string{{"LLEN", key}}, Out: number})
	case 7:
		readList(c, "range", key)
	}
}

// readList reads a whole list.
func readList(c *Client, op, key string) {
	c.Do(Call{Op: op, Key: key, Cmds: [][]string{{"LRANGE", key, "0", "-1"}}, Out: members})
}
