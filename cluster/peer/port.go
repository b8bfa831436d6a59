package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"lockd/cluster/wake"
	"lockd/resp"
)

// HeartbeatDefault is Config.Heartbeat if that is 0.
const HeartbeatDefault = 500 * time.Millisecond

// Limits and times of the peer network.
const (
	dialWaitMax    = 700 * time.Millisecond // dial, proofs and hello; a peer that swallows packets is to be noticed
	helloWaitMax   = 2 * time.Second        // a stranger that connects and says nothing
	servedConnsMax = 1024                   // incoming connections of all kinds, once they are admitted
	acceptPauseMax = time.Second
)

// Config configures a Port.
type Config struct {
	Network Network
	Listen  string          // address to listen on, host:port
	Self    func() Identity // asked at each hello; called concurrently
	// Expect returns the id of the node that must answer at an address; "": any. nil: any node at every address. Raft
	// counts votes and acknowledgements by address: those of another node that has taken over the address must not
	// count for the member.
	Expect    func(addr string) (id string)
	Secrets   [][]byte        // of the cluster: this node proves itself by the first, and accepts any; see Certificates
	Certs     *Certificates   // of an operator; without these and Secrets, peers need no proof
	Ready     <-chan struct{} // closed when the handler can admit nodes; nil: at once
	Heartbeat time.Duration   // after two of them without a byte a peer counts as lost; 0: the default
	// Patience bounds a Read of an incoming connection for Raft's own messages; 0: no bound.
	Patience time.Duration
	Log      *slog.Logger // nil: none

	// AddrOf returns the present address of the node known at an address; "": that address. nil: every node is at its
	// address.
	AddrOf func(addr string) string
}

// Handler serves the calls of other nodes. All of its functions but Query are required; they are called concurrently,
// and must not block.
type Handler struct {
	// Admit decides on the other side of a new connection, on both sides. Its error refuses the connection; the other
	// side receives the text. kind is the purpose of an incoming connection, 0 if this node has dialled.
	Admit func(who Identity, kind Kind) error
	// Forward runs a request of another node's client. respond is called exactly once, from any goroutine, if possible
	// before f.Until: the sender waits no longer.
	Forward func(f Forwarded, respond func(Answer))
	// Query answers a question about this node's clients. respond is called exactly once, from any goroutine, if
	// possible before q.Until: the sender waits no longer. nil: this node answers no questions.
	Query func(q Question, respond func(resp.Reply))
	// Status answers a status question that has just arrived. shown is a time of the cluster's wall clock that
	// clients may have been shown by then, in microseconds since 1970; 0: none.
	Status func(shown int64) Status
	// Refused reports that the other side would not have us, and why.
	Refused func(*Refusal)
	// Suspected is asked what this node sees of a process. respond is called exactly once, from any goroutine.
	Suspected func(q Suspicion, respond func(Report))
	// Heard reports that a node has introduced itself, and has proven its identity if there is a secret or a
	// certificate: its process lives. admitted: it was admitted; otherwise it only asked for this node's identity.
	Heard func(who Identity, admitted bool)
	// Ended reports that the other side has ended a connection, rather than this node or a timeout.
	Ended func(id string)
}

// errPeersClosed ends calls to a network that has been closed.
var errPeersClosed = errors.New("the peer network is closed")

// Port is the peer network of a node: one port for Raft's messages, forwarded requests and status questions. All
// methods may be called concurrently.
type Port struct {
	cfg     Config
	secret  *peerSecret // nil: there is none
	handler Handler
	ln      net.Listener
	streams *Streams
	greeter *greeter

	stop    chan struct{} // closed by Close
	running sync.WaitGroup

	conns *conns

	mu     sync.Mutex
	closed bool
	links  map[string]*link // by address
}

// New returns a port that is not open yet: the parts of a node are made with it, and its handler is made of them. Only
// Close may be called before Listen has returned.
func New() *Port {
	return &Port{stop: make(chan struct{}), links: map[string]*link{}, conns: newConns()}
}

// Open is New with Listen.
func Open(cfg Config, handler Handler) (*Port, error) {
	p := New()
	if err := p.Listen(cfg, handler); err != nil {
		return nil, err
	}
	return p, nil
}

