package server

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// dialHolder dials a client of RESP3.
func dialHolder(t *testing.T, addr string) *testClient {
	c := dial(t, addr)
	c.send("HELLO 3\r\nPING\r\n")
	c.skipTo("+PONG\r\n")
	return c
}

// skipTo reads lines up to one.
func (c *testClient) skipTo(last string) {
	c.t.Helper()
	for line := ""; line != last; {
		var err error
		if line, err = c.in.ReadString('\n'); err != nil {
			c.t.Fatal(err)
		}
	}
}

func lockPush(kind, key, token string, fence int64, what resp.Reply) string {
	r := resp.Push(resp.Bulk(kind), resp.Bulk(key), resp.Bulk(token), resp.Int(fence), what)
	return string(r.AppendTo(nil, 3))
}

func lostPush(key, token string, fence int64, reason string) string {
	return lockPush("lock-lost", key, token, fence, resp.Bulk(reason))
}

// publishLost tells the node that a lock was lost, as an entry of the log does.
func publishLost(srv *Server, n resp.LockNews) {
	srv.Hub().Publish(newsMessages(0, n))
}

// newsForm is the news that it stands for.
type newsForm resp.LockNews

func (*newsForm) Channel([]byte) string       { return "__lock@0__:k" }
func (*newsForm) Payload([]byte) string       { return "news" }
func (n *newsForm) News([]byte) resp.LockNews { return resp.LockNews(*n) }

// newsMessages are those of an entry.
func newsMessages(index uint64, news ...resp.LockNews) (msgs []resp.Message) {
	for _, n := range news {
		form := newsForm(n)
		msgs = append(msgs, resp.Message{Kind: resp.MessageLock, Index: index, Form: &form})
	}
	return msgs
}

func lostK(how string, script bool, by resp.Sender) resp.LockNews {
	return resp.LockNews{HeldLock: resp.HeldLock{Key: "k", Token: "t"}, How: how, Script: script, Client: by}
}

const heldLocksMax = 1 << 10 // about which one client gets pushes

// A client gets a push about the loss of its lock, unless it released or deleted it itself, or a release compared the
// token, which only the holder knows. A script of another client may not have compared it.
func TestWhoIsTold(t *testing.T) {
	for _, c := range []struct {
		how         string
		script, own bool
		told        bool
	}{
		{how: "released"}, {how: "released", own: true}, {how: "released", script: true, own: true},
		{how: "released", script: true, told: true},
		{how: "deleted", told: true}, {how: "deleted", script: true, told: true}, {how: "deleted", own: true},
		{how: "expired", told: true}, {how: "overwritten", told: true}, {how: "overwritten", own: true, told: true},
		{how: "forced", own: true, told: true}, {how: "moved", own: true, told: true}, {how: "unknown", told: true},
	} {
		t.Run(fmt.Sprint(c.how, c.script, c.own), func(t *testing.T) {
			srv, _, addr := startServer(t, nil)
			holder := dialHolder(t, addr)
			holder.send("LOCK k t PX 1000\r\n")
			holder.want(":1\r\n")
			s := srv.clients.list()[0]
			by := resp.Client{ID: uint64(s.id), Addr: s.addr}
			if !c.own {
				by.Addr = "10.0.0.1:1" // an id like that, of another process or node
			}
			unnamed := lostK("moved away", false, "")
			unnamed.Key = "" // which is a name like others
			publishLost(srv, unnamed)
			publishLost(srv, lostK(c.how, c.script, by.Sender()))
			want := "+PONG\r\n"
			if c.told {
				want = lostPush("k", "t", 1, c.how) + want
			}
			publishLost(srv, lostK("expired", false, "")) // it has no lock any more
			holder.send("PING\r\n")
			holder.want(want)
			if kept, _ := srv.Hub().holders.Sizes(); kept != 0 {
				t.Errorf("%d locks are kept", kept)
			}
		})
	}
}

