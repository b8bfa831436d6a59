package target

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"lockd/internal/fakenode"
)

// Knock connects from a host of its own. Behind the door Inside the TLS handshake is done; before ForClients nothing
// has been sent.
func TestKnock(t *testing.T) {
	s, err := newTLSSetup(t.TempDir(), onlyHost)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 1)
	l := &fleet{tls: s, strangers: ownHost(), nodes: map[string]*lockdNode{"n1": {
		addr: fakenode.Accept(t, func(conn net.Conn) {
			head := make([]byte, 3)
			_, _ = io.ReadFull(conn, head)
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			came <- host + " " + string(head)
		}),
	}}}
	for door, want := range map[Door]string{ForClients: "abc", Inside: "\x16\x03\x01"} {
		conn, err := l.Knock("n1", door)
		if (err == nil) != (door == ForClients) { // what serves here does not answer a handshake
			t.Errorf("%s: %v", door, err)
		}
		if err == nil {
			_, _ = io.WriteString(conn, "abc")
			_ = conn.Close()
		}
		if got := <-came; got != l.strangers+" "+want {
			t.Errorf("%s: %q, want %q", door, got, want)
		}
	}
}

// The memory of a process can be read while it runs.
func TestMemory(t *testing.T) {
	p := shell(t, "exec sleep 60")
	if _, _, err := p.memory(); err == nil {
		t.Error("a process that does not run has memory")
	}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	now, most, err := p.memory()
	switch {
	case runtime.GOOS != "linux":
		if err == nil || !strings.Contains(err.Error(), "on Linux only") {
			t.Errorf("elsewhere: %v", err)
		}
	case err != nil || now < 1<<12 || most < now:
		t.Errorf("%d bytes, %d at most, %v", now, most, err)
	}
}
