package cluster

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const testSecret = "sixteen bytes, or more"

// logLines collects what a node logs.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// warnings are the lines of level WARN, without their time.
func (l *logLines) warnings() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if _, rest, ok := strings.Cut(line, "level=WARN "); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// secretPeer is a node of which a test looks at the peers only.
type secretPeer struct {
	*peers
	fake     fakePeer
	log      logLines
	admitted atomic.Int64 // how often it was asked to believe who somebody is
}

func startSecretPeer(t testing.TB, n Network, id, addr, secret string) *secretPeer {
	t.Helper()
	s := &secretPeer{}
	s.fake.admits = func(identity) error {
		s.admitted.Add(1)
		return nil
	}
	var err error
	s.peers, err = newPeers(peersConfig{
		Network: n, Listen: addr, Secret: []byte(secret), Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Self: func() identity { return identity{Cluster: "c", ID: id, Incarnation: "i-" + id, PeerAddr: addr} },
	}, &s.fake)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantWarning holds the one warning of a node to what must be in it.
func (s *secretPeer) wantWarning(t *testing.T, parts ...string) {
	t.Helper()
	got := s.log.warnings()
	if len(got) != 1 {
		t.Errorf("%d warnings, want 1: %q", len(got), got)
		return
	}
	for _, part := range parts {
		if !strings.Contains(got[0], part) {
			t.Errorf("warning %q, want it to contain %q", got[0], part)
		}
	}
}

// Nodes with one secret talk as ever, and what they say cannot be read on its way.
func TestPeerSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		tap := &tapped{Network: n.from("a:1")}
		a := startSecretPeer(t, tap, "a", "a:1", testSecret)
		b := startSecretPeer(t, n.from("b:1"), "b", "b:1", testSecret)
		defer b.close()
		defer a.close()
		if o, res := a.forward(t.Context(), "b:1", command("get", "the key")); o != outcomeDone || res.Replies[0].Elems[1].Str != "the key" {
			t.Errorf("%v %v", o, res)
		}
		conn, err := a.streamLayer().Dial("b:1", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("a Raft message")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 14)
		in, err := b.streamLayer().Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(in, got); err != nil || string(got) != "a Raft message" {
			t.Errorf("%q, %v", got, err)
		}
		for _, word := range []string{"the key", "a Raft message", helloMagic, testSecret} {
			if strings.Contains(tap.seen(), word) {
				t.Errorf("%q was sent in the clear", word)
			}
		}
		if w := append(a.log.warnings(), b.log.warnings()...); len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		_ = conn.Close()
		if _, err := in.Read(got); err != io.EOF {
			t.Errorf("after the other side has closed: %v", err)
		}
		_ = in.Close()
	})
}

// tapped notes what is written to dialled connections.
type tapped struct {
	Network
	mu  sync.Mutex
	buf bytes.Buffer
}

type tappedConn struct {
	net.Conn
	n *tapped
}

func (n *tapped) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := n.Network.Dial(addr, timeout)
	return &tappedConn{conn, n}, err
}

func (n *tapped) seen() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.String()
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	c.n.buf.Write(b)
	c.n.mu.Unlock()
	return c.Conn.Write(b)
}

// Nodes that do not have the same secret do nothing for each other: neither side is even
// asked whether it wants the other, nothing is done, and both say why, once.
func TestPeerSecretsDiffer(t *testing.T) {
	for _, tc := range []struct{ name, a, b, says, hears string }{
		{"wrong", "another secret, as long", testSecret, "does not know the secret", "does not know the secret"},
		{"plain dials", "", testSecret, "one side has a secret", "one side has a secret"},
		{"plain listens", testSecret, "", "one side has a secret", "one side has a secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemNetwork()
				a := startSecretPeer(t, n.from("a:1"), "a", "a:1", tc.a)
				b := startSecretPeer(t, n.from("b:1"), "b", "b:1", tc.b)
				defer b.close()
				defer a.close()
				for range 20 {
					if o, _ := a.forward(t.Context(), "b:1", command("flushall")); o != outcomeNotDone {
						t.Fatalf("forward: %v", o)
					}
					if _, err := a.status(t.Context(), "b:1"); err == nil {
						t.Error("it was told b's status")
					}
					if conn, err := a.streamLayer().Dial("b:1", time.Second); err == nil {
						t.Errorf("it has a Raft stream %v", conn)
					}
				}
				synctest.Wait()
				if a.admitted.Load() > 0 || b.admitted.Load() > 0 {
					t.Errorf("believed: a %d times, b %d times", a.admitted.Load(), b.admitted.Load())
				}
				a.wantWarning(t, "peer=b:1", tc.hears)
				b.wantWarning(t, "peer=a:1", tc.says)
			})
		})
	}
}

