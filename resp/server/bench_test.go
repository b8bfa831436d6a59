package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
	"lockd/resp/server/pubsub"
)

// okBackend answers every command with OK and costs next to nothing.
type okBackend struct{ *fakeBackend }

func (okBackend) Do(_ context.Context, req resp.Request) resp.Result {
	replies := make([]resp.Reply, len(req.Cmds))
	for i := range replies {
		replies[i] = resp.OK()
	}
	return resp.Result{Replies: replies}
}

// setPipeline returns a pipeline of SETs, and the replies that okBackend's clients get.
func setPipeline(n int) (msg []byte, replies string) {
	for range n {
		msg = resp.AppendCommand(msg, "SET", "lock:42", "8d7f0e6b", "NX", "PX", "30000")
	}
	return msg, strings.Repeat("+OK\r\n", n)
}

// BenchmarkSession measures a session end to end over a loopback socket. One operation is one pipeline.
func BenchmarkSession(b *testing.B) {
	for _, pipeline := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", pipeline), func(b *testing.B) {
			_, _, addr := startServer(b, func(c *Config) { c.Backend = okBackend{newFake()} })
			c := dial(b, addr)
			msg, replies := setPipeline(pipeline)
			c.send(string(msg))
			c.want(replies)
			got := make([]byte, len(replies))
			b.ReportAllocs()
			for b.Loop() {
				c.conn.Write(msg)
				if _, err := io.ReadFull(c.conn, got); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*pipeline)/b.Elapsed().Seconds(), "cmds/s")
		})
	}
}

// BenchmarkSessionWithoutSocket measures the session's own work. One operation is one pipeline.
func BenchmarkSessionWithoutSocket(b *testing.B) {
	for _, pipeline := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", pipeline), func(b *testing.B) {
			srv, _, _ := startServer(b, func(c *Config) { c.Backend = okBackend{newFake()} })
			msg, replies := setPipeline(pipeline)
			once := &scriptConn{chunks: [][]byte{slices.Clone(msg)}}
			if srv.newSession(once).serve(); string(once.out) != replies {
				b.Fatalf("%q", once.out)
			}
			b.ReportAllocs()
			b.ResetTimer()
			conn := &loopConn{msg: msg, left: b.N}
			srv.newSession(conn).serve()
			b.ReportMetric(float64(b.N*pipeline)/b.Elapsed().Seconds(), "cmds/s")
		})
	}
}

// loopConn sends the same message left times.
type loopConn struct {
	scriptConn
	msg  []byte
	left int
}

func (c *loopConn) Read(b []byte) (int, error) {
	if c.left--; c.left < 0 {
		return 0, io.EOF
	}
	return copy(b, c.msg), nil
}

func (c *loopConn) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkPublish is PUBLISH over a loopback socket, to a subscriber that reads, beside clients with patterns. One
// operation is one message, from the command to the subscriber.
func BenchmarkPublish(b *testing.B) {
	for _, patterns := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("patterns=%d", patterns), func(b *testing.B) {
			_, _, addr := startServer(b, nil)
			sub, pub := dial(b, addr), dial(b, addr)
			sub.send("SUBSCRIBE lock:42\r\n")
			sub.want("*3\r\n$9\r\nsubscribe\r\n$7\r\nlock:42\r\n:1\r\n")
			if patterns > 0 {
				words := []string{"PSUBSCRIBE"}
				for i := range patterns {
					words = append(words, fmt.Sprintf("other:%d:*", i))
				}
				c := dial(b, addr)
				go io.Copy(io.Discard, c.conn)
				c.send(string(resp.AppendCommand(nil, words...)))
			}
			msg := resp.AppendCommand(nil, "PUBLISH", "lock:42", "8d7f0e6b")
			b.ReportAllocs()
			for b.Loop() {
				pub.send(string(msg))
				pub.want(":1\r\n")
				sub.want("*3\r\n$7\r\nmessage\r\n$7\r\nlock:42\r\n$8\r\n8d7f0e6b\r\n")
			}
		})
	}
}

// BenchmarkApplyMessages measures the cost of messages, most of them without subscribers, for the goroutine that
// applies.
func BenchmarkApplyMessages(b *testing.B) {
	const messages = 1000
	for _, patterns := range []int{0, 100} {
		b.Run(fmt.Sprintf("patterns=%d", patterns), func(b *testing.B) {
			srv := New(Config{Backend: newFake(), Log: slog.New(slog.DiscardHandler)})
			s := srv.newSession(&scriptConn{})
			subscribe := func(k pubsub.Kind, name string) {
				srv.hub.broker.Lock()
				defer srv.hub.broker.Unlock()
				if err := s.sub.Subscribe(k, name); err != nil {
					b.Fatal(err)
				}
			}
			subscribe(pubsub.Shard, "other")
			for i := range patterns {
				subscribe(pubsub.Pattern, fmt.Sprintf("other:%d:*", i))
			}
			b.ReportAllocs()
			for b.Loop() {
				msgs := make([]resp.Message, messages)
				for i := range msgs {
					msgs[i] = resp.Message{Channel: "__keyevent@0__:set", Payload: "lock:42"}
				}
				srv.hub.Publish(msgs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/messages, "ns/message")
		})
	}
}
