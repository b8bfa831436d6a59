package request

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
	"lockd/resp/fault"
)

// A write is logged and answered, a read is answered from what is applied; nothing is left behind.
func TestRunOnLeader(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(5000)
		n.machine.apply = func(resp.Request) resp.Result { return resp.Result{Replies: []resp.Reply{resp.Status("written")}} }
		n.machine.view = func(resp.Request) resp.Result { return resp.Result{Replies: []resp.Reply{resp.Status("read")}} }
		pass(20 * time.Millisecond)
		if res := n.Run(t.Context(), n.req("W k")); said(res) != "written" || res.Index == 0 {
			t.Errorf("%+v", res)
		}
		if _, tick := n.machine.state(); tick < 5020 || tick > 5021 {
			t.Errorf("stamped with the tick %d", tick)
		}
		pass(30 * time.Millisecond)
		if res := n.Run(t.Context(), n.req("R k")); said(res) != "read" {
			t.Errorf("%+v", res)
		}
		if at := n.machine.seen[0]; at.Tick < 5050 || at.Tick > 5052 || at.Wall == 0 {
			t.Errorf("read at %+v", at)
		}
		if res := n.Run(t.Context(), n.req("O status")); res.Replies[0].Int != 7 {
			t.Errorf("%+v", res)
		}
		if got := n.logged()[len(n.logged())-1]; len(got) != 1 || got[0].Cmds[0].Args[0] != "W" {
			t.Errorf("logged: %+v", got)
		}
		if n.Writes.Stuck(n.Clock.Monotonic()+time.Hour, leaderWait) {
			t.Error("a write that is answered counts as stuck")
		}
		n.idle()
	})
}

// Without a leader a request is tried again until LeaderWait is over, and then certainly not done.
func TestRunWithoutLeader(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		for _, line := range []string{"W k", "R k"} {
			began := n.Clock.Monotonic()
			res := n.Run(t.Context(), n.req(line, line))
			if took := n.Clock.Monotonic() - began; said(res) != "LOADING not done|LOADING not done" || !res.Failed || took != leaderWait {
				t.Errorf("%s: %+v after %v", line, res, took)
			}
		}
		if !n.Writes.Stuck(n.Clock.Monotonic()+time.Second, time.Millisecond) && !n.Writes.Stuck(n.Clock.Monotonic(), leaderWait+time.Second) {
			if n.Writes.Stuck(n.Clock.Monotonic(), leaderWait/2) != true {
				t.Error("writes that fail do not count as stuck")
			}
		}
		n.idle()
	})
}

// A request that waits for a leader goes on as soon as there is one.
func TestRunWaitsForLeader(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		for _, line := range []string{"W k", "R k"} {
			n.Lead.Store(nil)
			began, done := n.Clock.Monotonic(), make(chan resp.Result)
			go func() { done <- n.Run(t.Context(), n.req(line)) }()
			pass(time.Second + 7*time.Millisecond)
			n.leads(1)
			res := <-done
			if took := n.Clock.Monotonic() - began; len(res.Replies) != 1 || res.Failed || took > time.Second+9*time.Millisecond {
				t.Errorf("%s: %+v after %v", line, res, took)
			}
		}
		n.idle()
	})
}

// The pauses between attempts double, from the least to the greatest.
func TestRunPauses(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		var times []time.Duration
		n.Own = func(context.Context, resp.Cmd) (peer.Outcome, resp.Reply) {
			times = append(times, n.Clock.Monotonic())
			return peer.NotDone, resp.Reply{}
		}
		if res := n.Run(t.Context(), n.req("OLATER x")); said(res) != "LOADING not done" {
			t.Errorf("%+v", res)
		}
		want := wake.RetryMin
		for i := 1; i < len(times)-1; i++ {
			if pause := times[i] - times[i-1]; pause != want {
				t.Fatalf("pause %d is %v, not %v", i, pause, want)
			}
			want = min(2*want, wake.RetryMax)
		}
		times = nil
		if n.ConfirmedIndex(t.Context()); len(times) != 0 {
			t.Error("a question runs a command")
		}
	})
}

// A client that is gone stops the attempts.
func TestRunUntilClientGoes(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := n.Clock.Monotonic()
		res := n.Run(ctx, n.req("R k"))
		if took := n.Clock.Monotonic() - began; said(res) != "LOADING not done" || took != time.Second {
			t.Errorf("%+v after %v", res, took)
		}
		n.idle()
	})
}

// A request may be as large as record.RequestBytesMax, and no larger.
func TestRunTooLarge(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		req := n.req("W k")
		room := record.RequestBytesMax - req.Size()
		req.Cmds[0].Args[1] += strings.Repeat("x", room)
		if req.Size() != record.RequestBytesMax {
			t.Fatal(req.Size())
		}
		if res := n.Run(t.Context(), req); res.Failed {
			t.Errorf("%.100s", said(res))
		}
		var forwarded peer.Answer
		n.Serve(peer.Forwarded{Req: req, Until: time.Now().Add(time.Minute)}, func(a peer.Answer) { forwarded = a })
		pass(time.Second)
		if forwarded.Outcome != peer.Done || forwarded.Result.Failed {
			t.Errorf("forwarded: %+v", forwarded)
		}
		req.Cmds[0].Args[1] += "x"
		if res := n.Run(t.Context(), req); said(res) != TooLarge || !res.Failed {
			t.Errorf("%.100s", said(res))
		}
		n.Serve(peer.Forwarded{Req: req, Until: time.Now().Add(time.Minute)}, func(a peer.Answer) { forwarded = a })
		if said(forwarded.Result) != TooLarge {
			t.Errorf("forwarded: %+v", forwarded)
		}
		n.idle()
	})
}

