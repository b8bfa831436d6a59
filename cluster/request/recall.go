package request

import "lockd/resp"

// An empty request without an origin is a question: the leader answers with an index by which everything is applied
// that was acknowledged before (Router.ConfirmedIndex). Such a request is not logged.
//
// A recall is an empty request with an origin (session, number). From its place in the log on, the
// term in which it is logged takes no attempt of that session with that number or a lower one. A
// node logs one when a connection may have lost an attempt and no later term is in sight
// ("The in-doubt request" in DESIGN.md of package cluster).

// isRecall reports whether a request with an origin is a recall.
func isRecall(req resp.Request) bool { return req.Empty() }

// recallSessionsMax bounds the sessions whose recalls a leader remembers. It refuses recalls of
// further sessions. A member has one session for each start of its process.
const recallSessionsMax = 4096

// recalls holds what has been recalled from a leader. Only the proposer's goroutine uses it: it
// sees ops in the order in which they are logged.
type recalls struct {
	term   uint64            // the term of these recalls; a node may start to lead twice in one
	floors map[uint64]uint64 // by session: the highest recalled number
}

// refuses reports whether an op must not be logged in a term: it was recalled, or it is a recall of
// a session too many. Any other recall counts from now on, even if its entry fails.
func (r *recalls) refuses(term uint64, o *op) bool {
	if r.term != term {
		r.term, r.floors = term, map[uint64]uint64{}
	}
	from := o.origin
	floor, known := r.floors[from.Session]
	if from.Session == 0 || !isRecall(o.req) {
		return known && from.Number <= floor
	}
	if !known && len(r.floors) >= recallSessionsMax {
		return true
	}
	r.floors[from.Session] = max(floor, from.Number)
	return false
}
