package wait

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
)

// lateNode is a node on which a LOCK waits and is granted, and whose leader says that the grant is too old to be told.
type lateNode struct {
	*Blocker
	stop    chan struct{}
	unblock chan resp.Unblock
	after   func(n *lateNode, ctx context.Context, step *resp.BlockStep) (peer.Outcome, resp.Reply) // runs what is asked after the grant
	silent  bool                                                                                    // the leader answers no claim
	waits   bool                                                                                    // the LOCK is not granted

	mu       sync.Mutex
	asked    []resp.BlockID
	returned []resp.BlockID
	closed   []uint64
}

func (n *lateNode) start() {
	n.stop, n.unblock = make(chan struct{}), make(chan resp.Unblock, 1)
	n.Blocker = NewBlocker(BlockerConfig{
		State: replica.New(replica.Config{Machine: &given{}}), Clock: clock.NewSystem(), Changed: &wake.Broadcast{},
		Stop: n.stop, Heartbeat: 50 * time.Millisecond, LeaderWait: time.Second, NotDone: resp.ErrNotDone,
		Do: func(ctx context.Context, request func() resp.Request) (peer.Outcome, resp.Reply) {
			return n.do(ctx, request().Block)
		},
		Read: func(ctx context.Context, _ resp.Request) (resp.Result, bool) {
			late := resp.Int((2 * AnswerAgeMax).Milliseconds())
			return resp.Result{Replies: []resp.Reply{resp.Array(resp.Int(resp.ClaimGranted), late)}}, !n.silent
		},
	})
	go n.Keep()
}

func (n *lateNode) lock(ctx context.Context) resp.Reply {
	args := resp.Args{"LOCK", "door", "alice", "PX", "9000", "WAIT", "9000"}
	reply, _ := n.Wait(resp.Cmd{Spec: &resp.Spec{Name: resp.LockCommand}, Args: args}, "", n.unblock, told{}).Run(ctx)
	return reply
}

func (n *lateNode) do(ctx context.Context, step *resp.BlockStep) (peer.Outcome, resp.Reply) {
	n.mu.Lock()
	granted := len(n.asked) > 0
	if step.Kind == resp.BlockAsk {
		n.asked = append(n.asked, step.ID)
	}
	n.returned = append(n.returned, step.Undelivered...)
	if step.Kind == resp.BlockClose {
		n.closed = append(n.closed, step.Sessions...)
	}
	n.mu.Unlock()
	switch {
	case step.Kind == resp.BlockTend || step.Kind == resp.BlockClose:
		for _, id := range step.Cancelled {
			n.End(2, resp.BlockEnd{ID: id, How: resp.BlockCancelled})
		}
		return peer.Done, resp.OK()
	case granted:
		return n.after(n, ctx, step)
	case step.Kind == resp.BlockOpen:
		return peer.Done, resp.Int(1)
	case n.waits:
		return peer.Done, resp.Int(9000)
	}
	n.End(1, resp.BlockEnd{ID: step.ID, Reply: resp.Int(7), Given: true, Waited: true})
	return peer.Done, resp.Int(0)
}

// told is a client that gets its answer.
type told struct{}

func (told) DelayPushes()           {}
func (told) ResumePushes()          {}
func (told) Served(resp.Reply) bool { return true }

// A LOCK that was granted, could not be told, and cannot be asked for again may still be held: its client is not told
// that nothing was done. What it was granted goes back.
func TestGrantThatCannotBeAskedForAgain(t *testing.T) {
	lapse := func(n *lateNode, id resp.BlockID) (peer.Outcome, resp.Reply) {
		n.End(2, resp.BlockEnd{ID: id, How: resp.BlockLapsed})
		return peer.Done, resp.Int(0)
	}
	for name, after := range map[string]func(*lateNode, context.Context, *resp.BlockStep) (peer.Outcome, resp.Reply){
		"no leader": func(*lateNode, context.Context, *resp.BlockStep) (peer.Outcome, resp.Reply) {
			return peer.NotDone, resp.Reply{}
		},
		"unblocked before a session opens": func(n *lateNode, ctx context.Context, step *resp.BlockStep) (peer.Outcome, resp.Reply) {
			if step.Kind == resp.BlockAsk {
				return lapse(n, step.ID)
			}
			n.unblock <- resp.UnblockError
			<-ctx.Done()
			return peer.NotDone, resp.Reply{}
		},
		"the node leaves": func(n *lateNode, ctx context.Context, step *resp.BlockStep) (peer.Outcome, resp.Reply) {
			go n.Leave(context.WithoutCancel(ctx))
			synctest.Wait()
			return lapse(n, step.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := lateNode{after: after}
				n.start()
				if reply := n.lock(t.Context()); reply.Str != resp.ErrUnknown {
					t.Errorf("answered %q", reply.Str)
				}
				time.Sleep(time.Second)
				n.mu.Lock()
				defer n.mu.Unlock()
				if !slices.Contains(n.returned, n.asked[0]) {
					t.Errorf("went back: %v, not %v", n.returned, n.asked[0])
				}
				close(n.stop)
			})
		})
	}
}

// A node that leaves does not settle a gift of which its client is not told: the leader takes it back later.
func TestLeavingSettlesNoGiftThatIsNotTold(t *testing.T) {
	for _, silent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := lateNode{silent: silent}
			n.after = func(n *lateNode, _ context.Context, step *resp.BlockStep) (peer.Outcome, resp.Reply) {
				n.End(2, resp.BlockEnd{ID: step.ID, Reply: resp.Int(7), Given: true})
				return peer.Done, resp.Int(0)
			}
			n.start()
			go n.lock(t.Context())
			synctest.Wait()
			n.Leave(t.Context())
			if got := slices.Contains(n.closed, 1); got == silent {
				t.Errorf("with a leader that answers no claim: %t; sessions closed: %v", silent, n.closed)
			}
			close(n.stop)
		})
	}
}

// A node that leaves cancels what waits. Its clients are not told that their time is over: they ask another node.
func TestLeavingEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := lateNode{waits: true}
		n.start()
		replied := make(chan resp.Reply, 1)
		go func() { replied <- n.lock(t.Context()) }()
		synctest.Wait()
		n.Leave(t.Context())
		if reply := <-replied; reply.Str != resp.ErrNotDone {
			t.Errorf("answered %+v", reply)
		}
		if n.Waits() || !slices.Equal(n.closed, []uint64{1}) && len(n.Sessions()) > 0 {
			t.Errorf("waits: %t; sessions: %v, closed: %v", n.Waits(), n.Sessions(), n.closed)
		}
		close(n.stop)
	})
}