// Commands that the machine leaves for another entry follow in the next one; all replies, and all that was denied, come
// together. Each part has LeaderWait of its own.
func TestRunLeftCommands(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		one := func(req resp.Request) resp.Result {
			return resp.Result{
				Replies: []resp.Reply{resp.Status(req.Cmds[0].Args[1])}, TookNs: 5, Trace: &resp.Trace{},
				Denied: []resp.Denial{{}},
			}
		}
		n.machine.apply, n.machine.view = one, one
		res := n.Run(t.Context(), n.req("W a", "W b", "W c"))
		if said(res) != "a|b|c" || res.Failed || res.Trace != nil || len(res.Denied) != 3 {
			t.Errorf("%+v", res)
		}
		began := n.Clock.Monotonic()
		n.machine.apply = func(req resp.Request) resp.Result {
			if req.Cmds[0].Args[1] == "b" {
				n.Lead.Store(nil)
				return resp.Result{Replies: []resp.Reply{resp.Status("b")}}
			}
			return one(req)
		}
		n.slow.Store(int64(leaderWait - time.Second))
		res = n.Run(t.Context(), n.req("W a", "W b", "W c"))
		n.slow.Store(0)
		took := n.Clock.Monotonic() - began
		if said(res) != "a|b|LOADING not done" || res.Failed || took < 2*leaderWait-time.Second {
			t.Errorf("%+v after %v", res, took)
		}
		n.leads(1)
		partly := n.req("R a", "R b")
		partly.Partly = true
		if res := n.Run(t.Context(), partly); said(res) != "a" || res.Trace == nil {
			t.Errorf("%+v", res)
		}
		n.idle()
	})
}

// An error of Raft that leaves open whether the entry is in the log is answered as unknown, and the write is not tried
// again; a read is.
func TestRunUnknown(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.slow.Store(int64(CommitWaitMax + leaderWait + time.Second))
		began := n.Clock.Monotonic()
		res := n.Run(t.Context(), n.req("W k"))
		took := n.Clock.Monotonic() - began
		if said(res) != resp.ErrUnknown || !res.Failed || took != CommitWaitMax+leaderWait {
			t.Errorf("%+v after %v", res, took)
		}
		n.slow.Store(0)
		pass(time.Minute)
		if len(n.logged()) > 2 { // the write, and its recall
			t.Errorf("%d entries", len(n.logged()))
		}
		n.idle()
	})
}

// A write whose answer is late is answered as the log shows it.
func TestRunInDoubt(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.slow.Store(int64(CommitWaitMax + time.Second))
		n.machine.apply = func(resp.Request) resp.Result { return resp.Result{Replies: []resp.Reply{resp.Status("late")}} }
		if res := n.Run(t.Context(), n.req("W k")); said(res) != "late" {
			t.Errorf("%+v", res)
		}
		n.slow.Store(0)
		pass(time.Minute)
		n.idle()
	})
}

// A command of the node runs on the leader. Its error counts only if the node still leads.
func TestRunOwn(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		if res := n.Run(t.Context(), n.req("OERR x")); said(res) != "ERR of the node" {
			t.Errorf("%+v", res)
		}
		if out, _ := n.localOwn(t.Context(), n.req("OLATER x")); out != peer.NotDone {
			t.Errorf("%v", out)
		}
		if len(n.logged()) != 0 {
			t.Error("it is logged")
		}
	})
}

// RunUntilDone builds the request anew until it is done, and says whether one of the attempts is in doubt.
func TestRunUntilDone(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		tries := 0
		build := func() resp.Request {
			tries++
			return resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"W", fmt.Sprint(tries)}}, {Args: resp.Args{"W", "2"}}}}
		}
		n.machine.apply = func(req resp.Request) resp.Result {
			switch tries {
			case 1:
				return resp.Result{Replies: []resp.Reply{resp.Err("ERR not yet"), {}}}
			case 2:
				return resp.Result{Replies: []resp.Reply{resp.Status("a part")}}
			}
			return resp.Result{Replies: []resp.Reply{resp.Status("done " + req.Cmds[0].Args[1]), {}}}
		}
		if out, reply := n.RunUntilDone(t.Context(), build); out != peer.Done || reply.Str != "done 3" || tries != 3 {
			t.Errorf("%v, %+v, %d tries", out, reply, tries)
		}
		n.machine.apply = func(req resp.Request) resp.Result { return resp.Result{Replies: []resp.Reply{resp.Err("ERR"), {}}} }
		began := n.Clock.Monotonic()
		if out, _ := n.RunUntilDone(t.Context(), build); out != peer.NotDone || n.Clock.Monotonic()-began != leaderWait {
			t.Errorf("%v after %v", out, n.Clock.Monotonic()-began)
		}
		n.slow.Store(int64(CommitWaitMax + time.Second))
		if out, _ := n.RunUntilDone(t.Context(), build); out != peer.Unknown {
			t.Errorf("%v", out)
		}
		n.slow.Store(0)
		pass(time.Minute)
		n.idle()
	})
}