// attack is a connection of somebody who makes TLS by himself.
func attack(t *testing.T, n *memNetwork, addr string) secureConn {
	t.Helper()
	conn, err := n.from("x:1").Dial(addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return secureConn{tls.Client(conn, &tls.Config{InsecureSkipVerify: true})}
}

// wantNoProof reads the refusal of a proof, and the end of the connection.
func wantNoProof(t *testing.T, name string, conn net.Conn) {
	t.Helper()
	kind, body, err := readHello(conn)
	if err != nil || kind != helloRefuse || !strings.Contains(string(body), "does not know the secret") {
		t.Errorf("%s: answered %q %q, %v", name, byte(kind), body, err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%s: the connection goes on", name)
	}
}

// A proof is good for the connection it was made for, and no other.
func TestPeerProofIsForOneConnection(t *testing.T) {
	withSecretListener(t, func(t *testing.T, n *memNetwork, b *secretPeer) {
		secret, err := newPeerSecret([]byte(testSecret))
		if err != nil {
			t.Fatal(err)
		}
		first, second := attack(t, n, "b:1"), attack(t, n, "b:1")
		defer first.Close()
		var named *peerClaim
		for _, conn := range []secureConn{first, second} {
			if named, err = readClaim(conn, helloName); err != nil {
				t.Fatal(err)
			}
		}
		proof, err := secret.proof(first, sideDialler, "a", named.ID, "c")
		if err != nil {
			t.Fatal(err)
		}
		message := appendHello(nil, helloProof, peerClaim{ID: "a", Cluster: "c", Proof: proof})
		_, _ = second.Write(message)
		wantNoProof(t, "on another connection", second)
		_, _ = first.Write(message)
		if who, err := readClaim(first, helloProof); err != nil || secret.verify(first, who, sideListener, "a", "b") != nil {
			t.Errorf("where it belongs: %+v, %v", who, err)
		}
	})
}

// A proof is for one side, both ids and one cluster, and nobody may then greet as another.
func TestPeerProofCovers(t *testing.T) {
	withSecretListener(t, func(t *testing.T, n *memNetwork, b *secretPeer) {
		secret, err := newPeerSecret([]byte(testSecret))
		if err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			side, dialler, listener, cluster string
			says                             peerClaim
		}{
			"side":     {sideListener, "a", "b", "c", peerClaim{ID: "a", Cluster: "c"}},
			"dialler":  {sideDialler, "z", "b", "c", peerClaim{ID: "a", Cluster: "c"}},
			"listener": {sideDialler, "a", "z", "c", peerClaim{ID: "a", Cluster: "c"}},
			"cluster":  {sideDialler, "a", "b", "z", peerClaim{ID: "a", Cluster: "c"}},
			"no proof": {says: peerClaim{ID: "a", Cluster: "c"}},
		} {
			conn := attack(t, n, "b:1")
			if _, err := readClaim(conn, helloName); err != nil {
				t.Fatal(err)
			}
			if tc.side != "" {
				if tc.says.Proof, err = secret.proof(conn, tc.side, tc.dialler, tc.listener, tc.cluster); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = conn.Write(appendHello(nil, helloProof, tc.says))
			wantNoProof(t, name, conn)
		}
		for _, who := range []identity{{Cluster: "c", ID: "z"}, {Cluster: "z", ID: "a"}, {ID: "a"}} {
			conn := attack(t, n, "b:1")
			if _, err := secret.approach(conn, identity{ID: "a", Cluster: "c"}); err != nil {
				t.Fatal(err)
			}
			_, err := greet(conn, helloCalls, who, func(identity) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "has proven itself as node a of cluster") {
				t.Errorf("a greets as %+v: %v", who, err)
			}
		}
		if b.admitted.Load() > 0 {
			t.Error("somebody was believed")
		}
	})
}

func withSecretListener(t *testing.T, test func(t *testing.T, n *memNetwork, b *secretPeer)) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		b := startSecretPeer(t, n.from("b:1"), "b", "b:1", testSecret)
		defer b.close()
		test(t, n, b)
	})
}

