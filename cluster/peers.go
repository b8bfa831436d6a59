package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// Limits and times of the peer network.
const (
	dialTimeoutDefault = 700 * time.Millisecond // dial and hello; short, so that a peer that swallows packets is noticed
	heartbeatDefault   = 500 * time.Millisecond
	helloWaitMax       = 2 * time.Second // a stranger that connects and says nothing
	servedConnsMax     = 1024            // incoming connections of all kinds
	forwardWaitMax     = time.Hour       // a forwarded request that is to wait longer is malformed
	acceptPauseMax     = time.Second
)

// peersConfig is what a peer network needs to know.
type peersConfig struct {
	Network Network
	Listen  string          // address to listen on, host:port
	Self    func() identity // asked at each hello; called concurrently
	// Expect names the node that must answer at an address, "" where any may; nil: any
	// everywhere. Raft counts votes and acknowledgements by address: those of another
	// node that has taken over the address must not count for the member.
	Expect      func(addr string) (id string)
	DialTimeout time.Duration // for the dial and the hello; 0: the default
	Heartbeat   time.Duration // a peer that is silent for about two of them is given up; 0: the default
	Log         *slog.Logger  // nil: none
}

// peerHandler is the node behind a peer network. Its methods are called
// concurrently, and none may block.
type peerHandler interface {
	// admit judges the other side of a new connection, on both sides. Its error
	// refuses the connection; the other side is told the text.
	admit(who identity) error
	// serveForward runs a request that another node's client sent. respond is called
	// exactly once, from any goroutine, best before f.until: the sender does not wait
	// longer. The request's strings alias a buffer that does not change.
	serveForward(f forwarded, respond func(answer))
	// serveStatus answers a status question that has just arrived.
	serveStatus() peerStatus
	// refused reports that the other side would not have us, and why. by is its node
	// id.
	refused(by string, err error)
}

// errPeersClosed ends calls to a network that has been closed.
var errPeersClosed = errors.New("the peer network is closed")

// peers is the peer network of a node: one port for Raft's messages, forwarded
// requests and status questions. All methods may be called concurrently.
type peers struct {
	cfg     peersConfig
	handler peerHandler
	ln      net.Listener
	raftIn  *raftStreams

	stop    chan struct{} // closed by close
	warned  rarely
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[string]*link      // by address
	conns  map[net.Conn]openConn // every open connection
	served int                   // incoming ones among them
}

// openConn is what is known about an open connection.
type openConn struct {
	id     string // of the node at its other end, once it has said so
	served bool   // calls of that node are answered on it
}

// newPeers opens the peer port and serves it.
func newPeers(cfg peersConfig, handler peerHandler) (*peers, error) {
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = dialTimeoutDefault
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = heartbeatDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Self().check(); err != nil {
		return nil, err
	}
	ln, err := cfg.Network.Listen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	p := &peers{
		cfg: cfg, handler: handler, ln: ln,
		stop:  make(chan struct{}),
		links: map[string]*link{},
		conns: map[net.Conn]openConn{},
	}
	p.raftIn = newRaftStreams(p)
	p.running.Go(p.accept)
	return p, nil
}

// listenAddr is where the port really is (tests listen on port 0).
func (p *peers) listenAddr() string { return p.ln.Addr().String() }

// forward has the node at addr run req, and waits for the answer until ctx ends.
// The result is good only if the outcome is outcomeDone.
func (p *peers) forward(ctx context.Context, addr string, req resp.Request) (outcome, resp.Result) {
	a := p.forwardAttempt(ctx, addr, req, &attempt{})
	return a.outcome, a.result
}

// forwardAttempt is forward for an attempt that the log will show.
func (p *peers) forwardAttempt(ctx context.Context, addr string, req resp.Request, a *attempt) answer {
	size := resp.RequestSize(req)
	if size > forwardBytesMax {
		return answer{outcome: outcomeDone, result: tooLargeToForward(len(req.Cmds))}
	}
	body := appendBinding(make([]byte, 0, size+bindingBytesMax), a)
	c := newCall(frameForward, resp.AppendRequest(body, req))
	c.deadline, _ = ctx.Deadline()
	return p.call(ctx, addr, c).answer
}

func tooLargeToForward(cmds int) resp.Result {
	res := resp.Result{Replies: make([]resp.Reply, cmds)}
	for i := range res.Replies {
		res.Replies[i] = resp.Errf("ERR request is larger than the %d bytes one node forwards to another: nothing was executed", forwardBytesMax)
	}
	return res
}

// status asks the node at addr for its status. The question leaves after the
// call began, so the answer was true at some moment since: a confirmed read rests
// on that.
func (p *peers) status(ctx context.Context, addr string) (peerStatus, error) {
	a := p.call(ctx, addr, newCall(frameAsk, nil))
	return a.status, a.err
}

