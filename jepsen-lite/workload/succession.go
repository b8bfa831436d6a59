package workload

import (
	"strconv"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
)

// successionWait bounds the wait of a succession's clients for a lock, if the work lasts so long.
const successionWait = 16 * time.Second

// Times of a succession in ms: of its leases, and how long it waits for something to happen to its clients' nodes.
const (
	successionHold  = 30_000
	successionLease = 8_000
	successionMin   = 500
	successionMax   = 9_000
	successionLater = 1_500
)

// askAgainOneIn is the mean number of successions among which the first waiter asks again in one, beside itself. That is
// judged without faults only, so a run has little time for it.
const askAgainOneIn = 2

// atOnceOneIn is the mean number of successions among which in one nothing passes between the end of the first waiter and
// the gift. If its node has died, the leader may not know that yet, and give to the dead.
const atOnceOneIn = 2

// hangUpOneIn is the mean number of successions among which the first waiter hangs up in one.
const hangUpOneIn = 4

// inLine is the time between the requests of two waiters, so that they stand in line in that order.
const inLine = 600 * time.Millisecond

// succession is two clients who wait, at other nodes, for something that a third client has and gives away: a lock, or
// elements of a list. Either the first waiter hangs up at about that moment (hangUpAt), or the third client waits until
// something may have happened to the first waiter's node (standInLine). The checker then knows which waiter must get
// it.
type succession struct {
	// the third client
	c *Client
	// in the order in which they wait
	waiters [2]*Client
	ended   [2]chan struct{} // by waiter: closed when it has its answer, or will get none
	again   func(c *Client)  // the first waiter asks once more, at another node, behind the second; nil: it does not
	all     sync.WaitGroup
}

// newSuccession makes two clients that are at other nodes than c and each other, if there are enough nodes.
func newSuccession(c *Client) *succession {
	w := &succession{c: c, ended: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}
	first := c.Rand.IntN(2)
	for i := range w.waiters {
		w.waiters[i] = NewClient(c.ctx, c.env, c.ID+c.attempt+1+(first+i)%2)
	}
	return w
}

// wait has a waiter do something, beside the others.
func (w *succession) wait(place int, do func(c *Client)) {
	w.all.Go(func() {
		c := w.waiters[place]
		defer close(w.ended[place])
		defer c.Close()
		do(c)
	})
}

// standInLine has both waiters wait, one behind the other. Then it waits until the first waiter has ended, as when its
// node has died, or for a random time, and mostly a little longer. When the work ends, it waits no more: nothing will
// happen any more.
func (w *succession) standInLine(do func(place int, c *Client)) {
	for place := range w.waiters {
		w.wait(place, func(c *Client) { do(place, c) })
		w.c.Sleep(inLine)
	}
	if w.again != nil {
		w.all.Go(func() {
			c := NewClient(w.c.ctx, w.c.env, w.waiters[0].ID+1)
			defer c.Close()
			w.again(c)
		})
		w.c.Sleep(2 * inLine)
		w.c.sure()
		return
	}
	w.until(w.ended[0], time.Duration(successionMin+w.c.Rand.IntN(successionMax-successionMin))*time.Millisecond)
	if w.c.Rand.IntN(atOnceOneIn) > 0 {
		w.until(nil, time.Duration(w.c.Rand.IntN(successionLater))*time.Millisecond)
	}
	w.c.sure()
}

// until waits until something has happened, but no longer than d and the work.
func (w *succession) until(happened <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-happened:
	case <-w.c.env.worked:
	case <-w.c.ctx.Done():
	}
}

// hangUpAt has the first waiter hang up at about the moment at which give is called, while the second one waits behind
// it.
func (w *succession) hangUpAt(do func(place int, c *Client, pause time.Duration), give func()) {
	moment := 2*inLine + time.Duration(w.c.Rand.IntN(200))*time.Millisecond
	began := time.Now()
	w.wait(0, func(c *Client) { do(0, c, moment) })
	w.c.Sleep(inLine)
	w.wait(1, func(c *Client) { do(1, c, 0) })
	w.c.sure()
	w.c.Sleep(time.Until(began.Add(moment + aside(w.c))))
	give()
}

// aside draws the time between two events that should coincide: within 3 ms mostly, or up to 60 ms.
func aside(c *Client) time.Duration {
	if c.Rand.IntN(3) == 0 {
		return time.Duration(c.Rand.IntN(60_000)) * time.Microsecond
	}
	return time.Duration(c.Rand.IntN(6_000)-3_000) * time.Microsecond
}

// passOn takes a lock that no other client asks for, has two clients wait for it, and releases it: after the node of
// the first waiter has died or was paused, at another time, or as the first waiter hangs up. modes has the modes of
// the three clients. If the first mode is a number, all permits are taken first, and one is released.
func passOn(c *Client, modes [3]string) {
	key := c.Key(model.SuccessionKey + itoa(c.env.Unique()))
	permits, _ := strconv.Atoi(modes[0])
	var held []*holder
	for range max(permits, 1) {
		h := &holder{c: c, key: key, token: "t" + itoa(c.env.Unique()), ms: successionHold, mode: modes[0], several: true}
		if !holds(c.Do(h.asking("try", 0))) {
			return
		}
		held = append(held, h)
	}
	w := newSuccession(c)
	tokens := [2]string{"t" + itoa(c.env.Unique()), "t" + itoa(c.env.Unique())}
	wait := func(place int, c *Client, hangUp time.Duration) {
		h := &holder{c: c, key: key, token: tokens[place], ms: successionLease, mode: modes[1+place], several: true}
		call := h.asking("enter", c.env.withinWork(successionWait).Milliseconds())
		call.HangUp, call.Pause = hangUp > 0, hangUp
		if holds(c.Do(call)) {
			h.unlock()
		}
	}
	if c.Rand.IntN(hangUpOneIn) == 0 {
		w.hangUpAt(wait, held[0].unlockSoon)
	} else {
		if c.Rand.IntN(askAgainOneIn) == 0 {
			w.again = func(c *Client) { wait(0, c, 0) }
		}
		w.standInLine(func(place int, c *Client) { wait(place, c, 0) })
		held[0].unlockSoon()
	}
	w.all.Wait()
}

// unlockSoon releases the lock until that is answered.
func (h *holder) unlockSoon() {
	for !h.unlock() && h.c.ctx.Err() == nil {
		h.c.Sleep(retryPause)
	}
}
