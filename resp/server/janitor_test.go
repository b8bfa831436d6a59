package server

import (
	"strings"
	"testing"
	"time"

	"lockd/internal/strict"
	"lockd/resp"
)

// A client may send a pipeline whole before it reads the first reply.
func TestClientThatReadsLate(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	value := strings.Repeat("x", 10000)
	c.send(string(resp.AppendCommand(nil, "SET", "a", value)))
	c.want("+OK\r\n")
	const n = 2000                        // 20 MB of replies; the sockets hold much less
	padding := strings.Repeat("y", 20000) // 40 MB of requests
	c.send(strings.Repeat(string(resp.AppendCommand(nil, "MSET", "b", padding))+"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", n))
	one := "+OK\r\n$10000\r\n" + value + "\r\n"
	for range n {
		c.want(one)
	}
}

// The context of a command that waits ends soon after its client hangs up.
func TestHangUpWhileWaiting(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("WAIT 1 0\r\n")
	<-fake.waiting
	start := time.Now()
	c.conn.Close()
	eventually(t, "the session ends", func() bool { return srv.count() == 0 })
	strict.AtMost(t, "noticing that the client is gone", time.Since(start), 2*time.Second)
}

// A client that waits and does not hang up keeps waiting; CLIENT KILL ends it.
func TestWaitingClientIsLeftAlone(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("WAIT 1 0\r\n")
	<-fake.waiting
	rounds := srv.clients.ticks.Load() + 4
	eventually(t, "the janitor walks", func() bool { return srv.clients.ticks.Load() >= rounds })
	if srv.count() != 1 {
		t.Fatal("the waiting session ended")
	}
	other := dial(t, addr)
	other.send("CLIENT KILL TYPE normal\r\n")
	other.want(":1\r\n")
	c.wantClosed()
}

// The setting timeout closes the silent, but no subscriber.
func TestIdleTimeout(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	silent, sub := dial(t, addr), dial(t, addr)
	silent.send("PING\r\n")
	silent.want("+PONG\r\n")
	sub.send("SUBSCRIBE a\r\n")
	sub.want("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "timeout", Payload: "1"}})
	silent.wantClosed()
	sub.send("PING\r\n")
	sub.want("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
}
