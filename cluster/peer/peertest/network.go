// Package peertest is a network in memory for tests of the cluster, and for simulated clusters, in virtual time.
package peertest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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
	stalled   map[*conn]bool       // ends at which nothing arrives
	paused    map[string]time.Time // nodes that are paused, since when
	refusing  map[link]bool        // dials on these links are refused
	full      map[string]bool
	resetting map[string]bool   // dials to these addresses connect, and are reset
	diverted  map[string]string // dials to an address reach another one
	changed   chan struct{}     // closed and replaced when a link is cut or healed, or an end stalls or resumes

	closed bool                                               // there are no listeners any more
	delays func(from, to string) (delay func() time.Duration) // see SetDelays; nil: nothing takes time

	rate atomic.Int64       // bytes a second of each link; 0: no bound, at once
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
		paused:    map[string]time.Time{},
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
			if cut {
				n.cut[link{a, b}] = true
			} else {
				delete(n.cut, link{a, b})
			}
		}
	}
	relinked(n)
}

// relinked wakes whoever waits for links or ends. n.mu is held.
func relinked(n *Network) {
	close(n.changed)
	n.changed = make(chan struct{})
}

// SetDelays says how long bytes are on their way. of is asked at each dial, by which node to which address; the delay
// that it returns is drawn for each write, in both directions. nil: they arrive at once. Bytes arrive in order.
func (n *Network) SetDelays(of func(from, to string) (delay func() time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays = of
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
	relinked(n)
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
// connects dials without accepting them. What the node has sent before arrives. The node's timers continue.
func (n *Network) SetPaused(paused bool, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, already := n.paused[addr]; already == paused {
		return
	}
	if paused {
		n.paused[addr] = time.Now()
	} else {
		delete(n.paused, addr)
	}
	relinked(n)
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
	_, paused := n.paused[addr]
	return paused, n.changed
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
		switch {
		case c.dialled:
		case stalled:
			n.stalled[c] = true
		default:
			delete(n.stalled, c)
		}
	}
	relinked(n)
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

// Kill ends every connection of a node and frees its port, as the end of its process does. Bytes under way are lost,
// except those that were sent before this instant, or before a pause that lasts, and are late only by a delay
// (SetDelays); the other side reads the end, unless the link is cut.
func (n *Network) Kill(addr string) {
	n.mu.Lock()
	var dead []*conn
	for c := range n.conns {
		if c.link.from == addr {
			dead = append(dead, c)
		}
	}
	last := time.Now() // what was sent from then on is lost
	if since, paused := n.paused[addr]; paused {
		last = since
	}
	ln := n.listeners[addr]
	n.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
	for _, c := range dead {
		c.out.change(func() {
			c.out.lose(last)
			c.out.finish(false) // nothing is sent any more
		})
	}
	n.SetPaused(false, addr) // what the pause held back is gone
	for _, c := range dead {
		_ = c.Close()
	}
}

// Close ends all connections and frees all ports, for good.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	ports, ends := slices.Collect(maps.Values(n.listeners)), slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	for _, l := range ports {
		_ = l.Close()
	}
	for _, c := range ends {
		_ = c.Close()
	}
}

// SetRate sets the bytes a second that each link carries.
func (n *Network) SetRate(rate int64) { n.rate.Store(rate) }

