package cluster

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/resp"
)

// router brings requests of this node's clients to where they are done: the log and the reads here
// if this node leads, or the leader. It takes those that other nodes bring here.
type router struct {
	*core
	commands *commands
	attempts *attempts
	reader   *reader
	proposer *proposer
	state    *replica.State
	watch    *leaderWatch
	peers    *peer.Port
	leadOwn  func(context.Context, resp.Cmd) (outcome, resp.Reply) // runs a command about the cluster on this node, which leads

	serving atomic.Int64   // requests that are being answered
	writes  figures.Writes // those of them that are to be logged
	noRoom  atomic.Int64   // requests that were refused before they were logged, as disks are full
}

// attempt makes one attempt at a request: here if this node leads, otherwise at the leader. The
// attempt has no origin, so it cannot be found in the log afterwards.
func (r *router) attempt(ctx context.Context, req resp.Request, write bool) answer {
	if r.lead.Load() != nil {
		return r.local(ctx, req, write, &attempt{})
	}
	addr, ctx, cancel, ok := r.leaderElsewhere(ctx)
	if !ok {
		return answer{outcome: outcomeNotDone}
	}
	defer cancel()
	return r.forward(ctx, addr, req, &attempt{})
}

// read makes one attempt at a read. ok: the result is the leader's.
func (r *router) read(ctx context.Context, req resp.Request) (res resp.Result, ok bool) {
	out := r.attempt(ctx, req, false)
	return out.result, out.outcome == outcomeDone
}

// proposeIn has this node, which leads, log a request in its term, or not at all. done: it was logged.
func (r *router) proposeIn(ctx context.Context, lead *clock.Leadership, req resp.Request) (done bool) {
	return r.local(ctx, req, true, &attempt{term: lead.Term}).outcome == outcomeDone
}

// leaderElsewhere returns the address of another node that leads, and a context that ends with its
// term.
func (r *router) leaderElsewhere(
	ctx context.Context,
) (addr string, term context.Context, cancel context.CancelFunc, ok bool) {
	at, id := r.raft.LeaderWithID()
	if at == "" || string(id) == r.cfg.ID {
		return "", nil, nil, false
	}
	term, cancel, ok = r.watch.termOf(ctx, string(id))
	return string(at), term, cancel, ok
}

// answer is the outcome of a request.
type answer struct {
	outcome outcome
	result  resp.Result // good only if the outcome is outcomeDone
}

// forward has the node at addr run req as the attempt a, and waits for the answer until ctx
// ends.
func (r *router) forward(ctx context.Context, addr string, req resp.Request, a *attempt) answer {
	out := r.peers.Forward(ctx, addr, req, peer.Binding{Session: a.Session, Number: a.Number, Term: a.term})
	return answer{outcome: out.Outcome, result: out.Result}
}

// local runs a data request on this node, which leads.
func (r *router) local(ctx context.Context, req resp.Request, write bool, a *attempt) answer {
	if !write {
		// One that became the only voter in its term asks nobody either, by way of the queue: to look at Raft's
		// configuration for each read costs more than to look at the term.
		if lead := r.lead.Load(); lead != nil && lead.Alone && r.raft.Alone() {
			return r.readAlone(lead, req)
		}
	}
	ch := make(chan answer, 1)
	o := &op{ctx: ctx, req: req, origin: a.Origin, term: a.term, size: req.Size()}
	o.done = func(out outcome, res resp.Result) { ch <- answer{out, res} }
	r.submit(o, write)
	select {
	case out := <-ch:
		return out
	case <-ctx.Done():
		return answer{outcome: outcomeUnknown}
	}
}

// submit queues a request. A read goes to the reader, and so does a write that would be refused in
// the present state; any other write goes to the proposer.
func (r *router) submit(o *op, write bool) {
	switch {
	case !write:
		r.reader.submit(o)
	case r.lacksRoom(o):
	case asksForLock(o) && r.proposer.findsTaken(o):
		o.joins = r.clock.Monotonic() + joinMax
		r.proposer.submit(o)
	case !mayRefuse(o):
		r.proposer.submit(o)
	case r.isRefused(o.req):
		o.try = true
		r.reader.submit(o)
	default:
		r.reader.claim(o)
	}
}

