//go:build faults

package crash

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// At is Once for a process of a test build that has called fault.Serve: it dies by a command
// to its control port.
func At(t *testing.T, dir, kind, command string) uint64 {
	t.Helper()
	addr := freeAddr(t)
	t.Setenv("LOCKD_FAULT_LISTEN", addr)
	return Once(t, dir, kind, func(*os.Process) { control(t, addr, command) })
}

// freeAddr is an address of this machine where nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// control sends a command to a control port.
func control(t *testing.T, addr, command string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, command)
	if answer, err := bufio.NewReader(conn).ReadString('\n'); answer != "ok\n" {
		t.Fatalf("%s: %q, %v", command, answer, err)
	}
}
