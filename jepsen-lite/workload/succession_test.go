package workload

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/fakenode"
	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// idleMax bounds the idle time of a connection of a waitingRoom. Then it breaks, as when its node dies.
const idleMax = 700 * time.Millisecond

// waitingRoom is a target in memory. At each of its nodes clients wait for elements of lists, in one line for each
// list.
type waitingRoom struct {
	target.Target
	mu      sync.Mutex
	waiters map[string][]chan string // by list
}

func (h *waitingRoom) Nodes() []string     { return []string{"n1", "n2", "n3"} }
func (h *waitingRoom) Unknown(string) bool { return false }
func (h *waitingRoom) NotDone(string) bool { return false }

func (h *waitingRoom) Endpoint(id, attempt int) (addr, node string, err error) {
	node = h.Nodes()[(id+attempt)%3]
	return node, node, nil
}

func (h *waitingRoom) Connect(_ string, timeout time.Duration) (*target.Conn, error) {
	here, there := net.Pipe()
	go h.serve(there)
	return target.Over(here, timeout)
}

func (h *waitingRoom) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		_ = conn.SetReadDeadline(time.Now().Add(idleMax))
		words, err := fakenode.Read(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, h.answer(words)); err != nil {
			return
		}
	}
}

func (h *waitingRoom) answer(words []string) string {
	switch words[0] {
	case "BLPOP":
		seconds, _ := strconv.ParseFloat(words[2], 64)
		e, ok := h.wait(words[1], time.Duration(seconds*float64(time.Second)))
		if !ok {
			return "*-1\r\n"
		}
		return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(words[1]), words[1], len(e), e)
	case "RPUSH":
		h.push(words[1], words[2:])
		return ":3\r\n"
	}
	return "+PONG\r\n"
}

// push gives each waiter an element.
func (h *waitingRoom) push(key string, elements []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range h.waiters[key] {
		w <- elements[i]
	}
	delete(h.waiters, key)
}

// wait waits for an element.
func (h *waitingRoom) wait(key string, d time.Duration) (e string, ok bool) {
	mine := make(chan string, 1)
	h.mu.Lock()
	h.waiters[key] = append(h.waiters[key], mine)
	h.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case e = <-mine:
		return e, true
	case <-timer.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[key] = slices.DeleteFunc(h.waiters[key], func(c chan string) bool { return c == mine })
	return "", false
}

// stands has two clients wait for elements that a third one offers, and does not read the key afterwards.
func stands(c *Client) {
	n := c.env.Unique()
	one, w := probe{taking: takings[0], key: "k" + itoa(n)}, newSuccession(c)
	w.standInLine(func(_ int, c *Client) { one.take(c, 0) })
	one.offer(c, n)
	w.all.Wait()
}

// withWaitingRoom has a client do something in virtual time, and returns its history and the time that it took.
func withWaitingRoom(t *testing.T, do func(t *testing.T, env *Env)) (h *history.History, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		began := time.Now()
		rec := history.NewRecorder(&text, began)
		do(t, &Env{
			Target: &waitingRoom{waiters: map[string][]chan string{}}, History: rec, Workers: 1, Seed: 1,
			Pause: 40 * time.Millisecond,
		})
		took = time.Since(began)
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if h, err = history.Read(&text); err != nil {
			t.Fatal(err)
		}
	})
	return h, took
}

// given reports elements that nobody got, and returns how many clients waited.
func given(t *testing.T, h *history.History) (waited int) {
	t.Helper()
	for _, o := range h.Ops {
		if !o.OK() || o.Out[0] == "nil" {
			t.Error(o)
		}
		if o.Name == "seize" {
			waited++
		}
	}
	return waited
}

// The third client of a succession gives away what it has even if its idle connection has broken.
func TestSuccessionWithABrokenConnection(t *testing.T) {
	h, _ := withWaitingRoom(t, func(t *testing.T, env *Env) {
		c := NewClient(t.Context(), env, 0)
		defer c.Close()
		c.sure()
		stands(c)
	})
	if waited := given(t, h); waited != 2 {
		t.Errorf("%d waited", waited)
	}
}

// Successions end with the work, but for one that has just begun: the rest is given away, and no client waits in vain.
func TestSuccessionsEndWithTheWork(t *testing.T) {
	const work = 20 * time.Second
	for seed := range uint64(20) {
		h, took := withWaitingRoom(t, func(t *testing.T, env *Env) {
			env.Seed, env.Until = seed, time.Now().Add(work)
			ctx, cancel := context.WithTimeout(t.Context(), work)
			defer cancel()
			Plan{Step: func(c *Client) { c.Sleep(time.Second) }, Beside: stands}.Run(ctx, env)
		})
		if waited := given(t, h); took > work+2*inLine+time.Second/2 || waited < 30 {
			t.Errorf("seed %d: it took %s for %s of work; %d waited", seed, took, work, waited)
		}
	}
}

// A client that comes late waits no longer than the rest of the work and besideEnd.
func TestWaitsEndWithTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := &Env{Until: time.Now().Add(10 * time.Second)}
		for _, want := range []time.Duration{12 * time.Second, 5 * time.Second, besideEnd, besideEnd} {
			if got := env.withinWork(12 * time.Second); got != want {
				t.Errorf("for %s, want %s", got, want)
			}
			time.Sleep(8 * time.Second)
		}
		if got := (&Env{}).withinWork(time.Hour); got != time.Hour {
			t.Errorf("for %s where nobody knows the end", got)
		}
	})
}