// carry waits until a link has carried size bytes, after those that it accepted before.
func (n *Network) carry(l link, size int) {
	rate := n.rate.Load()
	if rate == 0 {
		return
	}
	n.mu.Lock()
	at := time.Now()
	if n.busy[l].After(at) {
		at = n.busy[l]
	}
	at = at.Add(time.Duration(size) * time.Second / time.Duration(rate))
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

// isHeld reports whether nothing arrives at an end of a connection now. If only what was sent before a time arrives,
// since the other end is paused, it returns that. changed closes when to ask again.
func (n *Network) isHeld(c *conn) (held bool, before time.Time, changed chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.paused) > 0 {
		_, held = n.paused[c.link.from]
		before = n.paused[c.link.to]
	}
	held = held || len(n.cut) > 0 && n.cut[link{c.link.to, c.link.from}] || len(n.stalled) > 0 && n.stalled[c]
	return held, before, n.changed
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
	if v.n.closed {
		return nil, net.ErrClosed
	}
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
	ln := v.n.listeners[cmp.Or(v.n.diverted[addr], addr)]
	_, paused := v.n.paused[addr]
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
	_, paused := n.paused[l.from]
	return paused || n.cut[l] || n.cut[link{l.to, l.from}] || n.full[l.to], n.changed
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

// parcel is bytes that were written at one instant.
type parcel struct {
	sent time.Time
	due  time.Time // when they arrive; zero: at once
	data []byte
}

// queue is one direction of a connection.
type queue struct {
	delay func() time.Duration // nil: none

	mu      sync.Mutex
	parcels []parcel
	size    int           // bytes of all parcels
	eof     bool          // the writer has closed
	end     parcel        // of no bytes: when it has
	ended   chan struct{} // closed when that arrives
	gone    bool          // the reader has closed
	broken  bool          // the writer has reset the connection
	moved   chan struct{} // closed at the next change; nil: nobody waits for it
}

func newQueue(delay func() time.Duration) *queue {
	return &queue{delay: delay, ended: make(chan struct{})}
}

func (q *queue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.tell()
}

// tell wakes whoever waits for a change. q.mu is held.
func (q *queue) tell() {
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

// send draws when what is sent now arrives: not before what was sent earlier. q.mu is held.
func (q *queue) send() parcel {
	p := parcel{sent: time.Now()}
	if q.delay == nil {
		return p
	}
	if d := q.delay(); d > 0 {
		p.due = p.sent.Add(d)
	}
	if last := len(q.parcels) - 1; last >= 0 && q.parcels[last].due.After(p.due) {
		p.due = q.parcels[last].due
	}
	return p
}

// put adds a copy of bytes, and tells when they arrive. q.mu is held.
func (q *queue) put(b []byte) {
	p := q.send()
	q.size += len(b)
	last := len(q.parcels) - 1
	if last < 0 || p.due.IsZero() || !q.parcels[last].due.Equal(p.due) { // or it is told with the last one
		q.tellAt(p.due)
	}
	if last >= 0 && q.parcels[last].sent.Equal(p.sent) && q.parcels[last].due.Equal(p.due) {
		q.parcels[last].data = append(q.parcels[last].data, b...)
		return
	}
	p.data = append([]byte(nil), b...)
	q.parcels = append(q.parcels, p)
}

// tellAt tells at a time, or at once. q.mu is held.
func (q *queue) tellAt(due time.Time) {
	if due.IsZero() {
		q.tell()
		return
	}
	time.AfterFunc(time.Until(due), func() { q.change(func() {}) })
}

// hasArrived reports whether a parcel may be read, of those that were sent before a time; zero: of all.
func (p *parcel) hasArrived(before time.Time) bool {
	return (before.IsZero() || p.sent.Before(before)) && (p.due.IsZero() || !p.due.After(time.Now()))
}

// take moves bytes that have arrived into b, or returns how the stream has ended. q.mu is held.
func (q *queue) take(b []byte, before time.Time) (n int, err error) {
	if q.broken {
		return 0, syscall.ECONNRESET
	}
	for len(q.parcels) > 0 && n < len(b) && q.parcels[0].hasArrived(before) {
		first := &q.parcels[0]
		moved := copy(b[n:], first.data)
		if first.data = first.data[moved:]; len(first.data) == 0 {
			q.parcels = q.parcels[1:]
		}
		n, q.size = n+moved, q.size-moved
	}
	switch {
	case n > 0:
		q.tell()
	case len(q.parcels) == 0 && q.eof && q.end.hasArrived(before):
		return 0, io.EOF
	}
	return n, nil
}

// finish ends what is written. If it breaks the connection, what is on its way is lost; there is nothing to break after
// an end in order. q.mu is held.
func (q *queue) finish(breaks bool) {
	switch {
	case q.eof:
		return
	case breaks:
		q.broken, q.parcels, q.size = true, nil, 0
	default:
		q.end = q.send()
	}
	q.eof = true
	if q.end.due.IsZero() {
		close(q.ended)
		return
	}
	time.AfterFunc(time.Until(q.end.due), func() { q.change(func() { close(q.ended) }) })
}

// lose drops what is under way, except what was sent before a time and has a delay. q.mu is held.
func (q *queue) lose(last time.Time) {
	q.parcels = slices.DeleteFunc(q.parcels, func(p parcel) bool { return p.due.IsZero() || !p.sent.Before(last) })
	q.size = 0
	for _, p := range q.parcels {
		q.size += len(p.data)
	}
}

// pipe returns both ends of a new connection from one node to another.
func (n *Network) pipe(from, to string) (dialled, accepted *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var delay func() time.Duration
	if n.delays != nil {
		delay = n.delays(from, to)
	}
	there, back := newQueue(delay), newQueue(delay)
	dialled = &conn{n: n, link: link{from, to}, dialled: true, out: there, in: back}
	accepted = &conn{n: n, link: link{to, from}, out: back, in: there}
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
	abrupt  atomic.Bool // Close resets the connection
	closed  bool        // guarded by in.mu
	broken  bool        // by a reset; guarded by in.mu
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
		held, before, relinked := c.n.isHeld(c)
		c.in.mu.Lock()
		switch {
		case c.closed:
			c.in.mu.Unlock()
			return 0, c.closedError()
		case c.rd.passed():
			c.in.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case !held:
			if n, err := c.in.take(b, before); n > 0 || err != nil {
				c.in.mu.Unlock()
				return n, err
			}
		}
		if late == nil { // it has to wait: once more, now that a deadline cannot be missed
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
		room, gone, eof := QueueMax-c.out.size, c.out.gone, c.out.eof
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
			c.out.mu.Lock()
			if eof = c.out.eof; !eof {
				c.out.put(b[done : done+n])
			}
			c.out.mu.Unlock()
			if eof {
				return done, c.closedError()
			}
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

// SetLinger makes Close reset the connection, if seconds is 0: the other end cannot read what is under way.
func (c *conn) SetLinger(seconds int) error {
	c.abrupt.Store(seconds == 0)
	return nil
}

// CloseWrite ends what this end writes.
func (c *conn) CloseWrite() error {
	c.out.change(func() { c.out.finish(false) })
	return nil
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.change(func() { c.out.finish(c.abrupt.Load()) })
		c.in.change(func() { c.in.gone, c.closed, c.in.parcels, c.in.size = true, true, nil, 0 })
		c.n.mu.Lock()
		delete(c.n.conns, c)
		c.n.mu.Unlock()
	})
	return nil
}

// Ended returns a channel that is closed when it can be known that the other side has closed its end, even if bytes are
// still under way. A server watches it for the ends of clients who wait.
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
