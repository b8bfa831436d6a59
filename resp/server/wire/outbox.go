package wire

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// PushLimit is client-output-buffer-limit pubsub: how many bytes may wait for a subscriber; more than Soft only for
// SoftSeconds. 0: no limit.
type PushLimit struct{ Hard, Soft, SoftSeconds int }

// Outbox is the only way to a connection's socket. At first the session itself writes. From the client's first
// subscription on, or when the client has stopped reading, or when another session pushes to it (CLIENT TRACKING
// REDIRECT), everything goes through buf and one writer goroutine, so that a publisher only ever appends.
type Outbox struct {
	conn  net.Conn
	clock func() time.Time

	mu        sync.Mutex
	changed   sync.Cond // buf, writing, closed or dead changed
	buf       []byte    // pending output
	writing   int       // bytes the writer is writing now
	async     bool      // the writer goroutine runs
	direct    bool      // the session is writing by itself
	behind    bool      // a write was interrupted: the connection may hold some of it back (TLS)
	closed    bool      // no more output follows: the writer ends when buf is written
	dead      bool      // nothing more is written
	softSince time.Time // when the soft limit was exceeded

	delays  bool   // pushes wait for a reply
	delayed []byte // pushes that wait for it
}

// NewOutbox returns the outbox of a connection. The clock measures for how long the soft limit is exceeded.
func NewOutbox(conn net.Conn, clock func() time.Time) *Outbox {
	o := &Outbox{conn: conn, clock: clock}
	o.changed.L = &o.mu
	return o
}

// Write sends replies. It returns once they are written, or, with a writer goroutine, once they are appended and no
// more than replyBytesMax bytes wait. It does not keep b. Only the session calls it.
func (o *Outbox) Write(b []byte) error {
	o.mu.Lock()
	async, dead := o.async, o.dead
	o.direct = !async && !dead
	o.mu.Unlock()
	switch {
	case dead:
		return net.ErrClosed
	case async:
		o.Enqueue(b)
		return o.WaitForRoom()
	}
	n, err := o.conn.Write(b)
	interrupted := err != nil && errors.Is(err, os.ErrDeadlineExceeded)
	o.mu.Lock()
	o.direct = false
	if interrupted {
		// The janitor saw the write stand still. A client may send all of a long
		// pipeline before it reads: go on reading, as Redis does.
		o.buf = append(append([]byte(nil), b[n:]...), o.buf...) // before what was pushed meanwhile
		o.behind = true
	}
	if len(o.buf) > 0 || o.behind {
		o.startLocked()
	}
	o.mu.Unlock()
	if err != nil && !interrupted {
		return err
	}
	return o.WaitForRoom()
}

// Enqueue appends replies without waiting.
func (o *Outbox) Enqueue(b []byte) {
	o.mu.Lock()
	o.buf = append(o.buf, b...)
	o.changed.Broadcast()
	o.mu.Unlock()
}

// WaitForRoom returns once no more than replyBytesMax bytes wait, or with net.ErrClosed when nothing more is written.
func (o *Outbox) WaitForRoom() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.dead && len(o.buf)+o.writing > replyBytesMax {
		o.changed.Wait()
	}
	if o.dead {
		return net.ErrClosed
	}
	return nil
}

// Push appends a message and never waits. It returns false when the client is too slow: more bytes wait than lim
// allows.
func (o *Outbox) Push(b []byte, lim PushLimit) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead || o.closed {
		return true
	}
	if o.delays {
		o.delayed = append(o.delayed, b...)
	} else {
		o.appendLocked(b)
	}
	waiting := len(o.buf) + len(o.delayed) + o.writing
	if lim.Hard > 0 && waiting > lim.Hard {
		return false
	}
	if lim.Soft <= 0 || waiting <= lim.Soft {
		o.softSince = time.Time{}
		return true
	}
	now := o.clock()
	if o.softSince.IsZero() {
		o.softSince = now
	}
	return now.Sub(o.softSince) <= time.Duration(lim.SoftSeconds)*time.Second
}

// appendLocked appends output for the writer goroutine. mu is held.
func (o *Outbox) appendLocked(b []byte) {
	o.buf = append(o.buf, b...)
	if !o.direct {
		o.startLocked()
	}
	o.changed.Broadcast()
}

// DelayPushes makes later pushes wait until ResumePushes: a reply goes first.
func (o *Outbox) DelayPushes() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.delays = true
}

// ResumePushes ends DelayPushes: the reply, which may be empty, goes before the pushes since. It never waits.
func (o *Outbox) ResumePushes(reply []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delayed := o.delayed
	o.delays, o.delayed = false, nil
	if o.dead || o.closed || len(reply)+len(delayed) == 0 {
		return
	}
	o.appendLocked(reply)
	o.appendLocked(delayed)
}

// StartWriter hands the socket to a writer goroutine, for good.
func (o *Outbox) StartWriter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.startLocked()
}

// startLocked is StartWriter with mu held. It cancels an interruption of the session's Write, and none follows: the
// only deadline for the writer is that of Finish.
func (o *Outbox) startLocked() {
	if !o.async && !o.dead {
		o.async = true
		o.conn.SetWriteDeadline(time.Time{})
		go o.run()
	}
}

func (o *Outbox) run() {
	var spare []byte
	for {
		o.mu.Lock()
		for len(o.buf) == 0 && !o.behind && !o.closed && !o.dead {
			o.changed.Wait()
		}
		if o.dead || len(o.buf) == 0 && !o.behind {
			o.async = false
			o.changed.Broadcast()
			o.mu.Unlock()
			return
		}
		batch := o.buf // if empty, the write flushes what the connection has kept
		o.buf, o.writing, o.behind = spare[:0], len(batch), false
		o.mu.Unlock()
		_, err := o.conn.Write(batch)
		if spare = batch; cap(spare) > batchBytesKeep {
			spare = nil
		}
		o.mu.Lock()
		o.writing = 0
		o.dead = o.dead || err != nil
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

// Interrupt ends a stalled write of the session.
func (o *Outbox) Interrupt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.async && !o.closed {
		o.conn.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Waiting returns the number of bytes that wait to be written.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) + len(o.delayed) + o.writing
}

// Ends reports whether nothing more will be sent.
func (o *Outbox) Ends() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed || o.dead
}

// Finish waits until everything is written, but not beyond the deadline; then the connection can close in order.
func (o *Outbox) Finish(deadline time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.conn.SetWriteDeadline(deadline)
	o.changed.Broadcast()
	for o.async {
		o.changed.Wait()
	}
}

// Kill drops pending output and closes the socket. It is safe for concurrent use, and may be called twice.
func (o *Outbox) Kill() {
	o.mu.Lock()
	o.dead = true
	o.buf, o.delayed = nil, nil
	o.changed.Broadcast()
	o.mu.Unlock()
	o.conn.Close()
}
