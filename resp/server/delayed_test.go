package server

import "testing"

// While a session is answered, what its answer makes others hear waits until it has its replies; what it hears itself
// stands behind those, and nothing comes twice.
func TestPushesToOthersWaitForTheReplies(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("PING\r\n")
	c.want("+PONG\r\n")
	h, other, answered := srv.Hub(), srv.clients()[0], &session{}
	h.mu.Lock()
	h.answering = answered
	for _, text := range []string{"+one\r\n", "+two\r\n"} {
		h.push(other, []byte(text))
		h.push(answered, []byte(text))
	}
	if len(h.delayed) != 2 || string(answered.pending) != "+one\r\n+two\r\n" {
		t.Errorf("%d wait, and %q stands behind the replies", len(h.delayed), answered.pending)
	}
	h.endAnswer()
	h.endAnswer()
	h.push(other, []byte("+three\r\n"))
	waiting := len(h.delayed)
	h.mu.Unlock()
	c.want("+one\r\n+two\r\n+three\r\n")
	if waiting != 0 {
		t.Errorf("%d wait where nobody is answered", waiting)
	}
}

// A push to a client that has left its channels stands behind what was on its way to it when it left: one that goes past
// that would tell it of things in another order than they came about. One that was disconnected is pushed nothing.
func TestPushesBehindWhatIsOnItsWay(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c, sub := dial(t, addr), dial(t, addr)
	c.send("PING\r\n")
	c.want("+PONG\r\n")
	h, s := srv.Hub(), srv.clients()[0]
	if s.addr != c.conn.LocalAddr().String() {
		s = srv.clients()[1]
	}
	sub.send("SUBSCRIBE c\r\n")
	sub.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	push := func(text string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.push(s, []byte(text))
	}
	d := shut(h)
	h.mu.Lock()
	h.enter(s)
	h.push(s, []byte("+one\r\n"))
	h.leave(s)
	h.mu.Unlock()
	push("+two\r\n")
	close(d)
	c.want("+one\r\n+two\r\n")
	h.queue.wait()
	push("+three\r\n")
	c.want("+three\r\n")
	gone := &session{dropped: true}
	h.mu.Lock()
	h.answering = gone
	h.push(gone, []byte("+four\r\n"))
	h.endAnswer()
	h.mu.Unlock()
	if string(gone.pending) != "" {
		t.Errorf("%q is pushed to a client that was disconnected", gone.pending)
	}
}
