package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockd/cluster/peer"
	"lockd/resp"
)

// Do runs a request of one of this node's clients, on whichever node must run it, and returns one
// reply for each of its commands. Failures are replies too (resp.ErrNotDone, resp.ErrUnknown). The
// caller has checked names and arity. When ctx ends, the client is gone: Do returns soon, and its
// replies have no meaning.
//
// The data commands of a request run first, together, as nothing may come in
// between; then those about the node (INFO, WAIT ...), in their order.
func (n *Node) Do(ctx context.Context, req resp.Request) resp.Result {
	n.identify(req.Cmds)
	isOwn := func(c resp.Cmd) bool { return n.own(&c) != nil }
	if !slices.ContainsFunc(req.Cmds, isOwn) {
		return n.run(ctx, req)
	}
	data := resp.Request{Cmds: slices.DeleteFunc(slices.Clone(req.Cmds), isOwn), Watch: req.Watch, Multi: req.Multi, Sender: req.Sender}
	var done resp.Result
	if len(data.Cmds) > 0 {
		done = n.run(ctx, data)
	}
	if done.Aborted() {
		return done
	}
	replies := make([]resp.Reply, len(req.Cmds))
	for i, c := range req.Cmds {
		if isOwn(c) {
			replies[i] = n.doOwn(ctx, c)
		} else {
			replies[i], done.Replies = done.Replies[0], done.Replies[1:]
		}
	}
	return resp.Result{Replies: replies}
}

// Await returns once this node's clients have received the messages of all entries up to index. A
// leader's answer may arrive before they have. It waits no longer than LeaderWait.
func (n *Node) Await(ctx context.Context, index uint64) {
	if n.state.deliveredNow.Load() >= index {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.LeaderWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for n.state.deliveredNow.Load() < index {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-n.stop:
			return
		}
	}
}

// fail answers every command of a request alike, and one without commands once.
func fail(req resp.Request, text string) resp.Result {
	replies := make([]resp.Reply, max(1, len(req.Cmds)))
	for i := range replies {
		replies[i] = resp.Err(text)
	}
	return resp.Result{Replies: replies}
}

// Pauses between two attempts at a request, unless a new leader shows up before.
const (
	retryPauseMin = 2 * time.Millisecond
	retryPauseMax = 50 * time.Millisecond
)

// run tries a request until its outcome is known, or cannot be known, or there has been no leader
// for LeaderWait. A request that is certainly not done is tried again, so a failover looks like
// latency. A read may always be tried again; a write whose outcome is unknown never is. A command
// about the node (Node.isOwn) counts as a write.
func (n *Node) run(ctx context.Context, req resp.Request) resp.Result {
	if req.Size() > RequestBytesMax {
		return fail(req, errRequestTooLarge)
	}
	n.serving.Add(1)
	defer n.serving.Add(-1)
	write := n.isOwn(&req) || req.Writes()
	start, pause := n.clock.Monotonic(), retryPauseMin
	var done []resp.Reply // replies to the commands before those of req, if req is the rest of a request
	for {
		changed := n.changed.next()
		out, doubted := n.try(ctx, req, write)
		if doubted {
			start = n.clock.Monotonic() // there is a leader, or this was the last attempt
		}
		res := out.result
		switch {
		case out.outcome == outcomeDone && res.Left(req) == 0:
			return behind(done, res)
		case out.outcome == outcomeDone && len(res.Replies) > 0:
			if req.Partly {
				return res
			}
			done = append(done, res.Replies...)
			req.Cmds = req.Cmds[len(res.Replies):]
			start, pause = n.clock.Monotonic(), retryPauseMin
		case out.outcome == outcomeUnknown && write:
			return behind(done, fail(req, resp.ErrUnknown))
		}
		left := n.cfg.LeaderWait - (n.clock.Monotonic() - start)
		if left <= 0 || ctx.Err() != nil {
			return behind(done, fail(req, n.protocol.notDone))
		}
		sleep(ctx, changed, min(pause, left))
		pause = min(2*pause, retryPauseMax)
	}
}

// behind puts the replies to the first commands of a request before those to the rest.
func behind(first []resp.Reply, rest resp.Result) resp.Result {
	if len(first) > 0 {
		rest.Replies, rest.Trace = append(first, rest.Replies...), nil // a Trace would cover only a part
	}
	return rest
}

var errRequestTooLarge = fmt.Sprintf("ERR request is larger than %d bytes: nothing was executed", RequestBytesMax)

// try makes one attempt at a request. doubted means that the attempt was in doubt until the log
// showed its outcome.
func (n *Node) try(ctx context.Context, req resp.Request, write bool) (out answer, doubted bool) {
	switch own := n.isOwn(&req); {
	case write && !own:
		return n.attemptWrite(ctx, req)
	case own && n.lead.Load() != nil:
		o, res := n.localOwn(ctx, req)
		return answer{outcome: o, result: res}, false
	}
	return n.attempt(ctx, req, write), false
}

// attempt makes one attempt at a request: here if this node leads, otherwise at the leader. The
// attempt has no origin, so it cannot be found in the log afterwards.
func (n *Node) attempt(ctx context.Context, req resp.Request, write bool) answer {
	if n.lead.Load() != nil {
		return n.local(ctx, req, write, &attempt{})
	}
	addr, ctx, cancel, ok := n.leaderElsewhere(ctx)
	if !ok {
		return answer{outcome: outcomeNotDone}
	}
	defer cancel()
	return n.forward(ctx, addr, req, &attempt{})
}

