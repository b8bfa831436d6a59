package cluster

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// What the planted bugs do (package fault) that is more than a line. Only test
// builds get here.

// ackEarly answers the ops that only set plain values, as if they had been applied.
func ackEarly(ops []*op) {
	for _, o := range ops {
		if replies, ok := expectedReplies(o); ok {
			o.done(outcomeDone, resp.Result{Replies: replies})
			o.done = func(outcome, resp.Result) {}
		}
	}
}

func expectedReplies(o *op) (replies []resp.Reply, ok bool) {
	for _, c := range o.req.Cmds {
		switch {
		case len(c.Args) == 3 && resp.Is(c.Args[0], "SET"):
			replies = append(replies, resp.OK())
		case len(c.Args) == 4 && resp.Is(c.Args[0], "HSET"):
			replies = append(replies, resp.Int(1))
		default:
			return nil, false
		}
	}
	return replies, o.change == nil && len(o.req.Watch) == 0
}

// verifyLeader confirms a read as raft's documentation suggests.
func (n *Node) verifyLeader() bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Heartbeat)
	defer cancel()
	return n.raft.State() == raft.Leader && n.wait(ctx, n.raft.VerifyLeader()) == nil
}

// viewOwn answers a read from this node's state, whether it leads or not.
func (n *Node) viewOwn(req resp.Request) resp.Result {
	n.mu.Lock()
	tick := n.machine.Tick()
	n.mu.Unlock()
	return n.view(&leadership{base: tick, origin: n.clock.Monotonic(), clock: n.clock}, req)
}

// sinceStamped is the time since the last entry was stamped, by the wall clock.
// Node.mu is held.
func (n *Node) sinceStamped() time.Duration {
	if n.appliedWall == 0 {
		return 0
	}
	return max(time.Duration(n.clock.Wall()-n.appliedWall)*time.Microsecond, 0)
}

// flipDigit changes what a SET of one digit stores, now and then.
func flipDigit(reqs []resp.Request) {
	for _, req := range reqs {
		for _, c := range req.Cmds {
			if len(c.Args) >= 3 && resp.Is(c.Args[0], "SET") && rand.IntN(100) == 0 {
				if n, ok := resp.ParseInt(c.Args[2]); ok {
					c.Args[2] = strconv.FormatInt(n^1, 10)
				}
			}
		}
	}
}

// nils answers every command of a request with nil.
func nils(req resp.Request) resp.Result {
	replies := make([]resp.Reply, len(req.Cmds))
	for i := range replies {
		replies[i] = resp.Nil()
	}
	return resp.Result{Replies: replies}
}
