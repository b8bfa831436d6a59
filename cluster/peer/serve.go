package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/wake"
	"lockd/resp"
)

const (
	readBufferBytes    = 64 << 10
	writeBufferKeepMax = 1 << 20          // a write buffer that grew larger is not kept
	writeChunkBytes    = 256 << 10        // each chunk has a write deadline of its own
	serveSilenceMax    = 30 * time.Second // the dialler pings; after this silence it counts as lost
	serveStuckMax      = 5 * time.Second  // a peer that does not read its answers counts as lost
	forwardsServedMax  = 1 << 16          // forwards of one connection at a time; more are answered not done
	queriesServedMax   = 1 << 10          // queries of one connection at a time; more are answered not done
	answersQueuedMax   = 1 << 30          // bytes of answers that wait for the peer to read
	byeWaitMax         = time.Second      // for the answers to accepted calls when the network closes
)

// servedCalls is the listener's end of a calls connection. One goroutine reads and serves, another one writes; answers
// that come meanwhile leave in one write.
type servedCalls struct {
	p       *Port
	conn    net.Conn
	taken   uint64        // id of the last call that was read; pings do not count
	serving atomic.Int64  // forwards and queries without an answer yet
	queries atomic.Int64  // queries among them
	settled chan struct{} // capacity 1: serving has dropped to 0

	mu      sync.Mutex
	out     []byte
	leaving bool // the writer ends once out is empty
	broken  bool
	wake    chan struct{}
}

func newServedCalls(p *Port, conn net.Conn) *servedCalls {
	return &servedCalls{p: p, conn: conn, wake: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
}

// run serves a calls connection until it breaks or the network closes.
func (s *servedCalls) run() {
	var writing sync.WaitGroup
	writing.Go(s.write)
	err := s.read()
	s.p.cfg.Log.Debug("peer connection ended", "peer", s.conn.RemoteAddr().String(), "error", err)
	if errors.Is(err, errPeersClosed) {
		s.bye()
	} else {
		s.fail()
	}
	writing.Wait()
}

func (s *servedCalls) read() error {
	r := bufio.NewReaderSize(&deadlineReader{s.conn, s.p}, readBufferBytes)
	for {
		if s.p.isClosed() {
			return errPeersClosed
		}
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		if f.kind != framePing {
			s.taken = f.id
		}
		if err := s.serve(f); err != nil {
			return err
		}
	}
}

// bye ends a connection without leaving calls in doubt: the peer learns which ones were never accepted, and gets the
// answers to the others.
func (s *servedCalls) bye() {
	limit := time.AfterFunc(byeWaitMax, s.fail)
	defer limit.Stop()
	s.send(frameBye, s.taken, nil, nil)
	for s.serving.Load() > 0 && !s.isBroken() {
		<-s.settled
	}
	s.mu.Lock()
	s.leaving = true
	wake.Signal(s.wake)
	s.mu.Unlock()
}

func (s *servedCalls) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *servedCalls) serve(f frame) error {
	switch f.kind {
	case frameForward:
		return s.forward(f)
	case frameQuery:
		return s.query(f)
	case frameAsk:
		shown, err := askBody(f.body)
		if err != nil {
			return err
		}
		s.send(frameStatus, f.id, nil, appendStatus(nil, s.p.handler.Status(shown)))
	case framePing:
		s.send(framePong, f.id, nil, nil)
	case frameSuspicion:
		return s.suspicion(f)
	default:
		return ErrFrame
	}
	return nil
}

func (s *servedCalls) forward(f frame) error {
	call, err := forwardBody(f.body)
	if err != nil {
		return err
	}
	if s.serving.Add(1) > forwardsServedMax {
		s.answer(f.id, Answer{Outcome: NotDone})
		return nil
	}
	id := f.id
	s.p.handler.Forward(call, func(a Answer) { s.answer(id, a) })
	return nil
}

func (s *servedCalls) suspicion(f frame) error {
	q, err := decodeSuspicion(f.body)
	if err != nil {
		return err
	}
	id := f.id
	s.serving.Add(1)
	s.p.handler.Suspected(q, func(found Report) {
		s.send(frameReport, id, nil, appendReport(nil, found))
		s.served()
	})
	return nil
}

