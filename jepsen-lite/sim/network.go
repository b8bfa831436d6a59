package sim

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network is the sockets of all machines. Everything written arrives, in order, after the delay of its connection.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address
	conns     map[*conn]bool       // ends that are open
	dialled   int                  // connections so far
	delay     func() time.Duration // of a message to or from a port of a node
}

func newNetwork(delay func() time.Duration) *network {
	return &network{listeners: map[string]*listener{}, conns: map[*conn]bool{}, delay: delay}
}

// owner is the process to which an end belongs; nil: this program. While it is paused, nothing of it goes on.
type owner struct {
	paused atomic.Bool
	mu     sync.Mutex
	cond   *sync.Cond
}

func newOwner() *owner {
	o := &owner{}
	o.cond = sync.NewCond(&o.mu)
	return o
}

// pause stops the process, or lets it go on.
func (o *owner) pause(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused.Store(on)
	o.cond.Broadcast()
}

// awake waits while the process is paused.
func (o *owner) awake() {
	if o == nil || !o.paused.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.paused.Load() {
		o.cond.Wait()
	}
}

// listen opens a port.
func (n *network) listen(o *owner, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, syscall.EADDRINUSE)
	}
	l := &listener{net: n, owner: o, addr: addr}
	l.cond = sync.NewCond(&l.mu)
	n.listeners[addr] = l
	return l, nil
}

// dial connects to a port.
func (n *network) dial(o *owner, addr string) (net.Conn, error) {
	o.awake()
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	mine, theirs := n.pipe(o, l)
	if !l.take(theirs) {
		mine.reset()
		return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	return mine, nil
}

// pipe makes a connection. Messages to or from a process take a while; between two parts of this program they do not.
func (n *network) pipe(from *owner, to *listener) (mine, theirs *conn) {
	delay := n.delay
	if to.owner == nil {
		delay = nil
	}
	there, back := newStream(delay), newStream(delay)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialled++
	name := fmt.Sprintf("client:%d", n.dialled)
	mine = &conn{net: n, owner: from, out: there, in: back, local: name, remote: to.addr}
	theirs = &conn{net: n, owner: to.owner, out: back, in: there, local: to.addr, remote: name}
	n.conns[mine], n.conns[theirs] = true, true
	return mine, theirs
}

// end closes all that belongs to a process, as the end of the process does.
func (n *network) end(o *owner) {
	n.closeAll(func(of *owner) bool { return of == o })
	o.pause(false)
}

// closeAll closes what belongs to some owners.
func (n *network) closeAll(of func(*owner) bool) {
	n.mu.Lock()
	var ports []*listener
	var ends []*conn
	for _, l := range n.listeners {
		if of(l.owner) {
			ports = append(ports, l)
		}
	}
	for c := range n.conns {
		if of(c.owner) {
			ends = append(ends, c)
		}
	}
	n.mu.Unlock()
	for _, l := range ports {
		_ = l.Close()
	}
	for _, c := range ends {
		_ = c.Close()
	}
}

// listener is an open port.
type listener struct {
	net   *network
	owner *owner
	addr  string

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []*conn // not accepted yet
	closed bool
}

// take queues a connection. It returns false if the port is closed.
func (l *listener) take(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.cond.Signal()
	return true
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		l.mu.Unlock()
		return nil, net.ErrClosed
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	l.mu.Unlock()
	l.owner.awake()
	return c, nil
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.net.mu.Lock()
	if l.net.listeners[l.addr] == l {
		delete(l.net.listeners, l.addr)
	}
	l.net.mu.Unlock()
	l.mu.Lock()
	l.closed = true
	left := l.queue
	l.queue = nil
	l.cond.Broadcast()
	l.mu.Unlock()
	for _, c := range left {
		c.reset()
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(l.addr) }

// streamMax is the number of bytes on their way in one direction from which the writer waits.
const streamMax = 1 << 20

// stream is one direction of a connection.
type stream struct {
	delay func() time.Duration // nil: none

	mu     sync.Mutex
	pieces []piece
	size   int           // of all pieces
	ended  bool          // the writer has closed its end
	end    time.Time     // when the reader learns it; zero: at once
	over   chan struct{} // closed then
	gone   bool          // the reader has closed its end
	broken bool          // by a reset
	reader side
	writer side
}

// side is one who waits for a stream, and its deadline; zero: none.
type side struct {
	cond     *sync.Cond
	deadline time.Time
	timer    *time.Timer
}

// piece is bytes that were written at once, and when they arrive.
type piece struct {
	due  time.Time // zero: at once
	data []byte
}

func newStream(delay func() time.Duration) *stream {
	s := &stream{delay: delay, over: make(chan struct{})}
	s.reader.cond, s.writer.cond = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	return s
}

// wait waits for a change, or until a time; zero: for ever. The stream's mu is held.
func (w *side) wait(until time.Time) {
	if until.IsZero() {
		w.cond.Wait()
		return
	}
	if d := time.Until(until); w.timer == nil {
		w.timer = time.AfterFunc(d, func() {
			w.cond.L.Lock()
			defer w.cond.L.Unlock()
			w.cond.Broadcast()
		})
	} else {
		w.timer.Reset(d)
	}
	w.cond.Wait()
	w.timer.Stop()
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// sooner returns the earlier of two times, of which a zero one never comes.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// read takes the bytes that have arrived.
func (s *stream) read(o *owner, b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if o != nil && o.paused.Load() {
			s.mu.Unlock()
			o.awake()
			s.mu.Lock()
		}
		var due time.Time
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case s.broken:
			return 0, syscall.ECONNRESET
		case passed(s.reader.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(s.pieces) > 0:
			if due = s.pieces[0].due; due.IsZero() || passed(due) {
				return s.take(b), nil
			}
		case s.ended:
			if due = s.end; due.IsZero() || passed(due) {
				return 0, io.EOF
			}
		}
		s.reader.wait(sooner(due, s.reader.deadline))
	}
}

// take moves bytes of the first piece. mu is held.
func (s *stream) take(b []byte) int {
	first := &s.pieces[0]
	n := copy(b, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		s.pieces = s.pieces[1:]
	}
	if s.size -= n; s.size < streamMax && s.size+n >= streamMax {
		s.writer.cond.Broadcast()
	}
	return n
}

// write queues bytes.
func (s *stream) write(o *owner, b []byte) (done int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if o != nil && o.paused.Load() {
			s.mu.Unlock()
			o.awake()
			s.mu.Lock()
		}
		switch {
		case s.ended:
			return done, net.ErrClosed
		case s.broken || s.gone:
			return done, syscall.ECONNRESET
		case passed(s.writer.deadline):
			return done, os.ErrDeadlineExceeded
		case done == len(b):
			return done, nil
		}
		if room := streamMax - s.size; room > 0 {
			n := min(room, len(b)-done)
			s.put(b[done : done+n])
			if done += n; done == len(b) {
				return done, nil
			}
			continue
		}
		s.writer.wait(s.writer.deadline)
	}
}

// put queues a copy of bytes, behind all that are on their way. mu is held.
func (s *stream) put(b []byte) {
	s.pieces, s.size = append(s.pieces, piece{s.due(), append([]byte(nil), b...)}), s.size+len(b)
	s.reader.cond.Broadcast()
}

// due draws when what is written now arrives: not before what was written earlier. mu is held.
func (s *stream) due() (due time.Time) {
	if s.delay == nil {
		return due
	}
	if d := s.delay(); d > 0 {
		due = time.Now().Add(d)
	}
	if last := len(s.pieces) - 1; last >= 0 && s.pieces[last].due.After(due) {
		due = s.pieces[last].due
	}
	return due
}

// finish ends what is written. If it breaks the connection, what is on its way is lost. mu is held.
func (s *stream) finish(breaks bool) {
	if s.ended { // in order: there is nothing to break
		return
	}
	s.ended = true
	if breaks {
		s.broken, s.pieces, s.size = true, nil, 0
	} else {
		s.end = s.due()
	}
	if s.end.IsZero() {
		close(s.over)
		return
	}
	time.AfterFunc(time.Until(s.end), func() { close(s.over) })
}

// change changes the state of the stream.
func (s *stream) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.reader.cond.Broadcast()
	s.writer.cond.Broadcast()
}

