package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer/peertest"
	"lockd/resp"
)

// pair is two nodes on a network in memory; a calls b.
type pair struct {
	net    *peertest.Network
	pa, pb *Port
	a, b   *fakePeer
}

func withPair(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{net: peertest.NewNetwork(), a: &fakePeer{}, b: &fakePeer{}}
		p.pa = startPeers(t, p.net.From("a:1"), "a", "a:1", p.a)
		p.pb = startPeers(t, p.net.From("b:1"), "b", "b:1", p.b)
		defer func() {
			p.pa.Close()
			p.pb.Close()
		}()
		test(t, p)
	})
}

// connect opens the calls connection from a to b.
func (p *pair) connect(t *testing.T) {
	t.Helper()
	if o, _ := forward(context.Background(), p.pa, "b:1", command("ping")); o != Done {
		t.Fatalf("first forward: %v", o)
	}
}

func (p *pair) wantForward(t *testing.T, ctx context.Context, want Outcome) {
	t.Helper()
	if o, _ := forward(ctx, p.pa, "b:1", command("set", "k", "v")); o != want {
		t.Errorf("forward: %v, want %v", o, want)
	}
}

func neverAnswers(resp.Request, time.Time, func(Outcome, resp.Result)) {}

// A call to an unreachable peer is not done, and that is known soon, whether the peer refuses the connection or
// swallows it.
func TestForwardUnreachable(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.net.Kill("b:1")
		p.wantForward(t, t.Context(), NotDone)
	})
	withPair(t, func(t *testing.T, p *pair) {
		p.net.Partition([]string{"a:1"}, []string{"b:1"})
		start := time.Now()
		p.wantForward(t, t.Context(), NotDone)
		if took := time.Since(start); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

// The asked node answers a question about clients. Without an answer the caller knows whether that node was asked; and
// unanswered questions, however many, leave room for requests.
func TestQuery(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		r, o, err := p.pa.Query(t.Context(), "b:1", resp.Args{"numsub", "a", ""})
		if err != nil || o != Done || !reflect.DeepEqual(r, resp.Bulks("numsub", "a", "")) {
			t.Errorf("%+v, %v, %v", r, o, err)
		}
		long := strings.Repeat("x", queryBytesMax)
		if _, o, err := p.pa.Query(t.Context(), "b:1", resp.Args{"numsub", long}); o != NotDone || err != errQuestion {
			t.Errorf("one that is too long: %v, %v", o, err)
		}
		taken := 0
		var until time.Time
		p.b.query = func(q Question, _ func(resp.Reply)) { taken, until = taken+1, q.Until }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		outcomes := make(chan Outcome, 2*queriesServedMax)
		for range cap(outcomes) {
			go func() {
				_, o, err := p.pa.Query(ctx, "b:1", resp.Args{"numsub"})
				if err == nil {
					o = Done
				}
				outcomes <- o
			}()
		}
		counts := map[Outcome]int{}
		synctest.Wait()
		if left := time.Until(until); left != 3*time.Second {
			t.Errorf("the other node knows that it has %s", left)
		}
		p.wantForward(t, t.Context(), Done)
		for range cap(outcomes) {
			counts[<-outcomes]++
		}
		if taken != queriesServedMax || counts[NotDone] != queriesServedMax || counts[Unknown] != queriesServedMax {
			t.Errorf("%d were taken; outcomes %v", taken, counts)
		}
		p.net.Kill("b:1")
		if _, o, err := p.pa.Query(t.Context(), "b:1", resp.Args{"numsub"}); o == Done || err == nil {
			t.Errorf("a node that is gone: %v, %v", o, err)
		}
		time.Sleep(time.Second)
		if _, o, err := p.pa.Query(t.Context(), "b:1", resp.Args{"numsub"}); o != NotDone || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("it is still gone: %v, %v", o, err)
		}
	})
}

// A peer that dies with the request may have executed it.
func TestForwardPeerDies(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(resp.Request, time.Time, func(Outcome, resp.Result)) { go p.net.Kill("b:1") }
		p.wantForward(t, t.Context(), Unknown)
		p.wantForward(t, t.Context(), NotDone)
	})
}

