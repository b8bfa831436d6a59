package workload

import "lockd/jepsen-lite/target"

// membersMax bounds a set, so that reading it stays cheap.
const membersMax = 400

// newSet adds unique members to a hash, and reads all of them.
func newSet(env *Env) Plan {
	read := func(c *Client, key string) {
		c.Do(Call{Op: "read", Key: key, Cmds: [][]string{{"HKEYS", key}}, Out: members})
	}
	return Plan{
		Step: func(c *Client) {
			n := env.Unique()
			key := c.Key("s" + itoa(n/membersMax))
			if c.Rand.IntN(6) == 0 {
				read(c, key)
				return
			}
			c.Do(Call{
				Op:   "add",
				Key:  key,
				In:   []string{itoa(n)},
				Cmds: [][]string{{"HSET", key, itoa(n), "1"}},
				Out:  word("0", "1"),
			})
		},
		Final: func(c *Client) {
			if c.ID > 2 {
				return // a few readers are enough
			}
			for n := range env.Unique()/membersMax + 1 {
				read(c, c.Key("s"+itoa(n)))
			}
		},
	}
}

// members makes a result of an array.
func members(replies []target.Reply) ([]string, error) {
	r := replies[len(replies)-1]
	if r.Kind != '*' || r.Nil {
		return nil, errShape
	}
	return r.Texts(), nil
}
