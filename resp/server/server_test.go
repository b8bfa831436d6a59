package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockd/internal/strict"
	"lockd/resp"
)

// client is a connection whose calls fail the test.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// want reads exactly text.
func (c *client) want(text string) {
	c.t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(c.in, got)
	if string(got) != text {
		c.t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

func (c *client) wantClosed() {
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

func (s *Server) count() int { return len(s.clients()) }

// A run of data commands is one request; a command of the connection splits it.
func TestPipelineIsOneRequest(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("SET a 1\r\nINCR a\r\nINCR a\r\nPING\r\nGET a\r\n")
	c.want("+OK\r\n:2\r\n:3\r\n+PONG\r\n$1\r\n3\r\n")
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if !slices.Equal(fake.requests, []int{3, 1}) {
		t.Fatal("requests of", fake.requests)
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
	rounds := srv.ticks.Load() + 4
	eventually(t, "the janitor walks", func() bool { return srv.ticks.Load() >= rounds })
	if srv.count() != 1 {
		t.Fatal("the waiting session ended")
	}
	other := dial(t, addr)
	other.send("CLIENT KILL TYPE normal\r\n")
	other.want(":1\r\n")
	c.wantClosed()
}

// Every subscriber sees messages in the order in which they were published, and
// the confirmation of its subscription before the first.
func TestPubSubOrder(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	stop := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: strconv.Itoa(i)}})
			}
		}
	}()
	defer close(stop)
	done := make(chan error, 8)
	for range 8 {
		c := dial(t, addr)
		go func() { done <- c.readNumbers(2000) }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// readNumbers subscribes and checks that n messages count up by one.
func (c *client) readNumbers(n int) error {
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

// Pushes of RESP3 stand between replies, never inside one.
func TestPushesBetweenReplies(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	fake.values[0]["big"] = strings.Repeat("v", 100000)
	c := dial(t, addr)
	c.send("HELLO 3\r\nSUBSCRIBE n\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: "p"}})
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	go c.conn.Write(bytes.Repeat([]byte("GET big\r\n"), 300))
	replies := 0
	for replies < 300 {
		line, err := c.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		switch line {
		case ">3\r\n":
			c.skipLines(t)
		case "$100000\r\n":
			c.want(fake.values[0]["big"] + "\r\n")
			replies++
		}
	}
}

// skipLines reads the rest of a message to n, or of a confirmation.
func (c *client) skipLines(t *testing.T) {
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
	}
	eventually(t, "its session ends", func() bool { return srv.count() == 1 })
	srv.Hub().Publish([]resp.Message{{Channel: "quick", Payload: "x"}})
	quick.want("*4\r\n$8\r\npmessage\r\n$5\r\nquick\r\n$5\r\nquick\r\n$1\r\nx\r\n")
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
	plain.send("PING\r\n")
	plain.want("+PONG\r\n")
	eventually(t, "nobody is subscribed", func() bool { return srv.Hub().subscribers.Load() == 0 })
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
		return slices.ContainsFunc(srv.clients(), func(c *session) bool { return c.kind() == phaseRunning })
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
	u := &client{t, conn, bufio.NewReader(conn)}
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

// A transaction that certainly was not done, or whose outcome nobody knows,
// answers that as a whole.
func TestExecOutcomes(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	for _, text := range []string{resp.ErrNotDone, resp.ErrClusterDown, resp.ErrUnknown} {
		c.send("MULTI\r\nSET a 1\r\nPING\r\nSET b 1\r\n")
		c.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n")
		fake.mu.Lock()
		fake.failing = text
		fake.mu.Unlock()
		c.send("EXEC\r\nWATCH a\r\n")
		c.want("-" + text + "\r\n-" + text + "\r\n")
		fake.mu.Lock()
		fake.failing = ""
		fake.mu.Unlock()
	}
}

// EXEC that is refused itself ends the transaction, and says why, as in Redis.
func TestExecRefused(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	const aborted, arity = "-EXECABORT Transaction discarded because of: ", "wrong number of arguments for 'exec' command\r\n"
	c.send("MULTI\r\nexec a\r\nEXEC\r\n")
	c.want("+OK\r\n" + aborted + arity + "-ERR EXEC without MULTI\r\n")
	c.send("SUBSCRIBE x\r\nEXEC\r\nEXEC a\r\n")
	c.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n" +
		aborted + "Can't execute 'exec': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n" +
		aborted + arity)
}

// A transaction is bounded; one that is too large is spoiled.
func TestTransactionIsBounded(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	go c.conn.Write([]byte("MULTI\r\n" + strings.Repeat("PING\r\n", transactionCmdsMax+1) + "EXEC\r\n"))
	c.want("+OK\r\n" + strings.Repeat("+QUEUED\r\n", transactionCmdsMax) + "-ERR the transaction is too large\r\n" +
		"-" + resp.ErrExecAbort + "\r\n")
}

// Settings that bound the input are applied to the next command.
func TestInputLimitsAreSettings(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	set := func(name, value string) {
		srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: name, Payload: value}})
	}
	set("proto-max-bulk-len", "100")
	set("client-query-buffer-limit", "1kb")
	c := dial(t, addr)
	c.send("*2\r\n$3\r\nGET\r\n$101\r\n")
	c.want("-ERR Protocol error: invalid bulk length\r\n")
	c.wantClosed()
	c = dial(t, addr)
	c.send("*100\r\n" + strings.Repeat("$50\r\n"+strings.Repeat("x", 50)+"\r\n", 30))
	c.want("-ERR Protocol error: too big query\r\n")
	c.wantClosed()
}

