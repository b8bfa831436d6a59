package request

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

// Attempts keeps the unanswered writes of this node's clients. When an answer is in doubt, the log
// shows what became of the write ("The in-doubt request" in DESIGN.md of package cluster). All methods may be called
// concurrently.
type Attempts struct {
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

	out peer.Answer // what the log has shown
}

func newAttempts() *Attempts {
	a := &Attempts{open: map[uint64]*attempt{}}
	for a.session == 0 {
		a.session = rand.Uint64()
	}
	return a
}

// begin registers an attempt that is bound to a term, or returns nil if the attempt must fail. wake
// is called when the log has shown the outcome.
func (r *Attempts) begin(term uint64, wake context.CancelFunc) *attempt {
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
func (r *Attempts) end(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, a.Number)
}

// Open returns how many attempts have no outcome yet.
func (r *Attempts) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// show completes an attempt. mu is held.
func (r *Attempts) show(a *attempt, o peer.Outcome, res resp.Result) {
	delete(r.open, a.Number)
	a.out = peer.Answer{Outcome: o, Result: res}
	if a.shown != nil {
		close(a.shown)
	}
	a.wake()
}

// Applied completes the attempts whose outcome follows from an entry. The entry's messages have been
// delivered before.
func (r *Attempts) Applied(term uint64, e *record.Entry, did *replica.Applied) {
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
			r.show(a, peer.NotDone, resp.Result{})
		default:
			r.show(a, peer.Done, did.Results[i])
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
func (r *Attempts) recalled(term, number uint64) {
	for _, a := range r.open {
		if a.term == term && a.Number <= number {
			r.absent(a)
		}
	}
}

// absent completes an attempt that is not in the log and can no longer enter it. mu is held.
func (r *Attempts) absent(a *attempt) {
	if a.missed {
		r.show(a, peer.Unknown, resp.Result{})
	} else {
		r.show(a, peer.NotDone, resp.Result{})
	}
}

// Restored notes that a snapshot has replaced entries.
func (r *Attempts) Restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.open {
		if a.missed = true; a.alone {
			r.show(a, peer.Unknown, resp.Result{})
		}
	}
}

// leave marks an attempt whose outcome only the log can show now. It returns false if a snapshot
// may have hidden that outcome.
func (r *Attempts) leave(a *attempt) bool {
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
func (r *Router) attemptWrite(ctx context.Context, req resp.Request) (out peer.Answer, doubted bool) {
	var a *attempt
	if lead := r.Lead.Load(); lead != nil {
		if a = r.Attempts.begin(lead.Term, func() {}); a == nil {
			return peer.Answer{Outcome: peer.NotDone}, false
		}
		defer r.Attempts.end(a)
		out = r.local(ctx, req, true, a)
	} else {
		addr, term, cancel, ok := r.leaderElsewhere(ctx)
		if !ok {
			return peer.Answer{Outcome: peer.NotDone}, false
		}
		defer cancel()
		if a = r.Attempts.begin(r.Raft.CurrentTerm(), cancel); a == nil {
			return peer.Answer{Outcome: peer.NotDone}, false
		}
		defer r.Attempts.end(a)
		out = r.Peers.Forward(term, addr, req, a.binding())
		r.awaitDelivery(ctx, a, out)
	}
	if out.Outcome != peer.Unknown {
		return out, false
	}
	return r.resolve(ctx, a), true
}

// resolve waits until the log shows the outcome of an attempt. If nothing there has yet, it has the
// leader log a recall, which does.
func (r *Router) resolve(ctx context.Context, a *attempt) peer.Answer {
	if !r.Attempts.leave(a) {
		return peer.Answer{Outcome: peer.Unknown}
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
	return peer.Answer{Outcome: peer.Unknown}
}

// recall asks the leader to recall an attempt, and all attempts before it, until a recall is
// logged. It may be asked any number of times. In a later term it is not needed: the log will show
// the outcome.
func (r *Router) recall(ctx context.Context, a *attempt) {
	for pause := wake.RetryMin; ctx.Err() == nil; pause = min(2*pause, wake.RetryMax) {
		changed := r.Changed.Next()
		if r.Raft.CurrentTerm() == a.term && r.attemptRecall(ctx, a) == peer.Done {
			return
		}
		wake.Sleep(ctx, changed, pause)
	}
}

func (r *Router) attemptRecall(ctx context.Context, a *attempt) peer.Outcome {
	if r.Lead.Load() != nil {
		return r.local(ctx, resp.Request{}, true, a).Outcome
	}
	addr, term, cancel, ok := r.leaderElsewhere(ctx)
	if !ok {
		return peer.NotDone
	}
	defer cancel()
	return r.Peers.Forward(term, addr, resp.Request{}, a.binding()).Outcome
}

// awaitDelivery keeps back a leader's answer that has arrived before this node's clients have received the
// entry's messages, until they have, or for LeaderWait. A client that is told of a change before it
// has the reply of its own write would take the change for somebody else's. If nobody subscribes
// here, nothing is held.
func (r *Router) awaitDelivery(ctx context.Context, a *attempt, out peer.Answer) {
	early := func() bool { return out.Result.Index > r.State.Delivered.Load() }
	if out.Outcome != peer.Done || !early() || !r.Listening() {
		return
	}
	if r.Attempts.leave(a); early() {
		r.awaitShown(ctx, a)
	}
}

// awaitShown waits up to LeaderWait for the log to show the outcome of an attempt that this node
// has left, and reports whether it has.
func (r *Router) awaitShown(ctx context.Context, a *attempt) bool {
	t := time.NewTimer(r.LeaderWait)
	defer t.Stop()
	select {
	case <-a.shown:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-r.Stop:
	}
	return false
}