// A peer that comes back is used again at once, over a new connection.
func TestForwardReconnects(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.pb.Close()
		p.pb = startPeers(t, p.net.From("b:1"), "b", "b:1", p.b)
		synctest.Wait()
		start := time.Now()
		p.wantForward(t, t.Context(), Done)
		if took := time.Since(start); took > redialPauseMax {
			t.Errorf("took %v", took)
		}
	})
}

// A connection that delivers nothing is noticed within about two heartbeats, also by calls that would wait for ever;
// the outcome of sent calls is unknown.
func TestForwardHalfOpen(t *testing.T) {
	for _, direction := range []string{"there", "back", "both"} {
		withPair(t, func(t *testing.T, p *pair) {
			p.connect(t)
			a, b := []string{"a:1"}, []string{"b:1"}
			p.net.SetCut(direction != "back", a, b)
			p.net.SetCut(direction != "there", b, a)
			start := time.Now()
			p.wantForward(t, t.Context(), Unknown)
			if took := time.Since(start); took > 3*HeartbeatDefault {
				t.Errorf("%s: noticed after %v", direction, took)
			}
			p.net.Heal()
			time.Sleep(redialPauseMax)
			p.wantForward(t, t.Context(), Done)
		})
	}
}

// A peer that works for long, or has nothing to send for long, does not count as lost.
func TestForwardSlowPeer(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(req resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
			time.AfterFunc(20*time.Second, func() { respond(Done, echo(req)) })
		}
		p.wantForward(t, t.Context(), Done)
		time.Sleep(10 * linkIdleMax)
		p.wantForward(t, t.Context(), Done)
	})
}

// A caller that gives up knows that a request that was not sent is not done.
func TestForwardCancelled(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		p.wantForward(t, done, NotDone)

		p.net.Partition([]string{"a:1"}, []string{"b:1"}) // it waits for the dial
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		p.wantForward(t, short, NotDone)
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
		p.net.Heal()
		time.Sleep(time.Second)

		var served int
		p.b.forward = func(resp.Request, time.Time, func(Outcome, resp.Result)) { served++ }
		short, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		p.wantForward(t, short, Unknown)
		synctest.Wait()
		if served != 1 {
			t.Errorf("served %d requests, want only the one that was sent", served)
		}
	})
}

// The peer learns how long the sender waits.
func TestForwardDeadline(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		var got time.Duration
		p.b.forward = func(req resp.Request, deadline time.Time, respond func(Outcome, resp.Result)) {
			got = time.Until(deadline)
			respond(Done, echo(req))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		p.wantForward(t, ctx, Done)
		if got != 3*time.Second {
			t.Errorf("deadline in %v", got)
		}
		p.wantForward(t, t.Context(), Done)
		if got != forwardWaitMax {
			t.Errorf("without one: deadline in %v", got)
		}
	})
}

// The sender's observations arrive with the request.
func TestForwardBringsObservations(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		var got resp.Request
		p.b.forward = func(req resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
			got = req
			respond(Done, echo(req))
		}
		req := command("get", "k")
		req.Observations = "what was seen"
		if o, _ := forward(t.Context(), p.pa, "b:1", req); o != Done || got.Observations != req.Observations {
			t.Errorf("%v, %+v", o, got)
		}
	})
}

// The peer's error is passed on.
func TestForwardOutcomes(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		for _, want := range []Outcome{Done, NotDone, Unknown} {
			p.b.forward = func(_ resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
				respond(want, resp.Result{Watched: &resp.Watched{Aborted: true}})
			}
			o, res := forward(t.Context(), p.pa, "b:1", command("exec"))
			if o != want || res.Aborted() != (want == Done) {
				t.Errorf("%v %+v, want %v", o, res, want)
			}
		}
	})
}