// streamLayer carries Raft's messages over the same port. Closing it leaves the
// rest of the network open.
func (p *peers) streamLayer() raft.StreamLayer { return p.raftIn }

// disconnect closes every connection to and from a node: it has been removed.
func (p *peers) disconnect(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, c := range p.conns {
		if c.id == id {
			_ = conn.Close()
		}
	}
}

// close ends everything. Its own calls that were not sent are not done, the others
// unknown; calls of other nodes that had been taken are answered first, if that
// does not take long, and the callers of the others are told that they are not done.
// It returns when nothing of the network runs any more.
func (p *peers) close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.stop)
		_ = p.ln.Close()
		for conn, c := range p.conns {
			if c.served {
				_ = conn.SetReadDeadline(after(-time.Second)) // it says bye
			} else {
				_ = conn.Close()
			}
		}
	}
	p.mu.Unlock()
	p.running.Wait()
}

// track notes an open connection, so that close and disconnect reach it. It
// refuses when the network is closed or, for an incoming one, full.
func (p *peers) track(conn net.Conn, incoming bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || incoming && p.served >= servedConnsMax {
		return false
	}
	p.conns[conn] = openConn{}
	if incoming {
		p.served++
	}
	return true
}

// note keeps what the hello told about an open connection.
func (p *peers) note(conn net.Conn, c openConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.conns[conn]; open {
		p.conns[conn] = c
	}
}

func (p *peers) untrack(conn net.Conn, incoming bool) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.conns[conn]; !open {
		return
	}
	delete(p.conns, conn)
	if incoming {
		p.served--
	}
}

// accept takes connections until the network closes. A failure (no file
// descriptors left) is waited out.
func (p *peers) accept() {
	pause := 5 * time.Millisecond
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			if !p.sleep(pause) {
				return
			}
			p.cfg.Log.Warn("peer port: cannot accept", "error", err)
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = 5 * time.Millisecond
		if !p.track(conn, true) {
			_ = conn.Close()
			continue
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// serve greets an incoming connection and hands it to whom it is for.
func (p *peers) serve(conn net.Conn) {
	_ = conn.SetDeadline(after(helloWaitMax))
	kind, who, err := welcome(conn, p.cfg.Self(), p.handler.admit)
	if err != nil {
		p.failedHello(conn.RemoteAddr().String(), err)
		p.untrack(conn, true)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	p.note(conn, openConn{id: who.ID, served: kind == helloCalls})
	if kind != helloCalls {
		p.raftIn.deliver(kind, &trackedConn{Conn: conn, p: p, incoming: true})
		return
	}
	defer p.untrack(conn, true)
	p.serveCalls(conn)
}

// dial connects to a peer and greets it.
func (p *peers) dial(addr string, kind helloKind, timeout time.Duration) (net.Conn, error) {
	deadline := after(timeout)
	conn, err := p.cfg.Network.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	if !p.track(conn, false) {
		_ = conn.Close()
		return nil, errPeersClosed
	}
	_ = conn.SetDeadline(deadline)
	who, err := greet(conn, kind, p.cfg.Self(), func(who identity) error { return p.admitAt(addr, who) })
	if err != nil {
		p.failedHello(addr, err)
		p.untrack(conn, false)
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	p.note(conn, openConn{id: who.ID})
	return conn, nil
}

// admitAt judges the node that answers at an address.
func (p *peers) admitAt(addr string, who identity) error {
	if p.cfg.Expect != nil {
		if id := p.cfg.Expect(addr); id != "" && id != who.ID {
			return fmt.Errorf("node %s answers at %s, which is the address of node %s", who.ID, addr, id)
		}
	}
	return p.handler.admit(who)
}

func (p *peers) failedHello(addr string, err error) {
	var refused *refusedError
	if errors.As(err, &refused) {
		p.handler.refused(refused.By, errors.New(refused.Text))
		return
	}
	level, what := slog.LevelDebug, "peer connection failed"
	host, _, _ := net.SplitHostPort(addr)
	var refuses *unwelcome
	switch {
	case errors.As(err, &refuses):
		if what = "a peer is refused"; p.warned.due(host + err.Error()) {
			level = slog.LevelWarn
		}
	case errors.Is(err, errHello) && p.warned.due(host):
		level = slog.LevelWarn // a wrong address, or a client on the wrong port
	}
	p.cfg.Log.Log(context.Background(), level, what, "peer", addr, "error", err)
}

// sleep waits for d; false if the network closes.
func (p *peers) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.stop:
		return false
	}
}
