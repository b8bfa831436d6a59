package workload

import (
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// shared is the mode of a holder beside others. Another mode is a number of permits, or "" for an exclusive lock.
const shared = "shared"

// many is the result of a look at a lock that is not a string.
const many = "many"

// holderOrMany makes a result of GET: the holder, nil, or many.
func holderOrMany(replies []target.Reply) ([]string, error) {
	if strings.HasPrefix(replies[0].Str, "WRONGTYPE ") {
		return []string{many}, nil
	}
	return []string{replies[0].Text()}, nil
}

// pairOf makes a result of two words.
func pairOf(replies []target.Reply) ([]string, error) {
	if out := replies[0].Texts(); len(out) == 2 {
		return out, nil
	}
	return nil, errShape
}

// visitor makes a client of a lock that several may hold.
func visitor(env *Env, c *Client, key string) *holder {
	return &holder{c: c, key: key, token: "t" + itoa(env.Unique()), ms: leaseMs(c), several: true}
}

// newShared has many readers and some writers wait for locks, try them, or poll by SET NX, in all ways of newLine. Some
// hold a lock so long that others certainly wait for it.
func newShared(env *Env) Plan {
	keys := newShortLived(env, "shared")
	return Plan{
		Setup:  startClock,
		Final:  func(c *Client) { keys.takeAll(env, c, "", 1) },
		Beside: func(c *Client) { passOn(c, [3]string{"", []string{"", shared, shared}[c.Rand.IntN(3)], ""}) },
		Step: func(c *Client) {
			h := visitor(env, c, keys.key(c))
			if c.Rand.IntN(3) > 0 {
				h.mode = shared
			}
			h.visit()
		},
	}
}

// newLimit does the same with semaphores of two and of three permits. Some clients ask with another number of permits.
func newLimit(env *Env) Plan {
	keys := newShortLived(env, "limit")
	permits := func(slot int) int64 { return 2 + int64(slot%2) }
	return Plan{
		Setup: startClock,
		Final: func(c *Client) { keys.takeAll(env, c, itoa(permits(c.ID)), permits(c.ID)) },
		Beside: func(c *Client) {
			n := itoa(permits(c.ID))
			passOn(c, [3]string{n, n, n})
		},
		Step: func(c *Client) {
			h, n := visitor(env, c, keys.key(c)), permits(c.ID/workersPerKey)
			if h.mode = itoa(n); c.Rand.IntN(8) == 0 {
				h.mode = itoa(n%3 + 2) // another number of permits
				if holds(c.Do(h.asking("try", 0))) {
					h.unlock()
				}
				return
			}
			h.visit()
		},
	}
}

// visit takes a lock in one of the ways of clients.
func (h *holder) visit() {
	c := h.c
	askTermSometimes(c)
	if c.Rand.IntN(4) == 0 {
		h.look(0)
	}
	switch way := c.Rand.IntN(12); {
	case way == 0:
		h.poll()
	case way == 1:
		h.lock("try", 0, false)
	case way < 4 && !h.calm():
		h.breakOff(h.asking("enter", c.Rand.Int64N(waitMax)))
		if c.Rand.IntN(2) == 0 {
			h.lock("enter", c.Rand.Int64N(waitMax), false)
		}
	default:
		h.lock("enter", c.Rand.Int64N(waitMax), false)
	}
}

// calm reports whether no client of the lock breaks off a request, as for every second lock. Only clients that were
// answered hold such a lock or wait for it.
func (h *holder) calm() bool { return h.key[len(h.key)-1]%2 == 1 }

// breakOff sends a call and breaks the connection, at once or while the client may wait.
func (h *holder) breakOff(call Call) {
	call.Die = true
	if h.c.Rand.IntN(2) == 0 {
		call.Pause = time.Duration(h.c.Rand.IntN(500)) * time.Millisecond
	}
	h.c.Do(call)
}

// linger holds the lock so long that others certainly wait for it.
func (h *holder) linger() {
	for range 4 + h.c.Rand.IntN(6) {
		if !h.renewFence() {
			return
		}
		h.c.Sleep(time.Duration(h.c.Rand.IntN(600)) * time.Millisecond)
	}
}

// takeAll takes each lock of the run with all its permits, and releases it: the former holders have lost it, or lose it
// soon.
func (s *shortLived) takeAll(env *Env, c *Client, mode string, permits int64) {
	for _, key := range s.all(c) {
		var held []*holder
		for range permits {
			h := visitor(env, c, key)
			h.mode, h.ms = mode, waitMax
			if holds(c.Do(h.asking("enter", waitMax))) {
				held = append(held, h)
			}
		}
		for _, h := range held {
			h.unlock()
		}
	}
}
