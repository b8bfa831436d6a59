package workload

import (
	"sync"
	"time"
)

// newIdempotent has clients of locks of all kinds miss every third answer: they break the connection or abandon the
// request, and ask again with the same token at another node, or give up. They release the lock until they have heard
// that it is released.
func newIdempotent(env *Env) Plan {
	keys := newShortLived(env, "again")
	return Plan{
		Setup:  startClock,
		Final:  func(c *Client) { keys.takeAll(env, c, "", 1) },
		Beside: func(c *Client) { passOn(c, [][3]string{{}, {"", shared, ""}, {"2", "2", "2"}}[c.Rand.IntN(3)]) },
		Step: func(c *Client) {
			askTermSometimes(c)
			h := repeater{visitor(env, c, keys.key(c))}
			h.ms += 1000
			h.mode = []string{"", shared, "2"}[c.ID/workersPerKey%3]
			if h.mode == shared && c.Rand.IntN(3) == 0 {
				h.mode = "" // a writer
			}
			if c.Rand.IntN(4) == 0 {
				h.look(0)
			}
			if h.askAgain() {
				h.useAgain()
			}
			h.unlockAgain()
		},
	}
}

// repeater is a holder that misses answers, and asks again until it has heard one.
type repeater struct{ *holder }

// lost draws whether the client misses an answer.
func (h repeater) lost() bool { return h.c.Rand.IntN(3) == 0 }

// askAgain asks for the lock until it has heard an answer, or gives up. It reports whether the lock was granted.
func (h repeater) askAgain() (held bool) {
	c := h.c
	for c.ctx.Err() == nil && c.Rand.IntN(8) > 0 {
		call := h.asking("enter", c.Rand.Int64N(waitMax/2))
		switch {
		case !h.lost():
			if out, ok := c.Do(call); ok && out[0] != displaced {
				return holds(out, ok)
			}
		case c.Rand.IntN(2) == 0:
			h.breakOff(call)
		case c.Rand.IntN(2) == 0:
			if out, ok := askTwice(h.holder, call); ok && out[0] != displaced {
				return holds(out, ok)
			}
		default:
			hangUp := c.Abandon(call)
			c.Sleep(time.Duration(c.Rand.IntN(100)) * time.Millisecond)
			out, ok := c.Do(h.asking("enter", c.Rand.Int64N(waitMax/2)))
			hangUp()
			if ok && out[0] != displaced {
				return holds(out, ok)
			}
		}
	}
	return false
}

// askTwice asks on two connections, one a moment after the other, and hears both answers: the second request displaces
// the first one if that waits. It returns the answer to the second one.
func askTwice(h *holder, call Call) (out []string, ok bool) {
	c := h.c
	before := NewClient(c.ctx, c.env, c.ID+1)
	var first sync.WaitGroup
	first.Go(func() {
		before.Do(call)
		before.Close()
	})
	c.Sleep(time.Duration(c.Rand.IntN(100)) * time.Millisecond)
	out, ok = c.Do(h.asking("enter", c.Rand.Int64N(waitMax/2)))
	first.Wait()
	return out, ok
}

// useAgain holds the lock for a while, and renews its lease by RENEW, or by LOCK, whose answer may be lost.
func (h repeater) useAgain() {
	c := h.c
	for range c.Rand.IntN(4) {
		c.Sleep(time.Duration(c.Rand.IntN(300)) * time.Millisecond)
		call := h.asking("enter", c.Rand.Int64N(waitMax/2))
		switch {
		case c.Rand.IntN(2) == 0:
			if !h.renewFence() {
				return
			}
		case h.lost():
			h.breakOff(call)
		default:
			if !holds(c.Do(call)) {
				return
			}
		}
	}
}

// unlockAgain releases the lock until it has heard an answer. Sometimes it checks whether the token still holds the
// lock.
func (h repeater) unlockAgain() {
	for h.c.ctx.Err() == nil {
		if h.lost() {
			h.breakOff(Call{Op: "release", Key: h.key, In: []string{h.token}, Cmds: [][]string{{"UNLOCK", h.key, h.token}}})
		} else if h.unlock() {
			break
		}
	}
	if h.c.Rand.IntN(2) == 0 {
		h.renewFence()
	}
}