// impostor listens at addr and does TLS with whoever dials.
func impostor(t *testing.T, n *memNetwork, addr string, serve func(conn secureConn)) {
	t.Helper()
	ln, err := n.from(addr).Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := newPeerSecret([]byte("a secret of the impostor's own"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(secret.secure(conn, sideListener).(secureConn))
			}()
		}
	}()
}

// Who sends a node's own proof back to it has proven nothing.
func TestPeerProofReflected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		a := startSecretPeer(t, n.from("a:1"), "a", "a:1", testSecret)
		defer a.close()
		impostor(t, n, "b:1", func(conn secureConn) {
			_, _ = conn.Write(appendHello(nil, helloName, peerClaim{ID: "b"}))
			claim, err := readClaim(conn, helloProof)
			if err != nil {
				return
			}
			claim.ID = "b"
			_, _ = conn.Write(appendHello(nil, helloProof, claim))
			_, _ = io.Copy(io.Discard, conn)
		})
		if o, _ := a.forward(t.Context(), "b:1", command("get", "k")); o != outcomeNotDone || a.admitted.Load() > 0 {
			t.Errorf("%v, believed %d", o, a.admitted.Load())
		}
		a.wantWarning(t, "does not know the secret")
	})
}

// What a node says that has not proven itself is not believed, not even that this node
// was removed, at which it would stop.
func TestPeerRefusalWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		a := startSecretPeer(t, n.from("a:1"), "a", "a:1", testSecret)
		defer a.close()
		for _, before := range []int{0, 1} {
			addr := fmt.Sprintf("b%d:1", before)
			impostor(t, n, addr, func(conn secureConn) {
				if before > 0 {
					_, _ = conn.Write(appendHello(nil, helloName, peerClaim{ID: "b"}))
					_, _ = readClaim(conn, helloProof)
				}
				_, _ = conn.Write(appendHello(nil, helloRefuse, refusal{By: "b", Text: "node a " + saysRemoved}))
				_, _ = io.Copy(io.Discard, conn)
			})
			if o, _ := a.forward(t.Context(), addr, command("get", "k")); o != outcomeNotDone {
				t.Errorf("%v", o)
			}
		}
		if got := a.fake.allRefusals(); len(got) > 0 {
			t.Errorf("it believed %q", got)
		}
		if w := a.log.warnings(); len(w) != 2 || !strings.Contains(w[0], saysRemoved) {
			t.Errorf("warnings %q", w)
		}
	})
}

// Somebody in the middle, who is the other side to both and passes on what each says,
// gets nowhere.
func TestPeerManInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		a := startSecretPeer(t, n.from("a:1"), "a", "a:1", testSecret)
		b := startSecretPeer(t, n.from("b:1"), "b", "b:1", testSecret)
		defer b.close()
		defer a.close()
		impostor(t, n, "m:1", func(front secureConn) {
			back := attack(t, n, "b:1")
			defer back.Close()
			go func() { _, _ = io.Copy(back, front) }()
			_, _ = io.Copy(front, back)
		})
		if o, _ := a.forward(t.Context(), "m:1", command("set", "k", "v")); o != outcomeNotDone {
			t.Errorf("forward: %v", o)
		}
		synctest.Wait()
		if a.admitted.Load() > 0 || b.admitted.Load() > 0 {
			t.Errorf("believed: a %d times, b %d times", a.admitted.Load(), b.admitted.Load())
		}
		a.wantWarning(t, "peer=m:1", "does not know the secret")
		b.wantWarning(t, "does not know the secret")
	})
}