// The node may hear of the loss before the answer of LOCK is here: the client is told behind it. On a
// node that lags the grant itself comes later than the answer.
func TestLossOvertakesTheAnswer(t *testing.T) {
	for _, c := range []struct{ send, before string }{
		{"LOCK k t PX 1000", ""},
		{"SET a 1\r\nLOCK k t PX 1000", "+OK\r\n"},
		{"CLIENT TRACKING ON\r\nGET a\r\nLOCK k t PX 1000", "+OK\r\n_\r\n"},
		{"MULTI\r\nLOCK k t PX 1000\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n"},
	} {
		srv, fake, addr := startServer(t, nil)
		holder := dialHolder(t, addr)
		fake.held = func() {
			if slices.ContainsFunc(fake.news, func(n resp.LockNews) bool { return n.How == resp.LockGranted }) {
				fake.held = nil
				publishLost(srv, lostK("expired", false, ""))
			}
		}
		holder.send(c.send + "\r\n")
		holder.want(c.before)
		line, err := holder.in.ReadString('\n')
		if err != nil || line[0] != ':' {
			t.Fatalf("%s: %q, %v", c.send, line, err)
		}
		fence, _ := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
		holder.want(lostPush("k", "t", fence, "expired"))
	}
}

func TestGrantComesAfterTheAnswer(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	apply := fake.lag()
	holder := dialHolder(t, addr)
	holder.send("LOCK k t PX 1000\r\n")
	holder.want(":1\r\n")
	for range 2 { // its changes, and its news
		apply()
	}
	publishLost(srv, lostK("expired", false, ""))
	holder.want(lostPush("k", "t", 1, "expired"))

	// The answers that RESET, or HELLO 2, has seen belong to what is forgotten.
	for _, words := range []string{"RESET", "HELLO 2"} {
		holder.send("LOCK k t PX 1000\r\n" + words + "\r\nHELLO 3\r\nLOCK other t PX 1000\r\nPING\r\n")
		holder.skipTo("+PONG\r\n")
		for range 4 {
			apply()
		}
		publishLost(srv, lostK("expired", false, ""))
		holder.send("PING\r\n")
		holder.want("+PONG\r\n")
	}
}

// A LOCK that waits is answered where this node applies the entry that grants it: a loss in the same
// entry stands behind the answer.
func TestLossBehindTheAnswerOfLockThatWaits(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	holder := dialHolder(t, addr)
	holder.send("SET a 1\r\nLOCK k t PX 1000 WAIT 5000\r\n")
	<-fake.waiting
	holder.want("+OK\r\n")
	s := srv.clients.list()[0]
	if served := <-fake.answer; !served(resp.Int(7)) {
		t.Fatal("the client is there")
	}
	grant := lostK(resp.LockGranted, false, resp.Client{ID: uint64(s.id), Addr: s.addr}.Sender())
	grant.Fence, grant.LeaseMs = 7, 1000
	srv.Hub().Publish(newsMessages(9, grant, lostK("forced", false, "")))
	holder.want(":7\r\n" + lostPush("k", "t", 7, "forced"))
	fake.served <- resp.Int(7)
	holder.send("PING\r\n")
	holder.want("+PONG\r\n")
}

// A client that waits is told of the loss of a grant only behind the answer that tells of the grant, and never if it is
// answered otherwise.
func TestLossOfAGrantThatWasNotTold(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers resp.Reply
		want    string
	}{
		{"told of it", resp.Int(7), ":7\r\n" + lostPush("k", "t", 7, "expired")},
		{"told of another one", resp.Int(9), ":9\r\n"},
		{"in doubt", resp.Err(resp.ErrUnknown), "-" + resp.ErrUnknown + "\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, fake, addr := startServer(t, nil)
			holder := dialHolder(t, addr)
			holder.send("LOCK k t PX 1000 WAIT 5000\r\n")
			<-fake.waiting
			s := srv.clients.list()[0]
			grant := lostK(resp.LockGranted, false, resp.Client{ID: uint64(s.id), Addr: s.addr}.Sender())
			grant.Fence, grant.LeaseMs = 7, 1000
			srv.Hub().Publish(newsMessages(9, grant))
			srv.Hub().Publish(newsMessages(10, lostK("expired", false, "")))
			if c.answers.Kind == resp.KindInt {
				served := <-fake.answer
				if !served(c.answers) {
					t.Fatal("the client is there")
				}
			}
			fake.served <- c.answers
			holder.want(c.want)
			holder.send("PING\r\n")
			holder.want("+PONG\r\n")
			srv.Hub().Publish(newsMessages(11, grant)) // one that is late
			srv.Hub().Publish(newsMessages(12, lostK("expired", false, "")))
			if c.answers.IsErr() {
				holder.send("PING\r\n")
				holder.want("+PONG\r\n")
			} else {
				holder.want(lostPush("k", "t", 7, "expired"))
			}
			if kept, _ := srv.Hub().holders.Sizes(); kept != 0 {
				t.Errorf("%d locks are kept", kept)
			}
		})
	}
}

