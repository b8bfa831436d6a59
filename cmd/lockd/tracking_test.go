package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// trackingClient is a RESP3 connection that may track what it reads. It is raw, because a
// test must see each push where it stands.
type trackingClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (p *proc) track(options ...string) *trackingClient {
	p.t.Helper()
	c := p.resp3()
	if got := c.do(append([]string{"CLIENT", "TRACKING", "ON"}, options...)...); got != "OK" {
		p.t.Fatal(got)
	}
	return c
}

// resp3 is a connection that does not track.
func (p *proc) resp3() *trackingClient {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	c := &trackingClient{p.t, conn, bufio.NewReader(conn)}
	c.do("HELLO", "3")
	return c
}

// do sends a command and returns its reply in words.
func (c *trackingClient) do(args ...string) string {
	c.t.Helper()
	if _, err := c.conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		c.t.Fatal(err)
	}
	return c.next(startTimeout)
}

// next reads one reply or push; "" if none comes in time.
func (c *trackingClient) next(within time.Duration) string {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(within))
	if _, err := c.in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	return c.read()
}

func (c *trackingClient) read() string {
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	n, _ := strconv.Atoi(text)
	switch line[0] {
	case '$', '=':
		text, _ := c.in.ReadString('\n')
		return strings.TrimSuffix(text, "\r\n")
	case '_':
		return "nil"
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		words := make([]string, n)
		for i := range words {
			words[i] = c.read()
		}
		return strings.Join(words, " ")
	}
	return text
}

// told expects a push.
func (c *trackingClient) told(what string) {
	c.t.Helper()
	if got := c.next(startTimeout); got != "invalidate "+what {
		c.t.Fatalf("told %q, want %q", got, what)
	}
}

// toldSince reads the pushes that are on the way, and reports whether what is among them, or
// the word to forget everything, as a node may give that was long without a leader.
func (c *trackingClient) toldSince(what string) (told bool) {
	c.t.Helper()
	if _, err := c.conn.Write(resp.AppendCommand(nil, "PING")); err != nil {
		c.t.Fatal(err)
	}
	for {
		switch got := c.next(startTimeout); got {
		case "PONG":
			return told
		case "invalidate " + what, "invalidate nil":
			told = true
		default:
			c.t.Fatalf("told %q", got)
		}
	}
}

// quiet expects that nothing was pushed: what is on the way comes before the reply.
func (c *trackingClient) quiet() {
	c.t.Helper()
	if got := c.do("PING"); got != "PONG" {
		c.t.Fatalf("told %q", got)
	}
}

// Whatever changes a key, through whichever node, clients that have read it on any
// node are told: an overwrite, a script, a deletion, the end of a lease, a flush.
func TestTrackingOnEveryNode(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	writer := cluster[0].client()
	var readers []*trackingClient
	anew := func() {
		readers = nil
		for _, p := range cluster {
			readers = append(readers, p.track())
		}
	}
	anew()
	all := func(f func(c *trackingClient)) {
		t.Helper()
		for _, c := range readers {
			f(c)
		}
	}
	read := func(key string) { all(func(c *trackingClient) { c.do("GET", key) }) }
	for i, p := range cluster {
		key := fmt.Sprint("k", i)
		read(key)
		p.client().Set(ctx, key, "v", 0)
		all(func(c *trackingClient) { c.told(key) })
		all((*trackingClient).quiet)
	}
	all(func(c *trackingClient) {
		c.do("EVAL", "return redis.call('get', KEYS[1]) or redis.call('exists', 'derived:' .. KEYS[1])", "1", "job")
	})
	writer.Eval(ctx, "return redis.call('set', 'derived:job', '1')", nil)
	all(func(c *trackingClient) { c.told("derived:job") })
	writer.Set(ctx, "job", "1", 0)
	all(func(c *trackingClient) { c.told("job") })

	deadline := time.Now().Add(time.Hour)
	writer.Set(ctx, "lease", "token", 0)
	writer.PExpireAt(ctx, "lease", deadline)
	read("lease")
	writer.PExpireAt(ctx, "lease", deadline) // it has that deadline: no write
	all((*trackingClient).quiet)
	writer.PExpire(ctx, "lease", time.Minute)
	all(func(c *trackingClient) { c.told("lease") })
	for lease, held := 300*time.Millisecond, false; !held; lease *= 4 { // until all have read it before it ends
		anew()
		writer.Set(ctx, "lease", "token", lease)
		held = true
		all(func(c *trackingClient) { held = c.do("GET", "lease") == "token" && held })
	}
	all(func(c *trackingClient) { c.told("lease") }) // it has ended
	read("lease")
	writer.FlushAll(ctx)
	all(func(c *trackingClient) { c.told("nil") })
	all((*trackingClient).quiet)
}

// Through the death of the leader tracking goes on; a node that hears of no leader
// tells its clients to forget what they have cached, and keeps their connections.
func TestTrackingWithoutTheLeader(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, "--heartbeat", "2s", "--leader-wait", "8s")
	leader := cluster.leader(t)
	rest := cluster.others(leader)
	a, b := rest[0].track(), rest[1].track("BCAST", "PREFIX", "lock:")
	a.do("GET", "lock:1")
	leader.Kill()
	writer := rest[1].client()
	eventually(t, startTimeout, "the others have a leader", func() error { // it may take longer than --leader-wait
		return writer.Set(context.Background(), "lock:1", "v", 0).Err()
	})
	for _, c := range []*trackingClient{a, b} {
		eventually(t, startTimeout, "the push comes", func() error {
			if !c.toldSince("lock:1") {
				return errors.New("not told")
			}
			return nil
		})
	}
	a.do("GET", "lock:1")
	rest[1].Kill()
	a.told("nil")
	if got := a.do("GET", "lock:1"); !strings.HasPrefix(got, "LOADING") {
		t.Errorf("without a majority: %q", got)
	}
	a.told("nil")
	rest[1].start()
	rest[1].awaitServing()
	rest[0].awaitServing()
	a.toldSince("lock:1")
	if got := a.do("GET", "lock:1"); got != "v" {
		t.Errorf("after it: %q", got)
	}
	if err := rest[1].client().Set(context.Background(), "lock:1", "w", 0).Err(); err != nil {
		t.Fatal(err)
	}
	a.told("lock:1")
}