// A confirmed index is one by which everything is applied that was acknowledged before; without a leader there is none.
func TestConfirmedIndex(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		began := n.Clock.Monotonic()
		if _, ok := n.ConfirmedIndex(t.Context()); ok || n.Clock.Monotonic()-began != leaderWait {
			t.Errorf("without a leader, after %v", n.Clock.Monotonic()-began)
		}
		n.leads(1)
		res := n.Run(t.Context(), n.req("W k"))
		if index, ok := n.ConfirmedIndex(t.Context()); !ok || index != res.Index {
			t.Errorf("%d of %d, %v", index, res.Index, ok)
		}
		n.idle()
	})
}

// Two attempts of prepend: what was not in parts stays as it is.
func TestPrepend(t *testing.T) {
	trace := &resp.Trace{}
	rest := resp.Result{Replies: []resp.Reply{resp.Status("b")}, Failed: true, Trace: trace, TookNs: 4, Denied: []resp.Denial{{}}}
	if res := prepend(resp.Result{}, rest); !res.Failed || res.Trace != trace || said(res) != "b" {
		t.Errorf("%+v", res)
	}
	first := resp.Result{Replies: []resp.Reply{resp.Status("a")}, TookNs: 3, Denied: []resp.Denial{{}, {}}}
	if res := prepend(first, rest); res.Failed || res.Trace != nil || said(res) != "a|b" || res.TookNs != 7 || len(res.Denied) != 3 {
		t.Errorf("%+v", res)
	}
}

func TestFail(t *testing.T) {
	for n, want := range []string{"no", "no", "no|no"} {
		if res := Fail(resp.Request{Cmds: make([]resp.Cmd, n)}, "no"); said(res) != want || !res.Failed || !res.Replies[0].IsErr() {
			t.Errorf("%d commands: %+v", n, res)
		}
	}
}

// serve serves a request of another node, and returns the answer, which comes within a minute.
func (n *oneNode) serve(f peer.Forwarded) (a peer.Answer) {
	n.t.Helper()
	answers := 0
	if f.Until.IsZero() {
		f.Until = time.Now().Add(time.Minute)
	}
	n.Serve(f, func(is peer.Answer) { a, answers = is, answers+1 })
	pass(time.Minute)
	if answers != 1 {
		n.t.Errorf("%d answers", answers)
	}
	return a
}

// A request of another node is answered as one of a client, if this node leads in the term that it is bound to.
func TestServe(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		bound := peer.Binding{Session: 5, Number: 1, Term: n.Raft.CurrentTerm()}
		plain := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"W", "k"}}}}
		if a := n.serve(peer.Forwarded{Req: plain}); a.Outcome != peer.NotDone {
			t.Errorf("without a leader: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: plain, Binding: bound}); a.Outcome != peer.NotDone {
			t.Errorf("without a leader, bound to a term: %+v", a)
		}
		lead := n.leads(1)
		if a := n.serve(peer.Forwarded{Req: plain, Binding: bound}); a.Outcome != peer.Done || a.Result.Index == 0 {
			t.Errorf("%+v", a)
		}
		other := bound
		other.Term = lead.Term + 1
		if a := n.serve(peer.Forwarded{Req: plain, Binding: other}); a.Outcome != peer.NotDone {
			t.Errorf("of another term: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: n.req("R k")}); a.Outcome != peer.Done || a.Result.Index != 0 {
			t.Errorf("a read: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"O", "x"}}}}}); a.Result.Replies[0].Int != 7 {
			t.Errorf("a command of the node: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"X", "x"}}}}}); a.Outcome != peer.Done {
			t.Errorf("an unknown command: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: n.req("U x")}); a.Outcome != peer.Done || said(a.Result) != "ERR unknown here" {
			t.Errorf("a command that must not be logged: %+v", a)
		}
		o := &op{req: n.req("U x")}
		o.done = func(out peer.Outcome, _ resp.Result) {
			if out != peer.NotDone {
				t.Errorf("before the term is open: %v", out)
			}
			o = nil
		}
		if !n.Proposer.refuseUnfit(&clock.Leadership{Term: lead.Term + 1}, o) || o != nil {
			t.Error("a command that must not be logged is not answered")
		}
		entries := len(n.logged())
		if a := n.serve(peer.Forwarded{}); a.Outcome != peer.Done || a.Result.Index == 0 || len(n.logged()) != entries {
			t.Errorf("a question: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Binding: bound}); a.Outcome != peer.Done || len(n.logged()) != entries+1 {
			t.Errorf("a recall: %+v", a)
		}
		if a := n.serve(peer.Forwarded{Req: plain, Binding: bound}); a.Outcome != peer.NotDone {
			t.Errorf("recalled: %+v", a)
		}
		if n.Writes.Stuck(n.Clock.Monotonic()+time.Hour, leaderWait) {
			t.Error("a write of another node that is answered counts as stuck")
		}
		n.machine.dry = func(resp.Request) (resp.Result, bool) {
			return resp.Result{Replies: []resp.Reply{resp.Status("taken")}}, true
		}
		if a := n.serve(peer.Forwarded{Req: resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"L", "k"}}}}}); said(a.Result) != "taken" || a.Result.Index != 0 {
			t.Errorf("a lock that is taken: %+v", a)
		}
		n.idle()
	})
}

