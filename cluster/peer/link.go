package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/wake"
)

const (
	redialPauseMin = 10 * time.Millisecond
	redialPauseMax = 250 * time.Millisecond
	linkIdleMax    = time.Minute // after it an idle connection is closed; the next call opens another one
	queuedBytesMax = 256 << 20   // bytes of calls that have not been sent
	silentTicksMax = 4           // half heartbeats without a byte from the peer
)

// CallsPendingMax bounds the calls to one peer that are not sent or not answered.
const CallsPendingMax = 1 << 16

var (
	errLinkFull = errors.New("too much is waiting for this peer")
	errBroken   = errors.New("the connection to the peer broke")
)

// call is one question to a peer.
type call struct {
	kind     frameKind
	body     []byte
	deadline time.Time // zero: none
	done     chan callAnswer

	// Guarded by the link's lock.
	id    uint64
	state callState
	end   int // offset of the end of its frame in the write that carries it
}

type callState uint8

const (
	callQueued   callState = iota // no byte of it was sent
	callWritten                   // it is being written or was written
	callFinished                  // done has its answer, or the caller has gone
)

type callAnswer struct {
	Answer
	status Status
	report Report
	err    error // nil: there is an answer
}

// ended returns the answer of a call that gets none from the peer.
func ended(o Outcome, err error) callAnswer { return callAnswer{Answer: Answer{Outcome: o}, err: err} }

func newCall(kind frameKind, body []byte) *call {
	return &call{kind: kind, body: body, done: make(chan callAnswer, 1)}
}

// call sends c to the node at addr and waits for its answer.
func (p *Port) call(ctx context.Context, addr string, c *call) callAnswer {
	if err := ctx.Err(); err != nil {
		return ended(NotDone, err)
	}
	l, err := p.enqueue(addr, c)
	if err != nil {
		return ended(NotDone, err)
	}
	select {
	case a := <-c.done:
		return a
	case <-ctx.Done():
		return l.abandon(c, ctx.Err())
	}
}

// enqueue puts c into the queue of the link to addr, and starts the link if necessary.
func (p *Port) enqueue(addr string, c *call) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPeersClosed
	}
	l := p.links[addr]
	if l == nil {
		l = &link{p: p, addr: addr, wake: make(chan struct{}, 1), sent: map[uint64]*call{}}
		p.links[addr] = l
		p.running.Go(l.run)
	}
	return l, l.add(c)
}

// Broken reports whether the calls connection to addr has ended, or could not be made, and was not made again since. It
// shows the death of a process at once, long before the silence does; after linkIdleMax without a call it reports
// false.
func (p *Port) Broken(addr string) bool {
	l := p.linkTo(addr)
	return l != nil && l.broken.Load()
}

// Trouble returns the error of the last dial to addr; nil if it succeeded, or if there was no call lately.
func (p *Port) Trouble(addr string) error {
	l := p.linkTo(addr)
	if l == nil || l.trouble.Load() == nil {
		return nil
	}
	return *l.trouble.Load()
}

// linkTo returns the link to addr; nil if there was no call lately.
func (p *Port) linkTo(addr string) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[addr]
}

// link is the dialler's end of the one calls connection to an address. It dials when there is a call to send, and again
// after the connection broke.
type link struct {
	p       *Port
	addr    string
	wake    chan struct{}
	trouble atomic.Pointer[error] // the error of the last dial; nil: it succeeded
	broken  atomic.Bool           // the connection ended, or could not be made, and no other was made since

	// Locked inside Port.mu if both are held.
	mu          sync.Mutex
	queue       []*call // includes abandoned calls
	queuedBytes int
	sent        map[uint64]*call
	lastID      uint64
	bye         bool // this connection takes no more calls
}

func (l *link) add(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+len(l.sent) >= CallsPendingMax || l.queuedBytes+len(c.body) > queuedBytesMax {
		return errLinkFull
	}
	l.queue = append(l.queue, c)
	l.queuedBytes += len(c.body)
	wake.Signal(l.wake)
	return nil
}