// A connection that is torn, or falls silent, anywhere before it is admitted holds a
// place for no longer than the waits allow.
func TestPeerTornHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		b := startSecretPeer(t, n.from("b:1"), "b", "b:1", testSecret)
		defer b.close()
		for _, closes := range []bool{true, false} {
			whole := &limitedConn{left: 1 << 20}
			dialLimited(t, n, whole)
			synctest.Wait()
			if b.count() != 1 {
				t.Fatalf("%d connections, want the whole one", b.count())
			}
			_ = whole.Close()
			synctest.Wait()
			for sent := 0; sent < 1<<20-whole.left; sent += 37 {
				conn := &limitedConn{left: sent, closes: closes}
				start := time.Now()
				dialLimited(t, n, conn)
				for b.count() > 0 && time.Since(start) <= handshakeWaitMax+helloWaitMax {
					time.Sleep(100 * time.Millisecond)
				}
				if b.count() > 0 {
					t.Fatalf("after %d bytes: the place is not free after %v", sent, time.Since(start))
				}
				_ = conn.Close()
			}
		}
	})
}

// count is how many incoming connections there are.
func (s *secretPeer) count() int {
	s.mu().Lock()
	defer s.mu().Unlock()
	return len(s.unproven) + s.served
}

func (s *secretPeer) mu() *sync.Mutex { return &s.peers.mu }

// limitedConn loses what is written beyond so many bytes, and may close then.
type limitedConn struct {
	net.Conn
	left   int
	closes bool
}

func (c *limitedConn) Write(b []byte) (int, error) {
	pass := b[:min(len(b), c.left)]
	c.left -= len(pass)
	_, _ = c.Conn.Write(pass)
	if len(pass) < len(b) && c.closes {
		_ = c.Conn.Close()
	}
	return len(b), nil
}

// dialLimited opens a Raft stream to b over conn, and leaves it to itself.
func dialLimited(t *testing.T, n *memNetwork, conn *limitedConn) {
	t.Helper()
	secret, err := newPeerSecret([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	if conn.Conn, err = n.from("a:1").Dial("b:1", time.Second); err != nil {
		t.Fatal(err)
	}
	go func() {
		self := identity{ID: "a", Cluster: "c"}
		tc := secret.secure(conn, sideDialler)
		if _, err := secret.approach(tc, self); err == nil {
			_, _ = greet(tc, helloCalls, self, func(identity) error { return nil })
		}
	}()
}

// More silent strangers than the port takes do not keep a peer out, and are not kept.
func TestPeerPortBearsStrangers(t *testing.T) {
	for _, secret := range []string{"", testSecret} {
		synctest.Test(t, func(t *testing.T) {
			n := newMemNetwork()
			a := startSecretPeer(t, n.from("a:1"), "a", "a:1", secret)
			b := startSecretPeer(t, n.from("b:1"), "b", "b:1", secret)
			defer b.close()
			defer a.close()
			for range 1100 {
				if _, err := n.from("x:1").Dial("b:1", time.Second); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got := b.count(); got != UnprovenConnsMax {
				t.Errorf("%d connections are kept, want %d", got, UnprovenConnsMax)
			}
			if o, _ := a.forward(t.Context(), "b:1", command("get", "k")); o != outcomeDone {
				t.Errorf("a peer beside them: %v", o)
			}
			for range 1100 { // nor do they end what has been admitted
				if _, err := n.from("x:1").Dial("b:1", time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.status(t.Context(), "b:1"); err != nil || b.admitted.Load() != 1 {
				t.Errorf("%v, after %d hellos", err, b.admitted.Load())
			}
			time.Sleep(handshakeWaitMax + helloWaitMax)
			if got := b.count(); got != 1 {
				t.Errorf("%d connections after they had their time, want 1", got)
			}
		})
	}
}

// A stranger who tries again and again, each time under another name, does not fill the
// log.
func TestPeerComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNetwork()
		b := startSecretPeer(t, n.from("b:1"), "b", "b:1", "")
		defer b.close()
		b.fake.admits = func(who identity) error { return fmt.Errorf("%w: %s", errUninvited, who.ID) }
		for i := range 90 {
			conn, err := n.from("x:1").Dial("b:1", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = greet(conn, helloCalls, identity{ID: fmt.Sprint("x", i)}, func(identity) error { return nil })
			_ = conn.Close()
			time.Sleep(time.Second)
		}
		if got := b.log.warnings(); len(got) != 2 || !strings.Contains(got[0], "peer=x:1") {
			t.Errorf("90 tries in 90 s: warnings %q", got)
		}
	})
}

// Who is no member does nothing in a cluster that has no secret, though he may speak the
// protocol: with an invented id, without a cluster, in another's name.
func TestStrangerDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logLines{}
		c := startCluster(t, 3, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(logs, nil)) })
		defer c.close()
		leader := c.settle()
		other := c.others(leader)[0]
		c.expect(leader, "SET k v", "+OK")
		cluster, arch := leader.roster.Load().cluster, leader.identity().Arch
		for _, tc := range []struct {
			name    string
			who     identity
			streams bool // Raft's own may pass
		}{
			{"invented", identity{ID: "x", Arch: arch}, false},
			{"invented, of the cluster", identity{ID: "x", Cluster: cluster, Arch: arch}, true},
			{"another's, no cluster", identity{ID: other.id, Incarnation: other.incarnation, Arch: arch}, false},
			{"another's, other data", identity{ID: other.id, Cluster: cluster, Arch: arch, Incarnation: "x"}, false},
			{"the node's own", identity{ID: leader.id, Cluster: cluster, Arch: arch, Incarnation: leader.incarnation}, false},
			{"of another cluster", identity{ID: "x", Cluster: "x", Arch: arch}, false},
		} {
			tc.who.Rules = leader.rules
			for _, kind := range []helloKind{helloCalls, helloRaft, helloLog} {
				conn, err := c.net.from("x:1").Dial(leader.addr, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				_, err = greet(conn, kind, tc.who, func(identity) error { return nil })
				var refused *refusedError
				if admitted := tc.streams && kind != helloCalls; admitted != (err == nil) || !admitted && !errors.As(err, &refused) {
					t.Errorf("%s, kind %q: %v", tc.name, byte(kind), err)
				}
				_ = conn.Close()
			}
		}
		c.expect(leader, "GET k", "$1 v")
		if got := logs.warnings(); len(got) != 1 || !strings.Contains(got[0], "peer=x:1") {
			t.Errorf("warnings %q", got)
		}
	})
}

