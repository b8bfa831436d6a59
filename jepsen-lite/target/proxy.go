package target

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// caller finds out which node or client has connected to a proxy. It returns the bytes that it had to read for that.
type caller func(conn net.Conn) (from string, head []byte, err error)

// Proxy forwards the connections to one port of one node, through the links of its Net. It accepts connections exactly
// while the node listens, unless told to Refuse: settle opens or closes its own listener after each change of these.
// While the node does not listen, another process may Take the address. All methods may be called concurrently.
type Proxy struct {
	net      *Net
	node     string
	upstream string
	addr     string
	who      caller
	lost     func(err error) // called, with mu held, if the proxy cannot listen again; may be nil

	mu       sync.Mutex
	ln       net.Listener // nil while the proxy refuses
	up       bool         // the node listens
	turn     int          // number of the process that the proxy waits for
	refusals int          // callers of Refuse(true) without their Refuse(false) yet
	taken    net.Listener // listener of another process, while the node does not listen
}

// newProxy opens a proxy before upstream on a free port of loopback. The port is reserved for this process, so no other
// process has it when the proxy listens there again.
func newProxy(n *Net, node, upstream string, who caller) (*Proxy, error) {
	addrs, err := n.on().Addrs(onlyHost, 1)
	if err != nil {
		return nil, err
	}
	p := &Proxy{net: n, node: node, upstream: upstream, addr: addrs[0], who: who, up: true}
	if p.ln, err = n.on().Listen(p.addr); err != nil {
		return nil, err
	}
	go p.accept(p.ln)
	return p, nil
}

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Close stops listening for good. Open connections stay.
func (p *Proxy) Close() {
	p.shut()
	p.Free()
}

// Refuse makes the proxy refuse connections although the node listens (true), or ends that (false); open connections
// stay. The proxy refuses until there were as many calls with false as with true.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.refusals++
	} else {
		p.refusals--
	}
	p.settle()
}

// Take simulates another process at the address while the node does not listen: it writes a text on each connection,
// and reads all. It ends when the node listens, or by Free.
func (p *Proxy) Take(says string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up || p.taken != nil {
		return
	}
	ln, err := p.listen()
	if err != nil {
		return
	}
	p.taken = ln
	go each(ln, func(conn net.Conn) {
		_, _ = io.WriteString(conn, says)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
}

// Free ends what Take began. Its connections stay until their other ends close them.
func (p *Proxy) Free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free()
}

// free is Free with mu held.
func (p *Proxy) free() {
	if p.taken != nil {
		_ = p.taken.Close()
		p.taken = nil
	}
}

// shut makes the proxy refuse, since the process has ended.
func (p *Proxy) shut() { p.shutOf(p.present()) }

// shutOf makes the proxy refuse, since the process of a turn has ended; the next one may listen already.
func (p *Proxy) shutOf(turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return
	}
	p.turn++
	p.up = false
	p.settle()
}

// present returns the number of the process that the proxy waits for.
func (p *Proxy) present() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

// upLook is the time between two checks whether a node listens that was started or told to end.
const upLook = 5 * time.Millisecond

// follow makes the proxy refuse as soon as the node closes its port, after the process of a turn was told to end. Until
// then it calls open again and again with a time at which the port was open, or after which it still was.
func (p *Proxy) follow(turn int, ended <-chan struct{}, open func(at time.Time)) {
	go func() {
		for look := time.Now(); p.listens(); look = time.Now() {
			select {
			case <-ended: // the next process may listen already
				return
			default:
				open(look)
			}
			select {
			case <-time.After(upLook):
			case <-ended:
				return
			}
		}
		p.shutOf(turn)
	}()
}

// await makes the proxy accept connections as soon as a started node listens, unless the process ends before.
func (p *Proxy) await(ended <-chan struct{}) {
	turn := p.present()
	go func() {
		for !p.listens() {
			select {
			case <-time.After(upLook):
			case <-ended:
				return
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.turn == turn {
			p.up = true
			p.settle()
		}
	}()
}

// listens reports whether some process listens behind the proxy.
func (p *Proxy) listens() bool {
	conn, err := p.net.on().Dial(p.upstream, dialMax)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// settle starts or stops listening, as the state requires. mu is held.
func (p *Proxy) settle() {
	if p.up {
		p.free()
	}
	switch listen := p.up && p.refusals == 0; {
	case !listen && p.ln != nil:
		_ = p.ln.Close()
		p.ln = nil
	case listen && p.ln == nil:
		ln, err := p.listen()
		if err == nil {
			p.ln = ln
			go p.accept(ln)
		} else if p.lost != nil {
			p.lost(err)
		}
	}
}

// Times of listening again at an address.
const (
	relistenMax  = 2 * time.Second       // of all tries
	relistenLook = 20 * time.Millisecond // between two tries
)

// listen opens the listener. The kernel may not have freed the port yet.
func (p *Proxy) listen() (ln net.Listener, err error) {
	for until := time.Now().Add(relistenMax); ; time.Sleep(relistenLook) {
		if ln, err = p.net.on().Listen(p.addr); err == nil || time.Now().After(until) {
			return ln, err
		}
	}
}

func (p *Proxy) accept(ln net.Listener) { each(ln, p.serve) }

// each calls do for each connection to a listener, until the listener is closed.
func each(ln net.Listener, do func(net.Conn)) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of file descriptors
			continue
		}
		go do(conn)
	}
}

