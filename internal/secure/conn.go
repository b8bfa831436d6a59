package secure

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is the server's side of a TLS connection after its handshake. It differs from a tls.Conn in three ways. A
// Write interrupted by its deadline does not break the connection: the bytes that the client has not taken are kept,
// and go out first with the next Write, which may be empty; the error is os.ErrDeadlineExceeded, with the number of
// bytes that the connection has accepted. Close never waits for the client. CloseWrite closes the sending direction
// of both TLS and TCP.
//
// One goroutine may read and one may write at a time; the other methods are safe for concurrent use.
type Conn struct {
	*tls.Conn
	below *below
}

// NetConn returns the connection that carries this one.
func (c *Conn) NetConn() net.Conn { return c.below.Conn }

// Write sends b, after the rest of earlier writes.
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.below.flush(); err != nil || len(b) == 0 {
		return 0, err
	}
	c.below.keepAll(true)
	n, err := c.Conn.Write(b)
	if behind := c.below.keepAll(false); err == nil && behind {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// SetWriteDeadline sets the deadline of the present and the next Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.below.Conn.SetWriteDeadline(t) }

// CloseWrite closes the sending direction; it fails while the rest of an earlier Write is pending.
func (c *Conn) CloseWrite() error {
	if c.below.keepAll(false) {
		return os.ErrDeadlineExceeded
	}
	if err := c.Conn.CloseWrite(); err != nil {
		return err
	}
	if half, ok := c.below.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection without a TLS farewell: CloseWrite sends one.
func (c *Conn) Close() error { return c.below.Conn.Close() }

// below carries the records of a Conn. A record that was begun must go out whole and in order, but TLS takes a Write
// that meets its deadline for the end of the connection. So after the handshake such a write succeeds, and the rest
// is kept here.
type below struct {
	net.Conn

	mu      sync.Mutex // held during writes to the connection
	serving bool       // the handshake is over
	writing bool       // a Write of the Conn is in progress
	rest    []byte     // records, or parts of them, to send first
	aside   int        // bytes of rest that TLS itself has written
}

// asideMax bounds the pending output of TLS itself, such as answers to key updates of a client that does not read.
const asideMax = 16 << 10

var errAside = errors.New("the client asks for new keys again and again, and does not read")

// SetWriteDeadline does nothing: only TLS calls it, before its farewell. The deadline set on the Conn stays in force.
func (*below) SetWriteDeadline(time.Time) error { return nil }

func (b *below) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) > 0 {
		return b.keep(p)
	}
	n, err := b.Conn.Write(p)
	if !b.serving || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	kept, err := b.keep(p[n:])
	return n + kept, err
}

func (b *below) keep(p []byte) (int, error) {
	if !b.writing {
		if b.aside += len(p); b.aside > asideMax {
			return 0, errAside
		}
	}
	b.rest = append(b.rest, p...)
	return len(p), nil
}

// flush writes the rest.
func (b *below) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		return nil
	}
	n, err := b.Conn.Write(b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.rest, b.aside = nil, 0
	}
	return err
}

// keepAll records whether a Write of the Conn is in progress, and reports whether there is a rest.
func (b *below) keepAll(writing bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving, b.writing = true, writing
	return len(b.rest) > 0
}
