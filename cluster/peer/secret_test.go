package peer

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
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

	"lockd/cluster/peer/peertest"
)

const testSecret = "sixteen bytes, or more"

// secretsOf returns a list of one secret, or of none.
func secretsOf(secret string) [][]byte {
	if secret == "" {
		return nil
	}
	return [][]byte{[]byte(secret)}
}

// secretPeer is a node whose peers are tested.
type secretPeer struct {
	*Port
	fake     fakePeer
	log      peertest.Log
	admitted atomic.Int64 // how often it was asked to believe who somebody is
}

func startSecretPeer(t testing.TB, n Network, id, addr, secret string) *secretPeer {
	t.Helper()
	s := &secretPeer{}
	s.fake.admits = func(Identity) error {
		s.admitted.Add(1)
		return nil
	}
	var err error
	s.Port, err = Open(Config{
		Network: n, Listen: addr, Secrets: secretsOf(secret), Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Self: func() Identity { return Identity{Cluster: "c", ID: id, Incarnation: "i-" + id, PeerAddr: addr} },
	}, s.fake.handler())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantWarning checks the one warning of a node.
func (s *secretPeer) wantWarning(t *testing.T, parts ...string) {
	t.Helper()
	got := s.log.Warnings()
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

// Nodes with one secret communicate, and an observer of the link cannot read their messages.
func TestPeerSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		tap := &tapped{Network: n.From("a:1")}
		a := startSecretPeer(t, tap, "a", "a:1", testSecret)
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		defer b.Close()
		defer a.Close()
		if o, res := forward(t.Context(), a.Port, "b:1", command("get", "the key")); o != Done || res.Replies[0].Elems[1].Str != "the key" {
			t.Errorf("%v %v", o, res)
		}
		conn, err := a.Streams().Dial("b:1", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("a Raft message")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 14)
		in, err := b.Streams().Accept()
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
		if w := append(a.log.Warnings(), b.log.Warnings()...); len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		_ = conn.Close()
		if _, err := in.Read(got); err != io.EOF {
			t.Errorf("after the other side has closed: %v", err)
		}
		_ = in.Close()
	})
}

// tapped records the bytes written to dialled connections.
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

// Nodes with different secrets do nothing for each other: neither side is asked to admit the other, no call is served,
// and both log the reason, once.
func TestPeerSecretsDiffer(t *testing.T) {
	for _, tc := range []struct{ name, a, b, says, hears string }{
		{"wrong", "another secret, as long", testSecret, "does not know the secret", "does not know the secret"},
		{"plain dials", "", testSecret, "one side has a secret", "one side has a secret"},
		{"plain listens", testSecret, "", "one side has a secret", "one side has a secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				a := startSecretPeer(t, n.From("a:1"), "a", "a:1", tc.a)
				b := startSecretPeer(t, n.From("b:1"), "b", "b:1", tc.b)
				defer b.Close()
				defer a.Close()
				for range 20 {
					if o, _ := forward(t.Context(), a.Port, "b:1", command("flushall")); o != NotDone {
						t.Fatalf("forward: %v", o)
					}
					if _, err := a.Status(t.Context(), "b:1", 0); err == nil {
						t.Error("it was told b's status")
					}
					if conn, err := a.Streams().Dial("b:1", time.Second); err == nil {
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

// attack is a connection of an attacker that speaks TLS.
func attack(t *testing.T, n *peertest.Network, addr string) secureConn {
	t.Helper()
	conn, err := n.From("x:1").Dial(addr, time.Second)
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

// A proof is valid for its connection only.
func TestPeerProofIsForOneConnection(t *testing.T) {
	withSecretListener(t, func(t *testing.T, n *peertest.Network, b *secretPeer) {
		secret, err := newPeerSecret(secretsOf(testSecret), nil)
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
		proof, err := proof([]byte(testSecret), first, sideDialler, "a", named.ID, "c")
		if err != nil {
			t.Fatal(err)
		}
		message := appendHello(nil, helloProof, peerClaim{ID: "a", Cluster: "c", Proof: proof})
		_, _ = second.Write(message)
		wantNoProof(t, "on another connection", second)
		_, _ = first.Write(message)
		if who, err := readClaim(first, helloProof); err != nil || secret.verify(first, who, sideListener, "a", "b", "") != nil {
			t.Errorf("where it belongs: %+v, %v", who, err)
		}
	})
}

// A proof is for one side, both ids and one cluster, and its sender cannot greet as another node.
func TestPeerProofCovers(t *testing.T) {
	withSecretListener(t, func(t *testing.T, n *peertest.Network, b *secretPeer) {
		secret, err := newPeerSecret(secretsOf(testSecret), nil)
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
				if tc.says.Proof, err = proof([]byte(testSecret), conn, tc.side, tc.dialler, tc.listener, tc.cluster); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = conn.Write(appendHello(nil, helloProof, tc.says))
			wantNoProof(t, name, conn)
		}
		for _, who := range []Identity{{Cluster: "c", ID: "z"}, {Cluster: "z", ID: "a"}, {ID: "a"}} {
			conn := attack(t, n, "b:1")
			if _, err := secret.approach(conn, Identity{ID: "a", Cluster: "c"}, "b:1"); err != nil {
				t.Fatal(err)
			}
			_, err := greet(conn, ForCalls, who, func(Identity) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "has proven itself as node a of cluster") {
				t.Errorf("a greets as %+v: %v", who, err)
			}
		}
		if b.admitted.Load() > 0 {
			t.Error("somebody was believed")
		}
	})
}

func withSecretListener(t *testing.T, test func(t *testing.T, n *peertest.Network, b *secretPeer)) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		defer b.Close()
		test(t, n, b)
	})
}

// impostor listens at addr and speaks TLS with every dialler.
func impostor(t *testing.T, n *peertest.Network, addr string, serve func(conn secureConn)) {
	t.Helper()
	ln, err := n.From(addr).Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := newPeerSecret(secretsOf("a secret of the impostor's own"), nil)
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

// A node's own proof, sent back to it, proves nothing.
func TestPeerProofReflected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a := startSecretPeer(t, n.From("a:1"), "a", "a:1", testSecret)
		defer a.Close()
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
		if o, _ := forward(t.Context(), a.Port, "b:1", command("get", "k")); o != NotDone || a.admitted.Load() > 0 {
			t.Errorf("%v, believed %d", o, a.admitted.Load())
		}
		a.wantWarning(t, "does not know the secret")
	})
}

