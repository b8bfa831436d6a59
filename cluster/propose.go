package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
	"lockd/resp/fault"
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
	try    bool // a write that would have changed nothing when it arrived
	// joins is the monotonic time until which it only joins the entry of others; 0: it needs none. It asks for a lock
	// that was taken when it arrived.
	joins time.Duration
	// done is called exactly once, from any goroutine; it does not block. The result
	// counts if the outcome is outcomeDone.
	done func(outcome, resp.Result)
}

// abandoned reports whether nobody waits for the answer any more. Such an op is not proposed: it
// could take a lock for a client that is gone.
func (o *op) abandoned() bool {
	return o.ctx != nil && o.ctx.Err() != nil || !o.until.IsZero() && clock.Since(o.until) >= 0
}

// proposer is the one door to the log. Writes of sessions and of other nodes wait in a queue. One
// goroutine takes all that wait, stamps them, and has Raft log them as one entry. While an entry is
// in flight the next one gathers, so all clients share the cost of a commit. The leader's disk is
// free again before the entry is committed; a second entry may follow then.
type proposer struct {
	*core
	state    *replica.State
	commands *commands
	transfer transferWatch
	opQueue

	// Under the queue's lock:
	inFlight    int           // entries
	opsInFlight int           // ops in them
	storing     bool          // the newest of them is not on this node's disk yet
	paused      int           // hand-overs of leadership in progress: no entry is proposed
	pausedTill  time.Duration // monotonic time at which paused ends, whatever has become of them
	refused     time.Duration // monotonic time at which Raft refused an entry without ops
	opened      uint64        // newest term of which this leader has an applied entry
	delay       batchDelay

	commits figures.Durations // of entries, from raft.Apply to the machine's answer
	recalls recalls           // of the goroutine that proposes
}

func newProposer(c *core, s *replica.State, known *commands) *proposer {
	p := &proposer{core: c, state: s, commands: known, opQueue: opQueue{wake: c.wakeProposer}, delay: entryDelay}
	p.transfer = transferWatch{core: c, holding: p.holding}
	return p
}

// opQueue are ops that wait.
type opQueue struct {
	wake chan struct{} // capacity 1: something that taking ops depends on has changed

	mu      sync.Mutex
	waiting []*op
	joining int // those of them that only join the entry of others
	bytes   int // of those waiting
	closed  bool
}

// submit queues an op. One that there is no room for is answered as not done, and the caller tries again.
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
		o.done(outcomeNotDone, resp.Result{})
		return
	}
	wake.Signal(q.wake)
}

// takeAll takes all that wait.
func (q *opQueue) takeAll() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(len(q.waiting), q.bytes)
}

// joinMax is how long a LOCK that finds its lock taken waits for another op, whose entry it joins. Mostly
// that is the UNLOCK of the next holder, which has the lock since the entry whose answer the client of
// this LOCK has just read: in an entry of its own, the LOCK would be in the way of it.
const joinMax = time.Millisecond

// joinChecksMax bounds the ops that are looked at again after an entry; others are logged at once.
const joinChecksMax = 64

// patience is how much longer all ops that wait would rather join others. mu is held.
func (q *opQueue) patience(now time.Duration) time.Duration {
	if len(q.waiting) == 0 || q.joining < len(q.waiting) {
		return 0
	}
	return q.waiting[0].joins - now
}

// joiners are the ops that only join others.
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

// hurry is unjoin for ops that may have been taken meanwhile.
func (q *opQueue) hurry(ops []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unjoin(ops)
}

// unjoin has ops no longer join others. mu is held.
func (q *opQueue) unjoin(ops []*op) {
	for _, o := range ops {
		if o.joins > 0 {
			q.joining--
			o.joins = 0
		}
	}
}

// remove removes the first ops. mu is held.
func (q *opQueue) remove(count, size int) []*op {
	ops := q.waiting[:count:count]
	q.waiting = q.waiting[count:]
	q.bytes -= size
	q.unjoin(ops)
	return ops
}

// refuse answers all that wait as not done.
func (q *opQueue) refuse() {
	for _, o := range q.takeAll() {
		o.done(outcomeNotDone, resp.Result{})
	}
}