// lacksRoom answers a request of which every command would be refused for want of room, so that it is not logged.
func (r *router) lacksRoom(o *op) bool {
	full := r.state.Full.Load()
	if full.Nodes == "" || o.req.Block != nil || o.req.Watch != nil || len(o.req.Cmds) == 0 {
		return false
	}
	for i := range o.req.Cmds {
		if c := &o.req.Cmds[i]; c.Spec == nil || c.Spec.Flags&resp.DenyOOM == 0 {
			return false
		}
	}
	r.noRoom.Add(1)
	o.done(outcomeDone, fail(o.req, full.Refusal))
	return true
}

// tryBytesMax bounds a request that is tried as a read first. Such requests are small, so those
// that wait for a round are not counted.
const tryBytesMax = 64 << 10

// asksForLock reports whether a request asks for a lock and would wait for it.
func asksForLock(o *op) bool {
	b := o.req.Block
	return b != nil && b.Kind == resp.BlockAsk && mayDryRun(o)
}

// mayRefuse reports whether a request is of a kind that often changes nothing.
func mayRefuse(o *op) bool { return o.req.Block == nil && mayDryRun(o) }

// mayDryRun reports the same of a blocking request, too.
func mayDryRun(o *op) bool {
	if len(o.req.Cmds) != 1 || o.size > tryBytesMax {
		return false
	}
	c := &o.req.Cmds[0]
	return c.Spec != nil && c.Spec.Keys == resp.FirstKey && c.Spec.MayRefuse(c.Args)
}

// isRefused reports whether a request would change nothing in the present state. That is no answer
// yet: it must be confirmed that this node still leads.
func (r *router) isRefused(req resp.Request) bool {
	lead := r.lead.Load()
	if lead == nil {
		return false
	}
	_, ok := r.state.DryRun(lead, 0, req)
	return ok
}

func (r *router) readAlone(lead *clock.Leadership, req resp.Request) answer {
	wall := r.reader.show(lead)
	if !r.reader.confirm(lead) {
		return answer{outcome: outcomeNotDone}
	}
	return answer{outcome: outcomeDone, result: r.reader.view(lead, wall, req)}
}

// localOwn runs a command about the cluster on this node, which leads. If another node leads by the end, the command
// goes there: it may run twice.
func (r *router) localOwn(ctx context.Context, req resp.Request) (outcome, resp.Result) {
	o, reply := r.leadOwn(ctx, req.Cmds[0])
	switch {
	case o != outcomeDone:
		return o, resp.Result{}
	case reply.IsErr() && r.raft.State() != raft.Leader:
		return outcomeNotDone, resp.Result{}
	}
	return outcomeDone, resp.Result{Replies: []resp.Reply{reply}}
}

// serveForward implements peer.Handler. It runs a request of another node's client, and never
// forwards it again: a node that does not lead, or leads in another term than the one the request
// is bound to, answers that it is not done.
func (r *router) serveForward(f peer.Forwarded, respond func(peer.Answer)) {
	o := &op{until: f.Until, req: f.Req, origin: record.Origin{Session: f.Session, Number: f.Number}, term: f.Term, size: f.Req.Size()}
	r.commands.identify(o.req.Cmds)
	recall, lead := isRecall(o.req) && f.Number != 0, r.lead.Load()
	if lead == nil || !lead.Takes(f.Term) {
		respond(peer.Answer{Outcome: outcomeNotDone})
		return
	}
	if o.size > record.RequestBytesMax {
		respond(peer.Answer{Outcome: outcomeDone, Result: fail(o.req, errRequestTooLarge)})
		return
	}
	r.serving.Add(1)
	o.done = func(out outcome, res resp.Result) {
		respond(peer.Answer{Outcome: out, Result: res})
		r.serving.Add(-1)
	}
	if recall {
		r.proposer.submit(o)
		return
	}
	if r.commands.isOwn(&o.req) {
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
func (r *router) follow(o *op) {
	done := o.done
	r.writes.Begin(r.clock.Monotonic(), r.cfg.LeaderWait)
	o.done = func(out outcome, res resp.Result) {
		r.writes.End(r.clock.Monotonic(), out, res.Index)
		done(out, res)
	}
}
