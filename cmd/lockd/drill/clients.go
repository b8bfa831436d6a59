package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockd/internal/client"
	"lockd/resp"
)

// The keys of a drill.
const (
	lockKey    = "drill:lock"
	counterKey = "drill:counter"
)

const (
	writeEvery = 2 * time.Millisecond   // pause of the writer between two writes
	askEvery   = 100 * time.Millisecond // and of the rival between two tries
	writeMax   = 10 * time.Second       // how long a write may take before it is in doubt
)

// renewEvery returns the interval at which a lock with this lease is renewed.
func renewEvery(lease time.Duration) time.Duration { return min(lease/10, time.Second) }

// work runs the clients of a drill.
type work struct {
	calm   time.Duration // of rest
	holder *holder
	rival  *rival
	writer *writer

	stopping chan struct{}
	stopOnce sync.Once
	running  sync.WaitGroup

	mu    sync.Mutex
	first error // what went wrong first
}

func newWork(c *nodes, lease, calm time.Duration) *work {
	px := strconv.FormatInt(lease.Milliseconds(), 10)
	h := &holder{cluster: c.client("lockd-drill-holder"), token: rand.Text(), px: px, lease: lease}
	return &work{
		calm: calm, stopping: make(chan struct{}), holder: h,
		rival:  &rival{cluster: c.client("lockd-drill-rival"), token: rand.Text(), px: px, holder: h},
		writer: &writer{cluster: c.client("lockd-drill-writer")},
	}
}

func (w *work) start(ctx context.Context) {
	for _, task := range []struct {
		every time.Duration
		do    func(context.Context) error
		close func()
	}{
		{renewEvery(w.holder.lease), w.holder.renew, w.holder.cluster.Close},
		{askEvery, w.rival.ask, w.rival.cluster.Close},
		{writeEvery, w.writer.write, w.writer.close},
	} {
		w.running.Go(func() {
			defer task.close()
			w.repeat(ctx, task.every, task.do)
		})
	}
}

