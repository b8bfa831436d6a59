package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"lockd/cluster/peer"
	"lockd/resp"
)

// origin says which attempt of which node's client a request in the log is. The zero
// value: of none that anybody looks for.
type origin struct {
	session uint64 // of the process that has the client, drawn at random; 0: none
	number  uint64 // in that session, from 1; never given again
}

// attempts keeps the writes of this node's clients that have been asked for and not been
// answered. When the answer is in doubt, the log shows what became of them (DESIGN.md,
// "The in-doubt request"). All methods may be called concurrently.
type attempts struct {
	session uint64

	mu   sync.Mutex
	last uint64              // number that was given
	term uint64              // of the newest entry that was applied
	open map[uint64]*attempt // by number
}

// attemptsMax bounds the writes of this node's clients that are under way; more are not
// done, and tried again.
const attemptsMax = peer.CallsPendingMax

// attempt is one try to have a write logged.
type attempt struct {
	origin
	term uint64 // the only one in which it may be logged

	// Guarded by attempts.mu.
	wake   context.CancelFunc // ends the wait for another node's answer
	alone  bool               // there is no answer to come: only the log is left to tell
	missed bool               // a snapshot may have taken the place of its entry

	shown chan answer // capacity 1: what the log has shown
}

func newAttempts() *attempts {
	a := &attempts{open: map[uint64]*attempt{}}
	for a.session == 0 {
		a.session = rand.Uint64()
	}
	return a
}

// begin registers an attempt that is bound to a term; nil if nothing would come of it.
// Wake is called when the log has shown what became of it.
func (r *attempts) begin(term uint64, wake context.CancelFunc) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if term < r.term || len(r.open) >= attemptsMax {
		return nil
	}
	r.last++
	a := &attempt{origin: origin{r.session, r.last}, term: term, wake: wake, shown: make(chan answer, 1)}
	r.open[a.number] = a
	return a
}

// end forgets an attempt: its client has its answer, or is gone.
func (r *attempts) end(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, a.number)
}

// show completes an attempt. mu is held.
func (r *attempts) show(a *attempt, o outcome, res resp.Result) {
	delete(r.open, a.number)
	a.shown <- answer{outcome: o, result: res}
	a.wake()
}

// applied hears of an entry that the machine has taken, once its messages are delivered,
// and completes what it tells of.
func (r *attempts) applied(term uint64, e *entry, did *applied) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, from := range e.origins {
		if from.session != r.session {
			continue
		}
		a := r.open[from.number]
		switch {
		case isRecall(e.reqs[i]):
			if !did.void {
				r.recalled(term, from.number)
			}
		case a == nil:
		case did.void:
			r.show(a, outcomeNotDone, resp.Result{})
		default:
			r.show(a, outcomeDone, did.results[i])
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

// recalled hears that a term takes no attempt up to a number any more. mu is held.
func (r *attempts) recalled(term, number uint64) {
	for _, a := range r.open {
		if a.term == term && a.number <= number {
			r.absent(a)
		}
	}
}

// absent completes an attempt that was not seen and can not come any more. mu is held.
func (r *attempts) absent(a *attempt) {
	if a.missed {
		r.show(a, outcomeUnknown, resp.Result{})
	} else {
		r.show(a, outcomeNotDone, resp.Result{})
	}
}

// restored hears that a snapshot has taken the place of entries.
func (r *attempts) restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.open {
		if a.missed = true; a.alone {
			r.show(a, outcomeUnknown, resp.Result{})
		}
	}
}

// leave notes that only the log is left to tell what became of an attempt. It reports
// false if the log may not tell.
func (r *attempts) leave(a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.alone = true
	return !a.missed || r.open[a.number] == nil
}

// attemptWrite asks once for a write to be logged, and returns when its outcome is known,
// or has been in doubt for LeaderWait. doubted: the log has told.
func (n *Node) attemptWrite(ctx context.Context, req resp.Request) (out answer, doubted bool) {
	var a *attempt
	if lead := n.lead.Load(); lead != nil {
		if a = n.attempts.begin(lead.term, func() {}); a == nil {
			return answer{outcome: outcomeNotDone}, false
		}
		defer n.attempts.end(a)
		out = n.local(ctx, req, true, a)
	} else {
		addr, term, cancel, ok := n.leaderElsewhere(ctx)
		if !ok {
			return answer{outcome: outcomeNotDone}, false
		}
		defer cancel()
		if a = n.attempts.begin(n.raft.CurrentTerm(), cancel); a == nil {
			return answer{outcome: outcomeNotDone}, false
		}
		defer n.attempts.end(a)
		out = n.forward(term, addr, req, a)
		if n.mustHold(out) {
			return n.hold(ctx, a, out), false
		}
	}
	if out.outcome != outcomeUnknown {
		return out, false
	}
	return n.resolve(ctx, a), true
}

// resolve waits until the log shows what became of an attempt, and has the leader log what
// does, as far as nothing has yet.
func (n *Node) resolve(ctx context.Context, a *attempt) answer {
	if n.attempts.leave(a) {
		if len(a.shown) == 0 {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go n.recall(ctx, a)
		}
		if out, ok := n.awaitShown(ctx, a); ok {
			return out
		}
	}
	return answer{outcome: outcomeUnknown}
}

// mustHold reports whether the leader's answer would be here before what the entry tells,
// and somebody listens here: who is told of a change before he hears of it takes it for
// another one.
func (n *Node) mustHold(out answer) bool {
	return out.outcome == outcomeDone && out.index > n.toldNow.Load() && n.cfg.Publisher.Listening()
}

// hold keeps the leader's answer back until this node's clients have heard what the entry
// tells. It does not wait longer than for a leader.
func (n *Node) hold(ctx context.Context, a *attempt, out answer) answer {
	n.attempts.leave(a)
	if out.index > n.toldNow.Load() {
		n.awaitShown(ctx, a)
	}
	return out
}

// awaitShown waits for what the log shows of an attempt, as long as requests wait for a
// leader.
func (n *Node) awaitShown(ctx context.Context, a *attempt) (answer, bool) {
	t := time.NewTimer(n.cfg.LeaderWait)
	defer t.Stop()
	select {
	case out := <-a.shown:
		return out, true
	case <-t.C:
	case <-ctx.Done():
	case <-n.stop:
	}
	return answer{}, false
}