// close refuses all that wait and all that come.
func (q *opQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.refuse()
}

// run proposes until the node stops.
func (p *proposer) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := p.step()
		for wait == 0 {
			wait = p.step()
		}
		timer.Reset(wait)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.stop:
			p.close()
			return
		}
	}
}

// tickPause is the pause before the proposer ends an expired lease again after Raft refused the
// entry: no client waits for it, so nobody would wake the proposer.
const tickPause = 10 * time.Millisecond

// step proposes one entry and returns 0. If there is none to propose, it returns how long to sleep.
func (p *proposer) step() time.Duration {
	lead := p.lead.Load()
	if lead == nil { // this node does not lead
		p.refuse()
		return clock.IdleMax
	}
	ops, wait := p.take(lead)
	if wait == 0 {
		p.propose(lead, ops)
	}
	return wait
}

// take takes the ops of the next entry, or returns how long to wait for it. No ops and no wait is
// an entry without requests: a lease has expired and no other entry ends it, or it is the first
// entry of a term, which tells every node what is certainly not done. take reads the clock once, so
// that all its decisions agree.
func (p *proposer) take(lead *clock.Leadership) (ops []*op, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Monotonic()
	if p.isPaused(now) {
		return nil, p.pausedTill - now
	}
	if p.inFlight > 0 && !p.mayFollow() {
		return nil, clock.IdleMax
	}
	if p.inFlight == 0 {
		if wait := p.delay.left(len(p.waiting), now); wait > 0 {
			_ = fault.At(fault.Gather)
			return nil, wait
		}
	}
	if wait := p.patience(now); wait > 0 {
		return nil, wait
	}
	count, size := 0, 0
	for count < len(p.waiting) && count < record.BatchRequestsMax {
		o := p.waiting[count]
		alone := o.change != nil || count > 0 && p.waiting[count-1].change != nil
		if count > 0 && (alone || size+o.size > record.BatchBytesMax) {
			break
		}
		size += o.size
		count++
	}
	if count == 0 && p.inFlight > 0 {
		return nil, clock.IdleMax
	}
	if count == 0 {
		due := lead.Until(p.state.Deadline.Load())
		if p.opened < lead.Term {
			due = 0
		}
		if wait := max(due, p.refused+tickPause-now); wait > 0 {
			return nil, max(wait, time.Millisecond)
		}
	}
	ops = p.remove(count, size)
	p.inFlight++
	p.opsInFlight += len(ops)
	p.storing = true
	return ops, 0
}

// mayFollow reports whether an entry may follow those in flight. It waits until the disk is free,
// so that ops which arrive meanwhile still join the entry. And it waits for about as many ops as
// are in flight, since each entry costs the same. mu is held.
func (p *proposer) mayFollow() bool {
	return p.inFlight < entriesInFlightMax && !p.storing && 2*(len(p.waiting)-p.joining) >= p.opsInFlight
}

// stored is called when Raft has written to this node's log. The write may have been another one,
// of Raft's own entry or a former leader's; the next entry is then proposed somewhat early.
func (p *proposer) stored() {
	p.mu.Lock()
	free := p.storing
	p.storing = false
	p.mu.Unlock()
	if free {
		wake.Signal(p.wake)
	}
}

