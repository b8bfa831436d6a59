//go:build faults

package crash

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"testing"

	"lockd/internal/freeport"
)

// At is Once for a process of a test build that calls fault.Serve: a command to its control port kills it.
func At(t *testing.T, dir, kind, command string) uint64 {
	t.Helper()
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKD_FAULT_LISTEN", addrs[0])
	return Once(t, dir, kind, func(*os.Process) { control(t, addrs[0], command) })
}

// control sends a command to a control port.
func control(t *testing.T, addr, command string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, command)
	if answer, err := bufio.NewReader(conn).ReadString('\n'); answer != "ok\n" {
		t.Fatalf("%s: %q, %v", command, answer, err)
	}
}
