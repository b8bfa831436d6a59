package target

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockd/internal/fakenode"
	"lockd/internal/freeport"
)

// echo starts a server that answers each line with the same line, and skips the hello before them.
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

// say sends a line and waits for its echo. The error is a timeout if none arrives.
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

// A cut holds back one direction of one pair of nodes only. The bytes arrive when the link heals.
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

// A delayed link delays, and a reset breaks the connections of the pair only.
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

// A link that breaks connections cuts a piece in the middle: the first half arrives, the rest never does.
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

// A link that refuses opens no connection. Open ones stay, and other links still open theirs.
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

// A connection that does not begin like one of a lockd node is closed.
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

// reaches returns the result of a new connection to a proxy: the echo, a refusal, or something else.
func reaches(t *testing.T, p *Proxy) string {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "refused"
	}
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "hello\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// soon waits until a new connection to a proxy has a result.
func soon(t *testing.T, p *Proxy, want string) {
	t.Helper()
	got := ""
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if got = reaches(t, p); got == want {
			return
		}
	}
	t.Errorf("%s, want %s", got, want)
}

// The ports of a node refuse from the end of its process until the next process listens, at the same address. They
// accept while the process is paused.
func TestPortsFollowTheProcess(t *testing.T) {
	p, err := newProxy(NewNet(), "n1", echo(t, false), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sh, n := shell(t, "exec sleep 60"), &lockdNode{}
	n.path, n.args, n.logPath, n.doors = sh.path, sh.args, sh.logPath, []*Proxy{p}
	t.Cleanup(n.kill)
	n.refuseUntilStarted()
	for range 3 {
		if got := reaches(t, p); got != "refused" {
			t.Fatalf("without a process: %s", got)
		}
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		soon(t, p, "hello")
		n.pause(true)
		if got := reaches(t, p); got != "hello" {
			t.Errorf("paused: %s", got)
		}
		n.pause(false)
		n.kill()
	}
	if deaths := n.takeDeaths(); len(deaths) > 0 {
		t.Error(deaths)
	}
}

// While a process obeys an order to end, the target knows when its port for peers was last open. Its other ports do not
// count.
func TestPeerPortOfAProcessThatStops(t *testing.T) {
	addrs, err := freeport.Addrs("127.0.0.1", 2)
	if err != nil {
		t.Fatal(err)
	}
	sh, n := shell(t, "exec sleep 60"), &lockdNode{}
	n.path, n.args, n.logPath = sh.path, sh.args, sh.logPath
	var ports []net.Listener // for clients, for peers
	for _, addr := range addrs {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		p, err := newProxy(NewNet(), "n1", addr, anyClient)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ports, n.doors = append(ports, ln), append(n.doors, p)
	}
	n.peerDoor = n.doors[1]
	t.Cleanup(n.kill)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	life := func() life {
		n.proc.mu.Lock()
		defer n.proc.mu.Unlock()
		return n.lives[0]
	}
	later := func(than time.Time) time.Time {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(upLook) {
			if at := life().listened; at.After(than) {
				return at
			}
		}
		t.Fatalf("it was not open after %v", than)
		return time.Time{}
	}
	if l := life(); l.ordered || !l.listened.IsZero() {
		t.Errorf("before the order: %+v", l)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.finish(time.Minute, func(Process) {})
	}()
	at := later(later(later(time.Time{})))
	_ = ports[1].Close()
	closed := time.Now()
	soon(t, n.doors[1], "refused")
	time.Sleep(4 * upLook)
	if last := life().listened; last.Before(at) || last.After(closed) {
		t.Errorf("it was open at %v and %v, and closed by %v", at, last, closed)
	}
	n.proc.mu.Lock()
	n.now.Signal(syscall.SIGKILL)
	n.proc.mu.Unlock()
	<-stopped
}

// A port does not open before the node behind it listens, nor for a process that ended before it listened.
func TestPortWaitsForTheNode(t *testing.T) {
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProxy(NewNet(), "n1", addrs[0], anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.shut()
	p.await(make(chan struct{}))
	time.Sleep(4 * upLook)
	if got := reaches(t, p); got != "refused" {
		t.Errorf("before the node listens: %s", got)
	}
	p.shut() // it was of no use
	ln, err := net.Listen("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go each(ln, func(conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	})
	time.Sleep(4 * upLook)
	if got := reaches(t, p); got != "refused" {
		t.Errorf("for a process that has ended: %s", got)
	}
	p.await(make(chan struct{}))
	soon(t, p, "hello")
}

// A port that refuses leaves open connections alone.
func TestRefuseLeavesConnections(t *testing.T) {
	p, err := newProxy(NewNet(), "b", echo(t, true), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, ra := dialAs(t, p.Addr(), "a")
	if err := say(a, ra, "before", time.Minute); err != nil {
		t.Fatal(err)
	}
	p.Refuse(true)
	p.Refuse(true)
	p.Refuse(false)
	if got := reaches(t, p); got != "refused" {
		t.Error(got)
	}
	if err := say(a, ra, "meanwhile", time.Minute); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	p.Refuse(false)
	c, rc := dialAs(t, p.Addr(), "c")
	if err := say(c, rc, "after", time.Minute); err != nil {
		t.Error(err)
	}
}

// Nodes are connected once the one that was called has answered: a process that is paused does not.
func TestConnected(t *testing.T) {
	goes := make(chan struct{})
	n := NewNet()
	p, err := newProxy(n, "b", fakenode.Accept(t, func(conn net.Conn) {
		<-goes
		_, _ = io.WriteString(conn, "it goes on\n")
		_, _ = io.Copy(io.Discard, conn)
	}), lockdPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, ra := dialAs(t, p.Addr(), "a")
	if err := say(a, ra, "hello", 100*time.Millisecond); err == nil || n.Connected("a", "b") {
		t.Errorf("connected with a paused process: %v", err)
	}
	close(goes)
	if err := say(a, ra, "", time.Minute); err != nil || !n.Connected("a", "b") || !n.Connected("b", "a") {
		t.Errorf("not connected with one that goes on: %v", err)
	}
	n.Set("b", "a", Shape{Cut: true})
	if n.Connected("a", "b") {
		t.Error("connected in spite of a cut")
	}
}

// Another process can take the port of a dead node, and has left it when the node listens again.
func TestTakenPort(t *testing.T) {
	p, err := newProxy(NewNet(), "n1", echo(t, false), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Take("rubbish\n")
	if got := reaches(t, p); got != "hello" {
		t.Errorf("of a node that lives: %s", got)
	}
	p.shut()
	p.Take("rubbish\n")
	if got := reaches(t, p); got != "rubbish" {
		t.Errorf("of one that is dead: %s", got)
	}
	p.await(make(chan struct{}))
	soon(t, p, "hello")
	p.shut()
	p.Take("rubbish\n")
	p.Free()
	if got := reaches(t, p); got != "refused" {
		t.Errorf("when it has left: %s", got)
	}
}

// A proxy that cannot listen again reports it.
func TestPortThatIsLost(t *testing.T) {
	p, err := newProxy(NewNet(), "n1", echo(t, false), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lost := make(chan error, 1)
	p.lost = func(err error) { lost <- err }
	p.shut()
	ln, err := net.Listen("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p.await(make(chan struct{}))
	if err := <-lost; err == nil {
		t.Error("no error")
	}
}

// A process that was told to end may close its port before its end. The port refuses then, until the next process
// listens.
func TestPortOfANodeThatStops(t *testing.T) {
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		go each(ln, func(conn net.Conn) {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		})
		return ln
	}
	p, err := newProxy(NewNet(), "n1", addrs[0], anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ln, ended := listen(), make(chan struct{})
	var looks []time.Time
	open := make(chan time.Time, 1<<10)
	p.follow(p.present(), ended, func(at time.Time) { open <- at })
	for range 3 {
		looks = append(looks, <-open)
	}
	if !looks[0].Before(looks[1]) || !looks[1].Before(looks[2]) {
		t.Errorf("it was open at %v", looks)
	}
	if got := reaches(t, p); got != "hello" {
		t.Errorf("as long as it listens: %s", got)
	}
	_ = ln.Close()
	closed := time.Now()
	soon(t, p, "refused")
	for len(open) > 0 {
		if at := <-open; at.After(closed) {
			t.Errorf("it was open at %v, and closed by %v", at, closed)
		}
	}
	close(ended)
	defer listen().Close()
	p.await(make(chan struct{}))
	soon(t, p, "hello")
}

// One who looks for the end of a process, and comes to a conclusion when the next process is awaited, does not keep the
// proxy from accepting connections for that.
func TestLateEndIsOfItsProcess(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go each(ln, func(conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	})
	p, err := newProxy(NewNet(), "n1", ln.Addr().String(), anyClient)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before := p.present()
	p.shut()
	p.await(make(chan struct{}))
	p.shutOf(before)
	soon(t, p, "hello")
}
