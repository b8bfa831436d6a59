package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
)

// attempts keeps the unanswered writes of this node's clients. When an answer is in doubt, the log
// shows what became of the write (DESIGN.md, "The in-doubt request"). All methods may be called
// concurrently.
type attempts struct {
	session uint64

	mu   sync.Mutex
	last uint64              // the last number given
	term uint64              // of the newest applied entry
	open map[uint64]*attempt // by number
}

// attemptsMax bounds the unanswered writes of this node's clients. A write beyond it is answered as
// not done, and tried again.
const attemptsMax = peer.CallsPendingMax

// attempt is one try to have a write logged.
type attempt struct {
	record.Origin
	term uint64 // the only term in which it may be logged

	// Guarded by attempts.mu.
	wake   context.CancelFunc // ends the wait for another node's answer
	alone  bool               // no answer will come: only the log can show the outcome
	missed bool               // a snapshot may have replaced its entry
	shown  chan struct{}      // closed once the log has shown the outcome; made by leave

	out answer // what the log has shown
}

func newAttempts() *attempts {
	a := &attempts{open: map[uint64]*attempt{}}
	for a.session == 0 {
		a.session = rand.Uint64()
	}
	return a
}

// begin registers an attempt that is bound to a term, or returns nil if the attempt must fail. wake
// is called when the log has shown the outcome.
func (r *attempts) begin(term uint64, wake context.CancelFunc) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if term < r.term || len(r.open) >= attemptsMax {
		return nil
	}
	r.last++
	a := &attempt{Origin: record.Origin{Session: r.session, Number: r.last}, term: term, wake: wake}
	r.open[a.Number] = a
	return a
}

// end drops an attempt: its client has the answer, or is gone.
func (r *attempts) end(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, a.Number)
}

// show completes an attempt. mu is held.
func (r *attempts) show(a *attempt, o outcome, res resp.Result) {
	delete(r.open, a.Number)
	a.out = answer{outcome: o, result: res}
	if a.shown != nil {
		close(a.shown)
	}
	a.wake()
}

// applied completes the attempts whose outcome follows from an entry. It is called once the entry's
// messages are delivered.
func (r *attempts) applied(term uint64, e *record.Entry, did *replica.Applied) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, from := range e.Origins {
		if from.Session != r.session {
			continue
		}
		a := r.open[from.Number]
		switch {
		case isRecall(e.Reqs[i]):
			if !did.Void {
				r.recalled(term, from.Number)
			}
		case a == nil:
		case did.Void:
			r.show(a, outcomeNotDone, resp.Result{})
		default:
			r.show(a, outcomeDone, did.Results[i])
		}
	}
	if term <= r.term {
		return
	}
	r.term = term
	for _, a := range r.open {
		if a.term < term {
			r.absent(a)
		}
	}
}

// recalled completes all attempts up to a number: the log no longer takes them in that term. mu is
// held.
func (r *attempts) recalled(term, number uint64) {
	for _, a := range r.open {
		if a.term == term && a.Number <= number {
			r.absent(a)
		}
	}
}

// absent completes an attempt that is not in the log and can no longer enter it. mu is held.
func (r *attempts) absent(a *attempt) {
	if a.missed {
		r.show(a, outcomeUnknown, resp.Result{})
	} else {
		r.show(a, outcomeNotDone, resp.Result{})
	}
}

// restored is called when a snapshot has replaced entries.
func (r *attempts) restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.open {
		if a.missed = true; a.alone {
			r.show(a, outcomeUnknown, resp.Result{})
		}
	}
}

// leave marks an attempt whose outcome only the log can show now. It returns false if a snapshot
// may have hidden that outcome.
func (r *attempts) leave(a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.alone, a.shown = true, make(chan struct{})
	known := r.open[a.Number] == nil
	if known {
		close(a.shown)
	}
	return known || !a.missed
}

// attemptWrite makes one attempt to have a write logged. It returns when the outcome is known, or
// has been in doubt for LeaderWait. doubted means that the outcome was in doubt until the log
// showed it.
func (r *router) attemptWrite(ctx context.Context, req resp.Request) (out answer, doubted bool) {
	var a *attempt
	if lead := r.lead.Load(); lead != nil {
		if a = r.attempts.begin(lead.Term, func() {}); a == nil {
			return answer{outcome: outcomeNotDone}, false
		}
		defer r.attempts.end(a)
		out = r.local(ctx, req, true, a)
	} else {
		addr, term, cancel, ok := r.leaderElsewhere(ctx)
		if !ok {
			return answer{outcome: outcomeNotDone}, false
		}
		defer cancel()
		if a = r.attempts.begin(r.raft.CurrentTerm(), cancel); a == nil {
			return answer{outcome: outcomeNotDone}, false
		}
		defer r.attempts.end(a)
		out = r.forward(term, addr, req, a)
		r.awaitDelivery(ctx, a, out)
	}
	if out.outcome != outcomeUnknown {
		return out, false
	}
	return r.resolve(ctx, a), true
}

// resolve waits until the log shows the outcome of an attempt. If nothing there has yet, it has the
// leader log a recall, which does.
func (r *router) resolve(ctx context.Context, a *attempt) answer {
	if !r.attempts.leave(a) {
		return answer{outcome: outcomeUnknown}
	}
	select {
	case <-a.shown:
		return a.out
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.recall(ctx, a)
	if r.awaitShown(ctx, a) {
		return a.out
	}
	return answer{outcome: outcomeUnknown}
}

// recall asks the leader to recall an attempt, and all attempts before it, until a recall is
// logged. It may be asked any number of times. In a later term it is not needed: the log will show
// the outcome.
func (r *router) recall(ctx context.Context, a *attempt) {
	for pause := wake.RetryMin; ctx.Err() == nil; pause = min(2*pause, wake.RetryMax) {
		changed := r.changed.Next()
		if r.raft.CurrentTerm() == a.term && r.attemptRecall(ctx, a) == outcomeDone {
			return
		}
		wake.Sleep(ctx, changed, pause)
	}
}

func (r *router) attemptRecall(ctx context.Context, a *attempt) outcome {
	if r.lead.Load() != nil {
		return r.local(ctx, resp.Request{}, true, a).outcome
	}
	addr, term, cancel, ok := r.leaderElsewhere(ctx)
	if !ok {
		return outcomeNotDone
	}
	defer cancel()
	return r.forward(term, addr, resp.Request{}, a).outcome
}

// awaitDelivery keeps back a leader's answer that has arrived before this node's clients have received the
// entry's messages, until they have, or for LeaderWait. A client that is told of a change before it
// has the reply of its own write would take the change for somebody else's. If nobody subscribes
// here, nothing is held.
func (r *router) awaitDelivery(ctx context.Context, a *attempt, out answer) {
	early := func() bool { return out.result.Index > r.state.Delivered.Load() }
	if out.outcome != outcomeDone || !early() || !r.cfg.Publisher.Listening() {
		return
	}
	if r.attempts.leave(a); early() {
		r.awaitShown(ctx, a)
	}
}

// awaitShown waits up to LeaderWait for the log to show the outcome of an attempt that this node
// has left, and reports whether it has.
func (r *router) awaitShown(ctx context.Context, a *attempt) bool {
	t := time.NewTimer(r.cfg.LeaderWait)
	defer t.Stop()
	select {
	case <-a.shown:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-r.stop:
	}
	return false
}
