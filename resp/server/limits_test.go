package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"lockd/resp"
)

// A node with a maxclients of its own does not follow the cluster's; CONFIG SET changes that of the node.
func TestOwnMaxClients(t *testing.T) {
	srv, _, addr := startServer(t, func(c *Config) { c.ClientsMax, c.Seats = 2, NewSeats(func() int64 { return 5 }) })
	c := dial(t, addr)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "maxclients", Payload: "1"}})
	second := dial(t, addr)
	second.send("PING\r\n")
	second.want("+PONG\r\n")
	dial(t, addr).want("-ERR max number of clients reached\r\n")
	const wrong = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - "
	c.send("CONFIG GET maxclients\r\nCONFIG SET maxclients x\r\nCONFIG SET maxclients 0\r\nCONFIG SET maxclients 6\r\n" +
		"CONFIG SET maxclients 3\r\nCONFIG GET maxclients\r\n")
	c.want("*2\r\n$10\r\nmaxclients\r\n$1\r\n2\r\n" +
		wrong + "argument couldn't be parsed into an integer\r\n" +
		wrong + "argument must be between 1 and 4294967295 inclusive\r\n" +
		wrong + "The operating system is not able to handle the specified number of clients, try with 5\r\n" +
		"+OK\r\n*2\r\n$10\r\nmaxclients\r\n$1\r\n3\r\n")
	third := dial(t, addr)
	third.send("PING\r\n")
	third.want("+PONG\r\n")
}

// Clients beyond the seats of the process are told so, whichever server they come to; who
// leaves makes room. Where there are fewer seats than before, who has one keeps it.
func TestSeats(t *testing.T) {
	var most atomic.Int64
	most.Store(2)
	seats := NewSeats(most.Load)
	srv, _, addr := startServer(t, func(c *Config) { c.Seats = seats })
	_, _, other := startServer(t, func(c *Config) { c.Seats = seats })
	first, second := dial(t, addr), dial(t, other)
	for _, c := range []*testClient{first, second} {
		c.send("PING\r\n")
		c.want("+PONG\r\n")
	}
	third := dial(t, addr)
	third.want("-ERR max number of clients reached\r\n")
	third.wantClosed()
	first.send("CONFIG SET maxclients 3\r\nCONFIG SET maxclients 2\r\nINFO clients\r\n")
	first.want("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle " +
		"the specified number of clients, try with 2\r\n+OK\r\n")
	second.conn.Close()
	eventually(t, "there is room", func() bool { return seats.taken.Load() == 1 })
	third = dial(t, addr)
	third.send("PING\r\n")
	third.want("+PONG\r\n")
	if taken, open := seats.taken.Load(), srv.count(); taken != 2 || open != 2 {
		t.Errorf("%d seats are taken by %d clients", taken, open)
	}
	most.Store(1)
	dial(t, other).want("-ERR max number of clients reached\r\n")
	third.send("PING\r\n")
	third.want("+PONG\r\n")
	most.Store(3)
	more := dial(t, other)
	more.send("PING\r\n")
	more.want("+PONG\r\n")
}

// What one client subscribes to is bounded in bytes, and counted no more when it has left.
func TestSubscriptionsAreBoundedInBytes(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("PING\r\n")
	c.want("+PONG\r\n")
	const size, most = 1000, 3
	before := memoryBytesMax - most*(size+256) // a subscription takes 256 beside its name; this stands for those that came before
	srv.clients.list()[0].memory.bytes.Store(int64(before))
	name := func(i int) string { return strings.Repeat("x", size-1) + fmt.Sprint(i) }
	for i := range most {
		c.send("SUBSCRIBE " + name(i) + "\r\n")
		c.want(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", size, name(i), i+1))
	}
	c.send("SUBSCRIBE " + name(most) + "\r\nPSUBSCRIBE p*\r\nUNSUBSCRIBE " + name(0) + "\r\nPSUBSCRIBE p*\r\nSSUBSCRIBE s\r\n")
	c.want("-" + errMemory + "\r\n-" + errMemory + "\r\n")
	c.want(fmt.Sprintf("*3\r\n$11\r\nunsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", size, name(0), most-1))
	c.want("*3\r\n$10\r\npsubscribe\r\n$2\r\np*\r\n:3\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n")
	c.conn.Close()
	eventually(t, "no client is left", func() bool { return srv.count() == 0 })
	if left := srv.clients.memoryBytes.Load(); left != 0 {
		t.Errorf("%d bytes are counted for nobody", left)
	}
}

// What all clients make the node keep is bounded together. A command that does not fit
// is refused, and what was kept is given back in each way that it can end.
func TestMemoryIsBoundedForAll(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	const room = 1000
	srv.clients.memoryBytes.Store(memoryBytesOfAllMax - room)
	c := dial(t, addr)
	ask := func(line, want string) {
		t.Helper()
		c.send(line + "\r\n")
		c.want(strings.ReplaceAll(want, "|", "\r\n") + "\r\n")
	}
	free := func() {
		t.Helper()
		if left := memoryBytesOfAllMax - srv.clients.memoryBytes.Load(); left != room {
			t.Errorf("%d bytes left", left)
		}
	}
	large := strings.Repeat("x", room)
	ask("MULTI", "+OK")
	ask("SET a 1", "+QUEUED")
	ask("SET a "+large, "-"+errMemory)
	ask("SET b 1", "+QUEUED")
	ask("EXEC", "-"+resp.ErrExecAbort)
	free()
	ask("WATCH "+large, "-"+errMemory)
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
	ask("SUBSCRIBE "+large, "-"+errMemory)
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
	eventually(t, "no client is left", func() bool { return srv.count() == 0 })
	free()
}