// Nobody waits any more for a request whose node's time is over: it is not logged.
func TestServeTooLate(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		was, _ := n.machine.state()
		for _, line := range []string{"W k", "R k"} {
			if a := n.serve(peer.Forwarded{Req: n.req(line), Until: time.Now()}); a.Outcome != peer.NotDone {
				t.Errorf("%s: %+v", line, a)
			}
		}
		if is, _ := n.machine.state(); len(is) != len(was) {
			t.Errorf("%+v", is)
		}
		n.idle()
	})
}

// While a write of another node waits, writes are stuck.
func TestServeCounts(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.slow.Store(int64(time.Second))
		told := false
		n.Serve(peer.Forwarded{Req: n.req("W k"), Until: time.Now().Add(time.Minute)}, func(peer.Answer) { told = true })
		pass(time.Second / 2)
		if n.Serving.Load() != 1 || !n.Writes.Stuck(n.Clock.Monotonic(), time.Millisecond) {
			t.Errorf("%d are served", n.Serving.Load())
		}
		if pass(time.Second); !told || n.Writes.Stuck(n.Clock.Monotonic(), time.Millisecond) {
			t.Error("it is answered")
		}
		n.idle()
	})
}

// Requests for locks that are taken are not logged while one of them is: the others ask again behind it.
func TestRivalsOfOneLock(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		taken := false
		n.machine.dry = func(resp.Request) (resp.Result, bool) {
			return resp.Result{Replies: []resp.Reply{resp.Status("taken")}}, taken
		}
		n.machine.apply = func(req resp.Request) resp.Result {
			taken = true
			return resp.Result{Replies: []resp.Reply{resp.Status("yours")}}
		}
		n.slow.Store(int64(time.Millisecond))
		replies := map[string]int{}
		done := make(chan string)
		for range 5 {
			go func() { done <- said(n.Run(t.Context(), n.req("L key"))) }()
		}
		synctest.Wait()
		if n.Reader.Claimed() != 1 {
			t.Errorf("%d keys are claimed", n.Reader.Claimed())
		}
		for range 5 {
			replies[<-done]++
		}
		if len(n.logged()) != 1 || replies["yours"] != 1 || replies["taken"] != 4 || n.Reader.Claimed() != 0 {
			t.Errorf("%d entries, %v, %d claims", len(n.logged()), replies, n.Reader.Claimed())
		}
		n.idle()
	})
}

// While disks are full, a request of which every command may let the state grow is refused before it is logged.
func TestLacksRoom(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		logged := func(req resp.Request) bool {
			was := len(n.logged())
			res := n.Run(t.Context(), req)
			is := len(n.logged()) > was
			if refused := strings.HasPrefix(said(res), "OOM"); refused == is {
				t.Errorf("logged %v: %+v", is, res)
			}
			return is
		}
		if !logged(n.req("W k")) {
			t.Error("refused without a full disk")
		}
		n.machine.full = "n2"
		logged(n.req("W k"))
		watch := n.req("W k")
		watch.Watch = &resp.Watching{}
		refused := n.NoRoom.Load()
		for _, c := range []struct {
			req    resp.Request
			logged bool
		}{
			{n.req("W k"), false}, {n.req("W k", "W l"), false}, {n.req("W k", "L l"), true}, {n.req("L k", "W l"), true}, {watch, true},
		} {
			if is := logged(c.req); is != c.logged {
				t.Errorf("%+v: logged %v", c.req, is)
			}
		}
		if n.NoRoom.Load()-refused != 2 {
			t.Errorf("%d were refused", n.NoRoom.Load()-refused)
		}
		if n.lacksRoom(&op{req: resp.Request{Block: &resp.BlockStep{}, Cmds: n.req("W k").Cmds}}) || n.lacksRoom(&op{}) ||
			n.lacksRoom(&op{req: resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"W"}}}}}) {
			t.Error("refused: a step of a blocking command, a recall, or a command without a row")
		}
		n.idle()
	})
}

