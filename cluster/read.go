package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/replica"
	"lockd/cluster/wait"
	"lockd/resp"
)

// reader answers requests that only read. They wait in a queue. One round of questions to the peers
// confirms that this node still leads, and serves all requests that were queued when the round
// began. No disk is touched.
type reader struct {
	*core
	state      *replica.State
	clocks     *clock.Members
	proposer   *proposer
	claims     *wait.Claims
	gate       keyGate
	responders responders // whom it asks first
	opQueue

	delay batchDelay // under the queue's lock
}

func newReader(c *core, s *replica.State, k *clock.Members, p *proposer, gone func(id string) bool) *reader {
	return &reader{
		core: c, state: s, clocks: k, proposer: p, claims: wait.NewClaims(s), responders: responders{gone: gone},
		opQueue: opQueue{wake: make(chan struct{}, 1)}, delay: roundDelay,
	}
}

// run answers reads until the node stops.
func (r *reader) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.stop:
			r.close()
			return
		}
		if left := r.left(); left > 0 {
			timer.Reset(left)
			continue
		}
		if ops := r.takeAll(); len(ops) > 0 {
			began := r.clock.Monotonic()
			r.serve(ops)
			r.batchDone(len(ops), r.clock.Monotonic()-began)
		}
	}
}

// left is how much longer the next round waits for more reads.
func (r *reader) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delay.left(len(r.waiting), r.clock.Monotonic())
}

func (r *reader) batchDone(ops int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay.batchDone(ops, len(r.waiting), took, r.clock.Monotonic())
}

// serve answers ops, all of which arrived before it was called.
func (r *reader) serve(ops []*op) {
	lead := r.lead.Load()
	wall := r.show(lead)
	if lead == nil || !r.confirm(lead) {
		for _, o := range ops {
			o.done(outcomeNotDone, resp.Result{})
		}
		return
	}
	for _, o := range ops {
		r.answer(lead, wall, o)
	}
}

// show is the cluster's time for the reads of a round that begins now. The round's questions tell it to a majority, so
// that the next leader, which asks one in its own term, goes on from there: no client sees the time go back.
func (r *reader) show(lead *clock.Leadership) int64 {
	if lead == nil {
		return 0
	}
	wall := lead.Wall.Now()
	r.clocks.Show(wall)
	return wall
}

// answer answers a request of a confirmed round. A write that would change something by now is
// logged after all.
func (r *reader) answer(lead *clock.Leadership, wall int64, o *op) {
	if o.abandoned() {
		o.done(outcomeNotDone, resp.Result{})
	} else if !o.try {
		o.done(outcomeDone, r.view(lead, wall, o.req))
	} else if res, ok := r.state.DryRun(lead, wall, o.req); ok {
		o.done(outcomeDone, res)
	} else {
		r.claim(o)
	}
}

// view answers a read, a claim, or the question of router.confirmedIndex, in the state that is applied here.
func (r *reader) view(lead *clock.Leadership, wall int64, req resp.Request) resp.Result {
	switch {
	case req.Block != nil:
		return resp.Result{Replies: []resp.Reply{r.claims.Judge(lead, req.Block)}}
	case req.Empty():
		return resp.Result{Index: r.state.Applied.Load()}
	}
	return r.state.View(lead, wall, req)
}

// confirm reports whether this node has been the only leader at some moment since
// the call began. A majority of the voters must say that their term is still ours,
// to a question that leaves after the call began: then none of them had voted in a
// later term before it, so no later leader could have been elected, and nothing
// acknowledged is missing in what is applied here (the leader has applied an entry
// of its own term, see startLeading). Raft's VerifyLeader counts answers that were
// on their way before the question: it is not enough.
func (r *reader) confirm(lead *clock.Leadership) bool {
	voters := r.raft.Voters()
	need, have := len(voters)/2+1, 0
	others := make([]raft.Server, 0, len(voters))
	for _, v := range voters {
		if string(v.ID) == r.cfg.ID {
			have++
		} else {
			others = append(others, v)
		}
	}
	if have < need && !r.ask(lead.Term, others, need-have) {
		return false
	}
	return r.raft.State() == raft.Leader && r.raft.CurrentTerm() == lead.Term
}

