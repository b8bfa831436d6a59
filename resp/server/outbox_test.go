package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// closing is a connection whose session ends at the worst moment: between two steps of
// the writer, wherever the outbox's lock allows it.
type closing struct {
	net.Conn
	out    *outbox
	once   sync.Once
	begun  chan struct{} // finish has set its deadline
	done   chan struct{} // finish has returned
	onFail bool          // the moment is when a write has met a deadline
	onLift bool          // ... when a deadline is about to be lifted
}

// finish begins to close the connection, once.
func (c *closing) finish() {
	c.once.Do(func() {
		go func() {
			c.out.finish(wallClock().Add(lingerMax))
			close(c.done)
		}()
		<-c.begun
	})
}

func (c *closing) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.onFail && errors.Is(err, os.ErrDeadlineExceeded) {
		c.finish()
	}
	return n, err
}

func (c *closing) SetWriteDeadline(at time.Time) error {
	if c.onLift && at.IsZero() && c.out.mu.TryLock() {
		c.out.mu.Unlock()
		c.finish()
	}
	err := c.Conn.SetWriteDeadline(at)
	if at.After(wallClock()) {
		close(c.begun)
	}
	return err
}

// The janitor's interruption comes just after the write that it was meant for; then
// something is pushed, and the session ends. What was pushed is written, and who does
// not read it holds nothing up.
func TestFinishAfterLateInterrupt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*closing)
		reads  bool
	}{
		{"as a write fails, and the client reads", func(c *closing) { c.onFail = true }, true},
		{"as the deadline is lifted, and the client does not read", func(c *closing) { c.onLift = true }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				c := &closing{Conn: ours, begun: make(chan struct{}), done: make(chan struct{})}
				tt.change(c)
				c.out = newOutbox(c, wallClock)
				c.out.interrupt()
				c.out.push([]byte("push"), pushLimit{})
				synctest.Wait() // the writer stands in its write, or has ended
				c.finish()
				var got []byte
				if tt.reads {
					go func() {
						<-c.done
						c.out.kill()
					}()
					got, _ = io.ReadAll(theirs)
				}
				if tt.reads && string(got) != "push" {
					t.Errorf("the client got %q", got)
				}
				select {
				case <-c.done:
				case <-time.After(time.Minute):
					t.Error("the session has not ended after a minute")
				}
				c.out.kill()
				theirs.Close()
			})
		})
	}
}
