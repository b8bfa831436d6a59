package request

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/peer/peertest"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/resp"
)

// farLeader is the leader of a node that does not lead.
type farLeader struct {
	mu    sync.Mutex
	asked []peer.Forwarded
	terms int // contexts of its term that have not been given back

	serve  func(f peer.Forwarded) peer.Answer
	follow bool // the node hears of no other leader meanwhile
}

// requests returns what the leader was asked since the last call, once everybody waits.
func (l *farLeader) requests() (asked []peer.Forwarded) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, l.asked = l.asked, nil
	return asked
}

func (l *farLeader) forward(f peer.Forwarded, respond func(peer.Answer)) {
	l.mu.Lock()
	l.asked = append(l.asked, f)
	l.mu.Unlock()
	respond(l.serve(f))
}

// termOf is the TermOf of its followers.
func (l *farLeader) termOf(ctx context.Context, _ string) (context.Context, context.CancelFunc, bool) {
	if !l.follow {
		return nil, nil, false
	}
	term, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms++
	return term, sync.OnceFunc(func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.terms--
	}), true
}

// idle is that of the node, and holds that it waits for the leader no longer.
func (l *farLeader) idle(n *oneNode) {
	n.t.Helper()
	n.idle()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms != 0 {
		n.t.Errorf("%d contexts of the leader's term are left", l.terms)
	}
}