// A client that holds a lock and subscribes hears first all that an entry says, then of its own loss. That a token which
// has the lock was granted it again is nothing to subscribers.
func TestSubscribersHearFirst(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	holder := dialHolder(t, addr)
	holder.send("PSUBSCRIBE *\r\nLOCK k t PX 1000\r\nPING\r\n")
	holder.skipTo("+PONG\r\n")
	s := srv.clients.list()[0]
	again := newsMessages(9, lostK(resp.LockGranted, false, resp.Client{ID: uint64(s.id), Addr: s.addr}.Sender()))
	again[0].Kind = resp.MessageHeld
	again[0].Form.(*newsForm).Fence = 8
	msgs := append(again, newsMessages(9, lostK("expired", false, ""))...)
	srv.Hub().Publish(append(msgs, resp.Message{Channel: "c", Payload: "behind"}))
	holder.want(">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$12\r\n__lock@0__:k\r\n$4\r\nnews\r\n" +
		">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$6\r\nbehind\r\n" + lostPush("k", "t", 8, "expired"))
}

// Nothing is remembered for those who cannot be told, nor beyond the limits.
func TestHoldersAreBounded(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	old := dial(t, addr)
	old.send("LOCK k t PX 1000\r\nGET k\r\n")
	old.want(":1\r\n$1\r\nt\r\n")
	holder := dialHolder(t, addr)
	holder.send("SET a 1\r\n")
	holder.want("+OK\r\n")
	if locks, clients := srv.Hub().holders.Sizes(); locks+clients != 0 {
		t.Errorf("%d locks of %d clients are kept", locks, clients)
	}
	for i := range heldLocksMax + 2 {
		holder.send(fmt.Sprintf("LOCK k%d t PX 1000\r\n", i))
	}
	holder.send("PING\r\n")
	holder.skipTo("+PONG\r\n")
	if locks, clients := srv.Hub().holders.Sizes(); locks != heldLocksMax || clients != 1 {
		t.Errorf("%d locks of %d clients are kept", locks, clients)
	}
	holder.conn.Close()
	eventually(t, "all is forgotten", func() bool {
		locks, clients := srv.Hub().holders.Sizes()
		return locks+clients == 0
	})
}

// A library that would take a push for a reply is told nothing.
func TestHolderWhoConfusesPushes(t *testing.T) {
	for _, c := range []struct {
		lib, version string
		told         bool
	}{
		{"jedis", "7.5.3", false}, {"jedis(spring-data-redis_v3.2.0)", "5.0.2", false}, {"jedis", "", false},
		{"jedis", "8.0.0", true}, {"jedis", "10.1", true}, {"redis-py", "5.2.1", true}, {"", "", true},
	} {
		srv, _, addr := startServer(t, nil)
		holder := dialHolder(t, addr)
		for _, set := range []string{"LIB-NAME " + c.lib, "LIB-VER " + c.version} {
			if !strings.HasSuffix(set, " ") {
				holder.send("CLIENT SETINFO " + set + "\r\n")
				holder.want("+OK\r\n")
			}
		}
		holder.send("LOCK k t PX 1000\r\n")
		holder.want(":1\r\n")
		publishLost(srv, lostK("expired", false, ""))
		want := "+PONG\r\n"
		if c.told {
			want = lostPush("k", "t", 1, "expired") + want
		}
		holder.send("PING\r\n")
		holder.want(want)
	}
}

