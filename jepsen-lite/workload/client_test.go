package workload

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/fakenode"
	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// fickle is a target with one node, which breaks the connection on the first command of each kind, and answers all
// others.
type fickle struct {
	target.Target
	addr string
}

func (f *fickle) Endpoint(int, int) (string, string, error) { return f.addr, "n1", nil }
func (f *fickle) Nodes() []string                           { return []string{"n1"} }
func (f *fickle) Connect(addr string, timeout time.Duration) (*target.Conn, error) {
	return target.Dial(addr, timeout)
}

func newFickle(t *testing.T) *fickle {
	var gets, sets atomic.Int64
	return &fickle{addr: fakenode.Accept(t, func(conn net.Conn) { serveFickle(conn, &gets, &sets) })}
}

func serveFickle(conn net.Conn, gets, sets *atomic.Int64) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch lines.Text() {
		case "PING":
			fmt.Fprint(conn, "+PONG\r\n")
		case "GET":
			if gets.Add(1) == 1 {
				return
			}
			fmt.Fprint(conn, "+1\r\n")
		case "SET":
			if sets.Add(1) == 1 {
				return
			}
			fmt.Fprint(conn, "+OK\r\n")
		}
	}
}

// Once repeats a read until it is answered, and does not repeat a write.
func TestOnceInsistsOnReads(t *testing.T) {
	for _, c := range []struct{ cmd, op, want string }{{"GET", "read", "info ok"}, {"SET", "add", "info"}} {
		var text bytes.Buffer
		rec := history.NewRecorder(&text, time.Now())
		env := &Env{Target: newFickle(t), History: rec, Workers: 1}
		Once(t.Context(), env, 1, time.Minute, func(cl *Client) {
			cl.Do(Call{Op: c.op, Key: "k", Cmds: [][]string{{c.cmd}}})
		})
		_ = rec.Close()
		h, err := history.Read(&text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range h.Ops {
			got = append(got, string(o.Outcome))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: outcomes %v, want %s", c.cmd, got, c.want)
		}
	}
}

// Workers begin nothing while any caller of Quiet wants them to stop, until the run ends.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		env := &Env{}
		env.Quiet(true)
		env.Quiet(true)
		began := time.Now()
		time.AfterFunc(time.Second, func() { env.Quiet(false) })
		time.AfterFunc(time.Minute, func() { env.Quiet(false) })
		c := NewClient(ctx, env, 0)
		c.Pace()
		if got := time.Since(began); got < time.Minute || got > time.Minute+quietLook {
			t.Errorf("it paced for %s", got)
		}
		c.Pace()
		env.Quiet(true)
		time.AfterFunc(time.Second, cancel)
		c.Pace()
		if ctx.Err() == nil {
			t.Error("it broke the silence")
		}
	})
}

// A client that abandons a request goes on as another process. The request is open until its connection is closed, and
// then its outcome is unknown.
func TestAbandon(t *testing.T) {
	var text bytes.Buffer
	rec := history.NewRecorder(&text, time.Now())
	c := NewClient(t.Context(), &Env{Target: newFickle(t), History: rec, Workers: 1}, 0)
	defer c.Close()
	hangUp := c.Abandon(Call{Op: "add", Key: "k", Cmds: [][]string{{"PING"}}})
	c.Do(Call{Op: "ask", Key: "k", Cmds: [][]string{{"PING"}}})
	hangUp()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&text)
	if err != nil || len(h.Ops) != 2 {
		t.Fatalf("%v, error %v", h, err)
	}
	if a, b := h.Ops[0], h.Ops[1]; a.Outcome != history.Info || a.Error != model.Died || a.Told < b.Told || a.Process == b.Process {
		t.Errorf("%v, told %d; then %v, told %d", a, a.Told, b, b.Told)
	}
}

// The result of LOCK is a fence, nil, or why the lock is not granted. Another reply makes no sense.
func TestGranted(t *testing.T) {
	for _, c := range []struct {
		answer target.Reply
		want   string
		held   bool
	}{
		{target.Reply{Kind: ':', Int: 7}, "[7] <nil>", true},
		{target.Reply{Kind: '$', Nil: true}, "[nil] <nil>", false},
		{target.Reply{Kind: '-', Str: "ERR this lock is held with LIMIT 3 now"}, "[limit 3] <nil>", false},
		{target.Reply{Kind: '-', Str: "ERR another connection waits for this lock with the same token now, in the " +
			"same place of the line"}, "[displaced] <nil>", false},
		{target.Reply{Kind: '-', Str: "ERR no"}, `[] answered "ERR no"`, false},
	} {
		out, err := granted([]target.Reply{c.answer})
		if got := fmt.Sprint(out, " ", err); got != c.want || holds(out, err == nil) != c.held {
			t.Errorf("%v: %s, want %s, and held: %v", c.answer, got, c.want, c.held)
		}
	}
}

// The mode of the lock is part of the command and of the history.
func TestAsking(t *testing.T) {
	for mode, want := range map[string]string{
		"":     "[LOCK k t PX 100 WAIT 5] [t 100 5]",
		shared: "[LOCK k t PX 100 WAIT 5 SHARED] [t 100 5 shared]",
		"3":    "[LOCK k t PX 100 WAIT 5 LIMIT 3] [t 100 5 3]",
	} {
		call := (&holder{key: "k", token: "t", ms: 100, mode: mode}).asking("enter", 5)
		if got := fmt.Sprint(call.Cmds[0], call.In); got != want {
			t.Errorf("%q: %s, want %s", mode, got, want)
		}
	}
}