// A browser is not served.
func TestCrossProtocol(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: localhost\r\nSET a 1\r\n")
	c.wantClosed()
}

// The figures of INFO, SLOWLOG and LATENCY come from what was run.
func TestFigures(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	for name, value := range map[string]string{"slowlog-log-slower-than": "0", "latency-monitor-threshold": "1"} {
		srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: name, Payload: value}})
	}
	c := dial(t, addr)
	c.send("SET a x\r\nINCR a\r\nNOSUCH\r\nGET\r\nAUTH default secret\r\n")
	c.want("+OK\r\n-ERR value is not an integer or out of range\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n" +
		"-ERR wrong number of arguments for 'get' command\r\n+OK\r\n")
	got := map[string]string{}
	for _, section := range srv.Info() {
		for _, f := range section.Fields {
			got[f.Name] = f.Value
		}
	}
	for name, want := range map[string]string{
		"redis_version": redisVersion, "lockd_version": "test", "tcp_port": "6379", "connected_clients": "1",
		"total_connections_received": "1", "total_commands_processed": "3", "errorstat_ERR": "count=3", "total_error_replies": "3",
	} {
		if got[name] != want {
			t.Errorf("%s:%s, want %s", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["cmdstat_incr"], "calls=1,") || !strings.HasSuffix(got["cmdstat_incr"], ",failed_calls=1") {
		t.Error("cmdstat_incr:" + got["cmdstat_incr"])
	}
	entries := srv.slowlog.Newest(-1)
	if len(entries) != 2 || entries[0].Elems[3].Elems[1].Str != "(redacted)" || !strings.HasPrefix(entries[1].Elems[3].Elems[3].Str, "... (1 more") {
		t.Error("SLOWLOG", entries)
	}
}

// A node that begins or ceases to lead serves keys, or says where they are served,
// from the next command on; a transaction that was queued before is still run.
func TestRedirectFollowsLeader(t *testing.T) {
	var leader atomic.Value
	leader.Store("")
	_, _, addr := startServer(t, func(c *Config) {
		c.Profile = Cluster
		c.Redirect = func() string { return leader.Load().(string) }
	})
	c := dial(t, addr)
	c.send("SET a 1\r\nMULTI\r\nINCR a\r\n")
	c.want("+OK\r\n+OK\r\n+QUEUED\r\n")
	leader.Store("10.0.0.2:1")
	c.send("EXEC\r\nPING\r\nGET a\r\nPING\r\n")
	c.want("*1\r\n:2\r\n+PONG\r\n-MOVED 15495 10.0.0.2:1\r\n+PONG\r\n")
	leader.Store("")
	c.send("GET a\r\n")
	c.want("$1\r\n2\r\n")
}
