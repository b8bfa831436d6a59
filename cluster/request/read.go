package request

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/wait"
	"lockd/resp"
)

// Reader answers requests that only read. They wait in a queue. One round of questions to the peers
// confirms that this node still leads, and serves all requests that were queued when the round
// began. No disk is touched.
type Reader struct {
	*Config
	proposer   *Proposer
	Claims     *wait.Claims
	gate       keyGate
	responders responders // the members that it asks first
	status     func(ctx context.Context, of raft.Server) (peer.Status, error)
	opQueue

	delay batchDelay // under the queue's lock
}

func newReader(c *Config, p *Proposer) *Reader {
	return &Reader{
		Config: c, proposer: p, Claims: wait.NewClaims(c.State), responders: responders{gone: c.Gone},
		status:  c.Clocks.Ask,
		opQueue: opQueue{wake: make(chan struct{}, 1)}, delay: roundDelay,
	}
}

// Run answers reads until the node stops.
func (r *Reader) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.Stop:
			r.close()
			return
		}
		if left := r.left(); left > 0 {
			timer.Reset(left)
			continue
		}
		if ops := r.takeAll(); len(ops) > 0 {
			began := r.Clock.Monotonic()
			r.serve(ops)
			r.batchDone(len(ops), r.Clock.Monotonic()-began)
		}
	}
}

// left returns how much longer the next round waits for more reads.
func (r *Reader) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delay.left(len(r.waiting), r.Clock.Monotonic())
}

func (r *Reader) batchDone(ops int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay.batchDone(ops, len(r.waiting), took, r.Clock.Monotonic())
}

// serve answers ops, all of which arrived before it was called.
func (r *Reader) serve(ops []*op) {
	lead := r.Lead.Load()
	wall := r.show(lead)
	if lead == nil || !r.Confirm(lead) {
		for _, o := range ops {
			o.done(peer.NotDone, resp.Result{})
		}
		return
	}
	for _, o := range ops {
		r.answer(lead, wall, o)
	}
}

// show returns the cluster's time for the reads of a round that begins now. The round's questions tell the time to a
// majority. The next leader asks a majority in its own term and goes on from there, so no client sees the time go back.
func (r *Reader) show(lead *clock.Leadership) int64 {
	if lead == nil {
		return 0
	}
	wall := lead.Wall.Now()
	r.Clocks.Show(wall)
	return wall
}

// answer answers a request of a confirmed round. A write that would change something by now is
// logged after all.
func (r *Reader) answer(lead *clock.Leadership, wall int64, o *op) {
	if o.abandoned() {
		o.done(peer.NotDone, resp.Result{})
	} else if !o.dryRun {
		o.done(peer.Done, r.view(lead, wall, o.req))
	} else if res, ok := r.State.DryRun(lead, wall, o.req); ok {
		o.done(peer.Done, res)
	} else {
		r.claim(o)
	}
}

// view answers a read, a claim, or the question of Router.ConfirmedIndex, in the state that is applied here.
func (r *Reader) view(lead *clock.Leadership, wall int64, req resp.Request) resp.Result {
	switch {
	case req.Block != nil:
		return resp.Result{Replies: []resp.Reply{r.Claims.Judge(lead, req.Block)}}
	case req.Empty():
		return resp.Result{Index: r.State.Applied.Load()}
	}
	return r.State.View(lead, wall, req)
}

// Confirm reports whether this node has been the only leader at some moment since
// the call began. A majority of the voters must say that their term is still ours,
// to a question that leaves after the call began: then none of them had voted in a
// later term before it, so no later leader could have been elected, and nothing
// acknowledged is missing in what is applied here (the leader has applied an entry
// of its own term before it leads). Raft's VerifyLeader counts answers that were
// on their way before the question: it is not enough.
func (r *Reader) Confirm(lead *clock.Leadership) bool {
	return r.confirmedBy(r.Raft.Voters(), lead.Term) && r.Raft.State() == raft.Leader && r.Raft.CurrentTerm() == lead.Term
}

// confirmedBy reports whether a majority of the voters says that a term is still theirs.
func (r *Reader) confirmedBy(voters []raft.Server, term uint64) bool {
	need, have := len(voters)/2+1, 0
	others := make([]raft.Server, 0, len(voters))
	for _, v := range voters {
		if string(v.ID) == r.Self {
			have++
		} else {
			others = append(others, v)
		}
	}
	return have >= need || r.ask(term, others, need-have)
}

// HedgeAfter bounds the wait for the members that are asked first, before the rest is asked
// too: well above a round trip, well below what a client notices.
const HedgeAfter = 2 * time.Millisecond

// ask asks the others for their term until enough of them have answered with it. At first
// it asks just enough, those that answered last time, as a question costs both
// sides as much as a read; the rest follows when one of them says no, or nothing.
func (r *Reader) ask(term uint64, others []raft.Server, enough int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), r.Heartbeat)
	defer cancel()
	type vote struct {
		by  raft.ServerID
		yes bool
	}
	votes := make(chan vote, len(others))
	question := func(servers []raft.Server) {
		for _, o := range servers {
			go func() {
				st, err := r.status(ctx, o)
				votes <- vote{o.ID, err == nil && st.Term == term}
			}()
		}
	}
	others = r.responders.order(others)
	question(others[:enough])
	rest := others[enough:]
	hedge := time.NewTimer(HedgeAfter)
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

// order sorts servers by how lately they have answered; servers whose processes have ended come last.
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

// Claimed returns for how many keys a request is on its way, for which others may wait.
func (r *Reader) Claimed() int {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	return len(r.gate.waiting)
}

// keyGate lets one request at a time try in the log for a key that is free. When a lock is freed,
// all its waiters find it free until one of them has taken it. Without it each of them would be
// logged, sent and applied on every node only to be refused. Instead one is logged, and the others
// check again when it is done. All methods may be called concurrently.
type keyGate struct {
	mu      sync.Mutex
	waiting map[claim][]*op // for each claim that is being logged, the requests that wait for it
	bytes   int             // of the waiting requests
}

// claim names a key that only one request can get.
type claim struct {
	db  int
	key string
}

// claimOf returns the claim of a request for which mayRefuse holds: its only key.
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
func (r *Reader) claim(o *op) {
	c := claimOf(o.req)
	first, waits := r.gate.begin(c, o)
	if waits {
		return
	}
	if done := o.done; first {
		o.done = func(out peer.Outcome, res resp.Result) {
			others := r.gate.end(c)
			done(out, res)
			for _, other := range others {
				other.dryRun = true
				r.submit(other)
			}
		}
	}
	r.proposer.submit(o)
}