// Of a write that broke off, the calls that were cut are not done, and those that were sent are unknown.
func TestForwardPartlyWritten(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = neverAnswers
		first := make(chan Outcome, 1)
		p.net.SetCut(true, []string{"b:1"}, []string{"a:1"})
		go func() { // both wait for the dial, and leave in one write
			o, _ := forward(t.Context(), p.pa, "b:1", command("set", "small", "v"))
			first <- o
		}()
		synctest.Wait()
		second := make(chan Outcome, 1)
		go func() {
			o, _ := forward(t.Context(), p.pa, "b:1", command("set", "large", strings.Repeat("x", 2*peertest.QueueMax)))
			second <- o
		}()
		synctest.Wait()
		conn := &stuckConn{limit: peertest.QueueMax}
		p.pa.mu.Lock()
		l := p.pa.links["b:1"]
		p.pa.mu.Unlock()
		batch, out, _ := l.take(nil, true)
		n, err := writeChunks(conn, out, time.Second)
		if err == nil || n != peertest.QueueMax {
			t.Fatalf("wrote %d, %v", n, err)
		}
		l.unsend(batch, n)
		l.failSent()
		if o := <-first; o != Unknown {
			t.Errorf("the request that had left: %v", o)
		}
		if o := <-second; o != NotDone {
			t.Errorf("the request that was cut: %v", o)
		}
		p.net.Heal()
	})
}

// stuckConn takes some bytes and then no more.
type stuckConn struct {
	net.Conn
	limit, taken int
}

func (c *stuckConn) SetWriteDeadline(time.Time) error { return nil }

func (c *stuckConn) Write(b []byte) (int, error) {
	n := min(len(b), c.limit-c.taken)
	c.taken += n
	if n < len(b) {
		return n, errors.New("stuck")
	}
	return n, nil
}

// Large requests and answers pass; a request beyond the limit is an error of its
// own, because it would be too large at every try.
func TestForwardLarge(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		large := strings.Repeat("0123456789abcdef", 1<<20)
		o, res := forward(t.Context(), p.pa, "b:1", command("set", large))
		if o != Done || res.Replies[0].Elems[1].Str != large {
			t.Fatalf("16 MiB: %v", o)
		}
		o, res = forward(t.Context(), p.pa, "b:1", command("set", strings.Repeat("x", forwardBytesMax)))
		if o != Done || !strings.HasPrefix(res.Replies[0].Str, "ERR request is larger than") {
			t.Fatalf("too large: %v %.100v", o, res)
		}
	})
}

// Many callers share the connection, answers come in any order, and each gets its
// own.
func TestForwardConcurrent(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(req resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
			delay := time.Duration(len(req.Cmds[0].Args[1])%7) * time.Millisecond
			time.AfterFunc(delay, func() { respond(Done, echo(req)) })
		}
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for j := range 20 {
					arg := strings.Repeat("x", i*j)
					o, res := forward(t.Context(), p.pa, "b:1", command("get", arg, fmt.Sprint(i)))
					if o != Done || res.Replies[0].Elems[1].Str != arg || res.Replies[0].Elems[2].Str != fmt.Sprint(i) {
						t.Errorf("caller %d call %d: %v", i, j, o)
					}
					if _, err := p.pa.Status(t.Context(), "b:1", 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		if n := p.net.Conns(); n != 2 {
			t.Errorf("%d ends of connections, want 2", n)
		}
	})
}

// A status question asks for the present: one that began after the term rose never
// hears the old term.
func TestStatusIsFresh(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		for term := uint64(1); term < 100; term++ {
			go p.pa.Status(t.Context(), "b:1", 0) // answers under way
			p.b.term.Store(term)
			if s, err := p.pa.Status(t.Context(), "b:1", 0); err != nil || s.Term < term {
				t.Fatalf("term %d, %v, want %d or later", s.Term, err, term)
			}
		}
		synctest.Wait()
	})
}

// Closing the network ends every call: calls that wait for a dial are not done, sent calls are unknown, and later calls
// are not done.
func TestPeersClose(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = neverAnswers
		outcomes := make(chan string, 2)
		go func() {
			o, _ := forward(context.Background(), p.pa, "b:1", command("set"))
			outcomes <- "sent: " + o.String()
		}()
		synctest.Wait()
		p.net.Partition([]string{"a:1"}, []string{"c:1"})
		go func() {
			time.Sleep(time.Millisecond)
			o, _ := forward(context.Background(), p.pa, "c:1", command("set"))
			outcomes <- "queued: " + o.String()
		}()
		time.Sleep(2 * time.Millisecond)
		p.pa.Close()
		got := []string{<-outcomes, <-outcomes}
		if !(got[0] == "sent: unknown" && got[1] == "queued: not done" || got[1] == "sent: unknown" && got[0] == "queued: not done") {
			t.Errorf("%q", got)
		}
		p.wantForward(t, context.Background(), NotDone)
	})
}

