package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// Limits and times of the peer network.
const (
	dialTimeoutDefault = 700 * time.Millisecond // dial, proofs and hello; short, so that a peer that swallows packets is noticed
	heartbeatDefault   = 500 * time.Millisecond
	helloWaitMax       = 2 * time.Second // a stranger that connects and says nothing
	servedConnsMax     = 1024            // incoming connections of all kinds, once they are admitted
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
	Secret      []byte          // of the cluster; nil: peers are believed without a proof
	Ready       <-chan struct{} // closed when the handler can judge who connects; nil: it can at once
	DialTimeout time.Duration   // for the dial, the proofs and the hello; 0: the default
	Heartbeat   time.Duration   // a peer that is silent for about two of them is given up; 0: the default
	Log         *slog.Logger    // nil: none
}

// peerHandler is the node behind a peer network. Its methods are called
// concurrently, and none may block.
type peerHandler interface {
	// admit judges the other side of a new connection, on both sides. Its error
	// refuses the connection; the other side is told the text. kind is what it has
	// connected for, 0 if this node has dialled.
	admit(who identity, kind helloKind) error
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
	secret  *peerSecret // nil: there is none
	handler peerHandler
	ln      net.Listener
	raftIn  *raftStreams

	stop    chan struct{} // closed by close
	warned  rarely
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	links    map[string]*link      // by address
	conns    map[net.Conn]openConn // every open connection
	unproven []net.Conn            // incoming ones among them whose hello is not over, oldest first
	served   int                   // the other incoming ones
}

// openConn is what is known about an open connection.
type openConn struct {
	id     string // of the node at its other end, once it has been admitted
	served bool   // calls of that node are answered on it
}

var errPeersFull = fmt.Errorf("it has %d incoming connections", servedConnsMax)

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
	secret, err := newPeerSecret(cfg.Secret)
	if err != nil {
		return nil, err
	}
	ln, err := cfg.Network.Listen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	p := &peers{
		cfg: cfg, secret: secret, handler: handler, ln: ln,
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
	size := req.Size()
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
// refuses when the network is closed. Where too many have connected and not been
// admitted, the one that has had the longest time for it makes room: strangers, however
// many, must not keep out the peers.
func (p *peers) track(conn net.Conn, incoming bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = openConn{}
	if !incoming {
		return true
	}
	if len(p.unproven) >= UnprovenConnsMax {
		_ = p.unproven[0].Close()
		p.unproven = p.unproven[1:]
	}
	p.unproven = append(p.unproven, conn)
	return true
}

// note keeps who is at the other end of a connection that this node has dialled.
func (p *peers) note(conn net.Conn, c openConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.conns[conn]; open {
		p.conns[conn] = c
	}
}

// keep takes an incoming connection, whose other end has been admitted, from those that
// may have to make room.
func (p *peers) keep(conn net.Conn, c openConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.unproven, conn)
	switch {
	case i < 0 || p.closed:
		return net.ErrClosed
	case p.served >= servedConnsMax:
		return errPeersFull
	}
	p.unproven = slices.Delete(p.unproven, i, i+1)
	p.served++
	p.conns[conn] = c
	return nil
}

func (p *peers) untrack(conn net.Conn, incoming bool) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.conns[conn]; !open {
		return
	}
	c := p.conns[conn]
	delete(p.conns, conn)
	if i := slices.Index(p.unproven, conn); i >= 0 {
		p.unproven = slices.Delete(p.unproven, i, i+1)
	} else if incoming && c.id != "" {
		p.served--
	}
}

