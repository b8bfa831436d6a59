package server

import "testing"

// A browser is not served.
func TestCrossProtocol(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: localhost\r\nSET a 1\r\n")
	c.wantClosed()
}