// A peer that stops in order leaves no call in doubt: it answers the accepted calls, and the others are not done,
// although they were sent.
func TestPeersBye(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		busy := make(chan struct{})
		p.b.forward = func(req resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
			<-busy // the peer reads nothing meanwhile
			time.AfterFunc(100*time.Millisecond, func() { respond(Done, echo(req)) })
		}
		ask := func() chan Outcome {
			ch := make(chan Outcome, 1)
			go func() {
				o, _ := forward(context.Background(), p.pa, "b:1", command("set", "k", "v"))
				ch <- o
			}()
			synctest.Wait()
			return ch
		}
		taken, sent := ask(), ask()
		closed := make(chan struct{})
		go func() { p.pb.Close(); close(closed) }()
		synctest.Wait()
		close(busy)
		if o := <-sent; o != NotDone {
			t.Errorf("sent, not taken: %v", o)
		}
		if o := <-taken; o != Done {
			t.Errorf("taken: %v", o)
		}
		start := time.Now()
		<-closed
		if took := time.Since(start); took > 0 {
			t.Errorf("closing took another %v", took)
		}
	})
}

// A peer that stops does not wait long for an answer that does not come.
func TestPeersByeInTime(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = neverAnswers
		got := make(chan Outcome, 1)
		go func() {
			o, _ := forward(context.Background(), p.pa, "b:1", command("set"))
			got <- o
		}()
		synctest.Wait()
		start := time.Now()
		p.pb.Close()
		if took := time.Since(start); took != byeWaitMax {
			t.Errorf("closed after %v", took)
		}
		if o := <-got; o != Unknown {
			t.Errorf("taken, never answered: %v", o)
		}
	})
}

// A ping after a call does not make the call count as not accepted: it would be executed a second time.
func TestPeersByeAfterPing(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.b.forward = func(req resp.Request, _ time.Time, respond func(Outcome, resp.Result)) {
			time.AfterFunc(HeartbeatDefault+byeWaitMax/2, func() { respond(Done, echo(req)) })
		}
		got := make(chan Outcome, 1)
		go func() {
			o, _ := forward(context.Background(), p.pa, "b:1", command("incr", "k"))
			got <- o
		}()
		time.Sleep(HeartbeatDefault)
		p.pb.Close()
		if o := <-got; o != Done {
			t.Errorf("taken, then a ping: %v", o)
		}
	})
}

// A disconnected node loses its connections, and is admitted again when it comes back.
func TestPeersDisconnect(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.b.admits = func(who Identity) error { return fmt.Errorf("%s was removed", who.ID) }
		p.connect(t) // still the old connection
		p.pb.Disconnect("a")
		synctest.Wait()
		time.Sleep(time.Second)
		p.wantForward(t, t.Context(), NotDone)
		if got := p.a.allRefusals(); len(got) == 0 || got[0] != "b: a was removed" {
			t.Errorf("refusals: %q", got)
		}
	})
}

// An idle link is closed after a while, and the next call opens another one.
func TestLinkIdle(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		time.Sleep(3 * linkIdleMax)
		synctest.Wait()
		if n := p.net.Conns(); n != 0 {
			t.Errorf("%d ends of connections after the idle time", n)
		}
		if n := len(p.pa.links); n != 0 {
			t.Errorf("%d links after the idle time", n)
		}
		p.connect(t)
	})
}

// Calls beyond the limit of a connection are answered "not done".
func TestForwardOverload(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		s := newServedCalls(p.pb, &stuckConn{})
		p.b.forward = neverAnswers
		s.serving.Store(forwardsServedMax)
		if err := s.serve(frame{kind: frameForward, id: 5, body: appendForward(appendWait(nil, time.Time{}), Binding{}, command("get", "k"))}); err != nil {
			t.Fatal(err)
		}
		f, err := readFrame(strings.NewReader(string(s.out)))
		if err != nil || f.kind != frameAnswer || f.id != 5 || f.body[0] != byte(NotDone) {
			t.Errorf("answer %+v, %v", f, err)
		}
		if n := s.serving.Load(); n != forwardsServedMax {
			t.Errorf("%d in service", n)
		}
	})
}