// dialMax bounds a dial to a node on loopback, which answers at once or not at all.
const dialMax = time.Second

// serve carries one connection to the node, or resets it.
func (p *Proxy) serve(conn net.Conn) {
	from, head, err := p.who(conn)
	if err != nil || p.net.Link(from, p.node).refuses() {
		abort(conn)
		return
	}
	up, err := p.net.on().Dial(p.upstream, dialMax)
	if err != nil {
		abort(conn)
		return
	}
	pr := &pair{from: from, to: p.node, caller: conn, callee: up, done: make(chan struct{})}
	p.net.track(pr, true)
	var both sync.WaitGroup
	t := newTalk(p.net, from, p.node, head)
	both.Go(func() { pr.pump(conn, up, head, p.net.Link(from, p.node), t.stream(true)) })
	both.Go(func() { pr.pump(up, conn, nil, p.net.Link(p.node, from), t.stream(false)) })
	both.Wait()
	p.net.track(pr, false)
	pr.reset()
}

// abort closes a connection with a reset.
func abort(conn net.Conn) {
	if socket, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = socket.SetLinger(0)
	}
	_ = conn.Close()
}

// pair is one connection through a proxy: the caller's, and the one to the node.
type pair struct {
	from, to       string
	caller, callee net.Conn
	answered       atomic.Bool // the callee has said something: a paused process has a connection, and knows nothing of it
	once           sync.Once
	done           chan struct{}
}

func (p *pair) reset() {
	p.once.Do(func() {
		close(p.done)
		abort(p.caller)
		abort(p.callee)
	})
}

// piece is bytes on their way through a link.
type piece struct {
	due  time.Time
	data []byte
	last bool // whether the connection breaks after the piece
}

// piecesMax bounds the pieces of one connection on their way in one direction. Beyond it the sender blocks, as with a
// full window.
const piecesMax = 256

// pump carries bytes from src to dst through a link. s cuts them into messages that may be caught; if s is nil, they
// are only bytes. The end of the stream travels the same way, so behind a cut nobody learns that the other side has
// closed.
func (p *pair) pump(src, dst net.Conn, head []byte, link *Link, s *stream) {
	pieces := make(chan piece, piecesMax)
	go func() {
		defer close(pieces)
		if len(head) > 0 {
			pieces <- piece{due: time.Now().Add(link.delay()), data: head}
		}
		for buf := make([]byte, 16<<10); ; {
			n, err := src.Read(buf)
			text := bytes.Clone(buf[:n])
			parcels := []parcel{{data: text}}
			if s != nil {
				parcels = s.feed(text)
			}
			for _, c := range parcels {
				if len(c.data) == 0 && !c.last {
					continue
				}
				select {
				case pieces <- piece{time.Now().Add(link.delay() + c.hold), c.data, c.last}:
				case <-p.done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	broken := false
	for pc := range pieces {
		if broken {
			continue // dst is closed, and src must not learn that this way
		}
		if !wait(time.Until(pc.due), p.done) || !link.pass(len(pc.data), p.done) {
			return
		}
		if link.breaks() {
			_, _ = dst.Write(pc.data[:len(pc.data)/2])
			p.reset()
			return
		}
		if dst == p.caller {
			p.answered.Store(true)
		}
		_, err := dst.Write(pc.data)
		if broken = err != nil; pc.last {
			p.reset()
			return
		}
	}
	if !link.pass(0, p.done) {
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// anyClient is the caller of a client port: all clients are one end of the links.
func anyClient(net.Conn) (string, []byte, error) { return Clients, nil, nil }

const (
	helloMagic   = "\x00lockdN\n"
	helloHeadLen = len(helloMagic) + 6
	helloBodyMax = 64 << 10
	helloWaitMax = 2 * time.Second
)

var errNoHello = errors.New("the first bytes are no hello of a lockd node")

// lockdPeer is the caller of a lockd node's peer port. A node begins each connection with magic(8) version(1) kind(1)
// length(4) and a JSON document with its ID. So one address for each node is enough to tell the links of all pairs
// apart.
func lockdPeer(conn net.Conn) (string, []byte, error) {
	_ = conn.SetReadDeadline(time.Now().Add(helloWaitMax))
	head := make([]byte, helloHeadLen)
	if _, err := io.ReadFull(conn, head); err != nil {
		return "", nil, err
	}
	size := binary.BigEndian.Uint32(head[helloHeadLen-4:])
	if string(head[:len(helloMagic)]) != helloMagic || size > helloBodyMax {
		return "", nil, errNoHello
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", nil, err
	}
	var who struct{ ID string }
	if err := json.Unmarshal(body, &who); err != nil || who.ID == "" {
		return "", nil, errNoHello
	}
	_ = conn.SetReadDeadline(time.Time{})
	slot, _, _ := strings.Cut(who.ID, "-") // n2-1 took the place of n2
	return slot, append(head, body...), nil
}
