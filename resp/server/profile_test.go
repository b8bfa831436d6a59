package server

import (
	"sync/atomic"
	"testing"
)

// A node that begins or ceases to lead serves keys, or says where they are served,
// from the next command on; a transaction that was queued before is still run.
func TestRedirectFollowsLeader(t *testing.T) {
	var leader atomic.Value
	leader.Store("")
	_, _, addr := startServer(t, func(c *Config) {
		c.Profile = Cluster
		c.Redirect = func(bool) string { return leader.Load().(string) }
	})
	c := dial(t, addr)
	c.send("SET a 1\r\nMULTI\r\nINCR a\r\n")
	c.want("+OK\r\n+OK\r\n+QUEUED\r\n")
	leader.Store("10.0.0.2:1")
	c.send("EXEC\r\nPING\r\nGET a\r\nPING\r\n")
	c.want("*1\r\n:2\r\n+PONG\r\n-MOVED 15495 10.0.0.2:1\r\n+PONG\r\n")
	leader.Store("")
	c.send("GET a\r\n")
	c.want("$1\r\n2\r\n")
}
