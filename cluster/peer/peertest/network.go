// Package peertest is a network in memory for tests of the cluster, in virtual time. Only
// tests import it.
package peertest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory, for tests in virtual time: it waits on channels and timers only. Each node has its
// own view of it (From), so that a directed link between two nodes can be cut: bytes sent over a cut link stay under
// way, as TCP keeps them, and arrive when the link is healed.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address
	cut       map[link]bool
	conns     map[*conn]bool
	stalled   map[*conn]bool // ends at which nothing arrives
	paused    map[string]bool
	refusing  map[link]bool // dials on these links are refused
	full      map[string]bool
	resetting map[string]bool   // dials to these addresses connect, and are reset
	diverted  map[string]string // dials to an address reach another one
	changed   chan struct{}     // closed and replaced when a link is cut or healed, or an end stalls or resumes

	rate int64              // bytes a second of each link; 0: no bound, at once
	busy map[link]time.Time // time until which a link carries the bytes that it has accepted
}

type link struct{ from, to string }

// NewNetwork returns a network without nodes, in which every link is whole.
func NewNetwork() *Network {
	return &Network{
		listeners: map[string]*listener{},
		cut:       map[link]bool{},
		conns:     map[*conn]bool{},
		stalled:   map[*conn]bool{},
		paused:    map[string]bool{},
		refusing:  map[link]bool{},
		full:      map[string]bool{},
		resetting: map[string]bool{},
		diverted:  map[string]string{},
		changed:   make(chan struct{}),
		busy:      map[link]time.Time{},
	}
}

// From returns the network as the node with a peer address sees it.
func (n *Network) From(addr string) View { return View{n, addr} }