// A client that does not read what it is told is dropped, like any that is pushed to.
func TestHolderWhoDoesNotRead(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	admin := dial(t, addr)
	admin.send("CONFIG SET client-output-buffer-limit \"pubsub 4096 0 0\"\r\n")
	admin.want("+OK\r\n")
	holder := dialHolder(t, addr)
	token := strings.Repeat("t", 500)
	for i := range heldLocksMax {
		holder.send(fmt.Sprintf("LOCK k%d %s PX 1000\r\n", i, token))
	}
	holder.send("PING\r\n")
	holder.skipTo("+PONG\r\n")
	publishLost(srv, resp.LockNews{How: "flushed"})
	eventually(t, "it is dropped", func() bool { return srv.stats.SubscribersDropped.Load() == 1 })
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// leaseStage is a server in virtual time with one client that holds the lock k, whose lease the test
// has in its hands.
type leaseStage struct {
	t      *testing.T
	srv    *Server
	fake   *fakeBackend
	holder *testClient
	began  time.Time

	mu    sync.Mutex
	lease resp.Lease
	end   time.Time // of the lease, as long as its clock runs
	asked int
}

func withLease(t *testing.T, leaseMs int64, test func(s *leaseStage)) {
	synctest.Test(t, func(t *testing.T) {
		fake, l := newFake(), &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
		srv := New(Config{Backend: fake, Clock: time.Now})
		fake.hub = srv.Hub()
		go srv.Serve(l)
		ours, theirs := net.Pipe()
		l.conns <- theirs
		s := &leaseStage{t: t, srv: srv, fake: fake, holder: &testClient{t, ours, bufio.NewReader(ours)}}
		fake.lease = s.look
		s.holder.send("HELLO 3\r\n")
		s.holder.skipTo("modules\r\n")
		s.holder.want("*0\r\n")
		s.renew(leaseMs)
		s.holder.send(fmt.Sprintf("LOCK k t PX %d\r\n", leaseMs))
		s.holder.want(":1\r\n")
		s.began = time.Now()
		test(s)
		ours.Close()
		_ = srv.Shutdown(t.Context())
	})
}

func (s *leaseStage) renew(ms int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = resp.Lease{Held: true, LeaseMs: ms, Until: s.lease.Until + ms}
	s.end = time.Now().Add(time.Duration(ms) * time.Millisecond)
}

func (s *leaseStage) look(resp.HeldLock) resp.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if !s.end.IsZero() {
		s.lease.LeftMs = max(0, time.Until(s.end).Milliseconds())
	}
	return s.lease
}

// expiring expects that the client is told that so much is left, and when.
func (s *leaseStage) expiring(atMs, leftMs int64) {
	s.t.Helper()
	s.holder.conn.SetReadDeadline(time.Now().Add(time.Hour))
	s.holder.want(lockPush("lock-expiring", "k", "t", 1, resp.Int(leftMs)))
	if passed := time.Since(s.began).Milliseconds(); passed != atMs {
		s.t.Errorf("told after %d ms, want %d", passed, atMs)
	}
}

// quiet expects that the client is told nothing for some time.
func (s *leaseStage) quiet(d time.Duration) {
	s.t.Helper()
	s.holder.conn.SetReadDeadline(time.Now().Add(d))
	if b, err := s.holder.in.ReadByte(); err == nil {
		s.t.Errorf("after %s it was told something that begins with %q", time.Since(s.began), b)
	}
}

