package cluster

import (
	"context"

	"lockd/resp"
)

// A recall is an empty request that has an origin (session, number): from its
// place in the log on, the term in which it is logged takes no attempt of that session with
// that number or a lower one. A node logs one where a connection may have swallowed an
// attempt and no later term is to come (DESIGN.md, "The in-doubt request").

// isRecall reports whether a request with an origin is a recall.
func isRecall(req resp.Request) bool { return req.Empty() }

// recallSessionsMax bounds the sessions of which a leader remembers recalls; it recalls
// nothing for more. A member has one for each start of its process.
const recallSessionsMax = 4096

// recalls is what has been recalled from a leader. Only the proposer's goroutine uses it:
// in the order in which it looks at ops they come into the log.
type recalls struct {
	term   uint64            // in which they are; a node may begin to lead twice in one
	floors map[uint64]uint64 // by session: the highest number that was recalled
}

// refuses reports whether an op must not be logged in a term: it was recalled, or it is a
// recall and there are too many. Otherwise a recall counts from now on, also if nothing
// comes of its entry.
func (r *recalls) refuses(term uint64, o *op) bool {
	if r.term != term {
		r.term, r.floors = term, map[uint64]uint64{}
	}
	from := o.origin
	floor, known := r.floors[from.session]
	if from.session == 0 || !isRecall(o.req) {
		return known && from.number <= floor
	}
	if !known && len(r.floors) >= recallSessionsMax {
		return true
	}
	r.floors[from.session] = max(floor, from.number)
	return false
}

// recall asks the leader for a recall of an attempt, and of all before it, until one has been
// logged. It may be asked for any number of times. In a later term there is nobody to ask,
// and the log will tell.
func (n *Node) recall(ctx context.Context, a *attempt) {
	for pause := retryPauseMin; ctx.Err() == nil; pause = min(2*pause, retryPauseMax) {
		changed := n.changed.next()
		if n.raft.CurrentTerm() == a.term && n.attemptRecall(ctx, a) == outcomeDone {
			return
		}
		sleep(ctx, changed, pause)
	}
}

func (n *Node) attemptRecall(ctx context.Context, a *attempt) outcome {
	if n.lead.Load() != nil {
		return n.local(ctx, resp.Request{}, true, a).outcome
	}
	addr, term, cancel, ok := n.leaderElsewhere(ctx)
	if !ok {
		return outcomeNotDone
	}
	defer cancel()
	return n.forward(term, addr, resp.Request{}, a).outcome
}
