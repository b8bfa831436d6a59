package wire

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// connect returns the two ends of a connection.
func connect(t *testing.T) (ours, theirs net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if theirs, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// hangWait bounds the wait of a test for an event.
const hangWait = 30 * time.Second

// A client that closes its end, or only its sending half, is noticed at once, also behind unread data.
func TestWatchHangUp(t *testing.T) {
	for name, leave := range map[string]func(net.Conn){
		"closes":       func(c net.Conn) { c.Close() },
		"half closes":  func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"behind data":  func(c net.Conn) { _, _ = io.WriteString(c, "PING\r\n"); c.Close() },
		"in two steps": func(c net.Conn) { _, _ = io.WriteString(c, "PI"); _, _ = io.WriteString(c, "NG\r\n"); c.Close() },
	} {
		ours, theirs := connect(t)
		gone := make(chan struct{})
		stop := WatchHangUp(ours, func() { close(gone) })
		leave(theirs)
		select {
		case <-gone:
		case <-time.After(hangWait):
			t.Errorf("a client that %s is not seen", name)
		}
		stop()
	}
}

// Data is not a hang-up. It stays for the next reader, and a hang-up after stop is not reported.
func TestWatchHangUpEnds(t *testing.T) {
	ours, theirs := connect(t)
	stop := WatchHangUp(ours, func() { t.Error("data is taken for a hang-up, or one is told of after stop") })
	if _, err := io.WriteString(theirs, "PING"); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		runtime.Gosched() // the watch looks at the data
	}
	stop()
	got := make([]byte, 4)
	if _, err := io.ReadFull(ours, got); err != nil || string(got) != "PING" {
		t.Errorf("read %q, %v", got, err)
	}
	theirs.Close()
	if n, err := ours.Read(got); n != 0 || err != io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
}

// memoryConn is a connection in memory, which no kernel knows.
type memoryConn struct {
	net.Conn
	end chan struct{}
}

func (c memoryConn) Ended() <-chan struct{} { return c.end }

// A connection in memory is asked itself: its end is seen, and told once, and never after stop.
func TestWatchHangUpInMemory(t *testing.T) {
	c := memoryConn{end: make(chan struct{})}
	WatchHangUp(c, func() { t.Error("a hang-up is told of after stop") })()
	if HungUp(c) {
		t.Error("a client that is there is taken for one that is gone")
	}
	gone := make(chan struct{})
	stop := WatchHangUp(c, func() { close(gone) })
	close(c.end)
	select {
	case <-gone:
	case <-time.After(hangWait):
		t.Error("a hang-up is not told of")
	}
	stop()
	if !HungUp(c) {
		t.Error("a client that is gone is not seen")
	}
}
