package secure

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is the server's side of a TLS connection after its handshake. It differs from a tls.Conn in three
// ways. A Write that its deadline interrupts breaks nothing: what the client has not taken is kept, and
// goes out first with the next Write, which may be empty; the error is os.ErrDeadlineExceeded, with the number
// of bytes that the connection has taken over. Close never waits for the client. CloseWrite ends what is
// sent in TLS and in TCP.
//
// One goroutine may read and one write at a time; the other methods may be called by any.
type Conn struct {
	*tls.Conn
	below *below
}

// NetConn is the connection that carries this one.
func (c *Conn) NetConn() net.Conn { return c.below.Conn }

// Write sends b, after what is left of earlier writes.
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

// SetWriteDeadline is that of the next and the present Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.below.Conn.SetWriteDeadline(t) }

// CloseWrite says that nothing more will come, unless something has been left that must come before.
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

// Close ends the connection without a word: whoever has something to say says it by CloseWrite.
func (c *Conn) Close() error { return c.below.Conn.Close() }

// below carries the records of a Conn. A record that was begun must go out whole and in its turn, but TLS
// takes a Write that met its deadline for the end of the connection. So once the handshake is over
// such a write succeeds, and the rest is kept here.
type below struct {
	net.Conn

	mu      sync.Mutex // held while the connection is written to
	serving bool       // the handshake is over
	writing bool       // a Write of the Conn is under way
	rest    []byte     // records, or parts of them, that are to go out first
	aside   int        // bytes of rest that no Write of the Conn has put there
}

// asideMax bounds what is kept of what TLS itself says, as the answers to new keys of a client that does not
// read.
const asideMax = 16 << 10

var errAside = errors.New("the client asks for new keys again and again, and does not read")

// SetWriteDeadline does nothing: it is TLS that calls it, before its farewell. What the Conn was told
// is in force.
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

// flush writes what is left.
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

// keepAll says whether a Write of the Conn is under way, and returns whether anything is left.
func (b *below) keepAll(writing bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving, b.writing = true, writing
	return len(b.rest) > 0
}
