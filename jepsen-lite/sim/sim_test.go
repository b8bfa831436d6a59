package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"lockd/jepsen-lite/target"
)

// Time is virtual in a bubble, and the actual one goes on as before.
func TestBubble(t *testing.T) {
	began, actual, slept := time.Now(), time.Time{}, time.Duration(0)
	Bubble(func(outside func(func())) {
		before := time.Now()
		time.Sleep(24 * time.Hour)
		slept = time.Since(before)
		outside(func() { actual = time.Now() })
	})
	if slept != 24*time.Hour || actual.Sub(began) > time.Hour || actual.Before(began) {
		t.Errorf("slept %s in %s", slept, actual.Sub(began))
	}
}

// link connects two ends, of which the second belongs to a process.
func link(t *testing.T, delay time.Duration) (client, node net.Conn, o *owner) {
	t.Helper()
	n := newNetwork(func() time.Duration { return delay })
	o = newOwner()
	l, err := n.listen(o, "n:1")
	if err != nil {
		t.Fatal(err)
	}
	if client, err = n.dial(nil, "n:1"); err != nil {
		t.Fatal(err)
	}
	if node, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, node, o
}

// Bytes arrive late, in order, and also after their sender has closed its end.
func TestDelay(t *testing.T) {
	Bubble(func(func(func())) {
		client, node, _ := link(t, time.Millisecond)
		began := time.Now()
		for _, word := range []string{"one ", "two"} {
			if _, err := client.Write([]byte(word)); err != nil {
				t.Fatal(err)
			}
		}
		_ = client.Close()
		text, err := io.ReadAll(node)
		if string(text) != "one two" || err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("%q, %v after %s", text, err, time.Since(began))
		}
	})
}

// A reader waits until its deadline, and reads on after it. A reset breaks the connection at once.
func TestDeadlineAndReset(t *testing.T) {
	Bubble(func(func(func())) {
		client, node, _ := link(t, 0)
		b := make([]byte, 9)
		_ = node.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := node.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		_ = node.SetReadDeadline(time.Time{})
		_, _ = client.Write([]byte("late"))
		if n, err := node.Read(b); n != 4 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		_, _ = client.Write([]byte("lost"))
		client.(*conn).reset()
		if n, err := node.Read(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a reset: %d bytes, %v", n, err)
		}
		if _, err := node.Write(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write after a reset: %v", err)
		}
	})
}

// Who has ended what it writes may reset the connection later: the other side reads all, and the end.
func TestResetAfterEnd(t *testing.T) {
	Bubble(func(func(func())) {
		client, node, _ := link(t, time.Millisecond)
		_, _ = client.Write([]byte("bye"))
		_ = client.(*conn).CloseWrite()
		client.(*conn).reset()
		if text, err := io.ReadAll(node); string(text) != "bye" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// An end is known as late as bytes, also to those who do not read.
func TestEnded(t *testing.T) {
	Bubble(func(func(func())) {
		client, node, _ := link(t, time.Millisecond)
		began := time.Now()
		_ = client.Close()
		<-node.(*conn).Ended()
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("known after %s", took)
		}
	})
}

// A client that hangs up while it waits for a lock leaves the line: the lock goes to the next one.
func TestHangUp(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		if got := do("n1", "LOCK", "l", "holder", "PX", "10000"); got == "nil" {
			t.Fatalf("LOCK: %s", got)
		}
		addr, _, err := c.Endpoint(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		waiter, err := c.Connect(addr, time.Second)
		if err == nil {
			err = waiter.Send(time.Second, []string{"LOCK", "l", "waiter", "PX", "60000", "WAIT", "30000"})
		}
		if err != nil {
			t.Fatal(err)
		}
		waiter.Close()
		time.Sleep(time.Second)
		if got := do("n2", "UNLOCK", "l", "holder"); got != "1" {
			t.Errorf("UNLOCK: %s", got)
		}
		if got := do("n3", "LOCK", "l", "next", "PX", "1000"); got == "nil" {
			t.Error("the lock went to a client that had hung up")
		}
	})
}

// A paused process reads and writes nothing until it continues; the end of a process frees its port.
func TestPause(t *testing.T) {
	Bubble(func(func(func())) {
		client, node, o := link(t, 0)
		o.pause(true)
		_, _ = client.Write([]byte("ping"))
		go func() {
			b := make([]byte, 9)
			n, _ := node.Read(b)
			_, _ = node.Write(b[:n])
		}()
		_ = client.SetReadDeadline(time.Now().Add(time.Minute))
		b := make([]byte, 9)
		if n, err := client.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while it is paused: %d bytes, %v", n, err)
		}
		_ = client.SetReadDeadline(time.Time{})
		o.pause(false)
		if n, err := client.Read(b); string(b[:n]) != "ping" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		net := client.(*conn).net
		net.end(o)
		if _, err := client.Read(b); err != io.EOF {
			t.Errorf("after the end of the process: %v", err)
		}
		if _, err := net.dial(nil, "n:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial after that: %v", err)
		}
	})
}

// start starts a cluster, and returns a function that has a node do a command.
func start(t *testing.T, nodes int) (c target.Target, do func(node string, args ...string) string) {
	t.Helper()
	c, err := New(target.Config{Nodes: nodes, Dir: t.TempDir(), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c, func(node string, args ...string) string {
		r, err := c.Do(node, 5*time.Second, args...)
		if err != nil {
			return err.Error()
		}
		return r.Text()
	}
}

// A cluster survives the death of its leader, a pause, and the loss of what was not synced; it is the same everywhere.
func TestCluster(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		if got := do("n1", "SET", "k", "1"); got != "OK" {
			t.Fatalf("SET: %s", got)
		}
		for i, harm := range []func(node string){
			c.Kill, c.Pause, func(node string) { c.Die(node, target.ActDrop) }, c.Shutdown,
		} {
			leader := c.Leader()
			harm(leader)
			other := "n1"
			if leader == other {
				other = "n2"
			}
			if got := do(other, "INCR", "k"); got != string(rune('2'+i)) {
				t.Errorf("harm %d of %s: INCR at %s: %s", i, leader, other, got)
			}
			c.Resume(leader)
			if err := c.Restart(leader); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := errors.Join(c.Healthy(ctx), c.Converged(ctx)); err != nil {
				t.Errorf("after harm %d of %s: %v", i, leader, err)
			}
			cancel()
		}
		if dead := c.Deaths(); len(dead) > 0 {
			t.Errorf("deaths: %q", dead)
		}
	})
}

// A clock that was set wrong tells the wrong time until it is set right.
func TestClock(t *testing.T) {
	Bubble(func(func(func())) {
		var c machineClock
		c.set(time.Hour, 5)
		time.Sleep(100 * time.Second)
		if got := c.now(); got != time.Hour+5*time.Second {
			t.Errorf("it is %s ahead", got)
		}
		c.reset()
		if got := c.now(); got != 0 {
			t.Errorf("it is %s ahead after a reset", got)
		}
	})
}
