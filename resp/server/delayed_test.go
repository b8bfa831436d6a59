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