// hedgeAfter is how long those that are asked first may take before the rest is asked
// too: well above a round trip, well below what a client notices.
const hedgeAfter = 2 * time.Millisecond

// ask asks the others for their term until enough of them have answered with it. Just
// enough are asked at first, those that answered last time, as a question costs both
// sides as much as a read; the rest follows when one of these says no, or nothing.
func (r *reader) ask(term uint64, others []raft.Server, enough int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Heartbeat)
	defer cancel()
	type vote struct {
		by  raft.ServerID
		yes bool
	}
	votes := make(chan vote, len(others))
	question := func(servers []raft.Server) {
		for _, o := range servers {
			go func() {
				st, err := r.clocks.Ask(ctx, o)
				votes <- vote{o.ID, err == nil && st.Term == term}
			}()
		}
	}
	others = r.responders.order(others)
	question(others[:enough])
	rest := others[enough:]
	hedge := time.NewTimer(hedgeAfter)
	defer hedge.Stop()
	for left := len(others); left >= enough; {
		late := false
		select {
		case v := <-votes:
			left--
			r.responders.record(v.by, v.yes)
			if v.yes {
				enough--
			}
			late = !v.yes
		case <-hedge.C:
			late = true
		}
		if enough == 0 {
			return true
		}
		if late {
			question(rest)
			rest = nil
		}
	}
	return false
}

// responders remembers which members answered the last questions.
type responders struct {
	gone func(id string) bool // the process of a member has ended

	mu  sync.Mutex
	ids []raft.ServerID // the one that answered last is the first
}

// record moves a member to the front, or removes it.
func (p *responders) record(id raft.ServerID, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if yes && len(p.ids) > 0 && p.ids[0] == id {
		return
	}
	p.ids = slices.DeleteFunc(p.ids, func(other raft.ServerID) bool { return other == id })
	if yes {
		p.ids = slices.Insert(p.ids, 0, id)
	}
}

// order sorts servers by how lately they have answered, those last whose processes have ended.
func (p *responders) order(servers []raft.Server) []raft.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	rank := func(s raft.Server) int {
		i := slices.Index(p.ids, s.ID)
		switch {
		case p.gone(string(s.ID)):
			return len(p.ids) + 1
		case i < 0:
			return len(p.ids)
		}
		return i
	}
	slices.SortStableFunc(servers, func(a, b raft.Server) int { return cmp.Compare(rank(a), rank(b)) })
	return servers
}

// Limits of the requests that wait for a rival. Requests beyond them are logged at once.
const (
	gateMax      = 4096     // requests that wait for one key
	gateBytesMax = 16 << 20 // bytes of all that wait
)

// keyGate lets one request at a time try in the log for a key that is free. When a lock is freed,
// all its waiters find it free until one of them has taken it. Without it each of them would be
// logged, sent and applied on every node only to be refused. Instead one is logged, and the others
// check again when it is done. All methods may be called concurrently.
type keyGate struct {
	mu      sync.Mutex
	waiting map[claim][]*op // for each claim that is being logged, the requests that wait for it
	bytes   int             // of the waiting requests
}

// claim is what only one request can get.
type claim struct {
	db  int
	key string
}

// claimOf is the claim of a request for which mayRefuse holds: its only key.
func claimOf(req resp.Request) claim {
	c := req.Cmds[0]
	return claim{db: c.DB, key: c.Args[1]}
}

// begin reports whether o is to be logged now (first), or waits until end returns it (waits). If
// both are false there are too many waiters, and o is logged without a claim.
func (r *keyGate) begin(c claim, o *op) (first, waits bool) {
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
	case len(others) >= gateMax, r.bytes+o.size > gateBytesMax:
		return false, false
	}
	r.waiting[c] = append(others, o)
	r.bytes += o.size
	return false, true
}

// end returns the requests that have waited since begin.
func (r *keyGate) end(c claim) []*op {
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
	first, waits := r.gate.begin(c, o)
	if waits {
		return
	}
	if done := o.done; first {
		o.done = func(out outcome, res resp.Result) {
			others := r.gate.end(c)
			done(out, res)
			for _, other := range others {
				other.try = true
				r.submit(other)
			}
		}
	}
	r.proposer.submit(o)
}
