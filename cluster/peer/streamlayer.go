package peer

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftQueueMax bounds the greeted connections that Raft has not accepted yet.
const raftQueueMax = 16

// Streams is the raft.StreamLayer on the peer port: Accept returns incoming connections of Raft, and a connection that
// Raft dials begins with a hello. Connections for replication have AcceptLog and DialLog.
type Streams struct {
	p        *Port
	incoming chan net.Conn
	logs     chan net.Conn
	stop     chan struct{}
	stopOnce sync.Once
}

func newStreams(p *Port) *Streams {
	return &Streams{
		p:        p,
		incoming: make(chan net.Conn, raftQueueMax),
		logs:     make(chan net.Conn, raftQueueMax),
		stop:     make(chan struct{}),
	}
}

// deliver hands a greeted connection to Accept or AcceptLog; it never blocks for long.
func (s *Streams) deliver(kind Kind, conn net.Conn) {
	to := s.incoming
	if kind == ForLog {
		to = s.logs
	}
	t := time.NewTimer(helloWaitMax)
	defer t.Stop()
	select {
	case to <- conn:
		return
	case <-s.stop:
	case <-s.p.stop:
	case <-t.C: // Raft has not started, or has stopped
	}
	_ = conn.Close()
}

// Accept implements net.Listener. It fails only after Raft's transport has closed it: while the transport runs, it
// would log an error and try again.
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case conn := <-s.incoming:
		return conn, nil
	case <-s.stop:
		return nil, net.ErrClosed
	}
}

// AcceptLog waits for a connection on which a leader replicates, until stop, the streams or the network is closed: the
// error is then net.ErrClosed.
func (s *Streams) AcceptLog(stop <-chan struct{}) (net.Conn, error) {
	select {
	case conn := <-s.logs:
		return conn, nil
	case <-stop:
	case <-s.stop:
	case <-s.p.stop:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *Streams) Close() error {
	s.stopOnce.Do(func() { close(s.stop) })
	return nil
}

// Addr returns the address that Raft puts into its messages: the advertised one.
func (s *Streams) Addr() net.Addr { return namedAddr(s.p.cfg.Self().PeerAddr) }

// Dial implements raft.StreamLayer.
func (s *Streams) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.dialFor(ForRaft, addr, timeout)
}

// DialLog connects to a node to which this leader replicates. The timeout is bounded by the time in which a lost peer
// is noticed.
func (s *Streams) DialLog(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.dialFor(ForLog, addr, timeout)
}

func (s *Streams) dialFor(kind Kind, addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 || timeout > dialWaitMax {
		timeout = dialWaitMax
	}
	conn, _, err := s.p.dial(string(addr), kind, timeout)
	if err != nil {
		return nil, err
	}
	return &trackedConn{Conn: conn, p: s.p}, nil
}

// trackedConn is a connection used by Raft. Its Close removes it from the port's table.
type trackedConn struct {
	net.Conn
	p        *Port
	incoming bool
	patience time.Duration // bounds a Read; 0: no bound
	broken   error         // the error of a Read that timed out; Raft reads again
}

// Read implements net.Conn. Raft's main goroutine reads a leader's snapshot, and neither votes nor stands for election
// meanwhile: a leader that has vanished must not block it.
func (c *trackedConn) Read(b []byte) (int, error) {
	if c.patience == 0 {
		return c.Conn.Read(b)
	}
	if c.broken != nil {
		return 0, c.broken
	}
	if c.broken = c.SetReadDeadline(after(c.patience)); c.broken != nil {
		return 0, c.broken
	}
	n, err := c.Conn.Read(b)
	c.broken = err
	return n, err
}

func (c *trackedConn) Close() error {
	c.p.untrack(c.Conn, c.incoming)
	return nil
}

// namedAddr is a net.Addr with the name as it was written.
type namedAddr string

func (a namedAddr) Network() string { return "tcp" }
func (a namedAddr) String() string  { return string(a) }
