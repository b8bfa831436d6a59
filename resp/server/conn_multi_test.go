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

// If a transaction was certainly not done, or its outcome is unknown, EXEC answers one error. What its commands were
// answered by themselves is an array, in the same words too.
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
	fake.mu.Lock()
	fake.refusing = "LOADING no lock is granted"
	fake.mu.Unlock()
	c.send("MULTI\r\nSET a 1\r\nSET b 1\r\nEXEC\r\n")
	c.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + strings.Repeat("-LOADING no lock is granted\r\n", 2))
}

// A transaction is bounded; one that is too large is spoiled.
func TestTransactionIsBounded(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	go c.conn.Write([]byte("MULTI\r\n" + strings.Repeat("PING\r\n", transactionCmdsMax+1) + "EXEC\r\n"))
	c.want("+OK\r\n" + strings.Repeat("+QUEUED\r\n", transactionCmdsMax) + "-ERR the transaction is too large\r\n" +
		"-" + resp.ErrExecAbort + "\r\n")
}

// The commands of the connection in a transaction are bounded in what they answer and look at, the more so as some of
// them hold the hub's lock: those beyond it are refused, each with an error, and the array stays whole.
func TestTransactionDoesABoundedWork(t *testing.T) {
	tracking := "CLIENT TRACKING ON BCAST"
	for i := range 1000 {
		tracking += fmt.Sprintf(" PREFIX p%03d", i)
	}
	const subscribe = "SUBSCRIBE x\r\n" // from then on the lock is held
	for name, tt := range map[string]struct {
		before, first, again string
		n                    int
	}{
		"COMMAND":                    {"", "", "COMMAND\r\n", 5000},
		"COMMAND under the lock":     {"", subscribe, "COMMAND\r\n", 5000},
		"a list under the lock":      {"", subscribe, "COMMAND LIST FILTERBY PATTERN *z*z*z\r\n", 20_000},
		"clients under the lock":     {"", subscribe, "CLIENT LIST ID 4711\r\n", 50_000},
		"channels under the lock":    {"SUBSCRIBE " + strings.Repeat("a", 9000) + "\r\n", subscribe, "PUBSUB CHANNELS *a*a*ab\r\n", 5000},
		"subscribing to much":        {"", "", "SUBSCRIBE" + strings.Repeat(" y", 20) + "\r\n", 50_000},
		"prefixes that are compared": {tracking + "\r\n", "", "CLIENT TRACKING ON BCAST PREFIX p12\r\n", 2000},
		"prefixes that are listed":   {tracking + "\r\n", "", "CLIENT TRACKINGINFO\r\n", 2000},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, addr := startServer(t, nil)
			for range 50 {
				c := dial(t, addr)
				c.send("PING\r\n")
				c.want("+PONG\r\n")
			}
			c := dial(t, addr)
			go func() {
				_, _ = c.conn.Write([]byte("HELLO 3\r\n" + tt.before + "MULTI\r\n" + tt.first + strings.Repeat(tt.again, tt.n) +
					"EXEC\r\nPING\r\n"))
			}()
			refused, last := 0, ""
			for line := ""; line != "+PONG\r\n"; {
				last = line
				var err error
				if line, err = c.in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if line == "-"+resp.ErrWork+"\r\n" {
					refused++
				}
			}
			if refused < tt.n/10 || refused > tt.n-10 || last != "-"+resp.ErrWork+"\r\n" {
				t.Errorf("%d of %d were refused; at last %q", refused, tt.n, last)
			}
		})
	}
}
