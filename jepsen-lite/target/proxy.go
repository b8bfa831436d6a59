package target

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"lockd/internal/freeport"
)

// caller finds out who has connected to a proxy, and returns what it had to read
// for that.
type caller func(conn net.Conn) (from string, head []byte, err error)

// Proxy stands before one port of one node. It refuses connections where the node itself would: while no process of it
// listens. All methods may be called concurrently.
type Proxy struct {
	net      *Net
	node     string
	upstream string
	addr     string
	who      caller
	lost     func(err error) // called, with mu held, if it cannot listen again; may be nil

	mu       sync.Mutex
	ln       net.Listener // nil: it refuses
	up       bool         // the node listens
	turn     int          // number of the process that it waits for
	refusals int          // so many want it to refuse
	taken    net.Listener // of another process, while the node does not listen
}

// newProxy opens a proxy before upstream on a free port of loopback. That is of this process alone, so nobody else has
// taken it when the proxy listens there again.
func newProxy(n *Net, node, upstream string, who caller) (*Proxy, error) {
	addrs, err := freeport.Addrs(onlyHost, 1)
	if err != nil {
		return nil, err
	}
	p := &Proxy{net: n, node: node, upstream: upstream, addr: addrs[0], who: who, up: true}
	if p.ln, err = net.Listen("tcp", p.addr); err != nil {
		return nil, err
	}
	go p.accept(p.ln)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Close stops listening for good; open connections stay.
func (p *Proxy) Close() {
	p.shut()
	p.Free()
}

// Refuse has the proxy refuse connections although the node listens, or no longer; those that are open stay. It refuses
// until as many have called Refuse(false) as Refuse(true).
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

// Take has another process listen at the address while the node does not: it says something on each connection, and
// hears all. It leaves when the node listens, and when Free is called.
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

// Free has the other process leave; the connections that it took stay until their other ends close them.
func (p *Proxy) Free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free()
}

func (p *Proxy) free() {
	if p.taken != nil {
		_ = p.taken.Close()
		p.taken = nil
	}
}

// shut has the proxy refuse: the process has ended.
func (p *Proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	p.up = false
	p.settle()
}

// upLook is the time between two looks whether a node listens that has been started, or told to end.
const upLook = 5 * time.Millisecond

// follow has the proxy refuse as soon as the node does, whose process was told to end and may close its ports before.
func (p *Proxy) follow(ended <-chan struct{}) {
	go func() {
		for listens(p.upstream) {
			select {
			case <-time.After(upLook):
			case <-ended:
				return
			}
		}
		select {
		case <-ended: // the next process may listen already
		default:
			p.shut()
		}
	}()
}

// await has the proxy listen when the node does whose process was started, unless that has ended before.
func (p *Proxy) await(ended <-chan struct{}) {
	p.mu.Lock()
	turn := p.turn
	p.mu.Unlock()
	go func() {
		for !listens(p.upstream) {
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

// listens reports whether somebody listens at an address.
func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, dialMax)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// settle has the proxy listen or refuse. mu is held.
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

// relistenMax bounds how long a proxy tries to listen again, and relistenLook is between two tries.
const (
	relistenMax  = 2 * time.Second
	relistenLook = 20 * time.Millisecond
)

func (p *Proxy) listen() (ln net.Listener, err error) {
	for until := time.Now().Add(relistenMax); ; time.Sleep(relistenLook) {
		if ln, err = net.Listen("tcp", p.addr); err == nil || time.Now().After(until) {
			return ln, err
		}
	}
}

func (p *Proxy) accept(ln net.Listener) { each(ln, p.serve) }

// each has do serve each connection to a listener until that is closed.
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

// dialMax bounds a dial to a node on loopback: it is there or it is not.
const dialMax = time.Second

func (p *Proxy) serve(conn net.Conn) {
	from, head, err := p.who(conn)
	if err != nil || p.net.Link(from, p.node).refuses() {
		abort(conn)
		return
	}
	up, err := net.DialTimeout("tcp", p.upstream, dialMax)
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
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// pair is one proxied connection.
type pair struct {
	from, to       string
	caller, callee net.Conn
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
	last bool // the connection breaks after it
}

// piecesMax bounds what one connection has on its way in one direction; beyond it
// the sender feels it, as with a full window.
const piecesMax = 256

// pump carries bytes from src to dst through a link. The end of the stream
// travels the same way: behind a cut, nobody learns that the other side is gone.
// s cuts them into messages; nil: they are bytes.
func (p *pair) pump(src, dst net.Conn, head []byte, link *Link, s *stream) {
	pieces := make(chan piece, piecesMax)
	go func() {
		defer close(pieces)
		if len(head) > 0 {
			pieces <- piece{due: time.Now().Add(link.delay()), data: head}
		}
		for {
			buf := make([]byte, 16<<10)
			n, err := src.Read(buf)
			parcels := []parcel{{data: buf[:n]}}
			if s != nil {
				parcels = s.feed(buf[:n])
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
			continue // dst is gone, and src must not learn it this way
		}
		if !wait(time.Until(pc.due), p.done) || !link.pass(len(pc.data), p.done) {
			return
		}
		if link.breaks() {
			_, _ = dst.Write(pc.data[:len(pc.data)/2])
			p.reset()
			return
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
	if tcp, ok := dst.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// anyClient is the caller of a client port: all clients are one end.
func anyClient(net.Conn) (string, []byte, error) { return Clients, nil, nil }

const (
	helloMagic   = "\x00lockdN\n"
	helloHeadLen = len(helloMagic) + 6
	helloBodyMax = 64 << 10
	helloWaitMax = 2 * time.Second
)

var errNoHello = errors.New("the first bytes are no hello of a lockd node")

// lockdPeer is the caller of a lockd node's peer port. A node begins each
// connection with magic(8) version(1) kind(1) length(4) and a JSON document that
// holds its ID, so one address per node is enough for a link per pair of nodes.
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
