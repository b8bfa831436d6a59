package request

import (
	"context"

	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
)

// Run tries a request until its outcome is known, or cannot be known, or there has been no leader
// for LeaderWait. A request that is certainly not done is tried again, so a failover looks like
// latency. A read may always be tried again; a write whose outcome is unknown never is. A command
// about the node (Commands.IsOwn) counts as a write.
func (r *Router) Run(ctx context.Context, req resp.Request) resp.Result {
	if req.Size() > record.RequestBytesMax {
		return Fail(req, TooLarge)
	}
	r.Serving.Add(1)
	defer r.Serving.Add(-1)
	own := r.Commands.IsOwn(req.Cmds)
	write := own || req.Writes()
	start, pause := r.Clock.Monotonic(), wake.RetryMin
	var out peer.Answer
	if write && !own {
		r.Writes.Begin(start, r.LeaderWait)
		defer func() { r.Writes.End(r.Clock.Monotonic(), out.Outcome, out.Result.Index) }()
	}
	var done resp.Result // of earlier commands, if req is the rest of a request
	for {
		changed := r.Changed.Next()
		var doubted bool
		out, doubted = r.once(ctx, req, write)
		if doubted {
			start = r.Clock.Monotonic() // there is a leader, or this was the last attempt
		}
		res := out.Result
		switch {
		case out.Outcome == peer.Done && res.Left(req) == 0:
			return prepend(done, res)
		case out.Outcome == peer.Done && len(res.Replies) > 0:
			if req.Partly {
				return res
			}
			done.Replies = append(done.Replies, res.Replies...)
			done.TookNs += res.TookNs
			done.Denied = append(done.Denied, res.Denied...)
			req.Cmds = req.Cmds[len(res.Replies):]
			start, pause = r.Clock.Monotonic(), wake.RetryMin
			r.Writes.Note(start, peer.Done, res.Index)
		case out.Outcome == peer.Unknown && write:
			return prepend(done, Fail(req, resp.ErrUnknown))
		}
		left := r.LeaderWait - (r.Clock.Monotonic() - start)
		if left <= 0 || ctx.Err() != nil {
			return prepend(done, Fail(req, r.NotDone))
		}
		wake.Sleep(ctx, changed, min(pause, left))
		pause = min(2*pause, wake.RetryMax)
	}
}

// RunUntilDone repeats an idempotent request until it is done, or for LeaderWait. It builds a new
// request for each attempt.
func (r *Router) RunUntilDone(ctx context.Context, request func() resp.Request) (peer.Outcome, resp.Reply) {
	doubt := peer.NotDone
	var out peer.Answer
	r.Writes.Begin(r.Clock.Monotonic(), r.LeaderWait)
	defer func() { r.Writes.End(r.Clock.Monotonic(), out.Outcome, out.Result.Index) }()
	done := r.repeat(ctx, func() bool {
		req := request()
		r.Commands.Identify(req.Cmds)
		out = r.attempt(ctx, req, true)
		if out.Outcome == peer.Unknown {
			doubt = peer.Unknown
		}
		return out.Outcome == peer.Done && out.Result.Left(req) == 0 && !out.Result.Replies[0].IsErr()
	})
	if !done {
		return doubt, resp.Reply{}
	}
	return peer.Done, out.Result.Replies[0]
}

// ConfirmedIndex asks the leader for the index of an entry by which everything is applied that was acknowledged before.
// ok is false if no leader answers within LeaderWait.
func (r *Router) ConfirmedIndex(ctx context.Context) (index uint64, ok bool) {
	ok = r.repeat(ctx, func() bool {
		out := r.attempt(ctx, resp.Request{}, false)
		index = out.Result.Index
		return out.Outcome == peer.Done
	})
	return index, ok
}

// repeat calls attempt until it returns true, or for LeaderWait.
func (r *Router) repeat(ctx context.Context, attempt func() bool) bool {
	r.Serving.Add(1)
	defer r.Serving.Add(-1)
	start, pause := r.Clock.Monotonic(), wake.RetryMin
	for {
		changed := r.Changed.Next()
		if attempt() {
			return true
		}
		left := r.LeaderWait - (r.Clock.Monotonic() - start)
		if left <= 0 || ctx.Err() != nil {
			return false
		}
		wake.Sleep(ctx, changed, min(pause, left))
		pause = min(2*pause, wake.RetryMax)
	}
}

// prepend puts the result of the first commands of a request before that of the rest.
func prepend(first, rest resp.Result) resp.Result {
	if len(first.Replies) > 0 {
		rest.Replies, rest.Trace = append(first.Replies, rest.Replies...), nil // a Trace would cover only a part
		rest.Failed = false
		rest.TookNs += first.TookNs
		rest.Denied = append(first.Denied, rest.Denied...)
	}
	return rest
}

// once makes one attempt at a request. doubted means that the attempt was in doubt until the log
// showed its outcome.
func (r *Router) once(ctx context.Context, req resp.Request, write bool) (out peer.Answer, doubted bool) {
	switch own := r.Commands.IsOwn(req.Cmds); {
	case write && !own:
		return r.attemptWrite(ctx, req)
	case own && r.Lead.Load() != nil:
		o, res := r.localOwn(ctx, req)
		return peer.Answer{Outcome: o, Result: res}, false
	}
	return r.attempt(ctx, req, write), false
}