// abandon ends a call whose caller stops waiting. A call that was not sent is withdrawn: it is certainly not done.
func (l *link) abandon(c *call, why error) callAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := c.state
	c.state = callFinished
	switch state {
	case callQueued:
		l.queuedBytes -= len(c.body)
		c.body = nil
		return ended(NotDone, why)
	case callWritten:
		delete(l.sent, c.id)
		return ended(Unknown, why)
	}
	return <-c.done // the answer came at the same moment
}

// finish delivers the answer of a call. The link's lock is held.
func (l *link) finish(c *call, a callAnswer) {
	if c.state == callFinished {
		return
	}
	c.state = callFinished
	c.done <- a
}

// run is the link's goroutine: it dials when there is a call, uses the connection until that breaks, and pauses after a
// failure.
func (l *link) run() {
	defer l.failQueued(errPeersClosed)
	pause := redialPauseMin
	for l.awaitWork() {
		conn, _, err := l.p.dial(l.addr, ForCalls, dialWaitMax)
		l.broken.Store(err != nil)
		l.trouble.Store(nil)
		if err != nil {
			l.trouble.Store(&err)
			l.failQueued(err)
		} else if l.talk(conn) {
			pause = redialPauseMin
			continue
		}
		if !wake.Pause(pause, l.p.stop) {
			return
		}
		pause = min(2*pause, redialPauseMax)
	}
}

// awaitWork waits until a call is queued; false if the network closes, or if the link was idle for linkIdleMax.
func (l *link) awaitWork() bool {
	idle := time.NewTimer(linkIdleMax)
	defer idle.Stop()
	for {
		if l.hasQueued() {
			return !l.p.isClosed()
		}
		select {
		case <-l.wake:
		case <-l.p.stop:
			return false
		case <-idle.C:
			return !l.retire()
		}
	}
}

// retire removes an idle link from the network; false if a call came meanwhile.
func (l *link) retire() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.hasQueued() {
		return false
	}
	delete(l.p.links, l.addr)
	return true
}

func (l *link) hasQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.queue[0].state == callFinished {
		l.queue = l.queue[1:]
	}
	return len(l.queue) > 0
}

func (p *Port) isClosed() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// failQueued ends the calls that were not sent: they are not done.
func (l *link) failQueued(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.queue {
		l.finish(c, ended(NotDone, fmt.Errorf("peer %s: %w", l.addr, err)))
	}
	l.queue, l.queuedBytes = nil, 0
}

// failSent ends the calls that were sent and not answered: their outcome is unknown.
func (l *link) failSent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, c := range l.sent {
		delete(l.sent, id)
		l.finish(c, ended(Unknown, fmt.Errorf("peer %s: %w", l.addr, errBroken)))
	}
}

// talk uses a connection until it breaks, falls silent or is idle for linkIdleMax. It reports whether the peer sent
// anything.
func (l *link) talk(conn net.Conn) bool {
	l.mu.Lock()
	l.bye = false
	l.mu.Unlock()
	heard := &countingReader{r: conn}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := l.readAnswers(heard)
		l.broken.Store(true)
		l.p.cfg.Log.Debug("peer connection ended", "peer", l.addr, "error", err)
		_ = conn.Close()
	}()
	l.writeCalls(conn, heard, ended)
	l.p.untrack(conn, false)
	<-ended
	l.failSent()
	return heard.bytes.Load() > 0
}

