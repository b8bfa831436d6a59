package server

import (
	"fmt"
	"strings"
	"testing"

	"lockd/resp"
)

// A subscriber that does not read is dropped; publishing goes on without waiting.
func TestSlowSubscriberIsDropped(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "client-output-buffer-limit", Payload: "normal 0 0 0 pubsub 1mb 0 0"}})
	slow, quick := dial(t, addr), dial(t, addr)
	slow.send("SUBSCRIBE n\r\n")
	slow.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nn\r\n:1\r\n")
	quick.send("PSUBSCRIBE quick\r\n")
	quick.want("*3\r\n$10\r\npsubscribe\r\n$5\r\nquick\r\n:1\r\n")
	payload := strings.Repeat("x", 100000)
	for i := 0; srv.stats.SubscribersDropped.Load() == 0; i++ {
		if i > 10000 {
			t.Fatal("never dropped")
		}
		srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: payload}})
		srv.Hub().broker.Settle()
	}
	eventually(t, "its session ends", func() bool { return srv.count() == 1 })
	wantDropped(t, srv, "1 0 0 0")
	srv.Hub().Publish([]resp.Message{{Channel: "quick", Payload: "x"}})
	quick.want("*4\r\n$8\r\npmessage\r\n$5\r\nquick\r\n$5\r\nquick\r\n$1\r\nx\r\n")
}

// wantDropped asserts what INFO says of clients that were disconnected because they missed something, by reason: slow,
// missed, pattern, unsure.
func wantDropped(t *testing.T, srv *Server, counts string) {
	t.Helper()
	var got []string
	for _, f := range srv.figures.statsSection().Fields {
		if strings.HasPrefix(f.Name, "subscribers_dropped_") || f.Name == "client_output_buffer_limit_disconnections" {
			got = append(got, f.Value)
		}
	}
	if text := strings.Join(got, " "); text != counts {
		t.Errorf("dropped: %s, want %s", text, counts)
	}
}

// DropSubscribers closes subscribed connections and no others.
func TestDropSubscribers(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	sub, plain := dial(t, addr), dial(t, addr)
	sub.send("SSUBSCRIBE a\r\n")
	sub.want("*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n")
	plain.send("PING\r\n")
	plain.want("+PONG\r\n")
	srv.Hub().DropSubscribers("a test")
	sub.wantClosed()
	wantDropped(t, srv, "0 0 0 1")
	srv.stats.Reset()
	wantDropped(t, srv, "0 0 0 0")
	plain.send("PING\r\n")
	plain.want("+PONG\r\n")
	eventually(t, "nobody is subscribed", func() bool { return !srv.Hub().broker.InUse() })
}

// A node listens while one of its clients subscribes or tracks keys.
func TestListening(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dial(t, addr)
	for _, step := range []struct {
		send, want string
		listens    bool
	}{
		{"PING\r\n", "+PONG\r\n", false},
		{"SSUBSCRIBE a\r\n", "*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n", true},
		{"SUNSUBSCRIBE a\r\n", "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n", false},
		{"HELLO 3\r\nCLIENT TRACKING ON\r\nPING\r\n", "", true},
	} {
		c.send(step.send)
		if step.want != "" {
			c.want(step.want)
		}
		eventually(t, step.send, func() bool { return srv.Hub().Listening() == step.listens })
	}
}

// countedNews counts the messages that are made of events.
type countedNews struct{ channels, payloads int }

func (n *countedNews) Channel(event []byte) string {
	n.channels++
	return "__lock@0__:" + string(event)
}

func (n *countedNews) Payload(event []byte) string {
	n.payloads++
	return "news of " + string(event)
}

func (n *countedNews) News([]byte) resp.LockNews { return resp.LockNews{} }

// What becomes of a lock is put into words only where somebody hears it, and then once: for subscribers of
// its channel and of patterns, in both protocols.
func TestNewsOfLocks(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	news := &countedNews{}
	tell := func(keys ...string) {
		for _, key := range keys {
			srv.Hub().Publish([]resp.Message{{Kind: resp.MessageLock, Event: []byte(key), Form: news}})
		}
		srv.Hub().broker.Settle()
	}
	tell("a", "b")
	if *news != (countedNews{}) {
		t.Errorf("nobody listens: %+v", news)
	}
	channel, pattern, other := dial(t, addr), dialTracker(t, addr, ""), dial(t, addr)
	other.send("SUBSCRIBE other\r\n")
	other.want("*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n")
	tell("a", "b")
	if *news != (countedNews{2, 0}) {
		t.Errorf("others listen: %+v", news)
	}
	channel.send("SUBSCRIBE __lock@0__:a\r\n")
	channel.want("*3\r\n$9\r\nsubscribe\r\n$12\r\n__lock@0__:a\r\n:1\r\n")
	pattern.send("PSUBSCRIBE __lock@*:a*\r\n")
	pattern.want(">3\r\n$10\r\npsubscribe\r\n$11\r\n__lock@*:a*\r\n:1\r\n")
	tell("a", "b", "ab")
	channel.want("*3\r\n$7\r\nmessage\r\n$12\r\n__lock@0__:a\r\n$9\r\nnews of a\r\n")
	pattern.want(">4\r\n$8\r\npmessage\r\n$11\r\n__lock@*:a*\r\n$12\r\n__lock@0__:a\r\n$9\r\nnews of a\r\n" +
		">4\r\n$8\r\npmessage\r\n$11\r\n__lock@*:a*\r\n$13\r\n__lock@0__:ab\r\n$10\r\nnews of ab\r\n")
	if *news != (countedNews{5, 2}) {
		t.Errorf("%+v", news)
	}
	other.send("UNSUBSCRIBE other\r\nPUBSUB NUMSUB __lock@0__:a\r\n")
	other.want("*3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n*2\r\n$12\r\n__lock@0__:a\r\n:1\r\n")
}

// What does not fit the time for a list of channels is an error, not left out.
func TestListingChannelsIsBounded(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	name := strings.Repeat("a", 60000)
	for i := range 8 {
		c.send(fmt.Sprintf("SUBSCRIBE %s%d\r\n", name, i))
		c.want(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$60001\r\n%s%d\r\n:%d\r\n", name, i, i+1))
	}
	c.send("UNSUBSCRIBE nosuch\r\nHELLO 3\r\n")
	b := dial(t, addr)
	b.send("PUBSUB CHANNELS " + strings.Repeat("*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 100) + "\r\n")
	b.want("-ERR the pattern takes too much work to match\r\n")
	b.send("PUBSUB CHANNELS b*\r\n")
	b.want("*0\r\n")
}
