package server

import (
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

func pushed(words ...string) string {
	r := resp.Bulks(words...)
	r.Kind = resp.KindPush
	return string(r.AppendTo(nil, 3))
}

// While this node finds out who gets a message, the log is applied, and clients that do not subscribe are answered. One
// that does gets its replies, what it waited for, invalidations and pushes about locks behind the messages that were
// published before.
func TestRepliesBehindMessages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start string // what the subscriber sends before
		do    func(t *testing.T, fake *fakeBackend, sub *testClient)
		want  string // behind the message
	}{
		{"a reply of the connection", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) { sub.send("PING\r\n") }, "+PONG\r\n"},
		{"a reply of the cluster", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) { sub.send("GET k\r\n") }, "_\r\n"},
		{"an error", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) { sub.send("NOSUCH\r\n") }, "-ERR unknown command"},
		{"a confirmation", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) { sub.send("UNSUBSCRIBE c\r\n") },
			">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"},
		{"its own message, and the reply", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) { sub.send("PUBLISH c own\r\n") },
			pushed("message", "c", "own") + pushed("pmessage", "*", "c", "own") + ":2\r\n"},
		{"its own message in a transaction", "", func(_ *testing.T, _ *fakeBackend, sub *testClient) {
			sub.send("MULTI\r\nPUBLISH c own\r\nUNSUBSCRIBE c\r\nEXEC\r\n")
		}, pushed("message", "c", "own") + pushed("pmessage", "*", "c", "own") +
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"},
		{"what it has waited for", "BLPOP k 0\r\n", func(_ *testing.T, fake *fakeBackend, _ *testClient) {
			(<-fake.answer)(resp.Bulks("k", "v"))
			fake.hub.Publish(message("c", "later"))
			fake.served <- resp.Bulks("k", "v")
		}, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n" + pushed("message", "c", "later") + pushed("pmessage", "*", "c", "later")},
		{"an invalidation", "CLIENT TRACKING ON BCAST\r\n", func(_ *testing.T, fake *fakeBackend, _ *testClient) {
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
