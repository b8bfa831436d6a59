package peer

import (
	"strings"
	"testing"
	"time"
)

// Without a secret no traffic leaves the machine, also if a name leads elsewhere.
func TestLoopbackOnly(t *testing.T) {
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
	conn, err := here.Dial(ln.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := here.Dial("192.0.2.1:1", time.Minute); err == nil || !strings.Contains(err.Error(), "192.0.2.1:1 is not on loopback") {
		t.Errorf("another machine: %v", err)
	}
}