// leaderElsewhere returns the address of another node that leads, and a context that ends with its
// term.
func (n *Node) leaderElsewhere(
	ctx context.Context,
) (addr string, term context.Context, cancel context.CancelFunc, ok bool) {
	at, id := n.raft.LeaderWithID()
	if at == "" || string(id) == n.cfg.ID {
		return "", nil, nil, false
	}
	term, cancel, ok = n.leaderWatch.termOf(ctx, string(id))
	return string(at), term, cancel, ok
}

// answer is the outcome of a request.
type answer struct {
	outcome outcome
	result  resp.Result // good only if the outcome is outcomeDone
}

// forward has the node at addr run req as the attempt a, and waits for the answer until ctx
// ends.
func (n *Node) forward(ctx context.Context, addr string, req resp.Request, a *attempt) answer {
	out := n.peers.Forward(ctx, addr, req, peer.Binding{Session: a.session, Number: a.number, Term: a.term})
	return answer{outcome: out.Outcome, result: out.Result}
}

// local runs a data request on this node, which leads.
func (n *Node) local(ctx context.Context, req resp.Request, write bool, a *attempt) answer {
	if !write {
		if lead := n.lead.Load(); lead != nil && n.raft.alone() {
			return n.readAlone(lead, req)
		}
	}
	ch := make(chan answer, 1)
	o := &op{ctx: ctx, req: req, origin: a.origin, term: a.term, size: req.Size()}
	o.done = func(out outcome, res resp.Result) { ch <- answer{out, res} }
	n.submit(o, write)
	select {
	case out := <-ch:
		return out
	case <-ctx.Done():
		return answer{outcome: outcomeUnknown}
	}
}

// submit queues a request. A read goes to the reader, and so does a write that would be refused in
// the present state; any other write goes to the proposer.
func (n *Node) submit(o *op, write bool) {
	switch {
	case !write:
		n.reader.submit(o)
	case !n.mayTry(o):
		n.proposer.submit(o)
	case n.isRefused(o.req):
		o.try = true
		n.reader.submit(o)
	default:
		n.reader.claim(o)
	}
}

// tryBytesMax bounds a request that is tried as a read first. Such requests are small, so those
// that wait for a round are not counted.
const tryBytesMax = 64 << 10

// mayTry reports whether a request is of a kind that often changes nothing.
func (n *Node) mayTry(o *op) bool {
	if len(o.req.Cmds) != 1 || o.req.Block != nil || o.size > tryBytesMax {
		return false
	}
	c := &o.req.Cmds[0]
	return c.Spec != nil && c.Spec.Keys == resp.FirstKey && c.Spec.MayRefuse(c.Args)
}

// isRefused reports whether a request would change nothing in the present state. That is no answer
// yet: it must be confirmed that this node still leads.
func (n *Node) isRefused(req resp.Request) bool {
	lead := n.lead.Load()
	if lead == nil {
		return false
	}
	_, ok := n.state.tryOut(lead, req)
	return ok
}

func (n *Node) readAlone(lead *leadership, req resp.Request) answer {
	if !n.reader.confirm(lead) {
		return answer{outcome: outcomeNotDone}
	}
	return answer{outcome: outcomeDone, result: n.state.view(lead, req)}
}

// serveForward implements peer.Handler. It runs a request of another node's client, and never
// forwards it again: a node that does not lead, or leads in another term than the one the request
// is bound to, answers that it is not done.
func (n *Node) serveForward(f peer.Forwarded, respond func(peer.Answer)) {
	o := &op{until: f.Until, req: f.Req, origin: origin{f.Session, f.Number}, term: f.Term, size: f.Req.Size()}
	n.identify(o.req.Cmds)
	recall, lead := isRecall(o.req), n.lead.Load()
	if lead == nil || !lead.takes(f.Term) || recall && f.Number == 0 {
		respond(peer.Answer{Outcome: outcomeNotDone})
		return
	}
	if o.size > RequestBytesMax {
		respond(peer.Answer{Outcome: outcomeDone, Result: fail(o.req, errRequestTooLarge)})
		return
	}
	n.serving.Add(1)
	o.done = func(out outcome, res resp.Result) {
		respond(peer.Answer{Outcome: out, Result: res})
		n.serving.Add(-1)
	}
	if recall {
		n.proposer.submit(o)
		return
	}
	if n.isOwn(&o.req) {
		go func() {
			ctx, cancel := context.WithDeadline(context.Background(), o.until)
			defer cancel()
			o.done(n.localOwn(ctx, o.req))
		}()
		return
	}
	write := o.req.Writes()
	if n.mayTry(o) {
		go n.submit(o, write) // it locks the machine, and the connection must not wait for that
		return
	}
	n.submit(o, write)
}

// serveStatus implements peer.Handler.
func (n *Node) serveStatus() peer.Status {
	if !n.raft.started.Load() {
		return peer.Status{} // term 0 is nobody's
	}
	return peer.Status{
		Term:      n.raft.CurrentTerm(),
		Leader:    n.lead.held(),
		Applied:   n.state.appliedNow.Load(),
		LastIndex: n.raft.LastIndex(),
	}
}
