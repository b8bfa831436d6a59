package request

import (
	"context"
	"sync"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
)

// op is a request, or a change of the roster, on its way into the log.
type op struct {
	ctx    context.Context // of the waiting client; nil: another node forwarded the request
	until  time.Time       // when that node stops waiting; zero: never
	req    resp.Request
	origin record.Origin // of req
	term   uint64        // the only term in which it may be logged; 0: any
	change *membership.Change
	size   int  // upper bound of its bytes in an entry, its origin aside
	dryRun bool // a write that would have changed nothing when it arrived
	// joins is the monotonic time until which it only joins the entry of others; 0: it needs none. It asks for a lock
	// that was taken when it arrived.
	joins time.Duration
	// done is called exactly once, from any goroutine; it does not block. The result
	// counts if the outcome is peer.Done.
	done func(peer.Outcome, resp.Result)
}

// abandoned reports whether nobody waits for the answer any more. Such an op is not proposed: it
// could take a lock for a client that is gone.
func (o *op) abandoned() bool {
	return o.ctx != nil && o.ctx.Err() != nil || !o.until.IsZero() && clock.Since(o.until) >= 0
}

// opQueue holds the ops that wait for an entry, or for a round of questions.
type opQueue struct {
	wake chan struct{} // capacity 1: something that taking ops depends on has changed

	mu      sync.Mutex
	waiting []*op
	joining int // of them, those that only join the entry of others
	bytes   int // of the waiting ops
	closed  bool
}

// submit queues an op. Without room for it, it is answered as not done, and its sender tries again.
func (q *opQueue) submit(o *op) {
	q.mu.Lock()
	full := q.closed || q.bytes+o.size > queueBytesMax && len(q.waiting) > 0
	if !full {
		q.waiting = append(q.waiting, o)
		q.bytes += o.size
		if o.joins > 0 {
			q.joining++
		}
	}
	q.mu.Unlock()
	if full {
		o.done(peer.NotDone, resp.Result{})
		return
	}
	wake.Signal(q.wake)
}

// takeAll takes all waiting ops.
func (q *opQueue) takeAll() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(len(q.waiting), q.bytes)
}

// JoinMax bounds the time for which a LOCK that finds its lock taken waits for another op, whose entry it joins. Mostly
// the other op is the UNLOCK of the present holder. The client of this LOCK has just read the answer of the entry that
// granted the holder the lock, so an entry for the LOCK alone would delay that UNLOCK.
const JoinMax = time.Millisecond

// joinChecksMax bounds the joining ops that are tried again after an entry. Ops beyond it are logged at once.
const joinChecksMax = 64

// patience returns how much longer all waiting ops would rather join others; 0 if one of them would not. mu is held.
func (q *opQueue) patience(now time.Duration) time.Duration {
	if len(q.waiting) == 0 || q.joining < len(q.waiting) {
		return 0
	}
	return q.waiting[0].joins - now
}

// joiners returns the waiting ops that only join others.
func (q *opQueue) joiners() (ops []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.joining == 0 {
		return nil
	}
	for _, o := range q.waiting {
		if o.joins > 0 {
			ops = append(ops, o)
		}
	}
	return ops
}

// hurry calls unjoin for ops that may have been taken meanwhile.
func (q *opQueue) hurry(ops []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unjoin(ops)
}

// unjoin makes ops wait for others no longer. mu is held.
func (q *opQueue) unjoin(ops []*op) {
	for _, o := range ops {
		if o.joins > 0 {
			q.joining--
			o.joins = 0
		}
	}
}

// remove removes and returns the first ops. mu is held.
func (q *opQueue) remove(count, size int) []*op {
	ops := q.waiting[:count:count]
	q.waiting = q.waiting[count:]
	q.bytes -= size
	q.unjoin(ops)
	return ops
}

// refuse answers all waiting ops as not done.
func (q *opQueue) refuse() {
	for _, o := range q.takeAll() {
		o.done(peer.NotDone, resp.Result{})
	}
}

// close refuses the waiting ops, and all later ones.
func (q *opQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.refuse()
}

// batchDelay holds the next entry, or round of questions, back for a moment after one has ended.
// Its clients all come back at about the same time. Without the delay, the first would travel alone
// and the others in the next one, for ever: twice as many entries.
type batchDelay struct {
	share float64       // part of the clients seen last for which the delay waits
	part  time.Duration // divisor: the wait is at most this part of the last duration
	most  time.Duration // upper bound of the wait

	want  int           // expected ops
	until time.Duration // monotonic time at which the wait ends
	skip  int           // how often not to wait, because the clients did not come
}

// An entry costs three disk writes, so it pays to wait for nearly all clients. A round of questions
// is short: half of the clients do, and two rounds take turns.
var (
	entryDelay = batchDelay{share: 15. / 16, part: 2, most: 400 * time.Microsecond}
	roundDelay = batchDelay{share: 1. / 2, part: 1, most: 200 * time.Microsecond}
)

// delaySkips counts the entries or rounds that go without a wait after a wait in vain.
const delaySkips = 8

// batchDone starts a wait: ops requests have been answered after took, while others waited.
func (d *batchDelay) batchDone(ops, waiting int, took, now time.Duration) {
	d.want = int(float64(ops+waiting) * d.share)
	d.until = now + min(took/d.part, d.most)
	if d.skip > 0 {
		d.skip--
		d.want = 0
	}
}

// left returns how much longer to wait.
func (d *batchDelay) left(waiting int, now time.Duration) time.Duration {
	if waiting == 0 || waiting >= d.want {
		return 0
	}
	if now >= d.until {
		d.want, d.skip = 0, delaySkips
	}
	return d.until - now
}