func (l *link) writeCalls(conn net.Conn, heard *countingReader, ended chan struct{}) {
	tick := time.NewTicker(l.p.cfg.Heartbeat / 2)
	defer tick.Stop()
	wake.Signal(l.wake) // awaitWork may have taken the signal of the call it dialled for
	var buf []byte
	var known int64 // bytes received at the last tick
	silent, idle := 0, time.Duration(0)
	for {
		var ping bool
		select {
		case <-ended:
			return
		case <-l.p.stop:
			return
		case <-l.wake:
			idle = 0
		case <-tick.C:
			now := heard.bytes.Load()
			if now == known {
				silent++
			} else {
				silent, known = 0, now
			}
			idle += l.p.cfg.Heartbeat / 2
			if silent > silentTicksMax || idle > linkIdleMax && l.isIdle() {
				return
			}
			ping = true
		}
		batch, out, over := l.take(buf[:0], ping)
		if over {
			return
		}
		n, err := writeChunks(conn, out, 2*l.p.cfg.Heartbeat)
		if err != nil {
			l.unsend(batch, n)
			return
		}
		if buf = out; cap(buf) > writeBufferKeepMax {
			buf = nil
		}
	}
}

func (l *link) isIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)+len(l.sent) == 0
}

// take moves all queued calls into one write. over: the peer accepts no more calls and has answered those that it
// accepted.
func (l *link) take(dst []byte, ping bool) (batch []*call, out []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bye {
		return nil, dst, len(l.sent) == 0
	}
	batch = l.queue[:0]
	for _, c := range l.queue {
		if c.state != callQueued {
			continue
		}
		l.lastID++
		c.id, c.state = l.lastID, callWritten
		l.sent[c.id] = c
		var head []byte
		if c.kind == frameForward || c.kind == frameQuery {
			head = appendWait(nil, c.deadline)
		}
		dst = appendFrame(dst, c.kind, c.id, head, c.body)
		c.end, c.body = len(dst), nil
		batch = append(batch, c)
	}
	l.queue, l.queuedBytes = nil, 0
	if ping {
		dst = appendFrame(dst, framePing, 0, nil, nil)
	}
	return batch, dst, false
}

// unsend ends the calls of a write of which only n bytes were sent: a peer executes whole frames only, so the rest is
// certainly not done.
func (l *link) unsend(batch []*call, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range batch {
		if c.end > n && c.state == callWritten {
			delete(l.sent, c.id)
			l.finish(c, ended(NotDone, fmt.Errorf("peer %s: %w", l.addr, errBroken)))
		}
	}
}

// readAnswers delivers answers to their calls until the connection ends.
func (l *link) readAnswers(conn *countingReader) error {
	r := bufio.NewReaderSize(conn, readBufferBytes)
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		var a callAnswer
		switch f.kind {
		case frameAnswer:
			a.Answer, err = answerBody(f.body)
		case frameStatus:
			a.status, err = decodeStatus(f.body)
		case frameReport:
			a.report, err = decodeReport(f.body)
		case framePong:
			continue
		case frameBye:
			l.peerLeaves(f.id)
			continue
		default:
			err = ErrFrame
		}
		if err != nil {
			return err
		}
		if err := l.answered(f, a); err != nil {
			return err
		}
	}
}

// peerLeaves ends the calls that the peer has not accepted: they are not done. Later calls wait for another connection.
func (l *link) peerLeaves(taken uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bye = true
	for id, c := range l.sent {
		if id > taken {
			delete(l.sent, id)
			l.finish(c, ended(NotDone, fmt.Errorf("peer %s: %w", l.addr, errPeersClosed)))
		}
	}
	wake.Signal(l.wake)
}

func (l *link) answered(f frame, a callAnswer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.sent[f.id]
	if c == nil {
		return nil // abandoned
	}
	if f.kind != c.kind.answers() {
		return fmt.Errorf("%w: answer of kind %d to a call of kind %d", ErrFrame, f.kind, c.kind)
	}
	delete(l.sent, f.id)
	l.finish(c, a)
	if l.bye {
		wake.Signal(l.wake)
	}
	return nil
}

// countingReader counts received bytes: any byte is a sign of life.
type countingReader struct {
	r     net.Conn
	bytes atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}