// propose stamps ops and hands them to Raft.
func (p *proposer) propose(lead *clock.Leadership, ops []*op) {
	e := record.Entry{
		Kind: record.Batch, Term: lead.Term,
		Reqs: make([]resp.Request, 0, len(ops)), Origins: make([]record.Origin, 0, len(ops)),
	}
	fl := &flight{p: p, term: lead.Term, took: len(ops), ops: ops[:0]}
	size := record.HeaderMax
	for _, o := range ops {
		switch {
		case o.abandoned(), !lead.Takes(o.term), p.recalls.refuses(lead.Term, o):
			// It may have been queued in an earlier term, or its node's connection may have ended since.
			o.done(outcomeNotDone, resp.Result{})
			continue
		case o.change == nil && p.refuseUnfit(lead, o):
			continue
		case o.change != nil:
			e.Kind, e.Change = record.Roster, *o.change
		default:
			e.Reqs, e.Origins = append(e.Reqs, o.req), append(e.Origins, o.origin)
		}
		fl.ops = append(fl.ops, o)
		size += o.size + record.OriginBytes
	}
	if len(fl.ops) == 0 && len(ops) > 0 {
		fl.complete(outcomeNotDone, nil)
		return
	}
	e.Tick = lead.Tick() // as late as possible, so that time in the queue does not shorten a lease
	e.Wall = lead.Wall.Now()
	if d := p.state.Digest.Load(); d != nil {
		e.Checked, e.Digest = d.Index, d.Digest
	}
	fl.began = p.clock.Monotonic()
	data := record.Append(make([]byte, 0, size), &e)
	if err := fault.At(fault.Propose); err != nil {
		fl.complete(outcomeNotDone, nil)
		return
	}
	f := p.raft.Apply(data, enqueueWaitMax) // THE ONLY raft.Apply IN THE TREE
	fl.timer = time.AfterFunc(commitWaitMax, func() { fl.complete(outcomeUnknown, nil) })
	go fl.await(f)
}

// refuseUnfit answers an op that must not be logged. A session has checked its commands already;
// this check is for requests from other nodes. One of those may know of a level that a leader hears of only with
// the first entry of its term.
func (p *proposer) refuseUnfit(lead *clock.Leadership, o *op) bool {
	err := p.commands.fits(o.req)
	switch {
	case err == nil:
		return false
	case !p.hasOpened(lead):
		o.done(outcomeNotDone, resp.Result{})
	default:
		o.done(outcomeDone, fail(o.req, err.Error()))
	}
	return true
}

// hasOpened reports whether an entry of a term has been applied here, and all before it with it.
func (p *proposer) hasOpened(lead *clock.Leadership) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened >= lead.Term
}

// flight is an entry that Raft has not finished.
type flight struct {
	p         *proposer
	term      uint64
	took      int   // ops that take returned for it
	ops       []*op // those of them that were logged
	began     time.Duration
	timer     *time.Timer
	completed atomic.Bool
}

// await waits for the outcome of an entry. After Raft has shut down, a future may never answer; the
// timer completes the flight then.
func (fl *flight) await(f raft.ApplyFuture) {
	err := f.Error()
	fl.p.transfer.observe(err)
	o := outcomeOf(err)
	var results []resp.Result
	if o == outcomeDone {
		o, results = appliedOutcome(f.Response(), len(fl.ops))
	}
	fl.timer.Stop()
	fl.complete(o, results)
}

// outcome is how a request ended (law 6), in the words in which nodes tell each other.
type outcome = peer.Outcome

const (
	outcomeDone    = peer.Done
	outcomeNotDone = peer.NotDone
	outcomeUnknown = peer.Unknown
)

// outcomeOf translates an error of Raft into the outcome of the entry.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return outcomeNotDone
	}
	// Leadership lost, shut down, an error of the store: a majority may have logged the entry.
	return outcomeUnknown
}

// appliedOutcome translates the machine's answer into the outcome of the entry's ops.
func appliedOutcome(response any, ops int) (outcome, []resp.Result) {
	a, ok := response.(*replica.Applied)
	switch {
	case !ok:
		return outcomeUnknown, nil // the node has halted
	case a.Void:
		return outcomeNotDone, nil
	case a.Results == nil:
		return outcomeDone, make([]resp.Result, ops) // a change of the roster
	}
	return outcomeDone, a.Results
}

// complete answers all ops of the entry. Only the first call has an effect.
func (fl *flight) complete(o outcome, results []resp.Result) {
	if fl.completed.Swap(true) {
		return
	}
	p, now := fl.p, fl.p.clock.Monotonic()
	p.mu.Lock()
	p.inFlight--
	p.opsInFlight -= fl.took
	if o == outcomeDone {
		p.opened = max(p.opened, fl.term)
	}
	if fl.took == 0 && o != outcomeDone {
		p.refused = now
	}
	if p.inFlight == 0 {
		p.storing = false
		p.delay.batchDone(fl.took, len(p.waiting), now-fl.began, now)
	}
	p.mu.Unlock()
	if o == outcomeDone {
		p.commits.Add(now - fl.began)
	}
	for i, op := range fl.ops {
		if o == outcomeDone {
			op.done(o, results[i])
		} else {
			op.done(o, resp.Result{})
		}
	}
	p.recheckJoiners()
	wake.Signal(p.wake)
}