// withFarLeader runs a test on a node that follows another one, which answers as serve of the leader says.
func withFarLeader(t *testing.T, test func(t *testing.T, n *oneNode, l *farLeader)) {
	t.Helper()
	withNode(t, func(t *testing.T, n *oneNode) {
		l, net := &farLeader{follow: true}, peertest.NewNetwork()
		open := func(id, addr string, serve func(peer.Forwarded, func(peer.Answer))) *peer.Port {
			p, err := peer.Open(peer.Config{
				Network: net.From(addr), Listen: addr,
				Self: func() peer.Identity {
					return peer.Identity{Cluster: "c", ID: id, Incarnation: "i-" + id, PeerAddr: addr}
				},
			}, peer.Handler{
				Admit: func(peer.Identity, peer.Kind) error { return nil }, Forward: serve,
				Status:  func(int64) peer.Status { return peer.Status{} },
				Refused: func(*peer.Refusal) {}, Suspected: func(peer.Suspicion, func(peer.Report)) {},
				Heard: func(peer.Identity, bool) {}, Ended: func(string) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		leader, _ := n.Raft.LeaderWithID() // Raft's leader is another node than the one that tests run on
		far := open("n1", string(leader), l.forward)
		n.Self, n.Peers, n.TermOf = "n2", open("n2", "n2:1", func(peer.Forwarded, func(peer.Answer)) {}), l.termOf
		defer func() {
			n.Peers.Close()
			far.Close()
		}()
		test(t, n, l)
	})
}

// A write is taken to the node that leads, once, as an attempt of this node that the log can show.
func TestWriteElsewhere(t *testing.T) {
	withFarLeader(t, func(t *testing.T, n *oneNode, l *farLeader) {
		l.serve = func(peer.Forwarded) peer.Answer {
			return peer.Answer{Outcome: peer.Done, Result: resp.Result{Replies: []resp.Reply{resp.Int(5)}}}
		}
		for i := range uint64(2) {
			res := n.Run(t.Context(), n.req("W a"))
			if len(res.Replies) != 1 || res.Replies[0].Int != 5 {
				t.Errorf("%+v", res)
			}
			want := peer.Binding{Session: n.Attempts.session, Number: i + 1, Term: n.Raft.CurrentTerm()}
			if asked := l.requests(); len(asked) != 1 || asked[0].Binding != want || asked[0].Req.Cmds[0].Args[1] != "a" {
				t.Errorf("%+v, want %+v", asked, want)
			}
			l.idle(n)
		}
		l.follow = false
		if out, doubted := n.attemptWrite(t.Context(), n.req("W a")); out.Outcome != peer.NotDone || doubted {
			t.Errorf("the leader has changed: %v, in doubt %v", out.Outcome, doubted)
		}
		l.follow = true
		var open []*attempt
		for range attemptsMax {
			open = append(open, n.Attempts.begin(n.Raft.CurrentTerm(), func() {}))
		}
		if out, doubted := n.attemptWrite(t.Context(), n.req("W a")); out.Outcome != peer.NotDone || doubted {
			t.Errorf("with too many attempts: %v, in doubt %v", out.Outcome, doubted)
		}
		for _, a := range open {
			n.Attempts.end(a)
		}
		if asked := l.requests(); len(asked) != 0 {
			t.Errorf("%+v", asked)
		}
		l.idle(n)
	})
}

// A read is taken to the node that leads. It is no attempt: it may be done any number of times.
func TestReadElsewhere(t *testing.T) {
	withFarLeader(t, func(t *testing.T, n *oneNode, l *farLeader) {
		l.serve = func(peer.Forwarded) peer.Answer {
			return peer.Answer{Outcome: peer.Done, Result: resp.Result{Replies: []resp.Reply{resp.Int(5)}, Index: 9}}
		}
		if res, ok := n.Read(t.Context(), n.req("R a")); !ok || res.Replies[0].Int != 5 {
			t.Errorf("%+v, %v", res, ok)
		}
		if index, ok := n.ConfirmedIndex(t.Context()); !ok || index != 9 {
			t.Errorf("index %d, %v", index, ok)
		}
		asked := l.requests()
		if len(asked) != 2 || asked[0].Binding != (peer.Binding{}) || asked[1].Binding != (peer.Binding{}) || !asked[1].Req.Empty() {
			t.Errorf("%+v", asked)
		}
		l.idle(n)
		l.follow = false
		if _, ok := n.Read(t.Context(), n.req("R a")); ok || len(l.requests()) != 0 {
			t.Error("a leader that is none any more was asked")
		}
	})
}

// A write whose answer is lost is recalled at the node that leads, so that the log shows that it is not done.
func TestRecallElsewhere(t *testing.T) {
	withFarLeader(t, func(t *testing.T, n *oneNode, l *farLeader) {
		l.serve = func(f peer.Forwarded) peer.Answer {
			if !f.Req.Empty() {
				return peer.Answer{Outcome: peer.Unknown}
			}
			time.AfterFunc(time.Second, func() {
				n.Attempts.Applied(f.Term, &record.Entry{
					Reqs: []resp.Request{{}}, Origins: []record.Origin{{Session: f.Session, Number: f.Number}},
				}, &replica.Applied{Results: make([]resp.Result, 1)})
			})
			return peer.Answer{Outcome: peer.Done, Result: resp.Result{Replies: make([]resp.Reply, 1)}}
		}
		began := n.Clock.Monotonic()
		out, doubted := n.attemptWrite(t.Context(), n.req("W a"))
		if took := n.Clock.Monotonic() - began; out.Outcome != peer.NotDone || !doubted || took != time.Second {
			t.Errorf("%v, in doubt %v, after %v", out.Outcome, doubted, took)
		}
		asked := l.requests()
		if len(asked) != 2 || asked[0].Binding != asked[1].Binding || asked[1].Number == 0 || !asked[1].Req.Empty() {
			t.Errorf("%+v", asked)
		}
		l.idle(n)
	})
}

// The answer of the node that leads waits for the messages of its entry, where clients listen to messages.
func TestWriteElsewhereAwaitsDelivery(t *testing.T) {
	withFarLeader(t, func(t *testing.T, n *oneNode, l *farLeader) {
		n.Listening = func() bool { return true }
		l.serve = func(f peer.Forwarded) peer.Answer {
			time.AfterFunc(time.Second, func() {
				n.Attempts.Applied(f.Term, &record.Entry{
					Reqs: []resp.Request{f.Req}, Origins: []record.Origin{{Session: f.Session, Number: f.Number}},
				}, &replica.Applied{Results: make([]resp.Result, 1)})
			})
			return peer.Answer{Outcome: peer.Done, Result: resp.Result{
				Replies: []resp.Reply{resp.Int(5)}, Index: n.State.Delivered.Load() + 1,
			}}
		}
		began := n.Clock.Monotonic()
		out, doubted := n.attemptWrite(t.Context(), n.req("W a"))
		if took := n.Clock.Monotonic() - began; out.Outcome != peer.Done || doubted || took != time.Second ||
			out.Result.Replies[0].Int != 5 {
			t.Errorf("%+v, in doubt %v, after %v", out, doubted, took)
		}
		l.idle(n)
	})
}
