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

// idleMax is how long a connection of a hall may ask for nothing: then it breaks, as it does when its node dies.
const idleMax = 700 * time.Millisecond

// hall is a target in memory, at each of whose nodes clients wait for the elements of lists, one behind the other.
type hall struct {
	target.Target
	mu      sync.Mutex
	waiters map[string][]chan string // of a list
}

func (h *hall) Nodes() []string     { return []string{"n1", "n2", "n3"} }
func (h *hall) Unknown(string) bool { return false }
func (h *hall) NotDone(string) bool { return false }

func (h *hall) Endpoint(id, attempt int) (addr, node string, err error) {
	node = h.Nodes()[(id+attempt)%3]
	return node, node, nil
}

func (h *hall) Connect(_ string, timeout time.Duration) (*target.Conn, error) {
	here, there := net.Pipe()
	go h.serve(there)
	return target.Over(here, timeout)
}

func (h *hall) serve(conn net.Conn) {
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

func (h *hall) answer(words []string) string {
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

// push gives each of those who wait an element.
func (h *hall) push(key string, elements []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range h.waiters[key] {
		w <- elements[i]
	}
	delete(h.waiters, key)
}

// wait waits for an element.
func (h *hall) wait(key string, d time.Duration) (e string, ok bool) {
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

// stands has two clients wait for elements that the third one offers, and looks at nothing.
func stands(c *Client) {
	n := c.env.Unique()
	one, w := probe{takings[0], "k" + itoa(n)}, newWatch(c)
	w.stand(func(_ int, c *Client) { one.take(c, 0) })
	one.offer(c, n)
	w.all.Wait()
}

// inHall has a client do something in virtual time, and returns what was recorded, and how long it took.
func inHall(t *testing.T, do func(t *testing.T, env *Env)) (h *history.History, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		began := time.Now()
		rec := history.NewRecorder(&text, began)
		do(t, &Env{
			Target: &hall{waiters: map[string][]chan string{}}, History: rec, Workers: 1, Seed: 1,
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

// given reports what was offered in vain, and how many waited.
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

// The first one of a watch gives away what it has also if its connection has broken while it asked for nothing.
func TestWatchGivesInSpiteOfABrokenConnection(t *testing.T) {
	h, _ := inHall(t, func(t *testing.T, env *Env) {
		c := NewClient(t.Context(), env, 0)
		defer c.Close()
		c.sure()
		stands(c)
	})
	if waited := given(t, h); waited != 2 {
		t.Errorf("%d waited", waited)
	}
}

// When the work ends the watches end with it, but for one that has just begun: what is left to give is given, and nobody
// waits for what nobody gives.
func TestWatchesEndWithTheWork(t *testing.T) {
	const work = 20 * time.Second
	for seed := range uint64(20) {
		h, took := inHall(t, func(t *testing.T, env *Env) {
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

// Who comes late waits no longer than there is work, and a while.
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
