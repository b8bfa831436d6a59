package cluster

import (
	"context"
	"slices"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/request"
	"lockd/cluster/wake"
	"lockd/resp"
)

// Do runs a request of one of this node's clients, on whichever node must run it, and returns one
// reply for each of its commands. Failures are replies too (resp.ErrNotDone, resp.ErrUnknown). The
// caller has checked names and arity. When ctx ends, the client is gone: Do returns soon, and its
// replies have no meaning.
//
// The data commands of a request run first, together, as nothing may come in between, and all of them, also
// if Partly; then those about the node (INFO, WAIT ...), in their order. A command whose arguments are wrong is
// answered by this node, whatever the state of the cluster: no other node and no log sees it.
func (n *Node) Do(ctx context.Context, req resp.Request) resp.Result {
	n.commands.Identify(req.Cmds)
	if err := n.checkLevel(ctx, req); err != nil {
		return request.Fail(req, err.Error())
	}
	isOwn, wrong := func(c resp.Cmd) bool { return n.commands.own(&c) != nil }, n.commands.wrong(req)
	if wrong == nil && !slices.ContainsFunc(req.Cmds, isOwn) {
		return n.requests.Run(ctx, req)
	}
	data := req
	data.Cmds, data.Partly, data.Trace = nil, false, false
	for i, c := range req.Cmds {
		if _, is := wrong[i]; !is && !isOwn(c) {
			data.Cmds = append(data.Cmds, c)
		}
	}
	var done resp.Result
	if len(data.Cmds) > 0 {
		done = n.requests.Run(ctx, data)
	}
	if done.Aborted() {
		return done
	}
	replies, took := make([]resp.Reply, len(req.Cmds)), done.TookNs
	for i, c := range req.Cmds {
		if fail, is := wrong[i]; is {
			replies[i] = fail
		} else if isOwn(c) {
			began := n.clock.Monotonic()
			replies[i] = doOwn(ctx, n, c)
			took += int64(n.clock.Monotonic() - began)
		} else {
			replies[i], done.Replies = done.Replies[0], done.Replies[1:]
		}
	}
	return resp.Result{Replies: replies, Index: done.Index, TookNs: took, Denied: done.Denied}
}

// Block runs a blocking command of one of this node's clients and returns when it has ended. A value on unblock ends the
// wait, unless the command was served just before: unblocked tells which. When ctx ends, the client is gone: Block
// returns at once, its reply has no meaning, and the command is cancelled in the background. If the command is served,
// Block tells waiter, maybe after it has returned. Only Waiter.Served decides whether the client will hear of it: if it
// returns false, the client never does, and what it was given is taken back.
func (n *Node) Block(
	ctx context.Context, cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter,
) (reply resp.Reply, unblocked bool) {
	cmds := []resp.Cmd{cmd}
	n.commands.Identify(cmds)
	w := n.blocker.Wait(cmds[0], by, unblock, waiter)
	if w.Size() > record.RequestBytesMax {
		return resp.Err(request.TooLarge), false
	}
	if err := n.checkLevel(ctx, resp.Request{Cmds: cmds}); err != nil {
		return resp.Fail(err), false
	}
	if fail, wrong := n.commands.check(&cmds[0]); wrong {
		return fail, false
	}
	return w.Run(ctx)
}

// checkLevel refuses a request that comes with a later level than the one in force. This node may have yet to hear of
// that, so it looks again once it has applied all that is done by now.
func (n *Node) checkLevel(ctx context.Context, req resp.Request) error {
	err := n.commands.earlyAsked(req)
	if err == nil {
		return nil
	}
	if n.catchUp(ctx) != nil {
		return err
	}
	return n.commands.earlyAsked(req)
}

// catchUp returns when everything that was acknowledged before, on any node, has been applied here, or with an error
// for the client.
func (n *Node) catchUp(ctx context.Context) error {
	index, ok := n.requests.ConfirmedIndex(ctx)
	if !ok {
		return resp.Error(n.commands.notDone)
	}
	n.Await(ctx, index)
	if n.state.Delivered.Load() < index {
		return resp.Error("LOADING this node is behind the others: nothing was executed, try again, or ask another one")
	}
	return nil
}

// doOwn runs a command about the node, on the leader if that must run it.
func doOwn(ctx context.Context, n *Node, c resp.Cmd) resp.Reply {
	run := n.commands.own(&c).Run
	if run.here == nil {
		return n.requests.Run(ctx, resp.Request{Cmds: []resp.Cmd{c}}).Replies[0]
	}
	if leaf, fail := c.Spec.Check(c.Args); leaf == nil {
		return fail
	}
	return run.here(ctx, n, c.Args)
}

// leadOwn runs a command about the cluster on this node, which leads.
func leadOwn(ctx context.Context, n *Node, c resp.Cmd) (peer.Outcome, resp.Reply) {
	if leaf, fail := c.Spec.Check(c.Args); leaf == nil {
		return settled(fail)
	}
	run := n.commands.own(&c).Run
	if run.onLeader == nil {
		return settled(run.here(ctx, n, c.Args))
	}
	return run.onLeader(ctx, n, c.Args)
}

// Await returns once this node's clients have received the messages of all entries up to index. A
// leader's answer may arrive before they have. It waits no longer than LeaderWait.
func (n *Node) Await(ctx context.Context, index uint64) {
	if n.state.Delivered.Load() >= index {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.LeaderWait)
	defer cancel()
	tick := time.NewTicker(wake.PollEvery)
	defer tick.Stop()
	for n.state.Delivered.Load() < index {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-n.stop:
			return
		}
	}
}