// Only a small request of one command that has one key, and may be refused, is tried as a read first.
func TestMayDryRun(t *testing.T) {
	one := func(size int, spec *resp.Spec, block *resp.BlockStep, args ...string) *op {
		return &op{size: size, req: resp.Request{Cmds: []resp.Cmd{{Args: args, Spec: spec}}, Block: block}}
	}
	refuses := &resp.Spec{Refuses: "*", Keys: resp.FirstKey}
	ask := &resp.BlockStep{Kind: resp.BlockAsk}
	for i, c := range []struct {
		o             *op
		refuse, asked bool
	}{
		{one(1, refuses, nil, "L", "k"), true, false},
		{one(1, refuses, ask, "L", "k"), false, true},
		{one(1, refuses, &resp.BlockStep{Kind: resp.BlockOpen}, "L", "k"), false, false},
		{one(dryRunBytesMax, refuses, nil, "L", "k"), true, false},
		{one(dryRunBytesMax+1, refuses, nil, "L", "k"), false, false},
		{one(1, nil, nil, "L", "k"), false, false},
		{one(1, &resp.Spec{Refuses: "*"}, nil, "L", "k"), false, false},
		{one(1, &resp.Spec{Keys: resp.FirstKey}, nil, "L", "k"), false, false},
		{one(1, &resp.Spec{Keys: resp.FirstKey}, ask, "L", "k"), false, false},
		{&op{req: resp.Request{Cmds: make([]resp.Cmd, 2)}}, false, false},
		{&op{}, false, false},
	} {
		if mayRefuse(c.o) != c.refuse || asksForLock(c.o) != c.asked {
			t.Errorf("case %d: may refuse %v, asks for a lock %v", i, mayRefuse(c.o), asksForLock(c.o))
		}
	}
}

// A change of the roster is an entry of its own, whatever waits beside it.
func TestChangeIsAlone(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		done := make(chan resp.Result)
		changed := make(chan peer.Outcome)
		n.Proposer.Pause(t.Context())
		write := func() {
			go func() { done <- n.Run(t.Context(), n.req("W k")) }()
			synctest.Wait()
		}
		write()
		go func() { changed <- n.Proposer.Change(t.Context(), membership.Change{Cluster: "c"}) }()
		synctest.Wait()
		write()
		write()
		n.Proposer.Resume()
		if out := <-changed; out != peer.Done {
			t.Error(out)
		}
		for range 3 {
			if res := <-done; res.Failed {
				t.Errorf("%+v", res)
			}
		}
		var sizes []int
		for _, e := range n.logged() {
			sizes = append(sizes, len(e))
		}
		if fmt.Sprint(sizes) != "[1 2]" || n.State.Roster().Cluster != "c" {
			t.Errorf("entries of %v requests, roster %+v", sizes, n.State.Roster())
		}
		n.Lead.Store(nil)
		if out := n.Proposer.Change(t.Context(), membership.Change{}); out != peer.NotDone {
			t.Errorf("without a leader: %v", out)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n.leads(1)
		n.Proposer.Pause(t.Context())
		time.AfterFunc(time.Second, cancel)
		if out := n.Proposer.Change(ctx, membership.Change{}); out != peer.Unknown {
			t.Errorf("told to end: %v", out)
		}
		n.Proposer.Resume()
	})
}

// While leadership is handed over nothing is proposed, for PauseMax at most.
func TestPause(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		if !n.Proposer.Pause(t.Context()) {
			t.Error("an entry is in flight")
		}
		began := n.Clock.Monotonic()
		if res := n.Run(t.Context(), n.req("W k")); res.Failed || n.Clock.Monotonic()-began != PauseMax {
			t.Errorf("%+v after %v", res, n.Clock.Monotonic()-began)
		}
		n.Proposer.Resume()
		began = n.Clock.Monotonic()
		if res := n.Run(t.Context(), n.req("W k")); res.Failed || n.Clock.Monotonic()-began > 5*time.Millisecond {
			t.Errorf("%+v after %v", res, n.Clock.Monotonic()-began)
		}
		n.slow.Store(int64(time.Second))
		go n.Run(t.Context(), n.req("W k"))
		pass(100 * time.Millisecond)
		began = n.Clock.Monotonic()
		if took := n.Clock.Monotonic; !n.Proposer.Pause(t.Context()) || took()-began < 850*time.Millisecond {
			t.Errorf("it waited %v for an entry in flight", took()-began)
		}
		n.Proposer.Resume()
		go n.Run(t.Context(), n.req("W k"))
		pass(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if n.Proposer.Pause(ctx) {
			t.Error("no entry is in flight")
		}
		n.Proposer.Resume()
		pass(time.Minute)
		n.idle()
	})
}

// An entry that Raft is not given is not done.
func TestProposeFault(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.Faults = &fault.Set{}
		if _, err := n.Faults.Arm(fault.Propose, fault.ActError, 0, 0); err != nil {
			t.Fatal(err)
		}
		if out := n.local(t.Context(), n.req("W k"), true, &attempt{}); out.Outcome != peer.NotDone || len(n.logged()) != 0 {
			t.Errorf("%+v", out)
		}
		n.idle()
	})
}

// The first entry of a term is logged without being asked for, and one that ends a lease when it is over.
func TestEntriesWithoutRequests(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		expect := func(when string, entries int, at int64) {
			t.Helper()
			if all, tick := n.machine.state(); len(all) != entries || tick != at {
				t.Errorf("%s: %d entries, tick %d", when, len(all), tick)
			}
		}
		n.machine.deadline.Store(2500)
		n.leads(1000)
		expect("at first", 1, 1000)
		pass(1499 * time.Millisecond)
		n.machine.deadline.Store(0)
		expect("before the lease is over", 1, 1000)
		pass(3 * time.Millisecond)
		expect("behind it", 2, 2501)
		pass(time.Hour)
		expect("without a lease", 2, 2501)
	})
}

