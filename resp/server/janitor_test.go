package server

import (
	"strings"
	"testing"

	"lockd/resp"
)

// A client may send a pipeline whole before it reads the first reply.
func TestClientThatReadsLate(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	value := strings.Repeat("x", 10000)
	c.send(string(resp.AppendCommand(nil, "SET", "a", value)))
	c.want("+OK\r\n")
	const n = 2000                        // 20 MB of replies; the sockets hold much less
	padding := strings.Repeat("y", 20000) // 40 MB of requests
	c.send(strings.Repeat(string(resp.AppendCommand(nil, "MSET", "b", padding))+"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", n))
	one := "+OK\r\n$10000\r\n" + value + "\r\n"
	for range n {
		c.want(one)
	}
}
