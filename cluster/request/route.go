package request

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
)

// Router brings requests of this node's clients to where they are done: the log and the reads here
// if this node leads, or the leader. It takes those that other nodes bring here.
type Router struct {
	*Config
	Attempts *Attempts
	Reader   *Reader
	Proposer *Proposer

	Serving atomic.Int64   // requests that are being answered
	Writes  figures.Writes // those of them that are to be logged
	NoRoom  atomic.Int64   // requests that were refused before they were logged, as disks are full
}

// Wake has both queues be looked at: this node leads now, or does not lead any more.
func (r *Router) Wake() {
	wake.Signal(r.Proposer.wake)
	wake.Signal(r.Reader.wake)
}

// attempt makes one attempt at a request: here if this node leads, otherwise at the leader. The
// attempt has no origin, so it cannot be found in the log afterwards.
func (r *Router) attempt(ctx context.Context, req resp.Request, write bool) peer.Answer {
	if r.Lead.Load() != nil {
		return r.local(ctx, req, write, &attempt{})
	}
	addr, ctx, cancel, ok := r.leaderElsewhere(ctx)
	if !ok {
		return peer.Answer{Outcome: peer.NotDone}
	}
	defer cancel()
	return r.Peers.Forward(ctx, addr, req, peer.Binding{})
}

// Read makes one attempt at a read. ok: the result is the leader's.
func (r *Router) Read(ctx context.Context, req resp.Request) (res resp.Result, ok bool) {
	out := r.attempt(ctx, req, false)
	return out.Result, out.Outcome == peer.Done
}

// ProposeIn has this node, which leads, log a request in its term, or not at all. done: it was logged.
func (r *Router) ProposeIn(ctx context.Context, lead *clock.Leadership, req resp.Request) (done bool) {
	return r.local(ctx, req, true, &attempt{term: lead.Term}).Outcome == peer.Done
}

// leaderElsewhere returns the address of another node that leads, and a context that ends with its
// term.
func (r *Router) leaderElsewhere(
	ctx context.Context,
) (addr string, term context.Context, cancel context.CancelFunc, ok bool) {
	at, id := r.Raft.LeaderWithID()
	if at == "" || string(id) == r.Self {
		return "", nil, nil, false
	}
	term, cancel, ok = r.TermOf(ctx, string(id))
	return string(at), term, cancel, ok
}

// binding says to another node what an attempt is bound to.
func (a *attempt) binding() peer.Binding {
	return peer.Binding{Session: a.Session, Number: a.Number, Term: a.term}
}

// local runs a data request on this node, which leads.
func (r *Router) local(ctx context.Context, req resp.Request, write bool, a *attempt) peer.Answer {
	if !write {
		// One that became the only voter in its term asks nobody either, by way of the queue: to look at Raft's
		// configuration for each read costs more than to look at the term.
		if lead := r.Lead.Load(); lead != nil && lead.Alone && r.Raft.Alone() {
			return r.readAlone(lead, req)
		}
	}
	ch := make(chan peer.Answer, 1)
	o := &op{ctx: ctx, req: req, origin: a.Origin, term: a.term, size: req.Size()}
	o.done = func(out peer.Outcome, res resp.Result) { ch <- peer.Answer{Outcome: out, Result: res} }
	r.submit(o, write)
	select {
	case out := <-ch:
		return out
	case <-ctx.Done():
		return peer.Answer{Outcome: peer.Unknown}
	}
}

// submit queues a request. A read goes to the reader, and so does a write that would be refused in
// the present state; any other write goes to the proposer.
func (r *Router) submit(o *op, write bool) {
	switch {
	case !write:
		r.Reader.submit(o)
	case r.lacksRoom(o):
	case asksForLock(o) && r.Proposer.findsTaken(o):
		o.joins = r.Clock.Monotonic() + JoinMax
		r.Proposer.submit(o)
	case !mayRefuse(o):
		r.Proposer.submit(o)
	case r.isRefused(o.req):
		o.dryRun = true
		r.Reader.submit(o)
	default:
		r.Reader.claim(o)
	}
}

// lacksRoom answers a request of which every command would be refused for want of room, so that it is not logged.
func (r *Router) lacksRoom(o *op) bool {
	full := r.State.Full.Load()
	if full.Nodes == "" || o.req.Block != nil || o.req.Watch != nil || len(o.req.Cmds) == 0 {
		return false
	}
	for i := range o.req.Cmds {
		if c := &o.req.Cmds[i]; c.Spec == nil || c.Spec.Flags&resp.DenyOOM == 0 {
			return false
		}
	}
	r.NoRoom.Add(1)
	o.done(peer.Done, Fail(o.req, full.Refusal))
	return true
}

// dryRunBytesMax bounds a request that is tried as a read first. Such requests are small, so those
// that wait for a round are not counted.
const dryRunBytesMax = 64 << 10

