package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// pair is two nodes on a network in memory; a calls b.
type pair struct {
	net    *memNetwork
	pa, pb *peers
	a, b   *fakePeer
}

func withPair(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{net: newMemNetwork(), a: &fakePeer{}, b: &fakePeer{}}
		p.pa = startPeers(t, p.net.from("a:1"), "a", "a:1", p.a)
		p.pb = startPeers(t, p.net.from("b:1"), "b", "b:1", p.b)
		defer func() {
			p.pa.close()
			p.pb.close()
		}()
		test(t, p)
	})
}

// connect opens the calls connection from a to b.
func (p *pair) connect(t *testing.T) {
	t.Helper()
	if o, _ := p.pa.forward(context.Background(), "b:1", command("ping")); o != outcomeDone {
		t.Fatalf("first forward: %v", o)
	}
}

func (p *pair) wantForward(t *testing.T, ctx context.Context, want outcome) {
	t.Helper()
	if o, _ := p.pa.forward(ctx, "b:1", command("set", "k", "v")); o != want {
		t.Errorf("forward: %v, want %v", o, want)
	}
}

func neverAnswers(resp.Request, time.Time, func(outcome, resp.Result)) {}

// A peer that cannot be reached has not executed anything, and this is known soon,
// whether it refuses the connection or swallows it.
func TestForwardUnreachable(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.net.kill("b:1")
		p.wantForward(t, t.Context(), outcomeNotDone)
	})
	withPair(t, func(t *testing.T, p *pair) {
		p.net.partition([]string{"a:1"}, []string{"b:1"})
		start := time.Now()
		p.wantForward(t, t.Context(), outcomeNotDone)
		if took := time.Since(start); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

// A peer that dies with the request may have executed it.
func TestForwardPeerDies(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(resp.Request, time.Time, func(outcome, resp.Result)) { go p.net.kill("b:1") }
		p.wantForward(t, t.Context(), outcomeUnknown)
		p.wantForward(t, t.Context(), outcomeNotDone)
	})
}

// A peer that comes back is used again at once, over a new connection.
func TestForwardReconnects(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.pb.close()
		p.pb = startPeers(t, p.net.from("b:1"), "b", "b:1", p.b)
		synctest.Wait()
		start := time.Now()
		p.wantForward(t, t.Context(), outcomeDone)
		if took := time.Since(start); took > redialPauseMax {
			t.Errorf("took %v", took)
		}
	})
}

// A connection on which nothing comes back any more is noticed within about two
// heartbeats, also by calls that would wait for ever; what was sent is unknown.
func TestForwardHalfOpen(t *testing.T) {
	for _, direction := range []string{"there", "back", "both"} {
		withPair(t, func(t *testing.T, p *pair) {
			p.connect(t)
			a, b := []string{"a:1"}, []string{"b:1"}
			p.net.setCut(direction != "back", a, b)
			p.net.setCut(direction != "there", b, a)
			start := time.Now()
			p.wantForward(t, t.Context(), outcomeUnknown)
			if took := time.Since(start); took > 3*heartbeatDefault {
				t.Errorf("%s: noticed after %v", direction, took)
			}
			p.net.heal()
			time.Sleep(redialPauseMax)
			p.wantForward(t, t.Context(), outcomeDone)
		})
	}
}

// A peer that works for long, or has nothing to say for long, is not taken for
// gone.
func TestForwardSlowPeer(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(req resp.Request, _ time.Time, respond func(outcome, resp.Result)) {
			time.AfterFunc(20*time.Second, func() { respond(outcomeDone, echo(req)) })
		}
		p.wantForward(t, t.Context(), outcomeDone)
		time.Sleep(10 * linkIdleMax)
		p.wantForward(t, t.Context(), outcomeDone)
	})
}

// A caller that gives up learns what may have happened: nothing, as long as the
// request had not left.
func TestForwardCancelled(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		p.wantForward(t, done, outcomeNotDone)

		p.net.partition([]string{"a:1"}, []string{"b:1"}) // it waits for the dial
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		p.wantForward(t, short, outcomeNotDone)
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
		p.net.heal()
		time.Sleep(time.Second)

		var served int
		p.b.forward = func(resp.Request, time.Time, func(outcome, resp.Result)) { served++ }
		short, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		p.wantForward(t, short, outcomeUnknown)
		synctest.Wait()
		if served != 1 {
			t.Errorf("served %d requests, want only the one that was sent", served)
		}
	})
}

