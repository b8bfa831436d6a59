package cluster

import (
	"sync"

	"lockd/resp"
)

// Limits of who waits for another; more are logged as they come.
const (
	rivalsMax      = 4096     // requests that wait for one key
	rivalsBytesMax = 16 << 20 // bytes of all that wait
)

// rivals lets one request at a time try in the log for what is free. When a lock is
// freed, all that wait for it find it free until one of them has taken it, and each of
// them would be logged, sent and applied on every node only to be refused. One is; the
// others look again when it is done. All methods may be called concurrently.
type rivals struct {
	mu      sync.Mutex
	waiting map[claim][]*op // for each request in the log, who waits for it
	bytes   int             // of those
}

// claim is what only one can have.
type claim struct {
	db  int
	key string
}

// claimOf is what a request tries for that Node.mayTry: its only key.
func claimOf(req resp.Request) claim {
	c := req.Cmds[0]
	return claim{db: c.DB, key: c.Args[1]}
}

// begin reports whether o is to go into the log now. Otherwise end returns it.
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

// end returns those who have waited since begin.
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

// claim has a request that may be refused logged, unless a rival of its is on its way:
// then it is tried again after that one.
func (n *Node) claim(o *op) {
	c := claimOf(o.req)
	first, waits := n.rivals.begin(c, o)
	if waits {
		return
	}
	if done := o.done; first {
		o.done = func(out outcome, res resp.Result) {
			others := n.rivals.end(c)
			done(out, res)
			for _, other := range others {
				other.try = true
				n.reader.submit(other)
			}
		}
	}
	n.proposer.submit(o)
}
