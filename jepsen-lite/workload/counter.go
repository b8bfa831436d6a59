package workload

import (
	"sync"
	"sync/atomic"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// newCounter adds one to counters by INCR and HINCRBY. By INCRBY and HINCRBY, plain and in scripts, it adds marks:
// powers that tell which additions were done. It reads both.
func newCounter(env *Env) Plan {
	m := &marks{}
	return Plan{
		Step: func(c *Client) {
			n := c.Rand.IntN(4)
			switch {
			case c.Rand.IntN(2) == 0:
				m.step(c)
			case c.Rand.IntN(4) == 0:
				readCounter(c, n)
			default:
				add(c, n)
			}
		},
		Final: func(c *Client) {
			for n := range 4 {
				readCounter(c, n)
			}
			for group := int64(c.ID); group <= m.last.Load()/model.MarksMax; group += int64(env.Workers) {
				m.read(c, group)
			}
		},
	}
}

// add adds one to counter number n: two are strings, two are fields of a hash.
func add(c *Client, n int) {
	if n < 2 {
		key := c.Key("c" + itoa(int64(n)))
		c.Do(Call{Op: "add", Key: key, Cmds: [][]string{{"INCR", key}}, Out: number})
		return
	}
	key, f := c.Key("h"), itoa(int64(n))
	c.Do(Call{Op: "add", Key: key + f, Cmds: [][]string{{"HINCRBY", key, f, "1"}}, Out: number})
}

// readCounter reads counter number n.
func readCounter(c *Client, n int) {
	if n < 2 {
		key := c.Key("c" + itoa(int64(n)))
		c.Do(Call{Op: "read", Key: key, Cmds: [][]string{{"GET", key}}, Out: number})
		return
	}
	key, f := c.Key("h"), itoa(int64(n))
	c.Do(Call{Op: "read", Key: key + f, Cmds: [][]string{{"HGET", key, f}}, Out: number})
}

// marks hands out numbers of marks. Those of a group are added up in one key.
type marks struct{ last atomic.Int64 }

// In a script an integer is exact up to 2^53 only; a string is exact.
const markScript = `redis.call('incrby', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])`

// step adds a mark or reads the sum of a group, mostly a recent one.
func (m *marks) step(c *Client) {
	if c.Rand.IntN(4) == 0 {
		m.read(c, m.last.Load()/model.MarksMax-max(c.Rand.Int64N(8)-4, 0))
		return
	}
	id := m.last.Add(1)
	key, n := c.Key("m"+itoa(id/model.MarksMax)), id%model.MarksMax
	cmd := []string{"INCRBY", key, model.Mark(n)}
	switch {
	case hashed(id / model.MarksMax):
		cmd = []string{"HINCRBY", key, "sum", model.Mark(n)}
	case c.Rand.IntN(3) == 0:
		cmd = []string{"EVAL", markScript, "1", key, model.Mark(n)}
	}
	c.Do(Call{Op: "mark", Key: key, In: []string{itoa(n)}, Cmds: [][]string{cmd}, Out: number})
}

// hashed reports whether the sum of a group is a field of a hash.
func hashed(group int64) bool { return group%2 == 1 }

// read reads the sum of a group.
func (m *marks) read(c *Client, group int64) {
	key := c.Key("m" + itoa(max(group, 0)))
	cmd := []string{"GET", key}
	if hashed(max(group, 0)) {
		cmd = []string{"HGET", key, "sum"}
	}
	c.Do(Call{Op: "sum", Key: key, Cmds: [][]string{cmd}, Out: number})
}

const stockScript = `local left = tonumber(redis.call('get', KEYS[1])) if left == nil then return {'missing', 0} end ` +
	`if left < 1 then return {-1, 0} end return {redis.call('decr', KEYS[1]), redis.call('hincrby', KEYS[2], ` +
	`ARGV[1], 1)}`

// buyersMax bounds a list of buyers, so that reading it stays cheap.
const buyersMax = 400

// newStock runs a script that sells one piece, if there is one, and records the buyer.
func newStock(env *Env) Plan {
	var last atomic.Int64
	buyers := func(c *Client, list int64) string { return c.Key("sold" + itoa(list)) }
	sold := func(c *Client, list int64) {
		key := buyers(c, list)
		c.Do(Call{Op: "sold", Key: key, Cmds: [][]string{{"HGETALL", key}}, Out: members})
	}
	read := func(c *Client) {
		key := c.Key("stock")
		c.Do(Call{Op: "read", Key: key, Cmds: [][]string{{"GET", key}}, Out: number})
	}
	return Plan{
		Setup: func(c *Client) {
			key := c.Key("stock")
			for c.ctx.Err() == nil {
				set := [][]string{{"SET", key, model.StockStart()}}
				if _, ok := c.Do(Call{Op: "init", Key: key, Cmds: set, Out: word("OK")}); ok {
					return
				}
			}
		},
		Step: func(c *Client) {
			switch c.Rand.IntN(12) {
			case 0, 1:
				read(c)
				return
			case 2:
				sold(c, last.Load()/buyersMax)
				return
			}
			key, buyer := c.Key("stock"), last.Add(1)
			list := buyers(c, buyer/buyersMax)
			c.Do(Call{Op: "take", Key: key, In: []string{itoa(buyer), list},
				Cmds: [][]string{{"EVAL", stockScript, "2", key, list, itoa(buyer)}}, Out: twoNumbers})
		},
		Final: func(c *Client) {
			read(c)
			for list := int64(c.ID); list <= last.Load()/buyersMax; list += int64(env.Workers) {
				sold(c, list)
			}
		},
	}
}

// twoNumbers makes a result of an array of two integers.
func twoNumbers(replies []target.Reply) ([]string, error) {
	r := replies[len(replies)-1]
	if len(r.Elems) != 2 || r.Elems[0].Kind != ':' || r.Elems[1].Kind != ':' {
		return nil, errShape
	}
	return r.Texts(), nil
}

// Many connections that are mostly idle: at every node, at every moment, one is about to read and another about to
// write. So a leader that was replaced and does not know it is asked for what the new leader has just acknowledged.
const (
	freshConns = 16 // per worker
	freshKeys  = 2
	freshPause = 1500 * time.Millisecond // mean time between two operations of a connection
)

// newFresh adds to two counters and reads them.
func newFresh(*Env) Plan {
	counter := func(c *Client, n int) string { return c.Key("f" + itoa(int64(n))) }
	read := func(c *Client, n int) {
		c.Do(Call{Op: "read", Key: counter(c, n), Cmds: [][]string{{"GET", counter(c, n)}}, Out: number})
	}
	return Plan{
		Step: func(c *Client) {
			crowd(c, freshConns, func(c *Client) {
				c.Sleep(time.Duration(c.Rand.ExpFloat64() * float64(freshPause)))
				n := c.Rand.IntN(freshKeys)
				if c.Rand.IntN(3) == 0 {
					c.Do(Call{Op: "add", Key: counter(c, n), Cmds: [][]string{{"INCR", counter(c, n)}}, Out: number})
				} else {
					read(c, n)
				}
			})
		},
		Final: func(c *Client) {
			for n := range freshKeys {
				read(c, n)
			}
		},
	}
}

// crowd has n clients with connections of their own repeat step until the run ends.
func crowd(c *Client, n int, step func(c *Client)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			one := NewClient(c.ctx, c.env, c.ID*n+i)
			defer one.Close()
			for c.ctx.Err() == nil {
				step(one)
			}
		})
	}
	all.Wait()
}
