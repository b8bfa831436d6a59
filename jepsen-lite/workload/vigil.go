package workload

import (
	"strconv"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
)

// vigilWait is for how long clients of a vigil wait for a lock, while the work lasts so long.
const vigilWait = 16 * time.Second

// Times of a vigil, in ms: of the leases, and how long its clients wait at most for what may happen to their nodes.
const (
	vigilHold  = 30_000
	vigilLease = 8_000
	vigilMin   = 500
	vigilMax   = 9_000
	vigilLater = 1_500
)

// partOneIn is of how many watches in one the first waiter hangs up.
const partOneIn = 4

// inLine is for how long a client has asked before the next one does, so that they stand in line in that order.
const inLine = 600 * time.Millisecond

// watch is two clients who wait at other nodes for what a third one has.
type watch struct {
	c       *Client
	waiters [2]*Client
	ended   [2]chan struct{} // when the waiter of that place has its answer, or none
	all     sync.WaitGroup
}

// newWatch makes two clients that are not at the node of c, nor both at one, if there are nodes enough.
func newWatch(c *Client) *watch {
	w := &watch{c: c, ended: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}
	first := c.Rand.IntN(2)
	for i := range w.waiters {
		w.waiters[i] = NewClient(c.ctx, c.env, c.ID+c.attempt+1+(first+i)%2)
	}
	return w
}

// wait has the waiter of a place do something, beside the others.
func (w *watch) wait(place int, do func(c *Client)) {
	w.all.Go(func() {
		c := w.waiters[place]
		defer close(w.ended[place])
		defer c.Close()
		do(c)
	})
}

// stand has both waiters wait, one behind the other. After that it keeps watch: until something has become of the first
// one, as its node has died, or for a while; and then a little longer. When the work ends, nothing will become of
// anybody any more.
func (w *watch) stand(do func(place int, c *Client)) {
	for place := range w.waiters {
		w.wait(place, func(c *Client) { do(place, c) })
		w.c.Sleep(inLine)
	}
	w.until(w.ended[0], time.Duration(vigilMin+w.c.Rand.IntN(vigilMax-vigilMin))*time.Millisecond)
	w.until(nil, time.Duration(w.c.Rand.IntN(vigilLater))*time.Millisecond)
	w.c.sure()
}

// until waits until something has happened, for a while at most, or to the end of the work.
func (w *watch) until(happened <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-happened:
	case <-w.c.env.worked:
	case <-w.c.ctx.Done():
	}
}

// part has the first waiter hang up at about the moment at which the third one gives away what it has, while the second
// one waits behind.
func (w *watch) part(do func(place int, c *Client, pause time.Duration), give func()) {
	moment := 2*inLine + time.Duration(w.c.Rand.IntN(200))*time.Millisecond
	began := time.Now()
	w.wait(0, func(c *Client) { do(0, c, moment) })
	w.c.Sleep(inLine)
	w.wait(1, func(c *Client) { do(1, c, 0) })
	w.c.sure()
	w.c.Sleep(time.Until(began.Add(moment + aside(w.c))))
	give()
}

// aside is by how much two things happen beside each other that are to happen at once: within 3 ms as a rule, or the
// second one up to 60 ms later.
func aside(c *Client) time.Duration {
	if c.Rand.IntN(3) == 0 {
		return time.Duration(c.Rand.IntN(60_000)) * time.Microsecond
	}
	return time.Duration(c.Rand.IntN(6_000)-3_000) * time.Microsecond
}

// vigil takes a lock that nobody else asks for, has two others wait for it, and releases it when the node of the first
// one has died, or was paused, or at another time, or as the first one hangs up. modes are those of the three; of a
// number all its permits are taken first, and one is released.
func vigil(c *Client, modes [3]string) {
	key := c.Key(model.VigilKey + itoa(c.env.Unique()))
	permits, _ := strconv.Atoi(modes[0])
	var held []*holder
	for range max(permits, 1) {
		h := &holder{c: c, key: key, token: "t" + itoa(c.env.Unique()), ms: vigilHold, mode: modes[0], several: true}
		if !holds(c.Do(h.asking("try", 0))) {
			return
		}
		held = append(held, h)
	}
	w := newWatch(c)
	wait := func(place int, c *Client, hangUp time.Duration) {
		h := &holder{c: c, key: key, token: "t" + itoa(c.env.Unique()), ms: vigilLease, mode: modes[1+place], several: true}
		call := h.asking("enter", c.env.withinWork(vigilWait).Milliseconds())
		call.HangUp, call.Pause = hangUp > 0, hangUp
		if holds(c.Do(call)) {
			h.unlock()
		}
	}
	if c.Rand.IntN(partOneIn) == 0 {
		w.part(wait, held[0].unlockSoon)
	} else {
		w.stand(func(place int, c *Client) { wait(place, c, 0) })
		held[0].unlockSoon()
	}
	w.all.Wait()
}

// unlockSoon releases the lock until that was answered, or cannot be.
func (h *holder) unlockSoon() {
	for !h.unlock() && h.c.ctx.Err() == nil {
		h.c.Sleep(retryPause)
	}
}