// Listen opens the port and serves it. It fails if the address cannot be listened on, or if the node's own identity
// exceeds the limits. It is called once.
func (p *Port) Listen(cfg Config, handler Handler) error {
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = HeartbeatDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Self().Check(); err != nil {
		return err
	}
	secret, err := newPeerSecret(cfg.Secrets, cfg.Certs)
	if err != nil {
		return err
	}
	ln, err := cfg.Network.Listen(cfg.Listen)
	if err != nil {
		return err
	}
	p.cfg, p.secret, p.handler, p.ln = cfg, secret, handler, ln
	p.greeter = &greeter{cfg: cfg, secret: secret, handler: handler, conns: p.conns}
	p.streams = newStreams(p)
	p.running.Go(p.accept)
	return nil
}

// ListenAddr returns the address of the open port (tests listen on port 0).
func (p *Port) ListenAddr() string { return p.ln.Addr().String() }

// SetSecrets replaces the secrets for new connections. It does nothing if the port began with neither a secret nor a
// certificate; without certificates at least one secret must remain.
func (p *Port) SetSecrets(secrets [][]byte) {
	if p.secret != nil && len(secrets) > 0 {
		p.secret.keys.Store(&secrets)
	}
}

// Forward has the node at addr run req, bound by b, and waits for the answer until ctx ends.
func (p *Port) Forward(ctx context.Context, addr string, req resp.Request, b Binding) Answer {
	size := req.Size()
	if size > forwardBytesMax {
		return Answer{Outcome: Done, Result: tooLargeToForward(len(req.Cmds))}
	}
	c := newCall(frameForward, appendForward(make([]byte, 0, size+bindingBytesMax), b, req))
	c.deadline, _ = ctx.Deadline()
	return p.call(ctx, addr, c).Answer
}

func tooLargeToForward(cmds int) resp.Result {
	res := resp.Result{Replies: make([]resp.Reply, cmds)}
	for i := range res.Replies {
		res.Replies[i] = resp.Errf("ERR request is larger than the %d bytes one node forwards to another: nothing "+
			"was executed",
			forwardBytesMax)
	}
	return res
}

// Status asks the node at addr for its status. The question leaves after the call began, so the answer was true at some
// moment since: confirmed reads rest on that. It tells the node that clients may have been shown the time shown of the
// cluster's wall clock, in microseconds since 1970, from 0 (none) to WallMax.
func (p *Port) Status(ctx context.Context, addr string, shown int64) (Status, error) {
	a := p.call(ctx, addr, newCall(frameAsk, appendAsk(shown)))
	return a.status, a.err
}

// Suspect asks the node at addr for its view of a process.
func (p *Port) Suspect(ctx context.Context, addr string, q Suspicion) (Report, error) {
	a := p.call(ctx, addr, newCall(frameSuspicion, appendSuspicion(nil, q)))
	return a.report, a.err
}

// Open returns the number of open connections with a process of a node, dialled by either side.
func (p *Port) Open(id string, process uint64) int { return p.conns.count(id, process) }

// errQuestion refuses a question that is too long.
var errQuestion = fmt.Errorf("a question has more than %d bytes", queryBytesMax)

// Query asks the server of the node at addr about its clients, and waits for the answer until ctx ends. The question
// leaves after the call began. The outcome is Done if there is no error; with an error, NotDone says that the other
// node was certainly not asked.
func (p *Port) Query(ctx context.Context, addr string, question resp.Args) (resp.Reply, Outcome, error) {
	req := resp.Request{Cmds: []resp.Cmd{{Args: question}}}
	if req.Size() > queryBytesMax {
		return resp.Reply{}, NotDone, errQuestion
	}
	c := newCall(frameQuery, resp.AppendRequest(nil, req))
	c.deadline, _ = ctx.Deadline()
	a := p.call(ctx, addr, c)
	if a.err == nil && (a.Outcome != Done || len(a.Result.Replies) != 1) {
		a.err = errNoAnswer
	}
	if a.err != nil {
		return resp.Reply{}, a.Outcome, a.err
	}
	return a.Result.Replies[0], Done, nil
}

// errNoAnswer is the error of a question that the other node does not answer.
var errNoAnswer = errors.New("the node answers no questions, or too many at this moment")