// When a third of a lease is left the client is told so, once; each lease by itself.
func TestLockExpiring(t *testing.T) {
	withLease(t, 30_000, func(s *leaseStage) {
		s.expiring(20_000, 10_000)
		s.quiet(9 * time.Second)
		s.renew(6_000) // after 29 s
		s.expiring(33_000, 2_000)
		s.quiet(time.Second)
		s.mu.Lock()
		s.lease, s.end = resp.Lease{How: "expired"}, time.Time{}
		s.mu.Unlock()
		s.holder.conn.SetReadDeadline(time.Now().Add(time.Hour))
		s.holder.want(lostPush("k", "t", 1, "expired"))
		s.quiet(time.Minute)
	})
	withLease(t, 90_000, func(s *leaseStage) { // which is looked at again before it ends
		s.expiring(60_000, 30_000)
		s.quiet(29 * time.Second)
	})
}

// A client that renews in time gets no push, and its lease is checked rarely.
func TestRenewedInTime(t *testing.T) {
	withLease(t, 30_000, func(s *leaseStage) {
		for range 100 {
			s.quiet(10 * time.Second)
			s.renew(30_000)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked > 110 {
			t.Errorf("asked for %d times in 1,000 s", s.asked)
		}
	})
}

// A clock that stands still tells nothing, and makes little work, wherever it stands.
func TestLeaseOfClockThatStands(t *testing.T) {
	for _, leftMs := range []int64{25_000, 10_001} {
		withLease(t, 30_000, func(s *leaseStage) {
			s.mu.Lock()
			s.end, s.lease.LeftMs = time.Time{}, leftMs
			s.mu.Unlock()
			s.quiet(5 * time.Minute)
			s.mu.Lock()
			if s.asked > 5*60*32/30 {
				t.Errorf("%d ms left: asked for %d times in 300 s", leftMs, s.asked)
			}
			s.end = time.Now().Add(time.Duration(leftMs) * time.Millisecond)
			s.mu.Unlock()
			s.holder.conn.SetReadDeadline(time.Now().Add(time.Hour))
			s.holder.skipTo("lock-expiring\r\n")
			if left := time.Until(s.end); left > 10*time.Second || left < 9*time.Second {
				t.Errorf("told with %s left", left)
			}
		})
	}
}

// A lock without a lease does not expire; when it has one again it does.
func TestNoLease(t *testing.T) {
	withLease(t, 3_000, func(s *leaseStage) {
		s.mu.Lock()
		s.lease, s.end = resp.Lease{Held: true, Until: 1 << 62, LeaseMs: -1}, time.Time{}
		s.mu.Unlock()
		s.quiet(time.Hour)
		s.renew(60_000)
		s.holder.conn.SetReadDeadline(time.Now().Add(time.Hour))
		s.holder.skipTo("lock-expiring\r\n")
		if left := time.Until(s.end); left > 20*time.Second || left < 18*time.Second {
			t.Errorf("told with %s left", left)
		}
	})
}

// A node that may have missed messages checks all locks at once, and pushes losses.
func TestLocksAfterSnapshot(t *testing.T) {
	for _, c := range []struct {
		lease resp.Lease
		want  string
	}{
		{resp.Lease{How: "forced"}, lostPush("k", "t", 1, "forced")},
		{resp.Lease{How: "unknown"}, lostPush("k", "t", 1, "unknown")},
		{resp.Lease{How: "released"}, ""},
		{resp.Lease{How: "released", Script: true}, lostPush("k", "t", 1, "released")},
		{resp.Lease{Held: true, LeaseMs: 30_000, LeftMs: 25_000}, ""},
	} {
		withLease(t, 30_000, func(s *leaseStage) {
			s.mu.Lock()
			s.lease, s.end = c.lease, time.Time{}
			s.mu.Unlock()
			began := time.Now()
			s.srv.Hub().DropSubscribers("this node was brought up to date by a snapshot")
			if c.want != "" {
				s.holder.want(c.want)
				if passed := time.Since(began); passed > janitorEvery {
					t.Errorf("told after %s", passed)
				}
			}
			s.quiet(time.Second)
			kept := 0
			if c.lease.Held {
				kept = 1
			}
			if locks, _ := s.srv.Hub().holders.Sizes(); locks != kept {
				t.Errorf("%d locks are kept", locks)
			}
		})
	}
}
