package peertest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// connect connects two nodes, whose messages take a while.
func connect(t *testing.T, delay time.Duration) (n *Network, a, b *conn) {
	t.Helper()
	n = NewNetwork()
	n.SetDelays(func(from, to string) func() time.Duration {
		if from != "a" || to != "b" {
			t.Errorf("asked for the delay from %s to %s", from, to)
		}
		return func() time.Duration { return delay }
	})
	l, err := n.From("b").Listen("b")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	dialled, err := n.From("a").Dial("b", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return n, dialled.(*conn), (<-accepted).(*conn)
}

// Bytes arrive late, in order, and also after their sender has closed its end.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t, time.Millisecond)
		began := time.Now()
		for _, word := range []string{"one ", "two"} {
			if _, err := a.Write([]byte(word)); err != nil {
				t.Fatal(err)
			}
		}
		_ = a.Close()
		text, err := io.ReadAll(b)
		if string(text) != "one two" || err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("%q, %v after %s", text, err, time.Since(began))
		}
	})
}

// A later message does not overtake an earlier one with a longer delay.
func TestDelaysKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t, time.Hour)
		_, _ = a.Write([]byte("one "))
		a.out.delay = func() time.Duration { return 0 }
		time.Sleep(time.Second)
		began := time.Now()
		_, _ = a.Write([]byte("two"))
		_ = a.Close()
		text, err := io.ReadAll(b)
		if string(text) != "one two" || err != nil || time.Since(began) != time.Hour-time.Second {
			t.Errorf("%q, %v after %s", text, err, time.Since(began))
		}
	})
}

// A reader waits until its deadline, and reads on after it. A reset breaks the connection at once.
func TestDeadlineAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t, 0)
		buf := make([]byte, 9)
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		_, _ = a.Write([]byte("late"))
		if n, err := b.Read(buf); n != 4 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		_, _ = a.Write([]byte("lost"))
		_ = a.SetLinger(0)
		_ = a.Close()
		if n, err := b.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a reset: %d bytes, %v", n, err)
		}
		if _, err := b.Write(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write after a reset: %v", err)
		}
	})
}

// An end in order may be followed by a reset: the other side reads all, and the end.
func TestResetAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t, time.Millisecond)
		_, _ = a.Write([]byte("bye"))
		_ = a.CloseWrite()
		_ = a.SetLinger(0)
		_ = a.Close()
		if text, err := io.ReadAll(b); string(text) != "bye" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// An end is known as late as bytes, also to those who do not read.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := connect(t, time.Millisecond)
		began := time.Now()
		_ = a.Close()
		<-b.Ended()
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("known after %s", took)
		}
	})
}

// Of what a node has sent, bytes from before a pause arrive in it, and later ones at its end.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := connect(t, time.Millisecond)
		_, _ = b.Write([]byte("before"))
		time.Sleep(time.Microsecond)
		n.SetPaused(true, "b")
		_, _ = b.Write([]byte("after"))
		buf := make([]byte, 20)
		_ = a.SetReadDeadline(time.Now().Add(time.Minute))
		if got, err := a.Read(buf); string(buf[:got]) != "before" || err != nil {
			t.Errorf("while it is paused: %q, %v", buf[:got], err)
		}
		if got, err := a.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while it is paused: %q, %v", buf[:got], err)
		}
		_, _ = a.Write([]byte("ping"))
		_ = b.SetReadDeadline(time.Now().Add(time.Minute))
		if got, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it reads %q, %v", buf[:got], err)
		}
		n.SetPaused(false, "b")
		_ = a.SetReadDeadline(time.Time{})
		_ = b.SetReadDeadline(time.Time{})
		if got, err := a.Read(buf); string(buf[:got]) != "after" || err != nil {
			t.Errorf("after the pause: %q, %v", buf[:got], err)
		}
		if got, err := b.Read(buf); string(buf[:got]) != "ping" || err != nil {
			t.Errorf("after the pause it reads %q, %v", buf[:got], err)
		}
	})
}

// What a node has sent before its end arrives, however late; what it sends in the instant of its end does not.
func TestKillLosesNothingOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := connect(t, time.Millisecond)
		_, _ = b.Write([]byte("done"))
		time.Sleep(time.Microsecond)
		_, _ = b.Write([]byte("never"))
		n.Kill("b")
		if text, err := io.ReadAll(a); string(text) != "done" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := n.From("a").Dial("b", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial after that: %v", err)
		}
	})
}

// A node that is killed in a pause has sent nothing in it: its peers hear what it sent before, and the end.
func TestKillInAPause(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		for range 200 {
			synctest.Test(t, func(t *testing.T) {
				n, a, b := connect(t, delay)
				n.SetPaused(true, "b")
				_, _ = b.Write([]byte("never"))
				heard := make(chan string)
				go func() {
					text, err := io.ReadAll(a)
					if err != nil {
						t.Error(err)
					}
					heard <- string(text)
				}()
				time.Sleep(time.Minute)
				n.Kill("b")
				if text := <-heard; text != "" {
					t.Fatalf("%q, with a delay of %s", text, delay)
				}
			})
		}
	}
}

// A network that is closed has no connections and no ports.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, _ := connect(t, 0)
		n.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) || n.Conns() > 0 {
			t.Errorf("%v, %d ends", err, n.Conns())
		}
		if _, err := n.From("a").Dial("b", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial after that: %v", err)
		}
		if l, err := n.From("b").Listen("b"); err == nil {
			t.Errorf("%s listens", l.Addr())
		}
	})
}
