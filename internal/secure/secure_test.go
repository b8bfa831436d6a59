package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/secure/securetest"
)

const month = 30 * 24 * time.Hour

// logText collects the log. It is safe for concurrent use.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), word)
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func filesOf(p securetest.Paths) Files { return Files(p) }

func open(t *testing.T, p securetest.Paths, log *slog.Logger) *Source {
	t.Helper()
	s, err := Open(filesOf(p), log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Access depends on the certificates that the server demands and on those of the client.
func TestAuth(t *testing.T) {
	ours, theirs := securetest.NewCA(t, "ours"), securetest.NewCA(t, "theirs")
	server := ours.Write(t, t.TempDir(), month, "127.0.0.1")
	old := ours.Write(t, t.TempDir(), -time.Hour, "127.0.0.1")
	clients := map[string]*Material{"none": {}}
	for name, p := range map[string]securetest.Paths{
		"good":     ours.Write(t, t.TempDir(), month, "client"),
		"wrong CA": theirs.Write(t, t.TempDir(), month, "client"),
		"expired":  ours.Write(t, t.TempDir(), -time.Hour, "client"),
	} {
		m, err := Load(filesOf(p))
		if err != nil {
			t.Fatal(err)
		}
		clients[name] = m
	}
	roots := open(t, server, slog.New(slog.DiscardHandler)).Current().Roots
	for auth, admitted := range map[tls.ClientAuthType]string{
		tls.RequireAndVerifyClientCert: "good",
		tls.VerifyClientCertIfGiven:    "good none",
		tls.NoClientCert:               "good none wrong CA expired",
	} {
		for name, m := range clients {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				cfg := (&Material{Certificate: m.Certificate, Roots: roots}).Client()
				cfg.MinVersion, cfg.MaxVersion = version, version
				if m.Certificate != nil { // which it would not show to who names other authorities
					cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.Certificate, nil }
				}
				err := greeted(t, server, auth, cfg)
				if (err == nil) != strings.Contains(admitted, name) {
					t.Errorf("auth %v, client %s, %s: %v", auth, name, tls.VersionName(version), err)
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		server securetest.Paths
		cfg    *tls.Config
		want   string
	}{
		"a server of another authority": {server, &tls.Config{RootCAs: clients["wrong CA"].Roots}, "unknown authority"},
		"a server that has expired":     {old, &tls.Config{RootCAs: roots}, "expired"},
		"a server with another name":    {server, &tls.Config{RootCAs: roots, ServerName: "lockd.test"}, "lockd.test"},
		"TLS 1.1":                       {server, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "version"},
	} {
		if err := greeted(t, tt.server, tls.NoClientCert, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// greeted connects to a server that says hi.
func greeted(t *testing.T, server securetest.Paths, auth tls.ClientAuthType, cfg *tls.Config) error {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l := NewHandshakes(log).Listen(inner, open(t, server, log).Server(auth))
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hi"))
			_ = conn.(*Conn).CloseWrite()
		}
	}()
	conn, err := tls.Dial("tcp", inner.Addr().String(), cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "hi" {
		err = fmt.Errorf("it says %q", said)
	}
	return err
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// isClosed reports whether the other end has hung up, now.
func isClosed(conn net.Conn) bool {
	conn.SetReadDeadline(time.Now())
	_, err := conn.Read(make([]byte, 1))
	conn.SetReadDeadline(time.Time{})
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Idle handshakes, however many, do not keep other clients out, and end after their time.
func TestIdleHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := securetest.NewCA(t, "ca")
		log := &logText{}
		inner, shared := newPipes(), NewHandshakes(log.logger())
		s := open(t, ca.Write(t, t.TempDir(), month, "lockd"), log.logger())
		l := shared.Listen(inner, s.Server(tls.NoClientCert))
		defer l.Close()
		const more = 10
		var idle []net.Conn
		for range HandshakesMax + more {
			idle = append(idle, inner.dial())
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		for i, conn := range idle {
			if isClosed(conn) != (i < more) {
				t.Fatalf("handshake %d: closed %v", i, i >= more)
			}
		}
		client := tls.Client(inner.dial(), &tls.Config{RootCAs: s.Current().Roots, ServerName: "lockd"})
		go func() { _ = client.Handshake() }()
		began := time.Now()
		conn, err := l.Accept()
		if err != nil || time.Since(began) > 0 {
			t.Fatalf("who speaks came in after %s: %v", time.Since(began), err)
		}
		defer conn.Close()
		if shared.Ousted() != more+1 {
			t.Errorf("%d had to make room", shared.Ousted())
		}
		time.Sleep(handshakeMax)
		synctest.Wait()
		for i, conn := range idle {
			if !isClosed(conn) {
				t.Fatalf("handshake %d is under way after %s", i, handshakeMax)
			}
		}
		if n := shared.Failed(); n != HandshakesMax+more {
			t.Errorf("%d have failed", n)
		}
		if n := log.count("level=WARN"); n != 1 {
			t.Errorf("%d lines of them", n)
		}
	})
}

// Clients that Accept has not returned yet are bounded, too, and do not stay when the listener ends.
func TestHandshakesNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := securetest.NewCA(t, "ca")
		log := slog.New(slog.DiscardHandler)
		inner, shared := newPipes(), NewHandshakes(log)
		s := open(t, ca.Write(t, t.TempDir(), month, "lockd"), log)
		l := shared.Listen(inner, s.Server(tls.NoClientCert))
		var clients []net.Conn
		for range HandshakesMax + 1 {
			raw := inner.dial()
			if err := tls.Client(raw, &tls.Config{RootCAs: s.Current().Roots, ServerName: "lockd"}).Handshake(); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, raw)
		}
		synctest.Wait()
		if !isClosed(clients[0]) || isClosed(clients[1]) {
			t.Error("the oldest has to make room, and only he")
		}
		l.Close()
		synctest.Wait()
		if !isClosed(clients[1]) {
			t.Error("a client waits at a listener that is closed")
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// pair is a connection in memory and its client.
func pair(t *testing.T) (*Conn, *tls.Conn) {
	t.Helper()
	ca := securetest.NewCA(t, "ca")
	log := slog.New(slog.DiscardHandler)
	inner := newPipes()
	s := open(t, ca.Write(t, t.TempDir(), month, "lockd"), log)
	l := NewHandshakes(log).Listen(inner, s.Server(tls.NoClientCert))
	t.Cleanup(func() { l.Close() })
	client := tls.Client(inner.dial(), &tls.Config{RootCAs: s.Current().Roots, ServerName: "lockd"})
	go func() { _ = client.Handshake() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*Conn), client
}

// A write that is interrupted, twice, loses nothing and says nothing twice.
func TestInterruptedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := pair(t)
		defer conn.Close()
		first, second := bytes.Repeat([]byte("0123456789"), 10_000), []byte("and more")
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := conn.Write(first)
		if n != len(first) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d, %v", n, err)
		}
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := conn.Write(second); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d, %v", n, err)
		}
		if err := conn.CloseWrite(); err == nil {
			t.Error("it ends before everything was sent")
		}
		conn.SetWriteDeadline(time.Time{})
		go func() {
			_, _ = conn.Write(nil)
			_, _ = conn.Write(second)
			_ = conn.CloseWrite()
		}()
		got, err := io.ReadAll(client)
		if err != nil || string(got) != string(first)+string(second) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	})
}