// Each entry says what the state was that came before it, so that nodes can compare.
func TestEntriesHaveDigests(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.Run(t.Context(), n.req("W k"))
		at := n.State.DigestNow()
		n.State.Digest.Store(&at)
		var logged record.Entry
		n.machine.apply = func(req resp.Request) resp.Result { return answered(req) }
		n.seen = func(e record.Entry) { logged = e }
		n.Run(t.Context(), n.req("W k"))
		if logged.Checked != at.Index || logged.Digest != at.Digest || logged.Kind != record.Batch || logged.Wall == 0 ||
			len(logged.Origins) != 1 || logged.Origins[0].Session == 0 {
			t.Errorf("%+v", logged)
		}
	})
}

// Figures of what waits.
func TestMetrics(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		synctest.Wait()
		n.Proposer.Pause(t.Context())
		write := n.req("W key")
		go n.Run(t.Context(), write)
		go n.Run(t.Context(), write)
		synctest.Wait()
		var text bytes.Buffer
		for _, m := range n.Metrics() {
			for _, s := range m.Of {
				fmt.Fprintf(&text, "%s%v %v\n", m.Name, s.Labels, s.Value)
			}
		}
		want := fmt.Sprintf("lockd_queue_requests[read] 0\nlockd_queue_requests[write] 2\nlockd_queue_bytes[read] 0\n"+
			"lockd_queue_bytes[write] %d\nlockd_entries_in_flight[] 0\n", 2*write.Size())
		if text.String() != want {
			t.Errorf("%s", &text)
		}
		n.Proposer.Resume()
		pass(time.Second)
		if count, took := commits(n.Proposer); count != 2 || took > 0.1 { // the first of the term, and one of both requests
			t.Errorf("%d commits in %v s", count, took)
		}
		n.idle()
	})
}

// A node that stops answers what waits, and takes nothing any more.
func TestStop(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		q := &opQueue{wake: make(chan struct{}, 1)}
		var outcomes []peer.Outcome
		submit := func() {
			q.submit(&op{size: 1, done: func(o peer.Outcome, _ resp.Result) { outcomes = append(outcomes, o) }})
		}
		submit()
		q.close()
		submit()
		if !slices.Equal(outcomes, []peer.Outcome{peer.NotDone, peer.NotDone}) || len(q.waiting) != 0 || q.bytes != 0 {
			t.Errorf("%v, %d wait", outcomes, len(q.waiting))
		}
	})
}

// A read that is alone waits for others no longer than the delay says. A round without reads is none.
func TestLoneRead(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.Wake()
		pass(time.Second)
		if n.Reader.delay.until != 0 {
			t.Error("a round of nothing")
		}
		n.Run(t.Context(), n.req("R k"))
		if synctest.Wait(); n.Reader.delay.until != n.Clock.Monotonic() {
			t.Errorf("after a round that took no time the next waits until %v, now %v", n.Reader.delay.until, n.Clock.Monotonic())
		}
		n.Reader.delay.want, n.Reader.delay.until = 10, n.Clock.Monotonic()+200*time.Microsecond
		began := n.Clock.Monotonic()
		if res := n.Run(t.Context(), n.req("R k")); res.Failed || n.Clock.Monotonic()-began != 200*time.Microsecond {
			t.Errorf("%+v after %v", res, n.Clock.Monotonic()-began)
		}
	})
}

// Whether a lock is taken is asked of the state as it is, at the time of the last entry; without a leader it is not known.
func TestFindsTaken(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		none, taken := resp.Result{Replies: []resp.Reply{resp.Nil()}}, &op{req: n.req("L k")}
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return none, true }
		if n.Proposer.findsTaken(taken) || n.isRefused(taken.req) {
			t.Error("without a leader")
		}
		n.leads(1)
		if !n.Proposer.findsTaken(taken) || !n.isRefused(taken.req) {
			t.Error("it is taken")
		}
		for _, at := range n.machine.tried {
			if at.Wall != 0 {
				t.Errorf("at %+v", at)
			}
		}
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return resp.Result{Replies: []resp.Reply{resp.OK()}}, true }
		if n.Proposer.findsTaken(taken) {
			t.Error("it is free")
		}
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return none, false }
		if n.Proposer.findsTaken(taken) || n.isRefused(taken.req) {
			t.Error("that cannot be told")
		}
	})
}

// Of the requests that join others so many are tried again behind an entry; the rest is logged at once.
func TestRecheckJoiners(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return resp.Result{Replies: []resp.Reply{resp.Nil()}}, true }
		p := newProposer(n.Config)
		n.leads(1)
		for range joinChecksMax + 1 {
			o := queued(1)
			o.joins, o.req = 1<<60, n.req("L k")
			p.submit(o)
		}
		if p.recheckJoiners(); p.joining != joinChecksMax || p.waiting[joinChecksMax].joins != 0 {
			t.Errorf("%d still join", p.joining)
		}
	})
}

// commits returns how many entries were committed, and how long that took together.
func commits(p *Proposer) (count int64, took float64) {
	of := p.Commits.Metric("", "").Of[0]
	for _, n := range of.Counts {
		count += n
	}
	return count, of.Value
}

