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
)

// caller finds out who has connected to a proxy, and returns what it had to read
// for that.
type caller func(conn net.Conn) (from string, head []byte, err error)

// Proxy stands before one port of one node.
type Proxy struct {
	net      *Net
	node     string
	upstream string
	who      caller
	ln       net.Listener
}

// newProxy opens a proxy before upstream on a free port of loopback.
func newProxy(n *Net, node, upstream string, who caller) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{net: n, node: node, upstream: upstream, who: who, ln: ln}
	go p.accept()
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close stops listening; open connections stay.
func (p *Proxy) Close() { _ = p.ln.Close() }

func (p *Proxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of file descriptors
			continue
		}
		go p.serve(conn)
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
	helloMagic   = "\x00lockdP\n"
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