// What TLS itself says to a client that does not read is bounded.
func TestAside(t *testing.T) {
	here, _ := net.Pipe()
	b := &below{Conn: here, serving: true}
	here.SetWriteDeadline(time.Unix(1, 0))
	var err error
	n := 0
	for ; n < 10*asideMax && err == nil; n += 100 {
		_, err = b.Write(make([]byte, 100))
	}
	if !errors.Is(err, errAside) || n > asideMax+200 {
		t.Errorf("after %d bytes: %v", n, err)
	}
}

// Changed files are followed: good ones are used, and a bad one is reported once.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, log, dir := securetest.NewCA(t, "ca"), &logText{}, t.TempDir()
		p := ca.Write(t, dir, 2*month, "lockd")
		s := open(t, p, log.logger())
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.Watch(ctx)
		old := s.Current()
		time.Sleep(time.Hour + time.Second) // between two looks
		if s.Current() != old {
			t.Fatal("it reads what has not changed")
		}

		cert, key := ca.Issue(t, 2*month, "lockd")
		write(t, p.Cert, cert)
		time.Sleep(pollEvery)
		synctest.Wait()
		write(t, p.Key, key) // in the middle of being written they are not told of
		time.Sleep(pollEvery)
		synctest.Wait()
		if s.Current() != old {
			t.Error("it has taken what may not be all")
		}
		time.Sleep(pollEvery)
		synctest.Wait()
		if s.Current() == old || log.count("level=WARN") != 0 {
			t.Errorf("new certificates are not taken, or told of:\n%s", &log.text)
		}

		old = s.Current()
		write(t, p.Key, []byte("no key"))
		time.Sleep(time.Hour)
		if s.Current() != old || log.count("level=WARN") != 1 {
			t.Errorf("a key that is none:\n%s", &log.text)
		}
		if err := os.Remove(p.Cert); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s.Current() != old || log.count("level=WARN") != 2 {
			t.Errorf("a file that is gone:\n%s", &log.text)
		}
		if s.Reload() {
			t.Error("a file that is gone is good")
		}
		ca.Write(t, dir, 2*month, "lockd")
		if !s.Reload() || s.Current() == old {
			t.Error("they are not read when that is asked for")
		}
	})
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Two weeks before a certificate ends it is told of each day, until there is another.
func TestExpiry(t *testing.T) {
	ca, log, dir := securetest.NewCA(t, "ca"), &logText{}, t.TempDir()
	s := open(t, ca.Write(t, dir, month, "lockd"), log.logger())
	const day = 24 * time.Hour
	begin := time.Now()
	told := func(from, to time.Duration, word string) int {
		before := log.count(word)
		for at := from; at < to; at += time.Hour {
			s.warn(begin.Add(at))
		}
		return log.count(word) - before
	}
	last := month - expiryWarned
	if n := told(0, last-time.Hour, "level=WARN"); n != 0 {
		t.Errorf("told %d times too early", n)
	}
	if n := told(last+time.Hour, last+3*day, "expires soon"); n != 3 {
		t.Errorf("told %d times in three days", n)
	}
	if n := told(month+time.Hour, month+day, "has expired"); n != 1 {
		t.Errorf("told %d times that it has expired", n)
	}
	ca.Write(t, dir, 3*month, "lockd")
	s.Reload()
	if n := told(month, month+3*day, "level=WARN"); n != 0 {
		t.Errorf("told %d times although there is another", n)
	}
}

// What the files must have.
func TestLoadRefuses(t *testing.T) {
	ca, dir := securetest.NewCA(t, "ca"), t.TempDir()
	p := ca.Write(t, dir, month, "lockd")
	other := ca.Write(t, t.TempDir(), month, "lockd")
	large := dir + "/large"
	write(t, large, make([]byte, fileBytesMax+1))
	for name, f := range map[string]Files{
		"no such file":             {Cert: p.Cert + "x", Key: p.Key},
		"private key does not":     {Cert: p.Cert, Key: other.Key},
		"there is no certificate":  {CA: p.Key},
		"more than 1048576 bytes":  {CA: large},
		"PEM inputs may have been": {Cert: large[:len(large)-5] + "key.pem", Key: p.Cert},
	} {
		if _, err := Load(f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