// A node that was the only voter when its term began answers reads at once. Writes are logged all the same.
func TestAlone(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1).Alone = true
		if res := n.Run(t.Context(), n.req("W k")); res.Failed || len(n.logged()) != 1 {
			t.Errorf("%+v, %d are logged", res, len(n.logged()))
		}
		if res := n.Run(t.Context(), n.req("R k")); res.Failed || len(n.machine.seen) != 1 || n.Reader.delay.until != 0 {
			t.Errorf("%+v", res)
		}
		if shown := n.Clocks.Show(0); shown < n.machine.seen[0].Wall || shown == 0 {
			t.Errorf("the time that was shown is %d", shown)
		}
	})
}

// A round shows the time that the next leader must not fall behind, and confirms this very term.
func TestRound(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		ask := func() (out peer.Outcome) {
			answers := 0
			n.Reader.submit(&op{req: n.req("R k"), done: func(o peer.Outcome, _ resp.Result) { out, answers = o, answers+1 }})
			if pass(time.Second); answers != 1 {
				t.Errorf("%d answers", answers)
			}
			return out
		}
		if out := ask(); out != peer.NotDone {
			t.Errorf("without a leader: %v", out)
		}
		lead := n.leads(1)
		if out := ask(); out != peer.Done {
			t.Error(out)
		}
		if shown := n.Clocks.Show(0); shown < n.machine.seen[0].Wall || shown == 0 {
			t.Errorf("the time that was shown is %d", shown)
		}
		other := *lead
		other.Term++
		if !n.Reader.Confirm(lead) || n.Reader.Confirm(&other) {
			t.Error("a term is confirmed in which this node does not lead")
		}
		if n.Lead.Store(&other); ask() != peer.NotDone {
			t.Error("a read is answered in a term in which this node does not lead")
		}
	})
}

// A write that was refused when it came, and is not by now, is logged after all.
func TestDryRunInVain(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		var out peer.Outcome
		o := &op{dryRun: true, req: n.req("L k"), done: func(o peer.Outcome, _ resp.Result) { out = o }}
		n.Reader.submit(o)
		if pass(time.Second); out != peer.Done || len(n.logged()) != 1 {
			t.Errorf("%v, %d are logged", out, len(n.logged()))
		}
	})
}

// A LOCK with WAIT that finds its lock taken joins the entry of others, for JoinMax at most; any other request does not.
func TestAsksJoin(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		taken := true
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return resp.Result{Replies: []resp.Reply{resp.Nil()}}, taken }
		took := func(req resp.Request) time.Duration {
			began, was := n.Clock.Monotonic(), len(n.logged())
			if out := n.local(t.Context(), req, true, &attempt{}); out.Outcome != peer.Done || len(n.logged()) != was+1 {
				t.Errorf("%+v", out)
			}
			return n.Clock.Monotonic() - began
		}
		ask := n.req("L k")
		ask.Block = &resp.BlockStep{Kind: resp.BlockAsk, ID: resp.BlockID{Session: 1, Number: 1}}
		if d := took(ask); d != JoinMax {
			t.Errorf("a lock that is taken: %v", d)
		}
		if d := took(n.req("W k")); d != 0 {
			t.Errorf("another write: %v", d)
		}
		if taken = false; took(ask) != 0 {
			t.Error("a lock that is free")
		}
	})
}

// Read is a read, and ProposeIn is logged in a term or not at all.
func TestReadAndProposeIn(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		if _, ok := n.Read(t.Context(), n.req("R k")); ok {
			t.Error("without a leader")
		}
		lead := n.leads(1)
		if res, ok := n.Read(t.Context(), n.req("R k")); !ok || len(res.Replies) != 1 || len(n.logged()) != 0 {
			t.Errorf("%+v, %v", res, ok)
		}
		if !n.ProposeIn(t.Context(), lead, n.req("W k")) || len(n.logged()) != 1 {
			t.Error("it is not logged")
		}
		other := *lead
		other.Term++
		if n.ProposeIn(t.Context(), &other, n.req("W k")) || len(n.logged()) != 1 {
			t.Error("it is logged in another term")
		}
	})
}

// Wake has both queues look.
func TestWake(t *testing.T) {
	c := configOf(clock.NewSystem())
	r := New(*c)
	if r.Wake(); len(r.Proposer.wake) != 1 || len(r.Reader.wake) != 1 {
		t.Error("a queue sleeps on")
	}
}

// A reader that is told to stop answers what waits, and all that comes.
func TestReaderStops(t *testing.T) {
	stop := make(chan struct{})
	c := configOf(clock.NewSystem())
	c.Stop = stop
	r := newReader(c, nil)
	r.delay.want, r.delay.until = 10, 1<<62
	outcomes := make(chan peer.Outcome, 2)
	submit := func() {
		r.submit(&op{size: 1, done: func(o peer.Outcome, _ resp.Result) { outcomes <- o }})
	}
	submit()
	close(stop)
	r.Run()
	submit()
	for range 2 {
		if o := <-outcomes; o != peer.NotDone {
			t.Error(o)
		}
	}
}

