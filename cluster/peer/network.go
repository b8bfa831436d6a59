package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"lockd/resp/fault"
)

// Network connects nodes. Its methods are called concurrently. TCPNetwork is the real one; tests use their own, with
// faults.
type Network interface {
	// Listen opens the peer port. The listener's Accept is called by one goroutine.
	Listen(addr string) (net.Listener, error)
	// Dial connects to a peer, within timeout. It resolves addr at each call, so that a peer may return under another
	// IP address. The error wraps syscall.ECONNREFUSED only if no address that addr resolves to has a listener.
	Dial(addr string, timeout time.Duration) (net.Conn, error)
}

// TCPNetwork is the Network of a real node.
type TCPNetwork struct {
	// LoopbackOnly refuses to listen on, and to dial, addresses on other machines, also those that a name resolves to.
	LoopbackOnly bool
}

// keepAliveEvery is the interval of TCP's keep-alives for connections without traffic (Raft's, between elections). The
// calls connection has pings of its own.
const keepAliveEvery = 5 * time.Second

// Listen opens a TCP port.
func (n TCPNetwork) Listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAliveEvery, Control: n.control}
	return lc.Listen(context.Background(), "tcp", addr)
}

// Dial connects over TCP. It resolves the name in addr at each call.
func (n TCPNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, KeepAlive: keepAliveEvery, Control: n.control}
	addr = fault.DialAddr(addr)
	conn, err := d.Dial("tcp", addr)
	if Refuses(err) {
		err = n.refusal(&d, addr, err)
	}
	return conn, err
}

// refusal returns the error of a refused dial. Of several addresses net.Dialer reports the first error alone, and
// another address may belong to a process that was only too busy.
func (n TCPNetwork) refusal(d *net.Dialer, addr string, refused error) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || net.ParseIP(host) != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.Timeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return err
	}
	for _, ip := range all {
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("dial %s: refused at one of its addresses, and not at %s", addr, ip)
		}
		if !Refuses(err) && !noWay(err) {
			return err
		}
	}
	return refused
}

// noWay reports whether this machine has no route to an address, such as an IPv6 address without IPv6.
func noWay(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) ||
		errors.Is(err, syscall.EAFNOSUPPORT)
}

// Refuses reports whether the error of a dial says that no process listens at the address.
func Refuses(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// control checks an address after its name was resolved, before it is used.
func (n TCPNetwork) control(_, addr string, _ syscall.RawConn) error {
	if n.LoopbackOnly && !IsLoopback(addr) {
		return fmt.Errorf("%s is not on loopback, and peers have no secret (--peer-secret-file)", addr)
	}
	return nil
}

// IsLoopback reports whether an address, host:port, is certainly on this machine. A name other than localhost may be
// anywhere.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
