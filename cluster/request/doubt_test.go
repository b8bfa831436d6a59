package request

import (
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/resp"
)

var voidEntry = &replica.Applied{Void: true}

// An attempt in doubt is recalled: from then on the log does not take it, so it is certainly not done.
func TestResolve(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		a := n.Attempts.begin(lead.Term, func() {})
		began := n.Clock.Monotonic()
		if out := n.resolve(t.Context(), a); out.Outcome != peer.NotDone || n.Clock.Monotonic()-began > time.Millisecond {
			t.Errorf("%+v after %v", out, n.Clock.Monotonic()-began)
		}
		if logged := n.logged(); len(logged) != 1 || !logged[0][0].Empty() {
			t.Errorf("%+v", logged)
		}
		n.idle()
	})
}

// A recall is asked for until it is logged, after pauses that double, within LeaderWait.
func TestResolveTriesAgain(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		n.Lead.Store(nil)
		a := n.Attempts.begin(lead.Term, func() {})
		time.AfterFunc(7*time.Millisecond, func() { n.Lead.Store(lead) })
		began := n.Clock.Monotonic() // attempts at 0, 2, 6 and 14 ms
		if out := n.resolve(t.Context(), a); out.Outcome != peer.NotDone || n.Clock.Monotonic()-began != 14*time.Millisecond {
			t.Errorf("%+v after %v", out, n.Clock.Monotonic()-began)
		}
		n.Lead.Store(nil)
		a = n.Attempts.begin(lead.Term, func() {})
		time.AfterFunc(2*time.Second, func() { n.Lead.Store(lead) })
		began = n.Clock.Monotonic()
		out := n.resolve(t.Context(), a)
		if took := n.Clock.Monotonic() - began; out.Outcome != peer.NotDone || took < 2*time.Second || took > 2050*time.Millisecond {
			t.Errorf("%+v after %v", out, took)
		}
		n.Lead.Store(nil)
		a = n.Attempts.begin(lead.Term, func() {})
		began = n.Clock.Monotonic()
		if out := n.resolve(t.Context(), a); out.Outcome != peer.Unknown || n.Clock.Monotonic()-began != leaderWait {
			t.Errorf("%+v after %v", out, n.Clock.Monotonic()-began)
		}
		n.Attempts.end(a)
		n.Lead.Store(lead)
		if pass(time.Minute); len(n.logged()) != 2 {
			t.Errorf("recalls go on after the answer: %d entries", len(n.logged()))
		}
		n.idle()
	})
}

// A recall belongs to a term: in a later one none is logged, since the log shows what became of the attempt.
func TestResolveOfAnOldTerm(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		a := n.Attempts.begin(lead.Term+1, func() {})
		time.AfterFunc(time.Second, func() {
			n.Attempts.Applied(lead.Term+2, &record.Entry{}, &replica.Applied{})
		})
		began := n.Clock.Monotonic()
		if out := n.resolve(t.Context(), a); out.Outcome != peer.NotDone || n.Clock.Monotonic()-began != time.Second {
			t.Errorf("%+v after %v", out, n.Clock.Monotonic()-began)
		}
		if len(n.logged()) != 0 {
			t.Errorf("%+v", n.logged())
		}
	})
}

// A leader's answer that comes before the messages of its entry is kept back if clients listen, until they have them, for
// LeaderWait at most.
func TestAwaitDelivery(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		listens := true
		n.Listening = func() bool { return listens }
		await := func(o peer.Outcome, index uint64) time.Duration {
			began, a := n.Clock.Monotonic(), n.Attempts.begin(lead.Term, func() {})
			time.AfterFunc(time.Second, func() {
				n.Attempts.Applied(lead.Term, &record.Entry{Origins: []record.Origin{a.Origin}, Reqs: []resp.Request{command("W")}},
					&replica.Applied{Results: make([]resp.Result, 1)})
			})
			n.awaitDelivery(t.Context(), a, peer.Answer{Outcome: o, Result: resp.Result{Index: index}})
			took := n.Clock.Monotonic() - began
			n.Attempts.end(a)
			pass(2 * time.Second)
			return took
		}
		n.State.Delivered.Store(10)
		for _, c := range []struct {
			o     peer.Outcome
			index uint64
			hear  bool
			want  time.Duration
		}{
			{peer.Done, 11, true, time.Second}, {peer.Done, 10, true, 0}, {peer.Done, 11, false, 0},
			{peer.NotDone, 11, true, 0}, {peer.Unknown, 11, true, 0}, {peer.Done, 10, false, 0},
		} {
			listens = c.hear
			if took := await(c.o, c.index); took != c.want {
				t.Errorf("%+v: it took %v", c, took)
			}
		}
		listens = true
		a := n.Attempts.begin(lead.Term, func() {})
		began := n.Clock.Monotonic()
		n.awaitDelivery(t.Context(), a, peer.Answer{Outcome: peer.Done, Result: resp.Result{Index: 11}})
		if took := n.Clock.Monotonic() - began; took != leaderWait {
			t.Errorf("what never comes was awaited for %v", took)
		}
		n.Attempts.end(a)
		synctest.Wait()
	})
}
