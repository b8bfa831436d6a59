package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/internal/client"
	"lockd/internal/fakenode"
)

// liar is three nodes that answer what they are told to.
type liar struct {
	mu      sync.Mutex
	answers map[string]string // by command
}

func (l *liar) answer(words []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if words[0] == "HELLO" {
		return "%0\r\n"
	}
	if answer, ok := l.answers[words[0]]; ok {
		return answer
	}
	return "-ERR what is " + words[0] + "\r\n"
}

// start builds nodes and clients that answer from the liar; it starts no processes.
func (l *liar) start(t *testing.T) (*nodes, *work) {
	c := &nodes{}
	for i := range nodesOfDrill {
		addr := fakenode.Listen(t, l.answer)
		c.all = append(c.all, &node{
			id: fmt.Sprintf("n%d", i+1), addr: addr, client: &client.Cluster{Addrs: []string{addr}},
		})
		t.Cleanup(c.all[i].client.Close)
	}
	w := newWork(c, time.Hour, 0)
	w.holder.fence = 7
	until := time.Now().Add(time.Hour)
	w.holder.until.Store(&until)
	w.writer.acked, w.writer.doubtful = 10, 1
	for _, of := range []*client.Cluster{w.holder.cluster, w.rival.cluster} {
		t.Cleanup(of.Close)
	}
	t.Cleanup(w.writer.close)
	return c, w
}

// truth returns the answers of nodes that keep the promise.
func truth() map[string]string {
	return map[string]string{
		"GET": "$2\r\n11\r\n", "FENCE": ":7\r\n", "RENEW": ":7\r\n", "LOCK": "_\r\n", "INCR": ":12\r\n",
		"LOCKD": "*2\r\n:9\r\n$2\r\nab\r\n",
	}
}

// Every promise that does not hold is found.
func TestBroken(t *testing.T) {
	ctx := context.Background()
	d := &Drill{Out: io.Discard}
	for _, c := range []struct{ command, answer, want string }{
		{"GET", "$2\r\n11\r\n", ""},
		{"GET", "$2\r\n10\r\n", ""},
		{"GET", "$1\r\n9\r\n", "10 writes were acknowledged, and n1 has only 9 of them"},
		{"GET", "$2\r\n12\r\n", "n1 counts 12, and only 11 writes were sent"},
	} {
		l := &liar{answers: truth()}
		l.answers[c.command] = c.answer
		nodes, work := l.start(t)
		expect(t, d.reckon(ctx, nodes, work), c.want)
	}
	for _, c := range []struct {
		command, answer, want string
		do                    func(w *work) error
	}{
		{"RENEW", ":7\r\n", "", func(w *work) error { return w.holder.renew(ctx) }},
		{"RENEW", "_\r\n", "the lock is not held by its token any more", func(w *work) error { return w.holder.renew(ctx) }},
		{"RENEW", ":8\r\n", "the lock has the fence 8, and had 7", func(w *work) error { return w.holder.renew(ctx) }},
		{"LOCK", "_\r\n", "", func(w *work) error { return w.rival.ask(ctx) }},
		{"LOCK", ":9\r\n", "a rival was granted the lock, with the fence 9", func(w *work) error { return w.rival.ask(ctx) }},
	} {
		l := &liar{answers: truth()}
		l.answers[c.command] = c.answer
		_, work := l.start(t)
		expect(t, c.do(work), c.want)
		if c.want == "" {
			continue
		}
		before := time.Now().Add(-time.Second) // the lease was not renewed in time, which is no fault of the nodes
		work.holder.until.Store(&before)
		if err := c.do(work); err == nil || errors.As(err, &BrokenError{}) {
			t.Errorf("%s %q after the lease: %v", c.command, c.answer, err)
		}
	}
}

// expect holds an error against the promise that is broken; "": none is.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (!errors.As(err, &BrokenError{}) || !strings.Contains(err.Error(), want)):
		t.Errorf("%v, not %q", err, want)
	}
}

// Two nodes that differ at the same entry are found; those that are not as far yet are waited for.
func TestStates(t *testing.T) {
	var mu sync.Mutex
	answers := map[int][]string{0: {"9 ab"}, 1: {"8 cd", "9 ab"}, 2: {"9 ab"}}
	c := &nodes{}
	for i := range nodesOfDrill {
		addr := fakenode.Listen(t, func(words []string) string {
			if words[0] == "HELLO" {
				return "%0\r\n"
			}
			mu.Lock()
			defer mu.Unlock()
			index, hash, _ := strings.Cut(answers[i][0], " ")
			if len(answers[i]) > 1 {
				answers[i] = answers[i][1:]
			}
			return "*2\r\n:" + index + "\r\n$2\r\n" + hash + "\r\n"
		})
		c.all = append(c.all, &node{id: fmt.Sprintf("n%d", i+1), client: &client.Cluster{Addrs: []string{addr}}})
		t.Cleanup(c.all[i].client.Close)
	}
	if hash, err := c.awaitSameState(context.Background()); hash != "ab" || err != nil {
		t.Errorf("%s, %v", hash, err)
	}
	mu.Lock()
	answers[2] = []string{"9 xy"}
	mu.Unlock()
	_, err := c.awaitSameState(context.Background())
	expect(t, err, "the nodes have different states at entry 9")
}

// Writes are acknowledged, certainly not done, or of unknown outcome; any other answer ends the drill.
func TestWrites(t *testing.T) {
	ctx := context.Background()
	l := &liar{answers: truth()}
	_, w := l.start(t)
	for _, c := range []struct {
		answer          string
		acked, doubtful int64
	}{
		{":1\r\n", 11, 1}, {"-LOADING wait\r\n", 11, 1}, {"-UNKNOWN perhaps\r\n", 11, 2}, {"", 11, 3}, {":2\r\n", 12, 3},
	} {
		l.mu.Lock()
		l.answers["INCR"] = c.answer
		l.mu.Unlock()
		if err := w.writer.write(ctx); err != nil {
			t.Errorf("%q: %v", c.answer, err)
		}
		if got := w.writer.sofar(); got.acked != c.acked || got.doubtful != c.doubtful {
			t.Errorf("%q: %+v", c.answer, got)
		}
	}
	l.mu.Lock()
	l.answers["INCR"] = "-WRONGTYPE\r\n"
	l.mu.Unlock()
	if err := w.writer.write(ctx); err == nil {
		t.Error("an answer that is none was taken for one")
	}
}