// accept takes connections until the network closes. A failure (no file
// descriptors left) is waited out.
func (p *peers) accept() {
	if p.cfg.Ready != nil {
		select {
		case <-p.cfg.Ready:
		case <-p.stop:
			return
		}
	}
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
		conn = p.secret.secure(conn, sideListener)
		if !p.track(conn, true) {
			_ = conn.Close()
			continue
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// serve greets an incoming connection and hands it to whom it is for.
func (p *peers) serve(conn net.Conn) {
	kind, err := p.receive(conn)
	if err != nil {
		addr := conn.RemoteAddr().String()
		host, _, _ := net.SplitHostPort(addr)
		p.failedHello(addr, host, err)
		p.untrack(conn, true)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if kind != helloCalls {
		c := &trackedConn{Conn: conn, p: p, incoming: true}
		if kind == helloRaft { // one message comes, at once; a connection for replication may be idle
			c.patience = peerTimeout
		}
		p.raftIn.deliver(kind, c)
		return
	}
	defer p.untrack(conn, true)
	p.serveCalls(conn)
}

// receive finds out who has connected, and why.
func (p *peers) receive(conn net.Conn) (helloKind, error) {
	self := p.cfg.Self()
	_ = conn.SetDeadline(after(handshakeWaitMax))
	claim, err := p.secret.introduce(conn, self)
	if err != nil {
		return 0, err
	}
	_ = conn.SetDeadline(after(helloWaitMax))
	kind, _, err := welcome(conn, self, func(kind helloKind, who identity) error {
		if err := claim.is(who); err != nil {
			return refusing(err)
		}
		if err := p.handler.admit(who, kind); err != nil {
			return refusing(err)
		}
		return p.keep(conn, openConn{id: who.ID, served: kind == helloCalls})
	})
	return kind, err
}

// dial connects to a peer and greets it.
func (p *peers) dial(addr string, kind helloKind, timeout time.Duration) (net.Conn, error) {
	deadline := after(timeout)
	conn, err := p.cfg.Network.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	conn = p.secret.secure(conn, sideDialler)
	if !p.track(conn, false) {
		_ = conn.Close()
		return nil, errPeersClosed
	}
	_ = conn.SetDeadline(deadline)
	who, err := p.approach(conn, addr, kind)
	if err != nil {
		p.failedHello(addr, addr, err)
		p.untrack(conn, false)
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	p.note(conn, openConn{id: who.ID})
	return conn, nil
}

// approach greets the node at the other end of a connection that was dialled.
func (p *peers) approach(conn net.Conn, addr string, kind helloKind) (identity, error) {
	self := p.cfg.Self()
	claim, err := p.secret.approach(conn, self)
	if err != nil {
		return identity{}, err
	}
	return greet(conn, kind, self, func(who identity) error {
		err := claim.is(who)
		if err == nil {
			err = p.admitAt(addr, who, self.Cluster)
		}
		if err != nil {
			return refusing(err)
		}
		return nil
	})
}

// admitAt judges the node that answers at an address. One that joins is in no cluster
// yet: it must be the one that was added with this address.
func (p *peers) admitAt(addr string, who identity, cluster string) error {
	if p.cfg.Expect != nil {
		id := p.cfg.Expect(addr)
		if id != "" && id != who.ID {
			return fmt.Errorf("node %s answers at %s, which is the address of node %s", who.ID, addr, id)
		}
		if id == "" && who.Cluster == "" && cluster != "" {
			return fmt.Errorf("%w: node %s at %s is in no cluster", errUninvited, who.ID, addr)
		}
	}
	return p.handler.admit(who, 0)
}

// failedHello says why there is no connection. Of one source it warns once in a while: it
// may be a stranger who wants to fill the log.
func (p *peers) failedHello(addr, source string, err error) {
	var refused *refusedError
	var refuses *unwelcome
	level, what := slog.LevelDebug, "peer connection failed"
	if errors.As(err, &refuses) {
		what = "a peer is refused"
	}
	// A node that is not wanted, a wrong address, or a client on the wrong port.
	if (errors.As(err, &refused) || refuses != nil || errors.Is(err, errHello) || errors.Is(err, errUninvited)) && p.warned.due(source) {
		level = slog.LevelWarn
	}
	p.cfg.Log.Log(context.Background(), level, what, "peer", addr, "error", err)
	if refused != nil {
		p.handler.refused(refused.By, errors.New(refused.Text))
	}
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