func (s *servedCalls) query(f frame) error {
	q, err := queryBody(f.body)
	if err != nil {
		return err
	}
	s.serving.Add(1)
	if s.queries.Add(1) > queriesServedMax || s.p.handler.Query == nil {
		s.queries.Add(-1)
		s.answer(f.id, Answer{Outcome: NotDone})
		return nil
	}
	id := f.id
	s.p.handler.Query(q, func(r resp.Reply) {
		s.queries.Add(-1)
		s.answer(id, Answer{Result: resp.Result{Replies: []resp.Reply{r}}})
	})
	return nil
}

// served counts an answer that was queued.
func (s *servedCalls) served() {
	if s.serving.Add(-1) == 0 {
		wake.Signal(s.settled)
	}
}

func (s *servedCalls) answer(id uint64, a Answer) {
	defer s.served()
	if a.Outcome != Done {
		s.send(frameAnswer, id, []byte{byte(a.Outcome)}, nil)
		return
	}
	body := resp.AppendResult(nil, a.Result)
	if len(body) > answerBytesMax {
		s.send(frameAnswer, id, []byte{byte(Unknown)}, nil)
		return
	}
	head := binary.AppendUvarint([]byte{byte(Done)}, a.Result.Index)
	took := min(max(0, a.Result.TookNs), int64(forwardWaitMax))
	s.send(frameAnswer, id, binary.AppendUvarint(head, uint64(took/1000)), body)
}

// send queues a frame. It never blocks.
func (s *servedCalls) send(kind frameKind, id uint64, head, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	if len(s.out)+len(body) > answersQueuedMax {
		s.broken = true
		_ = s.conn.Close()
		return
	}
	s.out = appendFrame(s.out, kind, id, head, body)
	wake.Signal(s.wake)
}

func (s *servedCalls) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	_ = s.conn.Close()
	wake.Signal(s.wake)
	wake.Signal(s.settled)
}

func (s *servedCalls) write() {
	var spare []byte
	for range s.wake {
		s.mu.Lock()
		out, last := s.out, s.leaving && len(s.out) == 0 || s.broken
		s.out = spare
		if s.leaving {
			wake.Signal(s.wake) // look again after this write
		}
		s.mu.Unlock()
		if last {
			return
		}
		if _, err := writeChunks(s.conn, out, serveStuckMax); err != nil {
			s.fail()
			return
		}
		spare = nil
		if cap(out) <= writeBufferKeepMax {
			spare = out[:0]
		}
	}
}

// writeChunks writes b; each chunk must be accepted within stuckMax. It returns the number of bytes that the kernel has
// accepted.
func writeChunks(conn net.Conn, b []byte, stuckMax time.Duration) (int, error) {
	done := 0
	for done < len(b) {
		_ = conn.SetWriteDeadline(after(stuckMax))
		n, err := conn.Write(b[done:min(len(b), done+writeChunkBytes)])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// deadlineReader ends a connection that is silent for too long, or when the network closes: Port.Close moves the
// deadline into the past after closing stop, so that one of the two is seen.
type deadlineReader struct {
	net.Conn
	p *Port
}

func (r *deadlineReader) Read(b []byte) (int, error) {
	_ = r.SetReadDeadline(after(serveSilenceMax))
	if r.p.isClosed() {
		return 0, errPeersClosed
	}
	n, err := r.Conn.Read(b)
	if err != nil && r.p.isClosed() {
		err = errPeersClosed
	}
	return n, err
}

// appendWait appends the time that the sender of a forward waits, in milliseconds.
func appendWait(dst []byte, deadline time.Time) []byte {
	if deadline.IsZero() {
		return binary.AppendUvarint(dst, 0)
	}
	ms := time.Until(deadline).Milliseconds()
	return binary.AppendUvarint(dst, uint64(min(max(ms, 1), int64(forwardWaitMax/time.Millisecond))))
}