// The peer is told how long the sender waits.
func TestForwardDeadline(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		var got time.Duration
		p.b.forward = func(req resp.Request, deadline time.Time, respond func(outcome, resp.Result)) {
			got = time.Until(deadline)
			respond(outcomeDone, echo(req))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		p.wantForward(t, ctx, outcomeDone)
		if got != 3*time.Second {
			t.Errorf("deadline in %v", got)
		}
		p.wantForward(t, t.Context(), outcomeDone)
		if got != forwardWaitMax {
			t.Errorf("without one: deadline in %v", got)
		}
	})
}

// What the peer says is passed on.
func TestForwardOutcomes(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		for _, want := range []outcome{outcomeDone, outcomeNotDone, outcomeUnknown} {
			p.b.forward = func(_ resp.Request, _ time.Time, respond func(outcome, resp.Result)) {
				respond(want, resp.Result{Aborted: true})
			}
			o, res := p.pa.forward(t.Context(), "b:1", command("exec"))
			if o != want || res.Aborted != (want == outcomeDone) {
				t.Errorf("%v %+v, want %v", o, res, want)
			}
		}
	})
}

// Of one write that broke off in the middle, what was cut is not done and what had
// left is unknown.
func TestForwardPartlyWritten(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = neverAnswers
		first := make(chan outcome, 1)
		p.net.setCut(true, []string{"b:1"}, []string{"a:1"})
		go func() { // both wait for the dial, and leave in one write
			o, _ := p.pa.forward(t.Context(), "b:1", command("set", "small", "v"))
			first <- o
		}()
		synctest.Wait()
		second := make(chan outcome, 1)
		go func() {
			o, _ := p.pa.forward(t.Context(), "b:1", command("set", "large", strings.Repeat("x", 2*memQueueMax)))
			second <- o
		}()
		synctest.Wait()
		conn := &stuckConn{limit: memQueueMax}
		p.pa.mu.Lock()
		l := p.pa.links["b:1"]
		p.pa.mu.Unlock()
		batch, out, _ := l.take(nil, true)
		n, err := writeChunks(conn, out, time.Second)
		if err == nil || n != memQueueMax {
			t.Fatalf("wrote %d, %v", n, err)
		}
		l.unsend(batch, n)
		l.failSent()
		if o := <-first; o != outcomeUnknown {
			t.Errorf("the request that had left: %v", o)
		}
		if o := <-second; o != outcomeNotDone {
			t.Errorf("the request that was cut: %v", o)
		}
		p.net.heal()
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
		o, res := p.pa.forward(t.Context(), "b:1", command("set", large))
		if o != outcomeDone || res.Replies[0].Elems[1].Str != large {
			t.Fatalf("16 MiB: %v", o)
		}
		o, res = p.pa.forward(t.Context(), "b:1", command("set", strings.Repeat("x", forwardBytesMax)))
		if o != outcomeDone || !strings.HasPrefix(res.Replies[0].Str, "ERR request is larger than") {
			t.Fatalf("too large: %v %.100v", o, res)
		}
	})
}

// Many callers share the connection, answers come in any order, and each gets its
// own.
func TestForwardConcurrent(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = func(req resp.Request, _ time.Time, respond func(outcome, resp.Result)) {
			delay := time.Duration(len(req.Cmds[0].Args[1])%7) * time.Millisecond
			time.AfterFunc(delay, func() { respond(outcomeDone, echo(req)) })
		}
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for j := range 20 {
					arg := strings.Repeat("x", i*j)
					o, res := p.pa.forward(t.Context(), "b:1", command("get", arg, fmt.Sprint(i)))
					if o != outcomeDone || res.Replies[0].Elems[1].Str != arg || res.Replies[0].Elems[2].Str != fmt.Sprint(i) {
						t.Errorf("caller %d call %d: %v", i, j, o)
					}
					if _, err := p.pa.status(t.Context(), "b:1"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		if n := len(p.net.conns); n != 2 {
			t.Errorf("%d ends of connections, want 2", n)
		}
	})
}

// A status question asks for the present: one that began after the term rose never
// hears the old term.
func TestStatusIsFresh(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		for term := uint64(1); term < 100; term++ {
			go p.pa.status(t.Context(), "b:1") // answers under way
			p.b.term.Store(term)
			if s, err := p.pa.status(t.Context(), "b:1"); err != nil || s.Term < term {
				t.Fatalf("term %d, %v, want %d or later", s.Term, err, term)
			}
		}
		synctest.Wait()
	})
}