// repeat does something again and again until the work is stopped.
func (w *work) repeat(ctx context.Context, every time.Duration, do func(context.Context) error) {
	for {
		if err := do(ctx); err != nil {
			w.mu.Lock()
			if w.first == nil {
				w.first = err
			}
			w.mu.Unlock()
			return
		}
		select {
		case <-time.After(every):
		case <-w.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stop waits until all clients have the answers that they wait for.
func (w *work) stop() {
	w.stopOnce.Do(func() { close(w.stopping) })
	w.running.Wait()
}

// trouble returns the first error, if any.
func (w *work) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

// rest lets the clients work for a while.
func (w *work) rest(ctx context.Context) error {
	select {
	case <-time.After(w.calm):
		return w.trouble()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitWrites waits for writes that are acknowledged from now on.
func (w *work) awaitWrites(ctx context.Context, c *nodes) error {
	before := w.writer.sofar().acked
	return c.await(ctx, "writes are acknowledged again", func(context.Context) error {
		if err := w.trouble(); err != nil {
			return err
		}
		if n := w.writer.sofar().acked - before; n < writesAfter {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
}

// holder holds the lock.
type holder struct {
	cluster *client.Cluster
	token   string
	px      string // its lease in milliseconds
	lease   time.Duration
	fence   int64
	renewed atomic.Int64
	until   atomic.Pointer[time.Time] // it is held until then at least, by this machine's clock
}

// take takes the lock.
func (h *holder) take(ctx context.Context) error {
	until := time.Now().Add(h.lease)
	r, err := h.cluster.DoIdempotent(ctx, "LOCK", lockKey, h.token, "PX", h.px)
	if err != nil {
		return err
	}
	if r.Kind != resp.KindInt {
		return fmt.Errorf("LOCK was answered %q", r.Str)
	}
	h.fence = r.Int
	h.until.Store(&until)
	return nil
}

// renew renews the lease. A missing answer is no error: the lease goes on.
func (h *holder) renew(ctx context.Context) error {
	until := time.Now().Add(h.lease)
	r, err := h.cluster.DoIdempotent(ctx, "RENEW", lockKey, h.token, "PX", h.px)
	if err != nil {
		return nil // it is tried again
	}
	if err := h.checkReply(r); err != nil {
		return err
	}
	h.until.Store(&until)
	h.renewed.Add(1)
	return nil
}

// checkReply checks that a reply confirms that the client holds the lock.
func (h *holder) checkReply(r resp.Reply) error {
	switch {
	case r.IsNil():
		return h.lost("the lock is not held by its token any more")
	case r.Kind != resp.KindInt:
		return fmt.Errorf("the node answers %q, and no fence", r.Str)
	case r.Int != h.fence:
		return h.lost("the lock has the fence %d, and had %d", r.Int, h.fence)
	}
	return nil
}

// lost returns the error for a lock that another client holds. The nodes are not at fault if the lock could not be
// renewed in time.
func (h *holder) lost(format string, args ...any) error {
	if time.Now().Before(*h.until.Load()) {
		return broken(format, args...)
	}
	return fmt.Errorf("the lock was not renewed within its lease of %s, which says nothing of the promise: this machine "+
		"has too much other work; try a longer --lease", h.lease)
}

// confirm asks each running node who holds the lock.
func (h *holder) confirm(ctx context.Context, c *nodes) error {
	for _, n := range c.alive() {
		for _, question := range [][]string{{"FENCE", lockKey}, {"RENEW", lockKey, h.token, "PX", h.px}} {
			r, err := c.ask(ctx, n, question...)
			if err == nil {
				err = h.checkReply(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// rival wants the same lock.
type rival struct {
	cluster *client.Cluster
	token   string
	px      string
	holder  *holder
	asked   atomic.Int64
}

func (v *rival) ask(ctx context.Context) error {
	r, err := v.cluster.DoIdempotent(ctx, "LOCK", lockKey, v.token, "PX", v.px)
	switch {
	case err != nil:
		return nil // no node answers at present
	case r.Kind == resp.KindInt:
		return v.holder.lost("a rival was granted the lock, with the fence %d, while it was held", r.Int)
	case r.IsErr():
		return fmt.Errorf("LOCK was answered %q", r.Str)
	}
	v.asked.Add(1)
	return nil
}

// writer increments a counter, one request after the other.
type writer struct {
	cluster *client.Cluster
	conn    *client.Conn
	turn    int

	mu   sync.Mutex
	last time.Time // when a write was acknowledged
	counts
}

// counts are the outcomes of writes.
type counts struct {
	acked, doubtful int64
	there           int64         // what the counter says
	longest         time.Duration // between two acknowledgements, since mark
}

func (w *writer) sofar() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// mark starts the measurement of the longest time without an acknowledgement, which includes the time since the last
// one.
func (w *writer) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = 0
}

func (w *writer) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// write sends one write to one node, and never retries: an unknown outcome is counted as such.
func (w *writer) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeMax)
	defer cancel()
	if w.conn == nil {
		conn, err := w.cluster.Dial(ctx, w.cluster.Addrs[w.turn%len(w.cluster.Addrs)])
		if err != nil {
			w.turn++
			return nil // the next time the next node is asked
		}
		w.conn = conn
	}
	r, err := w.conn.Do(ctx, "INCR", counterKey)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && r.Kind == resp.KindInt:
		now := time.Now()
		if !w.last.IsZero() {
			w.longest = max(w.longest, now.Sub(w.last))
		}
		w.last, w.acked = now, w.acked+1
		return nil
	case err == nil && !client.Temporary(r.Str):
		return errors.New("INCR was answered " + strconv.Quote(r.Str))
	case err != nil || isUnknown(r):
		w.doubtful++
	}
	w.close()
	w.turn++
	return nil
}
