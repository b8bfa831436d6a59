package cluster

import (
	"context"
	"net"
	"time"
)

// Network is how nodes reach each other. Its methods are called concurrently.
// TCPNetwork is the real one; tests bring their own, with faults.
type Network interface {
	// Listen opens the peer port. The listener's Accept is called by one goroutine.
	Listen(addr string) (net.Listener, error)
	// Dial connects to a peer; it gives up after timeout. addr is resolved again at
	// each call, so that a peer may come back under another IP address.
	Dial(addr string, timeout time.Duration) (net.Conn, error)
}

// TCPNetwork is the Network of a real node.
type TCPNetwork struct{}

// keepAliveEvery makes the kernel look after connections that nobody writes to
// (those of Raft, between elections); the calls connection has pings of its own.
const keepAliveEvery = 5 * time.Second

// Listen opens a TCP port.
func (TCPNetwork) Listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAliveEvery}
	return lc.Listen(context.Background(), "tcp", addr)
}

// Dial connects over TCP. The name in addr is resolved at each call.
func (TCPNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, KeepAlive: keepAliveEvery}
	return d.Dial("tcp", addr)
}