// A node that has not proven itself is not believed, not even that this node was removed, at which it would stop.
func TestPeerRefusalWithoutProof(t *testing.T) {
	const removed = "was removed from this cluster"
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a := startSecretPeer(t, n.From("a:1"), "a", "a:1", testSecret)
		defer a.Close()
		for _, before := range []int{0, 1} {
			addr := fmt.Sprintf("b%d:1", before)
			impostor(t, n, addr, func(conn secureConn) {
				if before > 0 {
					_, _ = conn.Write(appendHello(nil, helloName, peerClaim{ID: "b"}))
					_, _ = readClaim(conn, helloProof)
				}
				_, _ = conn.Write(appendHello(nil, helloRefuse, Refusal{By: "b", Reason: Removed, Text: "node a " + removed}))
				_, _ = io.Copy(io.Discard, conn)
			})
			if o, _ := forward(t.Context(), a.Port, addr, command("get", "k")); o != NotDone {
				t.Errorf("%v", o)
			}
		}
		if got := a.fake.allRefusals(); len(got) > 0 {
			t.Errorf("it believed %q", got)
		}
		if w := a.log.Warnings(); len(w) != 2 || !strings.Contains(w[0], removed) {
			t.Errorf("warnings %q", w)
		}
	})
}

// A man in the middle, who passes on the messages of both sides, gets nowhere.
func TestPeerManInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a := startSecretPeer(t, n.From("a:1"), "a", "a:1", testSecret)
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		defer b.Close()
		defer a.Close()
		impostor(t, n, "m:1", func(front secureConn) {
			back := attack(t, n, "b:1")
			defer back.Close()
			go func() { _, _ = io.Copy(back, front) }()
			_, _ = io.Copy(front, back)
		})
		if o, _ := forward(t.Context(), a.Port, "m:1", command("set", "k", "v")); o != NotDone {
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

// A connection that breaks or falls silent before it is admitted holds its place only within the limits of time.
func TestPeerTornHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		defer b.Close()
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
				synctest.Wait() // accepted, and all that is sent has come
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

// count returns the number of incoming connections.
func (s *secretPeer) count() int {
	s.mu().Lock()
	defer s.mu().Unlock()
	return len(s.conns.unproven) + s.conns.served
}

func (s *secretPeer) mu() *sync.Mutex { return &s.conns.mu }

// limitedConn loses the bytes written beyond a limit, and may then close.
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
func dialLimited(t *testing.T, n *peertest.Network, conn *limitedConn) {
	t.Helper()
	secret, err := newPeerSecret(secretsOf(testSecret), nil)
	if err != nil {
		t.Fatal(err)
	}
	if conn.Conn, err = n.From("a:1").Dial("b:1", time.Second); err != nil {
		t.Fatal(err)
	}
	go func() {
		self := Identity{ID: "a", Cluster: "c"}
		tc := secret.secure(conn, sideDialler)
		if _, err := secret.approach(tc, self, "b:1"); err == nil {
			_, _ = greet(tc, ForCalls, self, func(Identity) error { return nil })
		}
	}()
}

// Silent strangers beyond the limit neither keep a peer out nor keep their connections.
func TestPeerPortBearsStrangers(t *testing.T) {
	for _, secret := range []string{"", testSecret} {
		synctest.Test(t, func(t *testing.T) {
			n := peertest.NewNetwork()
			a := startSecretPeer(t, n.From("a:1"), "a", "a:1", secret)
			b := startSecretPeer(t, n.From("b:1"), "b", "b:1", secret)
			defer b.Close()
			defer a.Close()
			for range 1100 {
				if _, err := n.From("x:1").Dial("b:1", time.Second); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got := b.count(); got != UnprovenConnsMax {
				t.Errorf("%d connections are kept, want %d", got, UnprovenConnsMax)
			}
			if o, _ := forward(t.Context(), a.Port, "b:1", command("get", "k")); o != Done {
				t.Errorf("a peer beside them: %v", o)
			}
			for range 1100 { // nor do they end what has been admitted
				if _, err := n.From("x:1").Dial("b:1", time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.Status(t.Context(), "b:1", 0); err != nil || b.admitted.Load() != 1 {
				t.Errorf("%v, after %d hellos", err, b.admitted.Load())
			}
			time.Sleep(handshakeWaitMax + helloWaitMax)
			if got := b.count(); got != 1 {
				t.Errorf("%d connections after they had their time, want 1", got)
			}
		})
	}
}

// A stranger that tries again and again, each time under another name, does not fill the log.
func TestPeerComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", "")
		defer b.Close()
		b.fake.admits = func(who Identity) error { return fmt.Errorf("%w: %s", ErrUninvited, who.ID) }
		for i := range 90 {
			conn, err := n.From("x:1").Dial("b:1", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = greet(conn, ForCalls, Identity{ID: fmt.Sprint("x", i)}, func(Identity) error { return nil })
			_ = conn.Close()
			time.Sleep(time.Second)
		}
		if got := b.log.Warnings(); len(got) != 2 || !strings.Contains(got[0], "peer=x:1") {
			t.Errorf("90 tries in 90 s: warnings %q", got)
		}
	})
}

// Over real TCP, peers with one secret communicate, and a peer without it learns the reason of its refusal.
func TestPeerSecretOverTCP(t *testing.T) {
	a := startSecretPeer(t, TCPNetwork{}, "a", "127.0.0.1:0", testSecret)
	b := startSecretPeer(t, TCPNetwork{}, "b", "127.0.0.1:0", testSecret)
	plain := startSecretPeer(t, TCPNetwork{}, "p", "127.0.0.1:0", "")
	all := []*secretPeer{a, b, plain}
	defer func() {
		for _, p := range all {
			p.Close()
		}
	}()
	call := func(from, to *secretPeer) Outcome {
		for { // a busy machine may not finish the handshake within a dial's time
			o, _ := forward(t.Context(), from.Port, to.ListenAddr(), command("set", "k", strings.Repeat("v", 1<<20)))
			if o == Done || len(from.log.Warnings()) > 0 {
				return o
			}
		}
	}
	if o := call(a, b); o != Done {
		t.Errorf("with one secret: %v", o)
	}
	if o := call(plain, b); o != NotDone {
		t.Errorf("without it: %v", o)
	}
	plain.wantWarning(t, "one side has a secret")
	if o := call(a, plain); o != NotDone {
		t.Errorf("to one without it: %v", o)
	}
	for len(b.log.Warnings()) == 0 { // it refuses by itself: plain may have heard of it before
		time.Sleep(time.Millisecond)
	}
	b.wantWarning(t, "one side has a secret")
	a.wantWarning(t, "one side has a secret")
}

// FuzzPeerProof checks that any input over TLS before a proof is handled without a panic, and not believed.
func FuzzPeerProof(f *testing.F) {
	claim, err := json.Marshal(peerClaim{ID: "a", Cluster: "c", Proof: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(helloBytes(helloProof, helloVersion, uint32(len(claim)), string(claim))))
	f.Add(appendHello(nil, helloRefuse, Refusal{By: "b", Text: "no"}))
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"))
	secret, err := newPeerSecret(secretsOf(testSecret), nil)
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
		if who, err := secret.introduce(secret.secure(near, sideListener), Identity{ID: "b", Cluster: "c"}); err == nil {
			t.Errorf("%+v was believed", who)
		}
	})
}
