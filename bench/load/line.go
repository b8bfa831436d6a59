package load

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// sharedLock is the single lock of workload line, as seen by its clients. All of them are in this process, so it
// records when one releases the lock and when the next one has it.
type sharedLock struct {
	polls bool // the target knows no LOCK

	mu     sync.Mutex
	holder int       // client that holds the lock, or nobody
	last   int       // client that held it before, or nobody
	sent   time.Time // when that one sent its release
	fence  int64     // the last one, where LOCK answers it
}

// nobody stands for no client.
const nobody = -1

func newSharedLock(polls bool) *sharedLock {
	return &sharedLock{polls: polls, holder: nobody, last: nobody}
}

// taken records that a client has the lock from now on, and returns the time that the lock took to come from another
// client; 0: it came from none.
func (l *sharedLock) taken(id int, fence int64, now time.Time) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nobody {
		return 0, fmt.Errorf("client %d was granted the lock that client %d holds", id, l.holder)
	}
	if !l.polls && fence <= l.fence {
		return 0, fmt.Errorf("client %d was granted the lock with fence %d after fence %d", id, fence, l.fence)
	}
	l.holder, l.fence = id, fence
	if l.last == nobody || l.last == id {
		return 0, nil
	}
	return now.Sub(l.sent), nil
}

// freeing records that the holder sends its release now.
func (l *sharedLock) freeing(id int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.last, l.sent = nobody, id, now
}

// lineLock is the number of the lock that all clients of line want, which lockOf gives to no client.
const lineLock = contendedLock - 1

// openLine frees the lock, which a measurement that was cut off may have left, and asks whether the target knows LOCK.
func openLine(c *conn, p *plan) error {
	if _, err := c.ask("DEL", lockKey(lineLock)); err != nil {
		return err
	}
	c.command("LOCK", 1)
	c.limit(answerMax)
	defer c.limit(0)
	if err := c.send(); err != nil {
		return err
	}
	r, err := c.expect("LOCK without arguments", '-')
	p.shared = newSharedLock(bytes.HasPrefix(r.text, []byte("ERR unknown command")))
	return err
}

// redisLine waits for the one lock of all, and hands it on.
func redisLine(c *redisClient) error {
	take := c.lockWaiting
	if c.shared.polls {
		take = c.lockPolling
	}
	if err := take(); err != nil {
		return err
	}
	if c.shared.polls {
		c.appendRelease(lineLock)
	} else {
		c.command("UNLOCK", 3)
		c.argKey(lockPrefix, lineLock)
		c.arg(c.token)
	}
	c.shared.freeing(c.id, time.Now())
	return c.settleInts("the release of its holder's lock", 1)
}

// lockWaiting takes the lock in this client's turn. It waits for up to a lease, the longest possible wait.
func (c *redisClient) lockWaiting() error {
	c.command("LOCK", 7)
	c.argKey(lockPrefix, lineLock)
	c.arg(c.token)
	c.arg("PX")
	c.argInt(leaseMs)
	c.arg("WAIT")
	c.argInt(leaseMs)
	if err := c.exchange(true); err != nil {
		return err
	}
	r, err := c.expect("LOCK WAIT", ':')
	if err == nil {
		c.handed, err = c.shared.taken(c.id, r.n, time.Now())
	}
	if err != nil {
		return err
	}
	return c.waited()
}

// lockPolling asks for the lock until it is free.
func (c *redisClient) lockPolling() error {
	for {
		c.appendAcquire(lineLock)
		if err := c.exchange(true); err != nil {
			return err
		}
		r, err := c.read()
		got := err == nil && r.kind == '+' && string(r.text) == "OK"
		switch {
		case got:
			c.handed, err = c.shared.taken(c.id, 0, time.Now())
		case err == nil && !r.null:
			err = c.wrong("SET NX PX", r)
		}
		if err == nil {
			err = c.waited()
		}
		if err != nil || got {
			return err
		}
	}
}

// setPart is the share of a measurement's length in which SET is measured as well.
const setPart = 4

// medianOfSet returns the median time of a SET, in microseconds, on an otherwise idle target, at each of its servers
// in turn.
func medianOfSet(ctx context.Context, d driver, p *plan, length time.Duration) (float64, error) {
	w, err := findWorkload("set")
	if err != nil {
		return 0, err
	}
	alone := *p
	alone.inTurn, alone.shared = true, nil
	s, err := measure(ctx, d, w, &alone, length)
	return s.P50, err
}

// inTurn runs several clients, one of which at a time does a step.
type inTurn struct {
	clients []client
	turn    int
}

func (t *inTurn) step() error {
	t.turn++
	return t.clients[t.turn%len(t.clients)].step()
}

func (t *inTurn) handOver() time.Duration { return 0 }

func (t *inTurn) interrupt() {
	for _, c := range t.clients {
		c.interrupt()
	}
}

func (t *inTurn) patience(d time.Duration) {
	for _, c := range t.clients {
		c.patience(d)
	}
}

func (t *inTurn) finish() {
	for _, c := range t.clients {
		c.finish()
	}
}
