package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockd/internal/secure"
	"lockd/internal/secure/securetest"
	"lockd/resp"
)

// startTLS starts a server whose clients speak TLS, and returns how to connect to it.
func startTLS(t *testing.T, change func(*Config), before ...func(*Server)) (*Server, *fakeBackend, func() *testClient) {
	t.Helper()
	srv, fake, _ := startServer(t, change, before...)
	ca := securetest.NewCA(t, "ca")
	log := slog.New(slog.DiscardHandler)
	certs, err := secure.Open(secure.Files(ca.Write(t, t.TempDir(), time.Hour, "127.0.0.1")), log)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(secure.NewHandshakes(log).Listen(inner, certs.Server(tls.NoClientCert)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	return srv, fake, func() *testClient {
		conn, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		return &testClient{t, conn, bufio.NewReader(conn)}
	}
}

// A client with TLS, too, may send a pipeline whole before it reads the first reply: a write that the
// janitor interrupts breaks no record.
func TestTLSClientThatReadsLate(t *testing.T) {
	_, _, dial := startTLS(t, nil)
	c := dial()
	value := strings.Repeat("x", 10000)
	c.send(string(resp.AppendCommand(nil, "SET", "a", value)))
	c.want("+OK\r\n")
	const n = 2000
	padding := strings.Repeat("y", 20000)
	c.send(strings.Repeat(string(resp.AppendCommand(nil, "MSET", "b", padding))+"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", n))
	one := "+OK\r\n$10000\r\n" + value + "\r\n"
	for range n {
		c.want(one)
	}
}

// A client with TLS that hangs up while it waits is noticed, as any other.
func TestTLSHangUpWhileWaiting(t *testing.T) {
	srv, fake, dial := startTLS(t, nil)
	c := dial()
	c.send("WAIT 1 0\r\n")
	<-fake.waiting
	c.conn.(*tls.Conn).NetConn().Close()
	eventually(t, "the session ends", func() bool { return srv.count() == 0 })
}

// QUIT ends the connection in order: with TLS's farewell behind the last reply.
func TestTLSQuit(t *testing.T) {
	_, _, dial := startTLS(t, nil)
	c := dial()
	c.send("PING\r\nQUIT\r\n")
	c.want("+PONG\r\n+OK\r\n")
	if _, err := c.in.ReadByte(); err == nil || err.Error() != "EOF" {
		t.Errorf("it ends with %v", err)
	}
}

// Clients with TLS and without are sent to different addresses.
func TestTLSRedirect(t *testing.T) {
	var asked atomic.Value
	_, _, dial := startTLS(t, func(c *Config) {
		c.Profile = Cluster
		c.Redirect = func(tls bool) string { asked.Store(tls); return "10.0.0.9:6380" }
	})
	c := dial()
	c.send("GET a\r\n")
	c.want("-MOVED 15495 10.0.0.9:6380\r\n")
	if asked.Load() != true {
		t.Error("it is taken for a client without TLS")
	}
}

// A client that is turned away hears why.
func TestTLSMaxClients(t *testing.T) {
	srv, _, dial := startTLS(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "maxclients", Payload: "1"}})
	first := dial()
	first.send("PING\r\n")
	first.want("+PONG\r\n")
	dial().want("-" + resp.ErrMaxClients + "\r\n")
}
