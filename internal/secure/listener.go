package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// HandshakesMax bounds the handshakes in progress at all addresses of a node. Each has a file descriptor. Beyond
	// it the oldest is closed, not the newest: otherwise a client that opens that many and stays silent would lock
	// out all others.
	HandshakesMax = 256

	handshakeMax   = 5 * time.Second  // for a client to complete its handshake
	failuresLogged = 10 * time.Second // failures are logged at most this often
)

// Handshakes are the handshakes in progress at the addresses of a node. Its methods are safe for concurrent use.
type Handshakes struct {
	log *slog.Logger

	failed atomic.Int64
	ousted atomic.Int64

	mu     sync.Mutex
	open   []*handshake // the oldest first
	told   time.Time
	untold int
}

// handshake is a connection until Accept has returned it.
type handshake struct {
	conn net.Conn
	gone chan struct{} // closed when it had to make room for another
}

// NewHandshakes returns Handshakes without any in progress.
func NewHandshakes(log *slog.Logger) *Handshakes { return &Handshakes{log: log} }

// Failed counts the handshakes that failed, timed out or were ousted.
func (h *Handshakes) Failed() int64 { return h.failed.Load() }

// Ousted counts the handshakes that were closed to make room for newer ones.
func (h *Handshakes) Ousted() int64 { return h.ousted.Load() }

// Listen returns a listener whose connections are those of l after their handshakes, each a *Conn. A slow handshake
// does not delay others.
func (h *Handshakes) Listen(l net.Listener, cfg *tls.Config) net.Listener {
	made := &listener{Listener: l, shared: h, config: cfg, done: make(chan accepted), closed: make(chan struct{})}
	go made.run()
	return made
}

// begin adds a connection, and closes the oldest if there are too many.
func (h *Handshakes) begin(conn net.Conn) *handshake {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) >= HandshakesMax {
		oldest := h.open[0]
		close(oldest.gone)
		_ = oldest.conn.Close() // it ends in either case
		h.open = h.open[1:]
		h.ousted.Add(1)
	}
	made := &handshake{conn: conn, gone: make(chan struct{})}
	h.open = append(h.open, made)
	return made
}

// end removes a connection.
func (h *Handshakes) end(of *handshake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.open, of); i >= 0 {
		h.open = slices.Delete(h.open, i, i+1)
	}
}

// fail counts a failed handshake. A client that connects and sends nothing is logged at debug level only: probes do
// that.
func (h *Handshakes) fail(conn net.Conn, err error) {
	h.failed.Add(1)
	level := slog.LevelWarn
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		level = slog.LevelDebug
	}
	untold, tell := h.tells(level)
	if !tell {
		return
	}
	h.log.Log(context.Background(), level, "a client's TLS handshake failed",
		"addr", conn.RemoteAddr().String(), "listener", conn.LocalAddr().String(), "why", err, "untold", untold)
}

// tells reports whether to log a failure, and how many before it were not logged.
func (h *Handshakes) tells(level slog.Level) (untold int, tell bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if level == slog.LevelWarn && now.Sub(h.told) < failuresLogged {
		h.untold++
		return 0, false
	}
	untold = h.untold
	if level == slog.LevelWarn {
		h.told, h.untold = now, 0
	}
	return untold, true
}

// listener returns connections that have completed their handshakes.
type listener struct {
	net.Listener
	shared *Handshakes
	config *tls.Config
	done   chan accepted
	once   sync.Once
	closed chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

// Accept waits for a client that has completed its handshake.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.done:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Handshakes in progress end by themselves.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (l *listener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !l.give(accepted{err: err}, nil) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		go l.greet(l.shared.begin(conn))
	}
}

// give passes a connection to Accept; false: the listener or the connection was closed first.
func (l *listener) give(a accepted, gone <-chan struct{}) bool {
	select {
	case l.done <- a:
		return true
	case <-l.closed:
	case <-gone:
	}
	return false
}

// greet does the server's side of a handshake.
func (l *listener) greet(h *handshake) {
	defer l.shared.end(h) // until Accept takes it, a client may have to make room, too
	carrier := &below{Conn: h.conn}
	secured := &Conn{Conn: tls.Server(carrier, l.config), below: carrier}
	h.conn.SetDeadline(time.Now().Add(handshakeMax))
	if err := secured.Handshake(); err != nil {
		l.shared.fail(h.conn, err)
		h.conn.Close()
		return
	}
	h.conn.SetDeadline(time.Time{})
	carrier.keepAll(false)
	if !l.give(accepted{conn: secured}, h.gone) {
		h.conn.Close()
	}
}
