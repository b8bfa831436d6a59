package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memNetwork is a network in memory, for tests in virtual time: everything in it
// waits on channels and timers only. Each node has its own view of it (from), so
// that a directed link between two nodes can be cut: what is sent over a cut link
// stays under way, as TCP keeps it, and arrives when the link is healed.
type memNetwork struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by address
	cut       map[memLink]bool
	conns     map[*memConn]bool
	stalled   map[*memConn]bool // ends that nothing arrives at
	changed   chan struct{}     // closed and replaced when a link is cut or healed, an end stalls or goes on

	rate int64                 // bytes a second that each link carries; 0: any number, at once
	busy map[memLink]time.Time // until when a link carries what it was given
}

type memLink struct{ from, to string }

func newMemNetwork() *memNetwork {
	return &memNetwork{
		listeners: map[string]*memListener{},
		cut:       map[memLink]bool{},
		conns:     map[*memConn]bool{},
		stalled:   map[*memConn]bool{},
		changed:   make(chan struct{}),
		busy:      map[memLink]time.Time{},
	}
}

// from is the network as the node at addr sees it. addr is its peer address.
func (n *memNetwork) from(addr string) Network { return memView{n, addr} }

// setCut cuts or heals the links from each of one side to each of the other; one
// direction only.
func (n *memNetwork) setCut(cut bool, from, to []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range from {
		for _, b := range to {
			n.cut[memLink{a, b}] = cut
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// partition cuts both directions between two groups of nodes.
func (n *memNetwork) partition(a, b []string) {
	n.setCut(true, a, b)
	n.setCut(true, b, a)
}

// heal mends every link.
func (n *memNetwork) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	close(n.changed)
	n.changed = make(chan struct{})
}

// stall holds back what one node sends on the connections that it has dialled to another
// and that are open now, their end included, until resume is called. What it dials later is
// free of it, as past a proxy that hangs.
func (n *memNetwork) stall(from, to string) (resume func()) {
	held := n.dialled(from, to)
	n.setStalled(true, held)
	return func() { n.setStalled(false, held) }
}

func (n *memNetwork) setStalled(stalled bool, conns []*memConn) {
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

// reset breaks the connections that one node has dialled to another. What lies in them is
// lost.
func (n *memNetwork) reset(from, to string) {
	for _, c := range n.dialled(from, to) {
		_ = c.Close()
	}
}

// dialled are both ends of the connections that one node has dialled to another.
func (n *memNetwork) dialled(from, to string) []*memConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ends []*memConn
	for c := range n.conns {
		if c.dialled && c.link == (memLink{from, to}) || !c.dialled && c.link == (memLink{to, from}) {
			ends = append(ends, c)
		}
	}
	return ends
}

// kill resets every connection of a node and frees its port, as the end of its
// process would.
func (n *memNetwork) kill(addr string) {
	n.mu.Lock()
	var dead []*memConn
	for c := range n.conns {
		if c.link.from == addr || c.link.to == addr {
			dead = append(dead, c)
		}
	}
	ln := n.listeners[addr]
	n.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
	for _, c := range dead {
		_ = c.Close()
	}
}

// setRate says how many bytes a second each link carries from now on.
func (n *memNetwork) setRate(rate int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = rate
}

// carry waits as long as a link takes for so many bytes, behind what it was given before.
func (n *memNetwork) carry(l memLink, size int) {
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

func (n *memNetwork) isCut(l memLink) (bool, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[l], n.changed
}

// isHeld reports whether nothing arrives at an end of a connection now.
func (n *memNetwork) isHeld(c *memConn) (bool, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[memLink{c.link.to, c.link.from}] || n.stalled[c], n.changed
}

type memView struct {
	n    *memNetwork
	addr string
}

func (v memView) Listen(addr string) (net.Listener, error) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	if v.n.listeners[addr] != nil {
		return nil, fmt.Errorf("listen %s: address already in use", addr)
	}
	ln := &memListener{n: v.n, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	v.n.listeners[addr] = ln
	return ln, nil
}

func (v memView) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		there, changed1 := v.n.isCut(memLink{v.addr, addr})
		back, changed := v.n.isCut(memLink{addr, v.addr})
		if changed != changed1 {
			continue
		}
		if !there && !back {
			break
		}
		select {
		case <-changed:
		case <-t.C:
			return nil, fmt.Errorf("dial %s: %w", addr, os.ErrDeadlineExceeded)
		}
	}
	v.n.mu.Lock()
	ln := v.n.listeners[addr]
	v.n.mu.Unlock()
	if ln == nil {
		return nil, fmt.Errorf("dial %s: connection refused", addr)
	}
	mine, theirs := v.n.pipe(v.addr, addr)
	select {
	case ln.conns <- theirs:
		return mine, nil
	case <-ln.closed:
		return nil, errors.Join(fmt.Errorf("dial %s: connection refused", addr), mine.Close(), theirs.Close())
	case <-t.C:
		return nil, errors.Join(fmt.Errorf("dial %s: %w", addr, os.ErrDeadlineExceeded), mine.Close(), theirs.Close())
	}
}

type memListener struct {
	n      *memNetwork
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.addr)
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return namedAddr(l.addr) }

