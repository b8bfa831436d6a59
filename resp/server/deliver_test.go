package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// dam is the form of a message whose channel takes until the dam is opened to find out: all behind it waits.
type dam chan struct{}

func (d dam) Channel([]byte) string         { <-d; return "nobody's" }
func (d dam) Payload([]byte) string         { return "" }
func (d dam) News([]byte) (n resp.LockNews) { return n }

// shut publishes a message that holds up those behind it until the dam is opened. Somebody must subscribe.
func shut(h *Hub) dam {
	d := make(dam)
	h.Publish([]resp.Message{{Kind: resp.MessageLock, Form: d}})
	return d
}

func message(channel, payload string) []resp.Message {
	return []resp.Message{{Channel: channel, Payload: payload}}
}

func pushed(words ...string) string { return string(pushOf(words...).AppendTo(nil, 3)) }

// While this node finds out who gets a message, the log is applied, and clients that do not subscribe are answered. One
// that does gets its replies, what it waited for, invalidations and pushes about locks behind the messages that were
// published before.
func TestRepliesBehindMessages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start string // what the subscriber sends before
		do    func(t *testing.T, fake *fakeBackend, sub *client)
		want  string // behind the message
	}{
		{"a reply of the connection", "", func(_ *testing.T, _ *fakeBackend, sub *client) { sub.send("PING\r\n") }, "+PONG\r\n"},
		{"a reply of the cluster", "", func(_ *testing.T, _ *fakeBackend, sub *client) { sub.send("GET k\r\n") }, "_\r\n"},
		{"an error", "", func(_ *testing.T, _ *fakeBackend, sub *client) { sub.send("NOSUCH\r\n") }, "-ERR unknown command"},
		{"a confirmation", "", func(_ *testing.T, _ *fakeBackend, sub *client) { sub.send("UNSUBSCRIBE c\r\n") },
			">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"},
		{"its own message, and the reply", "", func(_ *testing.T, _ *fakeBackend, sub *client) { sub.send("PUBLISH c own\r\n") },
			pushed("message", "c", "own") + pushed("pmessage", "*", "c", "own") + ":2\r\n"},
		{"its own message in a transaction", "", func(_ *testing.T, _ *fakeBackend, sub *client) {
			sub.send("MULTI\r\nPUBLISH c own\r\nUNSUBSCRIBE c\r\nEXEC\r\n")
		}, pushed("message", "c", "own") + pushed("pmessage", "*", "c", "own") +
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"},
		{"what it has waited for", "BLPOP k 0\r\n", func(_ *testing.T, fake *fakeBackend, _ *client) {
			(<-fake.answer)(resp.Bulks("k", "v"))
			fake.hub.Publish(message("c", "later"))
			fake.served <- resp.Bulks("k", "v")
		}, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n" + pushed("message", "c", "later") + pushed("pmessage", "*", "c", "later")},
		{"an invalidation", "CLIENT TRACKING ON BCAST\r\n", func(_ *testing.T, fake *fakeBackend, _ *client) {
			fake.mu.Lock()
			defer fake.mu.Unlock()
			fake.another("k")
		}, toldOf("k")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, fake, addr := startServer(t, nil)
			sub, other := dialHolder(t, addr), dial(t, addr)
			sub.send("SUBSCRIBE c\r\nPSUBSCRIBE *\r\nSET ready 1\r\n" + tt.start)
			sub.skipTo("+OK\r\n")
			switch {
			case strings.HasPrefix(tt.start, "BLPOP"):
				<-fake.waiting
			case tt.start != "":
				sub.want("+OK\r\n")
			}
			d := shut(srv.hub)
			srv.hub.Publish(message("c", "before"))
			tt.do(t, fake, sub)
			other.send("SET other 1\r\nSUBSCRIBE e\r\n")
			other.want("+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\ne\r\n:1\r\n")
			close(d)
			sub.skipTo("before\r\n") // of the message
			sub.want(pushed("pmessage", "*", "c", "before") + tt.want)
			srv.hub.Publish(message("e", "since"))
			other.skipTo("since\r\n")
		})
	}
}

// A new subscriber does not get earlier messages, even while others are still to get them.
func TestNothingFromBeforeTheSubscription(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	first, second := dial(t, addr), dial(t, addr)
	first.send("SUBSCRIBE c\r\n")
	first.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	d := shut(srv.hub)
	srv.hub.Publish(message("c", "before"))
	second.send("SUBSCRIBE c\r\n")
	second.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	srv.hub.Publish(message("c", "behind"))
	close(d)
	one := func(payload string) string {
		return fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$6\r\n%s\r\n", payload)
	}
	first.want(one("before") + one("behind"))
	second.want(one("behind"))
}