// Closing the network ends every call: what waits for a dial is not done, what was
// sent is unknown, and a call after that is not done.
func TestPeersClose(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.b.forward = neverAnswers
		outcomes := make(chan string, 2)
		go func() {
			o, _ := p.pa.forward(context.Background(), "b:1", command("set"))
			outcomes <- "sent: " + o.String()
		}()
		synctest.Wait()
		p.net.partition([]string{"a:1"}, []string{"c:1"})
		go func() {
			time.Sleep(time.Millisecond)
			o, _ := p.pa.forward(context.Background(), "c:1", command("set"))
			outcomes <- "queued: " + o.String()
		}()
		time.Sleep(2 * time.Millisecond)
		p.pa.close()
		got := []string{<-outcomes, <-outcomes}
		if !(got[0] == "sent: unknown" && got[1] == "queued: not done" || got[1] == "sent: unknown" && got[0] == "queued: not done") {
			t.Errorf("%q", got)
		}
		p.wantForward(t, context.Background(), outcomeNotDone)
	})
}

// A peer that stops in good order leaves no call in doubt: what it had taken it
// answers, what it had not taken is not done, although it had been sent.
func TestPeersBye(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		busy := make(chan struct{})
		p.b.forward = func(req resp.Request, _ time.Time, respond func(outcome, resp.Result)) {
			<-busy // the peer reads nothing meanwhile
			time.AfterFunc(100*time.Millisecond, func() { respond(outcomeDone, echo(req)) })
		}
		ask := func() chan outcome {
			ch := make(chan outcome, 1)
			go func() {
				o, _ := p.pa.forward(context.Background(), "b:1", command("set", "k", "v"))
				ch <- o
			}()
			synctest.Wait()
			return ch
		}
		taken, sent := ask(), ask()
		closed := make(chan struct{})
		go func() { p.pb.close(); close(closed) }()
		synctest.Wait()
		close(busy)
		if o := <-sent; o != outcomeNotDone {
			t.Errorf("sent, not taken: %v", o)
		}
		if o := <-taken; o != outcomeDone {
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
		got := make(chan outcome, 1)
		go func() {
			o, _ := p.pa.forward(context.Background(), "b:1", command("set"))
			got <- o
		}()
		synctest.Wait()
		start := time.Now()
		p.pb.close()
		if took := time.Since(start); took != byeWaitMax {
			t.Errorf("closed after %v", took)
		}
		if o := <-got; o != outcomeUnknown {
			t.Errorf("taken, never answered: %v", o)
		}
	})
}

// A ping that came after a call does not make the call one that was not taken: it would
// be executed a second time.
func TestPeersByeAfterPing(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.b.forward = func(req resp.Request, _ time.Time, respond func(outcome, resp.Result)) {
			time.AfterFunc(heartbeatDefault+byeWaitMax/2, func() { respond(outcomeDone, echo(req)) })
		}
		got := make(chan outcome, 1)
		go func() {
			o, _ := p.pa.forward(context.Background(), "b:1", command("incr", "k"))
			got <- o
		}()
		time.Sleep(heartbeatDefault)
		p.pb.close()
		if o := <-got; o != outcomeDone {
			t.Errorf("taken, then a ping: %v", o)
		}
	})
}

// A node that is disconnected loses its connections, and is judged anew when it
// comes back.
func TestPeersDisconnect(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		p.b.admits = func(who identity) error { return fmt.Errorf("%s was removed", who.ID) }
		p.connect(t) // still the old connection
		p.pb.disconnect("a")
		synctest.Wait()
		time.Sleep(time.Second)
		p.wantForward(t, t.Context(), outcomeNotDone)
		if got := p.a.allRefusals(); len(got) == 0 || got[0] != "b: a was removed" {
			t.Errorf("refusals: %q", got)
		}
	})
}

// A link that nobody uses is closed after a while, and opened again by the next
// call.
func TestLinkIdle(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		p.connect(t)
		time.Sleep(3 * linkIdleMax)
		synctest.Wait()
		if n := len(p.net.conns); n != 0 {
			t.Errorf("%d ends of connections after the idle time", n)
		}
		if n := len(p.pa.links); n != 0 {
			t.Errorf("%d links after the idle time", n)
		}
		p.connect(t)
	})
}

// More than one connection may ask for at a time is answered "not done".
func TestForwardOverload(t *testing.T) {
	withPair(t, func(t *testing.T, p *pair) {
		s := newServedCalls(p.pb, &stuckConn{})
		p.b.forward = neverAnswers
		s.serving.Store(forwardsServedMax)
		if err := s.serve(frame{kind: frameForward, id: 5, body: resp.AppendRequest(appendBinding(appendWait(nil, time.Time{}), &attempt{}), command("get", "k"))}); err != nil {
			t.Fatal(err)
		}
		f, err := readFrame(strings.NewReader(string(s.out)))
		if err != nil || f.kind != frameAnswer || f.id != 5 || f.body[0] != byte(outcomeNotDone) {
			t.Errorf("answer %+v, %v", f, err)
		}
		if n := s.serving.Load(); n != forwardsServedMax {
			t.Errorf("%d in service", n)
		}
	})
}
