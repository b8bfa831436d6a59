package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// conns is the table of a port's open connections, in both directions. All methods may be called concurrently.
type conns struct {
	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]openConn
	unproven []net.Conn // incoming connections before the end of their hello, oldest first
	served   int        // number of incoming connections after it
}

func newConns() *conns { return &conns{open: map[net.Conn]openConn{}} }

// openConn describes an open connection.
type openConn struct {
	id      string // of the node at its other end, once it has been admitted
	process uint64 // Identity.Process of that node
	served  bool   // it serves calls of that node
	line    *line
}

// line is a connection below TLS. It records that the other side has ended it.
type line struct {
	net.Conn
	ended atomic.Bool
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	return n, l.note(err)
}

func (l *line) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	return n, l.note(err)
}

func (l *line) note(err error) error {
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		l.ended.Store(true)
	}
	return err
}

var errPeersFull = fmt.Errorf("it has %d incoming connections", servedConnsMax)

// close ends all connections: those that serve calls after their bye, all others at once. No later connection is
// tracked.
func (s *conns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for conn, c := range s.open {
		if c.served {
			_ = conn.SetReadDeadline(after(-time.Second)) // it says bye
		} else {
			_ = conn.Close()
		}
	}
}

// count returns the number of open connections with a process of a node.
func (s *conns) count(id string, process uint64) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		if c.id == id && c.process == process {
			n++
		}
	}
	return n
}

// disconnect closes every connection to and from a node.
func (s *conns) disconnect(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, c := range s.open {
		if c.id == id {
			_ = conn.Close()
		}
	}
}

// track records an open connection, so that close and disconnect reach it; false if the network is closed. If too many
// incoming connections have not been admitted, the oldest of them is closed: any number of strangers must not keep the
// peers out.
func (s *conns) track(conn net.Conn, l *line, incoming bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[conn] = openConn{line: l}
	if !incoming {
		return true
	}
	if len(s.unproven) >= UnprovenConnsMax {
		_ = s.unproven[0].Close()
		s.unproven = s.unproven[1:]
	}
	s.unproven = append(s.unproven, conn)
	return true
}

// note records the node at the other end of a dialled connection.
func (s *conns) note(conn net.Conn, who Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, open := s.open[conn]; open {
		c.id, c.process = who.ID, who.Process
		s.open[conn] = c
	}
}

// keep records that the node at the other end of an incoming connection was admitted: the connection is no longer
// closed to make room.
func (s *conns) keep(conn net.Conn, who Identity, kind Kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.unproven, conn)
	switch {
	case i < 0 || s.closed:
		return net.ErrClosed
	case s.served >= servedConnsMax:
		return errPeersFull
	}
	s.unproven = slices.Delete(s.unproven, i, i+1)
	s.served++
	c := s.open[conn]
	c.id, c.process, c.served = who.ID, who.Process, kind == ForCalls
	s.open[conn] = c
	return nil
}

// forget removes a connection. It returns the id of the node at the other end, if that side has ended the connection.
func (s *conns) forget(conn net.Conn, incoming bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, open := s.open[conn]
	if !open {
		return ""
	}
	delete(s.open, conn)
	if i := slices.Index(s.unproven, conn); i >= 0 {
		s.unproven = slices.Delete(s.unproven, i, i+1)
	} else if incoming && c.id != "" {
		s.served--
	}
	if s.closed || !c.line.ended.Load() {
		return ""
	}
	return c.id
}
