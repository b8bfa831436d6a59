package target

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"lockd/internal/fakenode"
)

// echo answers each line with the same line, and the hello in front of it with
// nothing.
func echo(t *testing.T, hello bool) string {
	t.Helper()
	return fakenode.Accept(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		if hello {
			head := make([]byte, helloHeadLen)
			if _, err := io.ReadFull(r, head); err != nil {
				return
			}
			_, _ = r.Discard(int(binary.BigEndian.Uint32(head[helloHeadLen-4:])))
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
		}
	})
}

// dialAs connects as a node of lockd does.
func dialAs(t *testing.T, addr, id string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := fmt.Sprintf(`{"ID":%q}`, id)
	head := append([]byte(helloMagic), 1, 'c')
	head = binary.BigEndian.AppendUint32(head, uint32(len(body)))
	if _, err := conn.Write(append(head, body...)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// say sends a line and waits for its echo; the error is a timeout if none comes.
func say(conn net.Conn, r *bufio.Reader, text string, within time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(within))
	if text != "" {
		if _, err := io.WriteString(conn, text+"\n"); err != nil {
			return err
		}
	}
	_, err := r.ReadString('\n')
	return err
}

// A cut holds back one direction of one pair of nodes, and nobody else's; what was
// held back arrives when it heals.
func TestCutIsDirected(t *testing.T) {
	n := NewNet()
	p, err := newProxy(n, "b", echo(t, true), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, ra := dialAs(t, p.Addr(), "a")
	c, rc := dialAs(t, p.Addr(), "c")
	for name, cut := range map[string][2]string{"there": {"a", "b"}, "back": {"b", "a"}} {
		if err := say(a, ra, "before", time.Minute); err != nil {
			t.Fatal(name, err)
		}
		n.Set(cut[0], cut[1], Shape{Cut: true})
		if err := say(a, ra, "held", 100*time.Millisecond); err == nil {
			t.Errorf("%s: the cut let a line through", name)
		}
		if err := say(c, rc, "other", time.Minute); err != nil {
			t.Errorf("%s: the cut held another node back: %v", name, err)
		}
		n.Heal()
		if err := say(a, ra, "", time.Minute); err != nil {
			t.Errorf("%s: what was held back did not arrive: %v", name, err)
		}
	}
}

// Behind a cut nobody learns that the other side has closed.
func TestCutHidesTheEnd(t *testing.T) {
	n := NewNet()
	p, err := newProxy(n, "b", echo(t, true), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, ra := dialAs(t, p.Addr(), "a")
	if err := say(a, ra, "before", time.Minute); err != nil {
		t.Fatal(err)
	}
	n.Set("b", "a", Shape{Cut: true})
	_ = a.(*net.TCPConn).CloseWrite() // b will answer by closing
	_ = a.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := ra.ReadByte(); err == io.EOF {
		t.Error("the end came through the cut")
	}
	n.Heal()
	_ = a.SetDeadline(time.Now().Add(time.Minute))
	if _, err := ra.ReadByte(); err != io.EOF {
		t.Errorf("after the cut: %v, want the end", err)
	}
}

// A delay is a delay, and a reset breaks the pair's connections only.
func TestDelayAndReset(t *testing.T) {
	n := NewNet()
	p, err := newProxy(n, "b", echo(t, false), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	n.Set(Clients, "b", Shape{Delay: 80 * time.Millisecond})
	began := time.Now()
	if err := say(conn, r, "late", time.Minute); err != nil || time.Since(began) < 80*time.Millisecond {
		t.Errorf("a delayed line came after %s (%v)", time.Since(began), err)
	}
	n.Reset("a", "b")
	if err := say(conn, r, "still there", time.Minute); err != nil {
		t.Errorf("the reset of another pair: %v", err)
	}
	n.Reset(Clients, "b")
	if err := say(conn, r, "gone", time.Minute); err == nil {
		t.Error("the connection outlived its reset")
	}
}

// A link that breaks does so in the middle of a piece: its beginning arrives, its end
// never does.
func TestBreak(t *testing.T) {
	n := NewNet()
	p, err := newProxy(n, "b", echo(t, false), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if err := say(conn, r, "before", time.Minute); err != nil {
		t.Fatal(err)
	}
	n.Set("b", Clients, Shape{BreakOneIn: 1})
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, "12345678\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); got != "1234" || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("came %q, %v", got, err)
	}
}

// A link that refuses opens no connection; what is open stays, and other links open theirs.
func TestRefuse(t *testing.T) {
	n := NewNet()
	p, err := newProxy(n, "b", echo(t, true), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before, rb := dialAs(t, p.Addr(), "a")
	if err := say(before, rb, "before", time.Minute); err != nil {
		t.Fatal(err)
	}
	n.Set("a", "b", Shape{Refuse: true})
	if err := say(before, rb, "still there", time.Minute); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	a, ra := dialAs(t, p.Addr(), "a")
	if err := say(a, ra, "new", time.Minute); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new connection: %v", err)
	}
	c, rc := dialAs(t, p.Addr(), "c")
	if err := say(c, rc, "other", time.Minute); err != nil {
		t.Errorf("another node: %v", err)
	}
	n.Heal()
	a, ra = dialAs(t, p.Addr(), "a")
	if err := say(a, ra, "healed", time.Minute); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// Whoever does not begin like a node of lockd is hung up on.
func TestStrangerAtPeerPort(t *testing.T) {
	p, err := newProxy(NewNet(), "b", echo(t, true), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := say(conn, bufio.NewReader(conn), "PING, and more bytes than a head", time.Minute); err == nil {
		t.Error("a stranger was served")
	}
}