// asksForLock reports whether a request asks for a lock, and waits if it is taken.
func asksForLock(o *op) bool {
	b := o.req.Block
	return b != nil && b.Kind == resp.BlockAsk && mayDryRun(o)
}

// mayRefuse reports whether a request is of a kind that often changes nothing.
func mayRefuse(o *op) bool { return o.req.Block == nil && mayDryRun(o) }

// mayDryRun reports whether a request, blocking or not, may be tried on the machine.
func mayDryRun(o *op) bool {
	if len(o.req.Cmds) != 1 || o.size > dryRunBytesMax {
		return false
	}
	c := &o.req.Cmds[0]
	return c.Spec != nil && c.Spec.Keys == resp.FirstKey && c.Spec.MayRefuse(c.Args)
}

// isRefused reports whether a request would change nothing in the present state. That is no answer
// yet: it must be confirmed that this node still leads.
func (r *Router) isRefused(req resp.Request) bool {
	lead := r.Lead.Load()
	if lead == nil {
		return false
	}
	_, ok := r.State.DryRun(lead, 0, req)
	return ok
}

func (r *Router) readAlone(lead *clock.Leadership, req resp.Request) peer.Answer {
	wall := r.Reader.show(lead)
	if !r.Reader.Confirm(lead) {
		return peer.Answer{Outcome: peer.NotDone}
	}
	return peer.Answer{Outcome: peer.Done, Result: r.Reader.view(lead, wall, req)}
}

// localOwn runs a command about the cluster on this node, which leads. If another node leads by the end, the command
// goes there: it may run twice.
func (r *Router) localOwn(ctx context.Context, req resp.Request) (peer.Outcome, resp.Result) {
	o, reply := r.Own(ctx, req.Cmds[0])
	switch {
	case o != peer.Done:
		return o, resp.Result{}
	case reply.IsErr() && r.Raft.State() != raft.Leader:
		return peer.NotDone, resp.Result{}
	}
	return peer.Done, resp.Result{Replies: []resp.Reply{reply}}
}

// Serve implements peer.Handler. It runs a request of another node's client, and never
// forwards it again: a node that does not lead, or leads in another term than the one the request
// is bound to, answers that it is not done.
func (r *Router) Serve(f peer.Forwarded, respond func(peer.Answer)) {
	from := record.Origin{Session: f.Session, Number: f.Number}
	o := &op{until: f.Until, req: f.Req, origin: from, term: f.Term, size: f.Req.Size()}
	r.Commands.Identify(o.req.Cmds)
	recall, lead := isRecall(o.req) && f.Number != 0, r.Lead.Load()
	if lead == nil || !lead.Takes(f.Term) {
		respond(peer.Answer{Outcome: peer.NotDone})
		return
	}
	if o.size > record.RequestBytesMax {
		respond(peer.Answer{Outcome: peer.Done, Result: Fail(o.req, TooLarge)})
		return
	}
	r.Serving.Add(1)
	o.done = func(out peer.Outcome, res resp.Result) {
		respond(peer.Answer{Outcome: out, Result: res})
		r.Serving.Add(-1)
	}
	if recall {
		r.Proposer.submit(o)
		return
	}
	if r.Commands.IsOwn(o.req.Cmds) {
		go func() {
			ctx, cancel := context.WithDeadline(context.Background(), o.until)
			defer cancel()
			o.done(r.localOwn(ctx, o.req))
		}()
		return
	}
	write := o.req.Writes()
	if write {
		r.follow(o)
	}
	if mayDryRun(o) {
		go r.submit(o, write) // it locks the machine, and the connection must not wait for that
		return
	}
	r.submit(o, write)
}

// follow notes how a write of another node comes along.
func (r *Router) follow(o *op) {
	done := o.done
	r.Writes.Begin(r.Clock.Monotonic(), r.LeaderWait)
	o.done = func(out peer.Outcome, res resp.Result) {
		r.Writes.End(r.Clock.Monotonic(), out, res.Index)
		done(out, res)
	}
}

// Metrics returns figures of the requests that wait here.
func (r *Router) Metrics() []resp.Metric {
	waiting := resp.Metric{
		Name: "lockd_queue_requests", Labels: []string{"queue"},
		Help: "Requests that wait on this leader for the next entry (write), or for the next round of questions (read).",
	}
	bytes := resp.Metric{Name: "lockd_queue_bytes", Labels: []string{"queue"}, Help: "Their bytes."}
	add := func(q *opQueue, name string) {
		q.mu.Lock()
		defer q.mu.Unlock()
		waiting.Add(float64(len(q.waiting)), name)
		bytes.Add(float64(q.bytes), name)
	}
	add(&r.Reader.opQueue, "read")
	add(&r.Proposer.opQueue, "write")
	return []resp.Metric{
		waiting, bytes,
		resp.GaugeOf("lockd_entries_in_flight", "Entries on their way to a majority.", r.Proposer.entries()),
	}
}