// Identify returns the identity of the node at addr. Neither side admits the other, beyond the secret and certificates.
func (p *Port) Identify(addr string) (Identity, error) { return p.IdentifyWithin(addr, dialWaitMax) }

// IdentifyWithin is Identify with a timeout.
func (p *Port) IdentifyWithin(addr string, timeout time.Duration) (Identity, error) {
	conn, who, err := p.dial(addr, ForIdentity, timeout)
	if err == nil {
		p.untrack(conn, false)
	}
	return who, err
}

// Streams returns the connections of Raft and of replication over the same port. Closing them leaves the rest of the
// network open.
func (p *Port) Streams() *Streams { return p.streams }

// Refused returns the number of connections, in both directions, that this node or the other one refused.
func (p *Port) Refused() int64 { return p.greeter.refused.Load() }

// Disconnect closes every connection to and from a removed node.
func (p *Port) Disconnect(id string) { p.conns.disconnect(id) }

// Close ends the network. Own calls that were not sent are not done, the others unknown. Calls of other nodes that were
// accepted are answered first, within byeWaitMax, and the callers of the others learn that they are not done. It
// returns when all goroutines of the network have ended.
func (p *Port) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.stop)
		if p.ln != nil {
			_ = p.ln.Close()
		}
	}
	p.mu.Unlock()
	p.conns.close()
	p.running.Wait()
}

func (p *Port) untrack(conn net.Conn, incoming bool) {
	_ = conn.Close()
	if id := p.conns.forget(conn, incoming); id != "" {
		p.handler.Ended(id)
	}
}

// accept accepts connections until the network closes. After a failure (no file descriptors left) it pauses.
func (p *Port) accept() {
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
			if !wake.Pause(pause, p.stop) {
				return
			}
			level := slog.LevelDebug
			if _, ok := p.greeter.warned.Allow("accept"); ok {
				level = slog.LevelWarn
			}
			p.cfg.Log.Log(context.Background(), level, "peer port: cannot accept; if there are too many open files, raise "+
				"the limit of the process (ulimit -n)", "error", err)
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = 5 * time.Millisecond
		l := &line{Conn: conn}
		conn = p.secret.secure(l, sideListener)
		if !p.conns.track(conn, l, true) {
			_ = conn.Close()
			continue
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// serve greets an incoming connection, and serves it or hands it to Raft or to replication.
func (p *Port) serve(conn net.Conn) {
	kind, err := p.greeter.receive(conn)
	if err != nil {
		addr := conn.RemoteAddr().String()
		host, _, _ := net.SplitHostPort(addr)
		p.greeter.failed(addr, host, err)
		p.untrack(conn, true)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if kind == ForIdentity {
		p.untrack(conn, true)
		return
	}
	if kind != ForCalls {
		c := &trackedConn{Conn: conn, p: p, incoming: true}
		if kind == ForRaft { // one message comes, at once; a connection for replication may be idle
			c.patience = p.cfg.Patience
		}
		p.streams.deliver(kind, c)
		return
	}
	defer p.untrack(conn, true)
	newServedCalls(p, conn).run()
}

// dial connects to a peer and greets it.
func (p *Port) dial(addr string, kind Kind, timeout time.Duration) (net.Conn, Identity, error) {
	deadline, at := after(timeout), ""
	if p.cfg.AddrOf != nil && kind != ForIdentity {
		at = p.cfg.AddrOf(addr)
	}
	conn, err := p.cfg.Network.Dial(cmp.Or(at, addr), timeout)
	if err != nil {
		return nil, Identity{}, err
	}
	l := &line{Conn: conn}
	conn = p.secret.secure(l, sideDialler)
	if !p.conns.track(conn, l, false) {
		_ = conn.Close()
		return nil, Identity{}, errPeersClosed
	}
	_ = conn.SetDeadline(deadline)
	who, err := p.greeter.approach(conn, addr, kind)
	if err != nil {
		p.greeter.failed(addr, addr, err)
		p.untrack(conn, false)
		return nil, Identity{}, err
	}
	_ = conn.SetDeadline(time.Time{})
	if kind != ForIdentity {
		p.conns.note(conn, who)
	}
	return conn, who, nil
}
