package wire

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// Socket returns the connection itself, below TLS if there is TLS.
func Socket(conn net.Conn) net.Conn {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secured.NetConn()
	}
	return conn
}

// Secured reports whether a connection uses TLS.
func Secured(conn net.Conn) bool {
	_, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	return ok
}

// ended is a connection in memory, which no kernel knows: the channel of Ended is closed when the client has closed its
// end.
type ended interface{ Ended() <-chan struct{} }

// HungUp asks the kernel, or a connection in memory, whether the client has closed its end; false where neither can
// be asked. It is safe for concurrent use.
func HungUp(conn net.Conn) bool {
	if c, ok := Socket(conn).(ended); ok {
		select {
		case <-c.Ended():
			return true
		default:
			return false
		}
	}
	raw, ok := Socket(conn).(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = rc.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// WatchHangUp calls gone, from another goroutine, as soon as the client closes its end of the connection. Until stop
// has returned the caller must not read from the connection; after it there is no call. Where neither the
// kernel nor the connection can be asked, there is none at all.
func WatchHangUp(conn net.Conn, gone func()) (stop func()) {
	socket := Socket(conn)
	if c, ok := socket.(ended); ok {
		return watchEnd(c.Ended(), gone)
	}
	raw, ok := socket.(syscall.Conn)
	if !ok || !asksKernel {
		return func() {}
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Read calls back when something arrives, either data, which stays for the session, or the end.
		if rc.Read(hungUp) == nil {
			gone()
		}
	}()
	return func() {
		_ = socket.SetReadDeadline(time.Unix(1, 0)) // ends Read
		<-done
		_ = socket.SetReadDeadline(time.Time{})
	}
}

// watchEnd is WatchHangUp for a connection in memory.
func watchEnd(end <-chan struct{}, gone func()) (stop func()) {
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-end:
			gone()
		case <-stopping:
		}
	}()
	return func() {
		close(stopping)
		<-done
	}
}

// Descriptor returns the connection's file descriptor; -1 if it has none.
func Descriptor(conn net.Conn) int64 {
	n := int64(-1)
	if raw, ok := Socket(conn).(syscall.Conn); ok {
		if rc, err := raw.SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) { n = int64(fd) }) // a closed one has none
		}
	}
	return n
}
