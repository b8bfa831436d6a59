package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// closing is a connection whose session ends at the worst moment: between two steps of
// the writer, wherever the outbox's lock allows it.
type closing struct {
	net.Conn
	out    *Outbox
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
			c.out.Finish(time.Now().Add(200 * time.Millisecond))
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
	if at.After(time.Now()) {
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
				c.out = NewOutbox(c, time.Now)
				c.out.Interrupt()
				c.out.Push([]byte("push"), PushLimit{})
				synctest.Wait() // the writer stands in its write, or has ended
				c.finish()
				var got []byte
				if tt.reads {
					go func() {
						<-c.done
						c.out.Kill()
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
				c.out.Kill()
				theirs.Close()
			})
		})
	}
}

// A subscriber over the soft limit has a while to catch up.
func TestSoftLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	o := NewOutbox(a, func() time.Time { return now })
	lim := PushLimit{Soft: 10, SoftSeconds: 5}
	if !o.Push(make([]byte, 20), lim) {
		t.Fatal("dropped at once")
	}
	now = now.Add(5 * time.Second)
	if !o.Push(nil, lim) {
		t.Fatal("dropped too early")
	}
	now = now.Add(time.Second)
	if o.Push(nil, lim) {
		t.Fatal("not dropped")
	}
}

// A push for a connection that writes by itself, and stands in that write, goes out
// behind all of it.
func TestPushIntoADirectWrite(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	o := NewOutbox(ours, time.Now)
	reply := strings.Repeat("x", 1000)
	written := make(chan error, 1)
	go func() { written <- o.Write([]byte(reply)) }()
	for writes := false; !writes; runtime.Gosched() {
		o.mu.Lock()
		writes = o.direct
		o.mu.Unlock()
	}
	o.Push([]byte("push"), PushLimit{})
	got := make([]byte, len(reply)+len("push"))
	theirs.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := io.ReadFull(theirs, got[:10])
	o.Interrupt()
	if werr := <-written; werr != nil || err != nil {
		t.Fatal(n, err, werr)
	}
	if _, err := io.ReadFull(theirs, got[10:]); err != nil || string(got) != reply+"push" {
		t.Errorf("%v: %q", err, got)
	}
	o.Push([]byte("more"), PushLimit{})
	if n, err := io.ReadFull(theirs, got[:4]); err != nil || string(got[:4]) != "more" {
		t.Errorf("%v: %q", err, got[:n])
	}
	o.Kill()
}

// What is pushed while a reply is awaited comes behind it, counts against the limit, and flows again without one.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		out := NewOutbox(ours, time.Now)
		heard := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(theirs)
			heard <- string(all)
		}()
		out.Push([]byte("before "), PushLimit{})
		out.DelayPushes()
		out.Push([]byte("a "), PushLimit{})
		synctest.Wait()
		if ok := out.Push([]byte("b "), PushLimit{Hard: 3}); ok || out.Waiting() != 4 {
			t.Errorf("4 bytes wait, more than the limit: %v, %d", ok, out.Waiting())
		}
		out.ResumePushes([]byte("reply "))
		out.Push([]byte("c "), PushLimit{})
		out.DelayPushes()
		out.Push([]byte("d "), PushLimit{})
		out.ResumePushes(nil)
		out.Finish(time.Now().Add(time.Second))
		ours.Close()
		if got := <-heard; got != "before reply a b c d " {
			t.Errorf("heard %q", got)
		}
	})
}
