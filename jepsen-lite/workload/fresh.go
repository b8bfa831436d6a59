package workload

import (
	"sync"
	"time"
)

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
