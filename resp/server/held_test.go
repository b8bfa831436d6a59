package server

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"lockd/resp"
)

// What one client subscribes to is bounded in bytes, and counted no more when it has left.
func TestSubscriptionsAreBoundedInBytes(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("PING\r\n")
	c.want("+PONG\r\n")
	const size, most = 1000, 3
	before := heldBytesMax - most*(size+heldPerSubscription) // stands for those that came before
	srv.clients()[0].held.bytes.Store(int64(before))
	name := func(i int) string { return strings.Repeat("x", size-1) + fmt.Sprint(i) }
	for i := range most {
		c.send("SUBSCRIBE " + name(i) + "\r\n")
		c.want(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", size, name(i), i+1))
	}
	c.send("SUBSCRIBE " + name(most) + "\r\nPSUBSCRIBE p*\r\nUNSUBSCRIBE " + name(0) + "\r\nPSUBSCRIBE p*\r\nSSUBSCRIBE s\r\n")
	c.want("-" + errHeld + "\r\n-" + errHeld + "\r\n")
	c.want(fmt.Sprintf("*3\r\n$11\r\nunsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", size, name(0), most-1))
	c.want("*3\r\n$10\r\npsubscribe\r\n$2\r\np*\r\n:3\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n")
	c.conn.Close()
	eventually(t, "nothing is held", func() bool { return srv.count() == 0 })
	if left := srv.held.Load(); left != 0 {
		t.Errorf("%d bytes are counted for nobody", left)
	}
}

// What all clients make the node keep is bounded together. A command that does not fit
// is refused, and what was kept is given back in each way that it can end.
func TestHeldIsBoundedForAll(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	const room = 1000
	srv.held.Store(heldBytesOfAllMax - room)
	c := dial(t, addr)
	ask := func(line, want string) {
		t.Helper()
		c.send(line + "\r\n")
		c.want(strings.ReplaceAll(want, "|", "\r\n") + "\r\n")
	}
	free := func() {
		t.Helper()
		if left := heldBytesOfAllMax - srv.held.Load(); left != room {
			t.Errorf("%d bytes left", left)
		}
	}
	large := strings.Repeat("x", room)
	ask("MULTI", "+OK")
	ask("SET a 1", "+QUEUED")
	ask("SET a "+large, "-"+errHeld)
	ask("SET b 1", "+QUEUED")
	ask("EXEC", "-"+resp.ErrExecAbort)
	free()
	ask("WATCH "+large, "-"+errHeld)
	ask("WATCH k l", "+OK")
	ask("MULTI", "+OK")
	ask("SET k 1", "+QUEUED")
	ask("EXEC", "*1|+OK")
	free()
	ask("WATCH k", "+OK")
	ask("UNWATCH", "+OK")
	free()
	ask("MULTI", "+OK")
	ask("SET k 1", "+QUEUED")
	ask("DISCARD", "+OK")
	free()
	ask("SUBSCRIBE "+large, "-"+errHeld)
	ask("MULTI", "+OK")
	ask("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: ")
	ask("SET k "+large, "+QUEUED")
	free()
	ask("RESET", "+RESET")
	ask("SUBSCRIBE a", "*3|$9|subscribe|$1|a|:1")
	ask("RESET", "+RESET")
	free()
	ask("WATCH k", "+OK")
	ask("MULTI", "+OK")
	ask("SET k 1", "+QUEUED")
	c.conn.Close()
	eventually(t, "nothing is held", func() bool { return srv.count() == 0 })
	free()
}

// What is kept of a command is not all that arrived with it.
func TestKeptArgumentsAreCopies(t *testing.T) {
	arrived := strings.Repeat("x", 1<<20) + "SETkv"
	args := resp.Args{arrived[1<<20 : 1<<20+3], arrived[1<<20+3 : 1<<20+4], "", arrived[1<<20+4:]}
	kept := cloneArgs(args)
	if fmt.Sprint(kept) != fmt.Sprint(args) {
		t.Errorf("%q", kept)
	}
	if unsafe.StringData(kept[0]) == unsafe.StringData(args[0]) {
		t.Error("not copied")
	}
}
