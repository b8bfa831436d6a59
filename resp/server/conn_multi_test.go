package server

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"lockd/resp"
)

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

// A transaction that certainly was not done, or whose outcome nobody knows,
// answers that as a whole.
func TestExecOutcomes(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	for _, text := range []string{resp.ErrNotDone, resp.ErrClusterDown, resp.ErrUnknown} {
		c.send("MULTI\r\nSET a 1\r\nPING\r\nSET b 1\r\n")
		c.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n")
		fake.mu.Lock()
		fake.failing = text
		fake.mu.Unlock()
		c.send("EXEC\r\nWATCH a\r\n")
		c.want("-" + text + "\r\n-" + text + "\r\n")
		fake.mu.Lock()
		fake.failing = ""
		fake.mu.Unlock()
	}
}

// EXEC that is refused itself ends the transaction, and says why, as in Redis.
func TestExecRefused(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	const aborted, arity = "-EXECABORT Transaction discarded because of: ", "wrong number of arguments for 'exec' command\r\n"
	c.send("MULTI\r\nexec a\r\nEXEC\r\n")
	c.want("+OK\r\n" + aborted + arity + "-ERR EXEC without MULTI\r\n")
	c.send("SUBSCRIBE x\r\nEXEC\r\nEXEC a\r\n")
	c.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n" +
		aborted + "Can't execute 'exec': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n" +
		aborted + arity)
}

// A transaction is bounded; one that is too large is spoiled.
func TestTransactionIsBounded(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	go c.conn.Write([]byte("MULTI\r\n" + strings.Repeat("PING\r\n", transactionCmdsMax+1) + "EXEC\r\n"))
	c.want("+OK\r\n" + strings.Repeat("+QUEUED\r\n", transactionCmdsMax) + "-ERR the transaction is too large\r\n" +
		"-" + resp.ErrExecAbort + "\r\n")
}
