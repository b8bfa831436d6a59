package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// testClient is a connection whose calls fail the test.
type testClient struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dial(t testing.TB, addr string) *testClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return &testClient{t, conn, bufio.NewReader(conn)}
}

func (c *testClient) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// want reads exactly text.
func (c *testClient) want(text string) {
	c.t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(c.in, got)
	if string(got) != text {
		c.t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

func (c *testClient) wantClosed() {
	c.t.Helper()
	if b, err := c.in.ReadByte(); err == nil {
		c.t.Fatalf("got %q; want the end", b)
	}
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func (s *Server) count() int { return len(s.clients.list()) }

// readNumbers subscribes and checks that n messages count up by one.
func (c *testClient) readNumbers(n int) error {
	io.WriteString(c.conn, "SUBSCRIBE n\r\n")
	head := "*3\r\n$9\r\nsubscribe\r\n$1\r\nn\r\n:1\r\n"
	got := make([]byte, len(head))
	if _, err := io.ReadFull(c.in, got); err != nil || string(got) != head {
		return fmt.Errorf("confirmation: %q, %v", got, err)
	}
	last := -1
	for range n {
		var payload string
		for range 7 { // *3 $7 message $1 n $len payload
			payload, _ = c.in.ReadString('\n')
		}
		i, err := strconv.Atoi(strings.TrimSpace(payload))
		if err != nil || last >= 0 && i != last+1 {
			return fmt.Errorf("%d follows %d, %v", i, last, err)
		}
		last = i
	}
	return nil
}

// skipLines reads the rest of a message to n, or of a confirmation.
func (c *testClient) skipLines(t *testing.T) {
	line, _ := c.in.ReadString('\n')
	word, _ := c.in.ReadString('\n')
	if word == "message\r\n" {
		c.want("$1\r\nn\r\n$1\r\np\r\n")
	} else if line+word == "$9\r\nsubscribe\r\n" {
		c.want("$1\r\nn\r\n:1\r\n")
	} else {
		t.Fatalf("a push with %q", word)
	}
}

// Shutdown closes idle connections, lets a session finish what it has read, and
// refuses new ones.
func TestShutdown(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	idle, busy := dial(t, addr), dial(t, addr)
	idle.send("PING\r\n")
	idle.want("+PONG\r\n")
	fake.mu.Lock()
	busy.send("SET a 1\r\nINCR a\r\n")
	eventually(t, "the session is busy", func() bool {
		return slices.ContainsFunc(srv.clients.list(), func(c *client) bool { return c.kind() == phaseRunning })
	})
	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(context.Background()) }()
	idle.wantClosed()
	fake.mu.Unlock()
	busy.want("+OK\r\n:2\r\n")
	busy.wantClosed()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Fatal("still listening")
	}
}

// A shutdown that takes too long cuts off what is left.
func TestShutdownDeadline(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("WAIT 1 0\r\n")
	<-fake.waiting
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Fatal(err)
	}
	c.wantClosed()
}

// It does not wait for ever for a session that the backend does not let go of.
func TestShutdownLeavesStuckSessionBehind(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	stuck, letGo := make(chan struct{}), make(chan struct{})
	fake.held = func() {
		close(stuck)
		<-letGo
	}
	c := dial(t, addr)
	c.send("SET a 1\r\n")
	<-stuck
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(ctx) }()
	select {
	case err := <-done:
		if err != context.DeadlineExceeded {
			t.Error(err)
		}
	case <-time.After(60 * cutOffMax):
		t.Error("it waits for the session")
	}
	c.wantClosed()
	close(letGo)
	eventually(t, "the session has ended", func() bool { return srv.count() == 0 })
}

// Several listeners are served at once, a unix socket among them.
func TestUnixSocket(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	u := &testClient{t, conn, bufio.NewReader(conn)}
	u.send("SET a 1\r\n")
	u.want("+OK\r\n")
	tcp := dial(t, addr)
	tcp.send("CLIENT KILL ADDR " + path + ":0\r\n")
	tcp.want(":1\r\n")
	u.wantClosed()
}

// maxclients is a setting; who comes too late is told so.
func TestMaxClients(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "maxclients", Payload: "1"}})
	first := dial(t, addr)
	first.send("PING\r\n")
	first.want("+PONG\r\n")
	second := dial(t, addr)
	second.want("-ERR max number of clients reached\r\n")
	second.wantClosed()
	if srv.stats.Rejected.Load() != 1 {
		t.Fatal("not counted")
	}
}

// failing is a listener that has no descriptors for a while.
type failing struct {
	net.Listener
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times < 0 {
		return nil, net.ErrClosed
	}
	return nil, syscall.EMFILE
}

func (f *failing) Addr() net.Addr { return &net.TCPAddr{} }

// A listener that fails and fails is logged now and then.
func TestAcceptFailuresAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv := New(Config{Backend: newFake(), Log: slog.New(slog.NewTextHandler(&log, nil)), Clock: time.Now})
		const seconds = 150
		if err := srv.Serve(&failing{times: int(seconds * time.Second / acceptBackoff)}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "accept failed"); n != 3 || !strings.Contains(log.String(), "untold=1199") {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
		srv.listeners = nil
		_ = srv.Shutdown(context.Background())
	})
}
