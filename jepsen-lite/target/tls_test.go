package target

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lockd/internal/fakenode"
)

// Between nodes with TLS a proxy knows by its port which node connects, so a link affects the bytes of one pair in one
// direction. The address that the members know admits nobody.
func TestWays(t *testing.T) {
	l := newLockdOver(&fleet{net: NewNet(), names: []string{"n1", "n2"}, nodes: map[string]*lockdNode{}}, nil)
	for _, name := range l.names {
		n := &lockdNode{peerAddr: echo(t, false)}
		var err error
		if n.peer, err = newProxy(l.net, name, n.peerAddr, refuseAll); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.peer.Close)
		l.nodes[name] = n
	}
	if err := l.openWays(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, way := range l.ways {
			way.Close()
		}
	})
	open := func(addr string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, bufio.NewReader(conn)
	}
	ways := map[[2]string]string{} // by who dials, and the node that is dialled
	for from, n := range l.nodes {
		list, ok := strings.CutPrefix(n.env[0], waysVar+"=")
		for i, way := range strings.Split(list, ",") {
			to := l.names[i]
			known, at, _ := strings.Cut(way, "=")
			if !ok || known != l.nodes[to].peer.Addr() {
				t.Fatalf("%s dials %s by %q", from, to, way)
			}
			ways[[2]string{from, to}] = at
		}
	}
	there, r := open(ways[[2]string{"n1", "n2"}])
	back, rb := open(ways[[2]string{"n2", "n1"}])
	if err := say(there, r, "before", time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, cut := range [][2]string{{"n1", "n2"}, {"n2", "n1"}} { // what n1 says, and what it is answered
		l.net.Set(cut[0], cut[1], Shape{Cut: true})
		for name, err := range map[string]error{
			"n1's": say(there, r, "held", 100*time.Millisecond), "n2's": say(back, rb, "held", 100*time.Millisecond),
		} {
			if err == nil {
				t.Errorf("%v is cut, and %s connection is answered", cut, name)
			}
		}
		l.net.Heal()
		if err := say(there, r, "", time.Minute); err != nil {
			t.Errorf("what was held back did not arrive: %v", err)
		}
		if err := say(back, rb, "", time.Minute); err != nil {
			t.Errorf("what was held back did not arrive: %v", err)
		}
	}
	l.net.Set("n2", "n2", Shape{Cut: true})
	if err := say(there, r, "others' links", time.Minute); err != nil {
		t.Errorf("n1 does not reach n2, whose link with itself is cut: %v", err)
	}
	if conn, err := net.Dial("tcp", l.nodes["n1"].peer.Addr()); err == nil { // it may be over by then
		defer conn.Close()
		if err := say(conn, bufio.NewReader(conn), "hello", time.Minute); err == nil {
			t.Error("the address that the members know leads somewhere")
		}
	}
}

// With TLS, clients show a certificate and accept only certificates of the run's authority. Without TLS they connect as
// before.
func TestConnectByTLS(t *testing.T) {
	makes := func() *tlsSetup {
		s, err := newTLSSetup(t.TempDir(), onlyHost)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ours, theirs := makes(), makes()
	node := ours.clients.Clone()
	node.ClientAuth, node.ClientCAs = tls.RequireAndVerifyClientCert, ours.clients.RootCAs
	addr := fakenode.Accept(t, func(conn net.Conn) {
		speaks := tls.Server(conn, node)
		if _, err := io.ReadFull(speaks, make([]byte, len("*1\r\n$4\r\nPING\r\n"))); err == nil {
			_, _ = io.WriteString(speaks, "+PONG\r\n")
		}
	})
	for name, c := range map[string]struct {
		with *tlsSetup
		ok   bool
	}{"ours": {ours, true}, "another authority's": {theirs, false}, "no TLS": {nil, false}} {
		conn, err := (&fleet{tls: c.with}).Connect(addr, time.Minute)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	if addr := ours.joinAddr("a:1"); addr != "tls://a:1" {
		t.Errorf("a node joins at %s", addr)
	}
}