// Writes that are on their way count as waiting, reads and commands of the node do not. A part that is done is progress.
func TestRunCounts(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		stuck := func(patience time.Duration) bool { return n.Writes.Stuck(n.Clock.Monotonic(), patience) }
		done := make(chan resp.Result)
		run := func(lines ...string) { go func() { done <- n.Run(t.Context(), n.req(lines...)) }() }
		for _, line := range []string{"R k", "O k"} {
			run(line)
			if pass(time.Second); stuck(time.Millisecond) {
				t.Errorf("%s counts as a write", line)
			}
			<-done
		}
		n.leads(1)
		n.slow.Store(int64(4 * time.Second))
		n.machine.apply = func(req resp.Request) resp.Result { return resp.Result{Replies: make([]resp.Reply, 1)} }
		run("W a", "W b")
		if pass(time.Second); !stuck(time.Second / 2) {
			t.Error("a write that waits does not count")
		}
		if pass(5 * time.Second); stuck(3*time.Second) || !stuck(time.Second) {
			t.Error("a part that was done two seconds ago does not count")
		}
		<-done
		n.slow.Store(int64(time.Second))
		go n.RunUntilDone(t.Context(), func() resp.Request { return n.req("W a") })
		if pass(time.Second / 2); !stuck(time.Second / 4) {
			t.Error("a write that is repeated does not count")
		}
		if pass(time.Minute); stuck(time.Second / 4) {
			t.Error("a write that was repeated counts when it is done")
		}
		n.idle()
	})
}

// The times of all parts add up.
func TestRunTook(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.machine.view = func(resp.Request) resp.Result { return resp.Result{Replies: make([]resp.Reply, 1)} }
		n.State.Clock = &steppingClock{step: time.Millisecond}
		if res := n.Run(t.Context(), n.req("R a", "R b", "R c")); res.TookNs != int64(3*time.Millisecond) {
			t.Errorf("%v", time.Duration(res.TookNs))
		}
	})
}

// A request of which nothing is done is tried again for LeaderWait, and no longer. One that was in doubt and is certainly
// not done has LeaderWait from then on.
func TestRunGivesUp(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		n.machine.apply = func(resp.Request) resp.Result { return resp.Result{} }
		began := n.Clock.Monotonic()
		if res := n.Run(t.Context(), n.req("W k")); said(res) != "LOADING not done" || n.Clock.Monotonic()-began != leaderWait {
			t.Errorf("%+v after %v", res, n.Clock.Monotonic()-began)
		}
		n.slow.Store(int64(CommitWaitMax + 10*time.Second))
		time.AfterFunc(CommitWaitMax+2*time.Second, func() {
			n.Lead.Store(nil)
			n.Attempts.Applied(lead.Term+1, &record.Entry{}, nil)
		})
		began = n.Clock.Monotonic()
		res := n.Run(t.Context(), n.req("W k"))
		if took := n.Clock.Monotonic() - began; said(res) != "LOADING not done" || took != CommitWaitMax+2*time.Second+leaderWait {
			t.Errorf("%+v after %v", res, took)
		}
	})
}

// Repeat's pauses double, as those of Run do.
func TestRepeatPauses(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		var times []time.Duration
		n.repeat(t.Context(), func() bool {
			times = append(times, n.Clock.Monotonic())
			return false
		})
		want := wake.RetryMin
		for i := 1; i < len(times)-1; i++ {
			if pause := times[i] - times[i-1]; pause != want {
				t.Fatalf("pause %d is %v, not %v", i, pause, want)
			}
			want = min(2*want, wake.RetryMax)
		}
	})
}

// RunUntilDone looks up what it builds, so that a request that would change nothing is not logged.
func TestRunUntilDoneLooksUp(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		n.machine.dry = func(resp.Request) (resp.Result, bool) { return resp.Result{Replies: []resp.Reply{resp.OK()}}, true }
		out, _ := n.RunUntilDone(t.Context(), func() resp.Request {
			return resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"L", "k"}}}}
		})
		if out != peer.Done || len(n.logged()) != 0 {
			t.Errorf("%v, %d are logged", out, len(n.logged()))
		}
	})
}

// The connection of another node does not wait for the machine.
func TestServeDoesNotWait(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		n.leads(1)
		free := make(chan struct{})
		n.machine.dry = func(resp.Request) (resp.Result, bool) {
			<-free
			return resp.Result{Replies: []resp.Reply{resp.OK()}}, true
		}
		told := make(chan peer.Answer, 1)
		n.Serve(peer.Forwarded{Req: n.req("L k"), Until: time.Now().Add(time.Minute)}, func(a peer.Answer) { told <- a })
		close(free)
		if a := <-told; a.Outcome != peer.Done {
			t.Errorf("%+v", a)
		}
	})
}

// A write of which no attempt may begin, because the log is in a later term, is given up after LeaderWait, too.
func TestRunWithoutAttempt(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		n.Attempts.Applied(lead.Term+1, &record.Entry{}, nil)
		began := n.Clock.Monotonic()
		if res := n.Run(t.Context(), n.req("W k")); said(res) != "LOADING not done" || n.Clock.Monotonic()-began != leaderWait {
			t.Errorf("%+v after %v", res, n.Clock.Monotonic()-began)
		}
	})
}