// A cluster with a secret works as one without: through every node, over the loss of the
// leader, and with a node that joins; who does not have the secret cannot join.
func TestClusterWithSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := func(cfg *Config) { cfg.PeerSecret = []byte(testSecret) }
		c := startCluster(t, 3, secret)
		defer c.close()
		leader := c.settle()
		for _, n := range c.nodes {
			c.expect(n, "SET "+n.id+" v", "+OK")
		}
		c.add("n4", secret)
		c.start("n4")
		c.expect(leader, "LOCKD ADD n4 n4:1", "+OK")
		c.expect(c.nodes["n4"], "GET n1", "$1 v")
		c.kill(leader.id)
		next := c.leader(idsOf(c.others(leader))...)
		c.expect(next, "GET "+leader.id, "$1 v")
		c.start(leader.id)
		c.settle()

		c.add("n5", func(cfg *Config) { cfg.PeerSecret = []byte("another secret, as long") })
		c.start("n5")
		c.expect(next, "LOCKD ADD n5 n5:1", "-ERR node n5 is a member now, but does not answer at n5:1: it gets its vote once it has caught up")
		c.expect(next, "LOCKD REMOVE n5", "+OK")
		if n5 := c.nodes["n5"]; n5.appliedNow.Load() > 0 || len(n5.servers()) > 0 {
			t.Error("the node without the secret has data")
		}
		c.expect(next, "GET n1", "$1 v")
	})
}