// SetCut cuts or heals the links from each address of one side to each of the other, in one direction only.
func (n *Network) SetCut(cut bool, from, to []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range from {
		for _, b := range to {
			n.cut[link{a, b}] = cut
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// Partition cuts both directions between two groups of nodes.
func (n *Network) Partition(a, b []string) {
	n.SetCut(true, a, b)
	n.SetCut(true, b, a)
}

// Heal mends every link, and ends the effects of SetRefused, SetFull, SetPaused and Divert.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.paused)
	clear(n.refusing)
	clear(n.full)
	clear(n.resetting)
	clear(n.diverted)
	close(n.changed)
	n.changed = make(chan struct{})
}

// SetRefused refuses dials from each address of one side to each of the other, as if no process listened there. Open
// connections stay.
func (n *Network) SetRefused(refused bool, from, to []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range from {
		for _, b := range to {
			n.refusing[link{a, b}] = refused
		}
	}
}

// SetFull makes dials to a node time out, as if its queue of connections were full. Open connections stay.
func (n *Network) SetFull(full bool, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full[addr] = full
}

// SetResetting connects and resets dials to a node, as a process that ends does: it closes some connections before its
// port. Open connections stay.
func (n *Network) SetResetting(resetting bool, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resetting[addr] = resetting
}

// SetPaused stops a node's part of the network, as SIGSTOP does: it keeps the bytes sent to the node, sends none, and
// connects dials without accepting them. The node's timers continue.
func (n *Network) SetPaused(paused bool, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[addr] = paused
	close(n.changed)
	n.changed = make(chan struct{})
}

// Divert makes dials to one address reach the listener at another, as if that had taken the port. Open connections
// stay.
func (n *Network) Divert(addr, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.diverted[addr] = to
}

// isPaused reports whether a node is paused, with a channel that closes when to ask again.
func (n *Network) isPaused(addr string) (bool, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paused[addr], n.changed
}

// Stall holds back the bytes, including the end, that one node sends on the open connections that it has dialled to
// another, until resume is called. Later connections are not affected, as past a proxy that hangs.
func (n *Network) Stall(from, to string) (resume func()) {
	held := n.dialled(from, to)
	n.setStalled(true, held)
	return func() { n.setStalled(false, held) }
}

func (n *Network) setStalled(stalled bool, conns []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		if !c.dialled {
			n.stalled[c] = stalled
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// Reset breaks the connections that one node has dialled to another. Bytes under way are lost.
func (n *Network) Reset(from, to string) {
	for _, c := range n.dialled(from, to) {
		c.reset()
	}
}

// dialled lists both ends of the connections that one node has dialled to another.
func (n *Network) dialled(from, to string) []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ends []*conn
	for c := range n.conns {
		if c.dialled && c.link == (link{from, to}) || !c.dialled && c.link == (link{to, from}) {
			ends = append(ends, c)
		}
	}
	return ends
}

// Kill ends every connection of a node and frees its port, as the end of its process does. Bytes under way are lost;
// the other side reads the end, unless the link is cut.
func (n *Network) Kill(addr string) {
	n.mu.Lock()
	var dead []*conn
	for c := range n.conns {
		if c.link.from == addr {
			dead = append(dead, c)
		}
	}
	if n.paused[addr] {
		delete(n.paused, addr)
		close(n.changed)
		n.changed = make(chan struct{})
	}
	ln := n.listeners[addr]
	n.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
	for _, c := range dead {
		c.out.change(func() { c.out.data = nil })
		_ = c.Close()
	}
}

// SetRate sets the bytes a second that each link carries.
func (n *Network) SetRate(rate int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = rate
}

// carry waits until a link has carried size bytes, after those that it accepted before.
func (n *Network) carry(l link, size int) {
	n.mu.Lock()
	if n.rate == 0 {
		n.mu.Unlock()
		return
	}
	at := time.Now()
	if n.busy[l].After(at) {
		at = n.busy[l]
	}
	at = at.Add(time.Duration(size) * time.Second / time.Duration(n.rate))
	n.busy[l] = at
	n.mu.Unlock()
	time.Sleep(time.Until(at))
}

// Drain waits until the slow links are idle, since their writers would outlive the test.
func (n *Network) Drain() {
	n.mu.Lock()
	var last time.Time
	for _, until := range n.busy {
		if until.After(last) {
			last = until
		}
	}
	n.mu.Unlock()
	if left := time.Until(last); left > 0 {
		time.Sleep(left + time.Millisecond)
	}
}

// Conns counts the ends of open connections.
func (n *Network) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// isHeld reports whether nothing arrives at an end of a connection now, with a channel that closes when to ask again.
func (n *Network) isHeld(c *conn) (bool, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[link{c.link.to, c.link.from}] || n.stalled[c] || n.paused[c.link.from] || n.paused[c.link.to], n.changed
}

// View is a network as one node sees it: the Network of that node's peers.
type View struct {
	n    *Network
	addr string
}

// Listen opens a port of the network. It has one listener at a time.
func (v View) Listen(addr string) (net.Listener, error) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	if v.n.listeners[addr] != nil {
		return nil, fmt.Errorf("listen %s: address already in use", addr)
	}
	ln := &listener{n: v.n, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	v.n.listeners[addr] = ln
	return ln, nil
}

// Dial connects to a listener. If the link is cut in either direction it waits, up to timeout.
func (v View) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		waits, changed := v.n.keepsOut(link{v.addr, addr})
		if !waits {
			break
		}
		select {
		case <-changed:
		case <-t.C:
			return nil, fmt.Errorf("dial %s: %w", addr, os.ErrDeadlineExceeded)
		}
	}
	v.n.mu.Lock()
	ln, paused := v.n.listeners[cmp.Or(v.n.diverted[addr], addr)], v.n.paused[addr]
	if v.n.refusing[link{v.addr, addr}] {
		ln = nil
	}
	resetting := v.n.resetting[addr]
	v.n.mu.Unlock()
	if resetting {
		mine, theirs := v.n.pipe(v.addr, addr)
		theirs.reset()
		return mine, nil
	}
	if ln == nil {
		return nil, refused(addr)
	}
	mine, theirs := v.n.pipe(v.addr, addr)
	if paused {
		go v.n.acceptLater(ln, theirs)
		return mine, nil
	}
	select {
	case ln.conns <- theirs:
		return mine, nil
	case <-ln.closed:
		return nil, errors.Join(refused(addr), mine.Close(), theirs.Close())
	case <-t.C:
		return nil, errors.Join(fmt.Errorf("dial %s: %w", addr, os.ErrDeadlineExceeded), mine.Close(), theirs.Close())
	}
}

func refused(addr string) error { return fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED) }

// keepsOut reports whether a dial must wait, with a channel that closes when to ask again.
func (n *Network) keepsOut(l link) (bool, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[l] || n.cut[link{l.to, l.from}] || n.paused[l.from] || n.full[l.to], n.changed
}

// acceptLater hands a connection to a paused node when the node resumes.
func (n *Network) acceptLater(ln *listener, c *conn) {
	for {
		paused, changed := n.isPaused(ln.addr)
		if !paused {
			break
		}
		select {
		case <-changed:
		case <-ln.closed:
			_ = c.Close()
			return
		}
	}
	select {
	case ln.conns <- c:
	case <-ln.closed:
		_ = c.Close()
	}
}

type listener struct {
	n      *Network
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.addr)
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addrName(l.addr) }

// QueueMax is the number of bytes in a link from which its writer waits.
const QueueMax = 4 << 20

// piece is the number of bytes that a link carries at a time; the connections of a link take turns.
const piece = 8 << 10

// queue is one direction of a connection.
type queue struct {
	mu    sync.Mutex
	data  []byte
	eof   bool          // the writer has closed
	ended chan struct{} // closed with eof
	gone  bool          // the reader has closed
	moved chan struct{} // closed at the next change; nil: nobody waits for it
}

func newQueue() *queue { return &queue{ended: make(chan struct{})} }

func (q *queue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
}