const (
	memQueueMax = 4 << 20 // bytes that a link holds before its writer must wait
	memPiece    = 8 << 10 // bytes that it carries at a time; the connections of a link take turns
)

// memQueue is one direction of a connection.
type memQueue struct {
	mu    sync.Mutex
	data  []byte
	eof   bool          // the writer has closed
	gone  bool          // the reader has closed
	moved chan struct{} // closed and replaced at each change
}

func newMemQueue() *memQueue { return &memQueue{moved: make(chan struct{})} }

func (q *memQueue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	close(q.moved)
	q.moved = make(chan struct{})
}

// pipe makes a connection from one node to another: both its ends.
func (n *memNetwork) pipe(from, to string) (dialled, accepted *memConn) {
	there, back := newMemQueue(), newMemQueue()
	dialled = &memConn{n: n, link: memLink{from, to}, dialled: true, out: there, in: back}
	accepted = &memConn{n: n, link: memLink{to, from}, out: back, in: there}
	for _, c := range []*memConn{dialled, accepted} {
		c.rd.init()
		c.wd.init()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[dialled], n.conns[accepted] = true, true
	return dialled, accepted
}

// memConn is one end of a connection in memory.
type memConn struct {
	n       *memNetwork
	link    memLink // from this end to the other
	dialled bool    // this end has
	out, in *memQueue
	rd, wd  memDeadline
	once    sync.Once
	closed  bool // guarded by in.mu
}

func (c *memConn) Read(b []byte) (int, error) {
	for {
		late := c.rd.wait()
		cut, relinked := c.n.isHeld(c)
		c.in.mu.Lock()
		moved := c.in.moved
		switch {
		case c.closed:
			c.in.mu.Unlock()
			return 0, net.ErrClosed
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
		}
		c.in.mu.Unlock()
		select {
		case <-moved:
		case <-relinked:
		case <-late:
		}
	}
}

func (c *memConn) Write(b []byte) (int, error) {
	done := 0
	for {
		late := c.wd.wait()
		c.out.mu.Lock()
		moved, room, gone, eof := c.out.moved, memQueueMax-len(c.out.data), c.out.gone, c.out.eof
		c.out.mu.Unlock()
		switch {
		case done == len(b): // also when the other side has read it all and closed since
			return done, nil
		case eof:
			return done, net.ErrClosed
		case gone:
			return done, errors.New("write: connection reset by peer")
		case c.wd.passed():
			return done, os.ErrDeadlineExceeded
		case room > 0:
			n := min(room, len(b)-done, memPiece)
			c.n.carry(c.link, n)
			c.out.change(func() { c.out.data = append(c.out.data, b[done:done+n]...) })
			done += n
			continue
		}
		select {
		case <-moved:
		case <-late:
		}
	}
}

func (c *memConn) Close() error {
	c.once.Do(func() {
		c.out.change(func() { c.out.eof = true })
		c.in.change(func() { c.in.gone, c.closed, c.in.data = true, true, nil })
		c.n.mu.Lock()
		delete(c.n.conns, c)
		c.n.mu.Unlock()
	})
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return namedAddr(c.link.from) }
func (c *memConn) RemoteAddr() net.Addr { return namedAddr(c.link.to) }

func (c *memConn) SetDeadline(t time.Time) error {
	c.rd.set(t)
	c.wd.set(t)
	return nil
}
func (c *memConn) SetReadDeadline(t time.Time) error  { c.rd.set(t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error { c.wd.set(t); return nil }

// memDeadline is a deadline whose channel closes when it passes or moves. Take the
// channel first and ask passed after, or a deadline between the two is missed.
type memDeadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	ch    chan struct{}
}

func (d *memDeadline) init() { d.ch = make(chan struct{}) }

func (d *memDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	close(d.ch)
	ch := make(chan struct{})
	d.ch = ch
	if t.IsZero() {
		return
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ch == ch {
			close(d.ch)
			d.ch = make(chan struct{})
		}
	})
}

func (d *memDeadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

func (d *memDeadline) wait() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}
