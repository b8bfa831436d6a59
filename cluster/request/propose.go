package request

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

// Proposer is the one door to the log. Writes of sessions and of other nodes wait in a queue. One
// goroutine takes all waiting writes, stamps them, and has Raft log them as one entry. While an entry is
// in flight the next one gathers, so all clients share the cost of a commit. The leader's disk is
// free again before the entry is committed; a second entry may follow then. All methods but Run may be called
// concurrently.
type Proposer struct {
	*Config
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

	Commits figures.Durations // of entries, from raft.Apply to the machine's answer

	// Of the goroutine that proposes:
	recalls recalls
	gathers bool // take has just decided that the next entry waits for more requests
}

func newProposer(c *Config) *Proposer {
	p := &Proposer{Config: c, opQueue: opQueue{wake: c.Due}, delay: entryDelay}
	p.transfer = transferWatch{Config: c, transferring: p.transferring}
	return p
}

// Change logs a change of the roster, and waits for it.
func (p *Proposer) Change(ctx context.Context, c membership.Change) peer.Outcome {
	ch := make(chan peer.Outcome, 1)
	size := len(membership.AppendChange(nil, c))
	p.submit(&op{change: &c, size: size, done: func(o peer.Outcome, _ resp.Result) { ch <- o }})
	select {
	case o := <-ch:
		return o
	case <-ctx.Done():
	case <-p.Stop:
	}
	return peer.Unknown
}

// Observe notes Raft's answer to a barrier, as to an entry, for the watch over transfers of leadership.
func (p *Proposer) Observe(err error) { p.transfer.observe(err) }

// Run proposes until the node stops.
func (p *Proposer) Run() {
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
		case <-p.Stop:
			p.close()
			return
		}
	}
}

// tickPause is the pause before the proposer ends an expired lease again after Raft refused the
// entry: no client waits for it, so nobody would wake the proposer.
const tickPause = 10 * time.Millisecond

// step proposes one entry and returns 0. If there is none to propose, it returns how long to sleep.
func (p *Proposer) step() time.Duration {
	lead := p.Lead.Load()
	if lead == nil { // this node does not lead
		p.refuse()
		return clock.IdleMax
	}
	ops, wait := p.take(lead)
	if p.gathers {
		_ = p.Faults.At(fault.Gather)
	}
	if wait == 0 {
		p.propose(lead, ops)
	}
	return wait
}