// next returns a channel that is closed at the next change. q.mu is held.
func (q *queue) next() chan struct{} {
	if q.moved == nil {
		q.moved = make(chan struct{})
	}
	return q.moved
}

// pipe returns both ends of a new connection from one node to another.
func (n *Network) pipe(from, to string) (dialled, accepted *conn) {
	there, back := newQueue(), newQueue()
	dialled = &conn{n: n, link: link{from, to}, dialled: true, out: there, in: back}
	accepted = &conn{n: n, link: link{to, from}, out: back, in: there}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[dialled], n.conns[accepted] = true, true
	return dialled, accepted
}

// conn is one end of a connection in memory.
type conn struct {
	n       *Network
	link    link // from this end to the other
	dialled bool // this end has dialled
	out, in *queue
	rd, wd  deadline
	once    sync.Once
	closed  bool // guarded by in.mu
	broken  bool // by a reset; guarded by in.mu
}

// reset breaks an end of a connection; the bytes in it are lost.
func (c *conn) reset() {
	c.in.mu.Lock()
	c.broken = !c.closed
	c.in.mu.Unlock()
	_ = c.Close()
}

// closedError returns the error of a closed end.
func (c *conn) closedError() error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.broken {
		return syscall.ECONNRESET
	}
	return net.ErrClosed
}

func (c *conn) Read(b []byte) (int, error) {
	for late := (chan struct{})(nil); ; late = c.rd.wait() {
		cut, relinked := c.n.isHeld(c)
		c.in.mu.Lock()
		switch {
		case c.closed:
			c.in.mu.Unlock()
			return 0, c.closedError()
		case c.rd.passed():
			c.in.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case !cut && len(c.in.data) > 0:
			c.in.mu.Unlock()
			n := 0
			c.in.change(func() {
				n = copy(b, c.in.data)
				c.in.data = c.in.data[n:]
			})
			return n, nil
		case !cut && c.in.eof:
			c.in.mu.Unlock()
			return 0, io.EOF
		case late == nil: // it has to wait: once more, now that a deadline cannot be missed
			c.in.mu.Unlock()
			continue
		}
		moved := c.in.next()
		c.in.mu.Unlock()
		select {
		case <-moved:
		case <-relinked:
		case <-late:
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	done := 0
	for late := (chan struct{})(nil); ; {
		c.out.mu.Lock()
		room, gone, eof := QueueMax-len(c.out.data), c.out.gone, c.out.eof
		var moved chan struct{}
		if late != nil {
			moved = c.out.next()
		}
		c.out.mu.Unlock()
		switch {
		case done == len(b): // also if the other side has read it all and closed since
			return done, nil
		case eof:
			return done, c.closedError()
		case gone:
			return done, syscall.ECONNRESET
		case c.wd.passed():
			return done, os.ErrDeadlineExceeded
		case room > 0:
			n := min(room, len(b)-done, piece)
			c.n.carry(c.link, n)
			c.out.change(func() { c.out.data = append(c.out.data, b[done:done+n]...) })
			done += n
			continue
		case late == nil: // it has to wait: once more, now that a deadline cannot be missed
			late = c.wd.wait()
			continue
		}
		select {
		case <-moved:
		case <-late:
		}
		late = nil
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.change(func() { c.out.eof = true })
		close(c.out.ended)
		c.in.change(func() { c.in.gone, c.closed, c.in.data = true, true, nil })
		c.n.mu.Lock()
		delete(c.n.conns, c)
		c.n.mu.Unlock()
	})
	return nil
}

// Ended returns a channel that is closed when the other side has closed its end, even if bytes are still under way.
func (c *conn) Ended() <-chan struct{} { return c.in.ended }

func (c *conn) LocalAddr() net.Addr  { return addrName(c.link.from) }
func (c *conn) RemoteAddr() net.Addr { return addrName(c.link.to) }

func (c *conn) SetDeadline(t time.Time) error {
	c.rd.set(t)
	c.wd.set(t)
	return nil
}
func (c *conn) SetReadDeadline(t time.Time) error  { c.rd.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.wd.set(t); return nil }

// deadline is a deadline whose channel closes when it passes or moves. Take the channel before calling passed, or a
// deadline between the two is missed. There is a timer only while somebody waits.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	ch    chan struct{} // nil: nobody waits
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	d.tell()
}

// tell wakes whoever waits. d.mu is held.
func (d *deadline) tell() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ch != nil {
		close(d.ch)
		d.ch = nil
	}
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

func (d *deadline) wait() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch != nil {
		return d.ch
	}
	ch := make(chan struct{})
	d.ch = ch
	if !d.at.IsZero() {
		d.timer = time.AfterFunc(time.Until(d.at), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.ch == ch {
				d.tell()
			}
		})
	}
	return ch
}

// addrName is a net.Addr with the name as it was written.
type addrName string

func (a addrName) Network() string { return "tcp" }
func (a addrName) String() string  { return string(a) }