func idsOf(nodes []*testNode) (ids []string) {
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// Without a secret nodes are on loopback, or the operator has said that all may be read
// and changed by everybody.
func TestPeersOnLoopback(t *testing.T) {
	secret := []byte(testSecret)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"loopback", Config{PeerListen: "127.1.2.3:1"}, ""},
		{"IPv6", Config{PeerListen: "[::1]:1", Members: map[string]string{"n1": "localhost:1"}}, ""},
		{"all interfaces", Config{PeerListen: "0.0.0.0:1"}, "peer address 0.0.0.0:1 is not on loopback"},
		{"no host", Config{PeerListen: ":1"}, "peer address :1 is not on loopback"},
		{"advertised", Config{PeerListen: "127.0.0.1:1", PeerAdvertise: "node1:1"}, "advertised peer address node1:1 is not on loopback"},
		{"a member", Config{PeerListen: "127.0.0.1:1", Members: map[string]string{"n1": "127.0.0.1:1", "n2": "10.0.0.2:1"}}, "the address of peer n2 10.0.0.2:1 is not on loopback"},
		{"secret", Config{PeerListen: "0.0.0.0:1", PeerSecret: secret}, ""},
		{"insecure", Config{PeerListen: "0.0.0.0:1", PeerInsecure: true}, ""},
		{"short", Config{PeerListen: "127.0.0.1:1", PeerSecret: secret[:PeerSecretMin-1]}, "the secret of the peers has 15 bytes, fewer than 16"},
	} {
		tc.cfg.ID, tc.cfg.Machine, tc.cfg.Publisher = "n1", newTestMachine(), &testPublisher{}
		err := tc.cfg.complete()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if err != nil && tc.name != "short" && !strings.Contains(err.Error(), makeSecret) {
			t.Errorf("%s: %v, want the command that makes a secret", tc.name, err)
		}
	}
	here := TCPNetwork{LoopbackOnly: true}
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if ln, err := here.Listen(addr); err == nil {
			t.Errorf("it listens on %s", ln.Addr())
		}
	}
	ln, err := here.Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := here.Dial(ln.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := here.Dial("192.0.2.1:1", time.Second); err == nil || !strings.Contains(err.Error(), "192.0.2.1:1 is not on loopback") {
		t.Errorf("another machine: %v", err)
	}
}

// A real TCP connection behaves as those in memory do: a secret's peers talk, and a peer
// without one learns why it is not heard.
func TestPeerSecretOverTCP(t *testing.T) {
	a := startSecretPeer(t, TCPNetwork{}, "a", "127.0.0.1:0", testSecret)
	b := startSecretPeer(t, TCPNetwork{}, "b", "127.0.0.1:0", testSecret)
	plain := startSecretPeer(t, TCPNetwork{}, "p", "127.0.0.1:0", "")
	all := []*secretPeer{a, b, plain}
	defer func() {
		for _, p := range all {
			p.close()
		}
	}()
	call := func(from, to *secretPeer) outcome {
		for { // a busy machine may not finish the handshake within a dial's time
			o, _ := from.forward(t.Context(), to.listenAddr(), command("set", "k", strings.Repeat("v", 1<<20)))
			if o == outcomeDone || len(from.log.warnings()) > 0 {
				return o
			}
		}
	}
	if o := call(a, b); o != outcomeDone {
		t.Errorf("with one secret: %v", o)
	}
	if o := call(plain, b); o != outcomeNotDone {
		t.Errorf("without it: %v", o)
	}
	plain.wantWarning(t, "one side has a secret")
	if o := call(a, plain); o != outcomeNotDone {
		t.Errorf("to one without it: %v", o)
	}
	b.wantWarning(t, "one side has a secret")
	a.wantWarning(t, "one side has a secret")
}

// FuzzPeerProof: whatever comes in over TLS before a proof, it is judged without a panic,
// and nobody is believed.
func FuzzPeerProof(f *testing.F) {
	claim, err := json.Marshal(peerClaim{ID: "a", Cluster: "c", Proof: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(helloBytes(helloProof, helloVersion, uint32(len(claim)), string(claim))))
	f.Add(appendHello(nil, helloRefuse, refusal{"b", "no"}))
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"))
	secret, err := newPeerSecret([]byte(testSecret))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			conn := secureConn{tls.Client(far, &tls.Config{InsecureSkipVerify: true})}
			defer conn.Close()
			if _, err := readClaim(conn, helloName); err == nil {
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, _ = conn.Write(in)
			}
		}()
		if who, err := secret.introduce(secret.secure(near, sideListener), identity{ID: "b", Cluster: "c"}); err == nil {
			t.Errorf("%+v was believed", who)
		}
	})
}