// limit sets the deadline of one side.
func (s *stream) limit(w *side, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.deadline = t
	w.cond.Broadcast()
}

// conn is one end of a connection.
type conn struct {
	net           *network
	owner         *owner
	out, in       *stream
	local, remote string
	abrupt        atomic.Bool // Close resets
	once          sync.Once
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.in.read(c.owner, b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) { return c.out.write(c.owner, b) }

// SetLinger makes Close reset the connection, if seconds is 0.
func (c *conn) SetLinger(seconds int) error {
	c.abrupt.Store(seconds == 0)
	return nil
}

// CloseWrite ends what this end writes.
func (c *conn) CloseWrite() error {
	c.out.change(func() { c.out.finish(false) })
	return nil
}

// Close implements net.Conn. What was written still arrives.
func (c *conn) Close() error {
	c.once.Do(func() {
		reset := c.abrupt.Load()
		c.out.change(func() { c.out.finish(reset) })
		c.in.change(func() {
			c.in.gone, c.in.pieces, c.in.size = true, nil, 0
		})
		c.net.mu.Lock()
		delete(c.net.conns, c)
		c.net.mu.Unlock()
	})
	return nil
}

// reset closes the end, and what is on its way is lost.
func (c *conn) reset() {
	c.abrupt.Store(true)
	_ = c.Close()
}

// Ended returns a channel that is closed when it can be known that the other side has closed its end, though bytes may
// not have been read yet. A server watches it for the ends of clients who wait.
func (c *conn) Ended() <-chan struct{} { return c.in.over }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return address(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.limit(&c.in.reader, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.limit(&c.out.writer, t)
	return nil
}

// address is the address of an end.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
