package server

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"lockd/resp"
)

// A request that may end a lock names its client, as it is called then. It is made once for each name.
func TestSenderOfARequest(t *testing.T) {
	fake := newFake()
	s := New(Config{Backend: fake, Node: "n1"}).newSession(&scriptConn{})
	set, get := []resp.Cmd{{Spec: fake.table.Lookup("set")}}, []resp.Cmd{{Spec: fake.table.Lookup("get")}}
	for name, said := range map[string]string{"": "", "web": "web", strings.Repeat("n", 1000): strings.Repeat("n", loggedNameBytesMax)} {
		s.names.set(&s.names.name, name)
		want := resp.Client{ID: uint64(s.id), Name: said, Addr: s.addr, Node: "n1"}
		if got := s.sender(append(get, set...)).Client(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if n := testing.AllocsPerRun(10, func() { s.sender(set) }); n != 0 {
			t.Errorf("%v allocations for what is known", n)
		}
		if got := s.sender(get); got != "" {
			t.Errorf("a read names %+v", got.Client())
		}
	}
}

// A pipeline without end is cut into runs that are bounded.
func TestPipelineIsBounded(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	const n = 50000
	go c.conn.Write(bytes.Repeat([]byte("*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"), n))
	for i := 1; i <= n; i++ {
		c.want(":" + strconv.Itoa(i) + "\r\n")
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if slices.Max(fake.requests) > pipelineCmdsMax {
		t.Fatal("a run of", slices.Max(fake.requests))
	}
}

// partBackend does not have room for the replies of many commands at once.
type partBackend struct {
	*fakeBackend
	piece int
	asked atomic.Int64 // commands executed
}

func (b *partBackend) Do(ctx context.Context, req resp.Request) resp.Result {
	if req.Partly {
		req.Cmds = req.Cmds[:min(b.piece, len(req.Cmds))]
	}
	b.asked.Add(int64(len(req.Cmds)))
	return b.fakeBackend.Do(ctx, req)
}

// What a pipeline answers is held only as far as its client has room for it.
func TestLargeRepliesAreBounded(t *testing.T) {
	const replyBytesMax = 32 << 20 // that wait for a client, as package wire has it
	const size, gets = 1 << 20, 100
	for _, tracks := range []bool{false, true} {
		t.Run("tracks="+strconv.FormatBool(tracks), func(t *testing.T) {
			b := &partBackend{fakeBackend: newFake(), piece: 4}
			srv, _, addr := startServer(t, func(c *Config) { c.Backend = b })
			b.hub = srv.Hub()
			b.values[0]["large"] = strings.Repeat("x", size)
			c := dial(t, addr)
			c.send("PING\r\n")
			c.want("+PONG\r\n")
			told := 0
			if tracks {
				c.send("HELLO 3\r\nCLIENT TRACKING ON\r\n")
				for line := ""; line != "+OK\r\n"; line, _ = c.in.ReadString('\n') {
				}
			}
			c.send(strings.Repeat("GET large\r\n", gets) + "PING\r\n")
			eventually(t, "the session waits for its client", func() bool { return srv.clients.list()[0].out.Waiting() > replyBytesMax })
			if held := b.asked.Load() * size; held > replyBytesMax+32<<20 {
				t.Errorf("%d MiB were read for a client that reads nothing", held>>20)
			}
			for i := 0; i < gets; {
				switch line, err := c.in.ReadString('\n'); line {
				case "$1048576\r\n":
					if _, err := c.in.Discard(size + 2); err != nil {
						t.Fatal(err)
					}
					i++
				case ">2\r\n":
					c.want("$10\r\ninvalidate\r\n_\r\n")
					told++
				default:
					t.Fatalf("after %d replies: %q, %v", i, line, err)
				}
			}
			if told > 0 {
				t.Errorf("%d times it is said that what was read is not known", told)
			}
			rest, _ := io.ReadAll(io.LimitReader(c.in, int64(len("+PONG\r\n"))))
			if string(rest) != "+PONG\r\n" {
				t.Errorf("at the end %q", rest)
			}
		})
	}
}
