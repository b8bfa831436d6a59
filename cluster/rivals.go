package cluster

import (
	"sync"

	"lockd/resp"
)

// Limits of the requests that wait for a rival. Requests beyond them are logged at once.
const (
	rivalsMax      = 4096     // requests that wait for one key
	rivalsBytesMax = 16 << 20 // bytes of all that wait
)

// rivals lets one request at a time try in the log for a key that is free. When a lock is freed,
// all its waiters find it free until one of them has taken it. Without rivals each of them would be
// logged, sent and applied on every node only to be refused. Instead one is logged, and the others
// check again when it is done. All methods may be called concurrently.
type rivals struct {
	mu      sync.Mutex
	waiting map[claim][]*op // for each claim that is being logged, the requests that wait for it
	bytes   int             // of the waiting requests
}

// claim is what only one request can get.
type claim struct {
	db  int
	key string
}

// claimOf is the claim of a request for which Node.mayTry holds: its only key.
func claimOf(req resp.Request) claim {
	c := req.Cmds[0]
	return claim{db: c.DB, key: c.Args[1]}
}

// begin reports whether o is to be logged now (first), or waits until end returns it (waits). If
// both are false there are too many waiters, and o is logged without a claim.
func (r *rivals) begin(c claim, o *op) (first, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others, taken := r.waiting[c]
	switch {
	case !taken:
		if r.waiting == nil {
			r.waiting = map[claim][]*op{}
		}
		r.waiting[c] = nil
		return true, false
	case len(others) >= rivalsMax, r.bytes+o.size > rivalsBytesMax:
		return false, false
	}
	r.waiting[c] = append(others, o)
	r.bytes += o.size
	return false, true
}

// end returns the requests that have waited since begin.
func (r *rivals) end(c claim) []*op {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := r.waiting[c]
	delete(r.waiting, c)
	for _, o := range others {
		r.bytes -= o.size
	}
	return others
}

// claim logs a request that may be refused. If a rival is already being logged, the request waits,
// and is tried again when the rival is done.
func (r *reader) claim(o *op) {
	c := claimOf(o.req)
	first, waits := r.rivals.begin(c, o)
	if waits {
		return
	}
	if done := o.done; first {
		o.done = func(out outcome, res resp.Result) {
			others := r.rivals.end(c)
			done(out, res)
			for _, other := range others {
				other.try = true
				r.submit(other)
			}
		}
	}
	r.proposer.submit(o)
}
