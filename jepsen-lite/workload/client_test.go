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

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// fickle is a target whose only node breaks the connection on the first command of each
// kind, and answers the others.
type fickle struct {
	target.Target
	addr string
}

func (f *fickle) Endpoint(int, int) (string, string, error) { return f.addr, "n1", nil }
func (f *fickle) Nodes() []string                           { return []string{"n1"} }

func newFickle(t *testing.T) *fickle {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	var gets, sets atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveFickle(conn, &gets, &sets)
		}
	}()
	return &fickle{addr: ln.Addr().String()}
}

func serveFickle(conn net.Conn, gets, sets *atomic.Int64) {
	defer conn.Close()
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

// What is read once is asked for again until it is answered, and no write is.
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

// Workers begin nothing as long as somebody wants silence, unless the run ends.
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