// The queue is bounded: beyond it all sessions that may have missed a message are dropped, and no later subscriber.
func TestTooManyMessagesWait(t *testing.T) {
	for name, flood := range map[string]func(h *Hub){
		"messages": func(h *Hub) {
			h.Publish(make([]resp.Message, deliveriesMax+1))
		},
		"bytes": func(h *Hub) {
			large := message("c", strings.Repeat("x", deliveryBytesMax/64))
			for range 65 {
				h.Publish(large)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, _, addr := startServer(t, nil)
			first, second := dial(t, addr), dial(t, addr)
			first.send("SUBSCRIBE c\r\n")
			first.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
			d := shut(srv.hub)
			flood(srv.hub)
			second.send("SUBSCRIBE c\r\n")
			second.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
			srv.hub.Publish(message("c", "behind"))
			close(d)
			first.wantClosed()
			second.want("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$6\r\nbehind\r\n")
			wantDropped(t, srv, "0 1 0 0")
			srv.hub.queue.wait()
			if q := srv.hub.queue; q.size != 0 || q.bytes != 0 {
				t.Errorf("%d messages and %d bytes are left", q.size, q.bytes)
			}
		})
	}
}

// Where patterns make deliveries late, those that take the most have to go. Usual ones stay, and miss nothing.
func TestPatternsThatMakeDeliveriesLate(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	usual := dial(t, addr)
	usual.send("PSUBSCRIBE a*\r\n")
	usual.want("*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:1\r\n")
	channel := strings.Repeat("a", 250)
	for i := range 8 {
		c, glob := dial(t, addr), fmt.Sprintf("*%sb", strings.Repeat("a", 56+i))
		c.send("PSUBSCRIBE " + glob + "\r\n")
		c.want(fmt.Sprintf("*3\r\n$10\r\npsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(glob), glob))
	}
	d := shut(srv.hub)
	const messages = 4000
	for i := range messages {
		srv.hub.Publish(message(channel, fmt.Sprintf("%05d", i)))
	}
	close(d)
	for i := range messages {
		usual.want(fmt.Sprintf("*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$250\r\n%s\r\n$5\r\n%05d\r\n", channel, i))
	}
	srv.hub.queue.wait()
	if n := srv.stats.SubscribersDropped.Load(); n == 0 {
		t.Error("nobody was dropped")
	}
	if n := srv.hub.matching.steps; n > globStepsBehindMax {
		t.Errorf("%d steps", n)
	}
}

// Patterns are found by what they begin with, in the order in which they came, whatever was taken away.
func TestCandidates(t *testing.T) {
	h := NewHub()
	s := &session{}
	globs := []string{"*", "ab*", "abc", "a?c", "b*", "abc*", "[a]*", "", strings.Repeat("x", patternHeadMax+9) + "*"}
	for _, glob := range globs {
		h.addPattern(glob, s)
	}
	want := func(channel string, globs ...string) {
		t.Helper()
		var got []string
		list := h.candidates(channel)
		slices.SortFunc(list, comparePatterns)
		for _, p := range list {
			got = append(got, p.glob)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", globs) {
			t.Errorf("%q: %q, want %q", channel, got, globs)
		}
	}
	want("abc", "*", "ab*", "abc", "a?c", "abc*", "[a]*", "")
	want("b", "*", "b*", "[a]*", "")
	want("", "*", "[a]*", "")
	want(strings.Repeat("x", patternHeadMax), "*", "[a]*", "", globs[8])
	h.removePattern("[a]*", s)
	h.removePattern("abc", s)
	h.removePattern("nosuch", s)
	want("abc", "*", "ab*", "a?c", "abc*", "")
	for _, glob := range globs {
		h.removePattern(glob, s)
	}
	if want("abc"); len(h.byGlob)+len(h.byHead) != 0 || h.patterns.lens != [patternHeadMax + 1]int{} {
		t.Errorf("left: %+v", h.patterns)
	}
}

// A message goes to more subscribers than the hub serves at once.
func TestManySubscribers(t *testing.T) {
	h := NewHub()
	srv := New(Config{Backend: newFake(), Hub: h})
	var all []*scriptConn
	for range 3*deliveriesAtOnce + 1 {
		conn := &scriptConn{}
		s := srv.newSession(conn)
		h.channels.add("c", s, 0)
		h.enter(s)
		all = append(all, conn)
	}
	h.Publish(message("c", "x"))
	h.queue.wait()
	for _, conn := range all {
		eventually(t, "everybody gets it", func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return strings.Contains(string(conn.out), "message")
		})
	}
}
