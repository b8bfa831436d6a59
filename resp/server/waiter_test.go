package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// clientNumber asks a client for its id.
func (c *testClient) clientNumber() string {
	c.t.Helper()
	c.send("CLIENT ID\r\n")
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(line[1:])
}

// A command that was served just before is none that CLIENT UNBLOCK has ended.
func TestUnblockComesTooLate(t *testing.T) {
	p := &waiter{unblock: make(chan resp.Unblock, 1), done: make(chan struct{}), reply: resp.Nil()}
	s := &client{}
	s.waiter.Store(p)
	if s.unblock(resp.UnblockError) != p || s.unblock(resp.UnblockError) != nil {
		t.Error("the first reason counts, and no other")
	}
	close(p.done)
	if p.unblocked(t.Context()) {
		t.Error("it was served")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if (&waiter{done: make(chan struct{})}).unblocked(ctx) {
		t.Error("who asked is gone")
	}
}

// A client that hangs up while it waits is not counted as one that waits, and its session ends.
func TestBlockedClientIsGone(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	hangs, waits := dial(t, addr), dial(t, addr)
	session := srv.clients.get(number(hangs.clientNumber()))
	hangs.send("BLPOP k 0\r\n")
	waits.send("BLPOP k 0\r\n")
	<-fake.waiting
	<-fake.waiting
	hangs.conn.Close()
	eventually(t, "the kernel knows", func() bool { return wire.HungUp(session.conn) })
	for _, f := range srv.figures.clientsSection(srv.clients.census()).Fields {
		if f.Name == "blocked_clients" && f.Value != "1" {
			t.Errorf("%s clients wait, and one has hung up", f.Value)
		}
	}
	eventually(t, "its session ends", func() bool { return srv.count() == 1 })
}

// A client that hangs up while it waits is noticed by its socket: no janitor is needed, which would come late for
// what is given meanwhile. So it is with TLS, whose socket is below the connection, and while others go on waiting.
func TestSocketTellsOfAParkedClientThatIsGone(t *testing.T) {
	withoutJanitor := func(srv *Server) { srv.janitor.starts.Do(func() {}) } // it seems to be there already
	for name, start := range map[string]func(t *testing.T) (*Server, *fakeBackend, func() *testClient){
		"plain": func(t *testing.T) (*Server, *fakeBackend, func() *testClient) {
			srv, fake, addr := startServer(t, nil, withoutJanitor)
			return srv, fake, func() *testClient { return dial(t, addr) }
		},
		"TLS": func(t *testing.T) (*Server, *fakeBackend, func() *testClient) {
			return startTLS(t, nil, withoutJanitor)
		},
	} {
		for how, leave := range map[string]func(net.Conn){
			"closes":      func(c net.Conn) { c.Close() },
			"behind data": func(c net.Conn) { _, _ = io.WriteString(c, "PING\r\n"); c.Close() },
		} {
			for _, line := range []string{"BLPOP k 0\r\n", "LOCK k token PX 60000 WAIT 0\r\n"} {
				t.Run(name+"/"+how+"/"+strings.Fields(line)[0], func(t *testing.T) {
					srv, fake, connect := start(t)
					stays, gone := connect(), connect()
					for _, c := range []*testClient{stays, gone} {
						c.send(line)
						<-fake.waiting
					}
					leave(wire.Socket(gone.conn))
					eventually(t, "its session ends", func() bool { return srv.count() == 1 })
					if srv.clients.ticks.Load() > 0 {
						t.Error("a janitor walks")
					}
					id := srv.clients.list()[0].id
					other := connect()
					other.send(fmt.Sprintf("CLIENT UNBLOCK %d\r\n", id))
					other.want(":1\r\n")
					stays.want("*-1\r\n")
				})
			}
		}
	}
}

// A client that was killed is not listed, nor killed again, while its session is still at work.
func TestKilledClientIsNotListed(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	killed, other := dial(t, addr), dial(t, addr)
	id := killed.clientNumber()
	working, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	fake.held = func() {
		close(working)
		<-release
	}
	killed.send("SET k v\r\n")
	<-working
	other.send("CLIENT KILL ID " + id + "\r\n")
	other.want(":1\r\n")
	other.send("CLIENT LIST ID " + id + "\r\n")
	other.want("$0\r\n\r\n")
	other.send("CLIENT KILL ID " + id + "\r\n")
	other.want(":0\r\n")
}

// A blocked client gets pushes about other changes at once, and about those of its own command after the reply; the
// reply comes once.
func TestServedBeforePushes(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	change := func(key string) {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		fake.another(key)
	}
	reply := resp.Bulks("k", "v")
	wire := string(reply.AppendTo(nil, 3))
	c.send("MGET k j\r\n")
	c.want("*2\r\n_\r\n_\r\n")
	c.send("BLPOP k 0\r\nPING\r\n")
	<-fake.waiting
	change("j")
	c.want(toldOf("j"))
	served := <-fake.answer
	served(reply)
	change("k")
	c.want(wire + toldOf("k")) // while its session does not know yet
	fake.served <- reply
	c.want("+PONG\r\n")
	c.send("CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING\r\n")
	<-fake.waiting
	served = <-fake.answer
	served(reply)
	fake.served <- reply
	c.want("+PONG\r\n")
}

// A client that stops waiting just before it is served gets one answer.
func TestServedTooLate(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	c.send("BLPOP k 0\r\nPING\r\n")
	<-fake.waiting
	served := <-fake.answer
	fake.served <- resp.Err(resp.ErrUnknown)
	c.want("-" + resp.ErrUnknown + "\r\n+PONG\r\n")
	served(resp.Bulks("k", "v"))
	c.send("PING\r\n")
	c.want("+PONG\r\n")
}

// A client that has hung up, or closed its half, is reported as gone when it is served, though its
// session may not know yet, and is not answered then. One that is there is, whatever comes after.
func TestServedAndGone(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	for _, tt := range []struct {
		name  string
		leave func(*testClient)
		there bool
		reads string
	}{
		{"there", func(*testClient) {}, true, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n+OK\r\n"},
		{"closed its half", closeWrite, false, ""},
		{"tracks and closed its half", closeWrite, false, ""},
	} {
		c := dial(t, addr)
		if strings.HasPrefix(tt.name, "tracks") {
			c = dialTracker(t, addr, "")
		}
		session := srv.clients.get(number(c.clientNumber()))
		c.send("BLPOP k 0\r\n")
		<-fake.waiting
		served := <-fake.answer
		tt.leave(c)
		eventually(t, "the kernel knows", func() bool { return tt.there || wire.HungUp(session.conn) })
		reply := resp.Bulks("k", "v")
		if got := served(reply); got != tt.there {
			t.Errorf("%s: served says %v", tt.name, got)
		}
		select {
		case fake.served <- reply:
		case <-session.ctx.Done(): // it has noticed
		}
		if tt.there {
			c.send("QUIT\r\n")
		}
		if got, err := io.ReadAll(c.in); string(got) != tt.reads || err != nil {
			t.Errorf("%s: it reads %q, %v; want %q", tt.name, got, err, tt.reads)
		}
	}
}

func closeWrite(c *testClient) { _ = c.conn.(*net.TCPConn).CloseWrite() }

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
