package peer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer/peertest"
	"lockd/resp"
)

// fakePeer is a node behind a port, whose answers a test decides.
type fakePeer struct {
	admits  func(Identity) error
	forward func(req resp.Request, deadline time.Time, respond func(Outcome, resp.Result))
	query   func(Question, func(resp.Reply)) // nil: it answers what it is asked
	term    atomic.Uint64

	mu       sync.Mutex
	refusals []string
	events   []string
}

func (f *fakePeer) handler() Handler {
	return Handler{
		Admit: f.admit, Forward: f.serveForward, Query: f.serveQuery, Status: f.serveStatus, Refused: f.refused,
		Suspected: f.suspected, Heard: f.heard, Ended: f.ended,
	}
}

func (f *fakePeer) admit(who Identity, _ Kind) error {
	if f.admits == nil {
		return nil
	}
	return f.admits(who)
}

func (f *fakePeer) serveForward(in Forwarded, answered func(Answer)) {
	req, deadline := in.Req, in.Until
	respond := func(o Outcome, res resp.Result) { answered(Answer{Outcome: o, Result: res}) }
	if f.forward != nil {
		f.forward(req, deadline, respond)
		return
	}
	respond(Done, echo(req))
}

func (f *fakePeer) serveQuery(q Question, respond func(resp.Reply)) {
	if f.query != nil {
		f.query(q, respond)
		return
	}
	respond(resp.Bulks(q.Args...))
}

func (f *fakePeer) serveStatus(shown int64) Status {
	return Status{Term: f.term.Load(), Leader: true, Applied: 8, LastIndex: 9, Wall: WallMax, Shown: shown}
}

func (f *fakePeer) refused(r *Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = append(f.refusals, r.By+": "+r.Text)
}

func (f *fakePeer) suspected(q Suspicion, respond func(Report)) {
	respond(Report{Sees: Ended, Term: f.term.Load(), LastTerm: 3, LastIndex: q.Process, Short: q.ID == "short"})
}

func (f *fakePeer) heard(who Identity, admitted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, fmt.Sprintf("heard %s %d %v", who.ID, who.Process, admitted))
}

func (f *fakePeer) ended(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, "ended "+id)
}

// told returns the reports about other nodes since the last call.
func (f *fakePeer) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := strings.Join(f.events, ", ")
	f.events = nil
	return told
}

func (f *fakePeer) allRefusals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.refusals...)
}

// echo answers each command with its name and arguments.
func echo(req resp.Request) resp.Result {
	var res resp.Result
	for _, c := range req.Cmds {
		res.Replies = append(res.Replies, resp.Bulks(c.Args...))
	}
	return res
}

func command(args ...string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: args}}}
}

// forward has the node at addr run an unbound request.
func forward(ctx context.Context, p *Port, addr string, req resp.Request) (Outcome, resp.Result) {
	a := p.Forward(ctx, addr, req, Binding{})
	return a.Outcome, a.Result
}

func startPeers(t testing.TB, n Network, id, addr string, f *fakePeer) *Port {
	t.Helper()
	p, err := Open(Config{
		Network: n, Listen: addr,
		Self: func() Identity { return Identity{Cluster: "c", ID: id, Incarnation: "i-" + id, PeerAddr: addr} },
	}, f.handler())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A forwarded request comes back with its answer, and a status question with the
// peer's status, over one connection.
func TestPeersForwardAndStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := peertest.NewNetwork()
		b := &fakePeer{}
		b.term.Store(7)
		pa := startPeers(t, net.From("a:1"), "a", "a:1", &fakePeer{})
		pb := startPeers(t, net.From("b:1"), "b", "b:1", b)
		defer pb.Close()
		defer pa.Close()

		for i := range 3 {
			o, res := forward(context.Background(), pa, "b:1", command("get", fmt.Sprint(i)))
			if o != Done || len(res.Replies) != 1 || res.Replies[0].Elems[1].Str != fmt.Sprint(i) {
				t.Fatalf("forward %d: %v %v", i, o, res)
			}
		}
		got, err := pa.Status(context.Background(), "b:1", 77)
		if want := (Status{Term: 7, Leader: true, Applied: 8, LastIndex: 9, Wall: WallMax, Shown: 77}); err != nil || got != want {
			t.Fatalf("status: %+v %v, want %+v", got, err, want)
		}
		if n := net.Conns(); n != 2 {
			t.Fatalf("%d ends of connections, want 2", n)
		}
	})
}

// Both sides judge a new connection, and the text of a refusal reaches the other
// side, whichever side refuses.
func TestPeersRefuse(t *testing.T) {
	for _, side := range []string{"dialler", "listener"} {
		synctest.Test(t, func(t *testing.T) {
			net := peertest.NewNetwork()
			no := func(who Identity) error { return fmt.Errorf("node %q was removed from the cluster", who.ID) }
			a, b := &fakePeer{}, &fakePeer{}
			other, want := a, `b: node "a" was removed from the cluster`
			if side == "dialler" {
				a.admits, other, want = no, b, `a: node "b" was removed from the cluster`
			} else {
				b.admits = no
			}
			pa := startPeers(t, net.From("a:1"), "a", "a:1", a)
			pb := startPeers(t, net.From("b:1"), "b", "b:1", b)
			defer pb.Close()
			defer pa.Close()
			if o, _ := forward(context.Background(), pa, "b:1", command("get", "k")); o != NotDone {
				t.Errorf("%s refuses: %v, want not done", side, o)
			}
			synctest.Wait()
			if got := other.allRefusals(); len(got) != 1 || got[0] != want {
				t.Errorf("%s refuses: the other side was told %q, want %q", side, got, want)
			}
		})
	}
}

// A node that has taken over another's address is not taken for it: its answers would count as the other's.
func TestPeersExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := peertest.NewNetwork()
		a, err := Open(Config{
			Network: net.From("a:1"), Listen: "a:1",
			Self:   func() Identity { return Identity{ID: "a", PeerAddr: "a:1"} },
			Expect: func(addr string) string { return map[string]string{"b:1": "b"}[addr] },
		}, (&fakePeer{}).handler())
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		other := &fakePeer{}
		for _, addr := range []string{"b:1", "c:1"} {
			p := startPeers(t, net.From(addr), "d", addr, other)
			defer p.Close()
		}
		if _, err := a.Status(t.Context(), "b:1", 0); err == nil {
			t.Error("d answered for b")
		}
		if _, err := a.Status(t.Context(), "c:1", 0); err != nil {
			t.Errorf("at an address without an owner: %v", err)
		}
		synctest.Wait()
		want := "a: node d answers at b:1, which is the address of node b"
		if got := other.allRefusals(); len(got) != 1 || got[0] != want {
			t.Errorf("d was told %q, want %q", got, want)
		}
	})
}