// take takes the ops of the next entry, or returns how long to wait for it. No ops and no wait is
// an entry without requests: a lease has expired and no other entry ends it, or it is the first
// entry of a term, which tells every node what is certainly not done. take reads the clock once, so
// that all its decisions agree.
func (p *Proposer) take(lead *clock.Leadership) (ops []*op, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Monotonic()
	p.gathers = false
	if p.isPaused(now) {
		return nil, p.pausedTill - now
	}
	if p.inFlight > 0 && !p.mayFollow() {
		return nil, clock.IdleMax
	}
	if p.inFlight == 0 {
		if wait := p.delay.left(len(p.waiting), now); wait > 0 {
			p.gathers = true
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
		due := lead.Until(p.State.Deadline.Load())
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
func (p *Proposer) mayFollow() bool {
	return p.inFlight < entriesInFlightMax && !p.storing && 2*(len(p.waiting)-p.joining) >= p.opsInFlight
}

// Stored notes that Raft has written to this node's log. The write may have been of another entry, one
// of Raft's own or of a former leader; the next entry is then proposed somewhat early.
func (p *Proposer) Stored() {
	p.mu.Lock()
	free := p.storing
	p.storing = false
	p.mu.Unlock()
	if free {
		wake.Signal(p.wake)
	}
}

// propose stamps ops and hands them to Raft.
func (p *Proposer) propose(lead *clock.Leadership, ops []*op) {
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
			o.done(peer.NotDone, resp.Result{})
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
		fl.complete(peer.NotDone, nil)
		return
	}
	e.Tick = lead.Tick() // as late as possible, so that time in the queue does not shorten a lease
	e.Wall = lead.Wall.Now()
	if d := p.State.Digest.Load(); d != nil {
		e.Checked, e.Digest = d.Index, d.Digest
	}
	fl.began = p.Clock.Monotonic()
	data := record.Append(make([]byte, 0, size), &e)
	if err := p.Faults.At(fault.Propose); err != nil {
		fl.complete(peer.NotDone, nil)
		return
	}
	f := p.Raft.Apply(data, EnqueueWaitMax) // THE ONLY raft.Apply IN THE TREE
	fl.timer = time.AfterFunc(CommitWaitMax, func() { fl.complete(peer.Unknown, nil) })
	go fl.await(f)
}

// refuseUnfit answers an op that must not be logged. A session has checked its commands already;
// this check is for requests from other nodes. One of those may know of a level that a leader hears of only with
// the first entry of its term.
func (p *Proposer) refuseUnfit(lead *clock.Leadership, o *op) bool {
	err := p.Commands.Fits(o.req)
	switch {
	case err == nil:
		return false
	case !p.hasOpened(lead):
		o.done(peer.NotDone, resp.Result{})
	default:
		o.done(peer.Done, Fail(o.req, err.Error()))
	}
	return true
}

// hasOpened reports whether an entry of a term has been applied here, and all before it with it.
func (p *Proposer) hasOpened(lead *clock.Leadership) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened >= lead.Term
}

// flight is an entry that Raft has not finished.
type flight struct {
	p         *Proposer
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
	o := OutcomeOf(err)
	var results []resp.Result
	if o == peer.Done {
		o, results = appliedOutcome(f.Response(), len(fl.ops))
	}
	fl.timer.Stop()
	fl.complete(o, results)
}

// OutcomeOf translates an error of Raft into the outcome of the entry.
func OutcomeOf(err error) peer.Outcome {
	switch {
	case err == nil:
		return peer.Done
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return peer.NotDone
	}
	// Leadership lost, shut down, an error of the store: a majority may have logged the entry.
	return peer.Unknown
}

// appliedOutcome translates the machine's answer into the outcome of the entry's ops.
func appliedOutcome(response any, ops int) (peer.Outcome, []resp.Result) {
	a, ok := response.(*replica.Applied)
	switch {
	case !ok:
		return peer.Unknown, nil // the node has halted
	case a.Void:
		return peer.NotDone, nil
	case a.Results == nil:
		return peer.Done, make([]resp.Result, ops) // a change of the roster
	}
	return peer.Done, a.Results
}

// complete answers all ops of the entry. Only the first call has an effect.
func (fl *flight) complete(o peer.Outcome, results []resp.Result) {
	if fl.completed.Swap(true) {
		return
	}
	p, now := fl.p, fl.p.Clock.Monotonic()
	p.mu.Lock()
	p.inFlight--
	p.opsInFlight -= fl.took
	if o == peer.Done {
		p.opened = max(p.opened, fl.term)
	}
	if fl.took == 0 && o != peer.Done {
		p.refused = now
	}
	if p.inFlight == 0 {
		p.storing = false
		p.delay.batchDone(fl.took, len(p.waiting), now-fl.began, now)
	}
	p.mu.Unlock()
	if o == peer.Done {
		p.Commits.Add(now - fl.began)
	}
	for i, op := range fl.ops {
		if o == peer.Done {
			op.done(o, results[i])
		} else {
			op.done(o, resp.Result{})
		}
	}
	p.recheckJoiners()
	wake.Signal(p.wake)
}

// findsTaken reports whether a LOCK would wait in the present state. The log decides, and may decide otherwise.
func (p *Proposer) findsTaken(o *op) bool {
	lead := p.Lead.Load()
	if lead == nil {
		return false
	}
	res, ok := p.State.DryRun(lead, 0, resp.Request{Cmds: o.req.Cmds, User: o.req.User})
	return ok && res.Replies[0].Kind == resp.KindNil
}

// recheckJoiners finds the joining ops whose locks are free by now, and has them logged.
func (p *Proposer) recheckJoiners() {
	var free []*op
	for i, o := range p.joiners() {
		if i >= joinChecksMax || !p.findsTaken(o) {
			free = append(free, o)
		}
	}
	p.hurry(free)
}

// Busy reports whether an entry is in flight.
func (p *Proposer) Busy() bool { return p.entries() > 0 }

// Ops returns how many requests wait for an entry, or are in one that is in flight.
func (p *Proposer) Ops() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opsInFlight + len(p.waiting)
}

// entries returns how many entries are in flight.
func (p *Proposer) entries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight
}

// Pause stops proposing and waits until no entry is in flight, so that leadership can move without
// leaving a request in doubt. It reports whether none was left before ctx ended. The caller calls Resume in
// either case.
func (p *Proposer) Pause(ctx context.Context) bool {
	p.mu.Lock()
	p.paused++
	p.pausedTill = p.Clock.Monotonic() + PauseMax
	p.mu.Unlock()
	return wake.Poll(ctx, func() bool { return !p.Busy() })
}

// PauseMax bounds a pause: a hand-over that hangs must not stop all writes.
const PauseMax = 10 * time.Second

// isPaused reports whether nothing may be proposed at a monotonic time. mu is held.
func (p *Proposer) isPaused(now time.Duration) bool { return p.paused > 0 && now < p.pausedTill }

// transferring reports whether leadership is being handed over.
func (p *Proposer) transferring() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isPaused(p.Clock.Monotonic())
}

// Resume ends a pause.
func (p *Proposer) Resume() {
	p.mu.Lock()
	p.paused--
	p.mu.Unlock()
	wake.Signal(p.wake)
}

// transferWatch ends the process if Raft refuses entries because of a leadership transfer that is
// not happening. If the chosen member hangs, Raft may never end the transfer, not even in a later
// term: it leads and takes no entries.
type transferWatch struct {
	*Config
	transferring func() bool // a transfer is under way

	mu       sync.Mutex
	refusals int           // consecutive refusals, at most one per transferRefusalEvery
	last     time.Duration // monotonic time of the last one counted
}

// Raft's own part of a transfer ends within two election timeouts, one of them that of the message to
// the successor. The watch counts refusals instead of measuring time, because any amount
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
	now := w.Clock.Monotonic()
	w.mu.Lock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress) || w.transferring():
		w.refusals = 0
	case w.refusals == 0 || now-w.last >= transferRefusalEvery:
		w.refusals++
		w.last = now
	}
	stuck := w.refusals >= transferRefusalsMax
	w.mu.Unlock()
	if stuck {
		w.Fatal(errTransferStuck)
	}
}