// findsTaken reports whether a LOCK would wait in the present state. It need not come so: the log decides.
func (p *proposer) findsTaken(o *op) bool {
	lead := p.lead.Load()
	if lead == nil {
		return false
	}
	res, ok := p.state.DryRun(lead, 0, resp.Request{Cmds: o.req.Cmds, User: o.req.User})
	return ok && res.Replies[0].Kind == resp.KindNil
}

// recheckJoiners finds the ops whose locks are free by now: those join nobody any more.
func (p *proposer) recheckJoiners() {
	var free []*op
	for i, o := range p.joiners() {
		if i >= joinChecksMax || !p.findsTaken(o) {
			free = append(free, o)
		}
	}
	p.hurry(free)
}

// busy reports whether an entry is in flight.
func (p *proposer) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight > 0
}

// pause stops proposing and waits until no entry is in flight, so that leadership can move without
// leaving a request in doubt. It reports whether that worked. In either case the caller must call
// release.
func (p *proposer) pause(ctx context.Context) bool {
	p.mu.Lock()
	p.paused++
	p.pausedTill = p.clock.Monotonic() + pauseMax
	p.mu.Unlock()
	return wake.Poll(ctx, func() bool { return !p.busy() })
}

// pauseMax bounds a pause. A hand-over ends before (handOverMax); one that hangs must not stop all writes.
const pauseMax = 2 * handOverMax

// isPaused reports whether nothing may be proposed at a monotonic time. mu is held.
func (p *proposer) isPaused(now time.Duration) bool { return p.paused > 0 && now < p.pausedTill }

// holding reports whether leadership is being handed over.
func (p *proposer) holding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isPaused(p.clock.Monotonic())
}

func (p *proposer) release() {
	p.mu.Lock()
	p.paused--
	p.mu.Unlock()
	wake.Signal(p.wake)
}

// transferWatch ends the process if Raft refuses entries because of a leadership transfer that is
// not happening. If the chosen member hangs, Raft may never end the transfer, not even in a later
// term: it leads and takes no entries.
type transferWatch struct {
	*core
	holding func() bool // a transfer is under way

	mu       sync.Mutex
	refusals int           // consecutive refusals, at most one per transferRefusalEvery
	last     time.Duration // monotonic time of the last one counted
}

// Raft's own part of a transfer ends within two election timeouts, one of them that of the message to
// the successor (transport.TimeoutNow). The watch counts refusals instead of measuring time, because any amount
// of time may pass while a process is stopped.
const (
	transferRefusalEvery = 100 * time.Millisecond // one refusal per this time counts
	transferRefusalsMax  = 100
)

var errTransferStuck = fmt.Errorf("raft has refused every write for %s because leadership is being transferred, and "+
	"it is not: this node stops so that another can lead",
	transferRefusalsMax*transferRefusalEvery)

// observe records Raft's answer to an entry.
func (w *transferWatch) observe(err error) {
	now := w.clock.Monotonic()
	w.mu.Lock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress) || w.holding():
		w.refusals = 0
	case w.refusals == 0 || now-w.last >= transferRefusalEvery:
		w.refusals++
		w.last = now
	}
	stuck := w.refusals >= transferRefusalsMax
	w.mu.Unlock()
	if stuck {
		w.fatal(errTransferStuck)
	}
}

// batchDelay holds the next entry, or round of questions, back for a moment after one has ended.
// Its clients all come back at about the same time. Without the delay, the first would travel alone
// and the others in the next one, for ever: twice as many entries.
type batchDelay struct {
	share float64       // of the clients seen last; the delay waits for these
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

// delaySkips is how many entries or rounds go without a wait after a wait in vain.
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

// left is how much longer to wait.
func (d *batchDelay) left(waiting int, now time.Duration) time.Duration {
	if waiting == 0 || waiting >= d.want {
		return 0
	}
	if now >= d.until {
		d.want, d.skip = 0, delaySkips
	}
	return d.until - now
}
