package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// Servers is the cluster as clients see it.
type Servers interface {
	Nodes() []string
	// Endpoint returns the address at which client number id connects in its try number attempt, and the node behind it.
	Endpoint(id, attempt int) (addr, node string, err error)
	// Connect connects to an address of Endpoint and has the server answer a PING, both within timeout.
	Connect(addr string, timeout time.Duration) (*target.Conn, error)
	target.Dialect
}

// Env is the state that the workers of a run share.
type Env struct {
	Target  Servers
	History *history.Recorder
	Prefix  string // of all keys of the run
	Workers int
	Pause   time.Duration // mean time between two operations of a worker
	Seed    uint64
	Loaded  bool      // the cluster has keys that no workload may touch
	Until   time.Time // when the work usually ends; a fault that cannot be stopped may make it later; zero: never

	worked    <-chan struct{} // closed when the work has ended; nil: never
	quiet     atomic.Int64    // number of Quiet(true) without their Quiet(false)
	processes atomic.Int64
	counter   atomic.Int64
	ending    atomic.Bool // the workers have ended, and listeners wait for the last message
}

// Unique returns a number that is never returned again.
func (e *Env) Unique() int64 { return e.counter.Add(1) }

// Quiet stops workers before their next operation (true), until there were as many calls with false.
func (e *Env) Quiet(on bool) {
	if on {
		e.quiet.Add(1)
	} else {
		e.quiet.Add(-1)
	}
}

// withinWork shortens a wait so that it ends when the clients beside the workers must end.
func (e *Env) withinWork(most time.Duration) time.Duration {
	if e.Until.IsZero() {
		return most
	}
	left := max(time.Until(e.Until), 0) + besideEnd
	return min(most, left.Round(time.Millisecond))
}

// Times of a client.
const (
	connectMax = 700 * time.Millisecond // to a node that may be paused
	answerMax  = 4 * time.Second        // longer than a node holds a command without a leader
	retryPause = 20 * time.Millisecond
	moveOften  = 50 // mean number of operations after which a client moves to another node
)

// Client is one worker's view of the cluster. It connects to a node, moves to another one after an error and now and
// then, and records each operation in the history. After an unknown outcome it goes on as another process, since a
// process of a history does one thing after the other. One goroutine uses it.
type Client struct {
	ID   int
	Rand *rand.Rand
	env  *Env
	ctx  context.Context

	process int
	conn    *target.Conn
	node    string
	attempt int
	doubts  int64 // operations of unknown outcome
	insists bool  // repeats reads until they are answered
}

// NewClient makes the client of worker number id.
func NewClient(ctx context.Context, env *Env, id int) *Client {
	c := &Client{ID: id, env: env, ctx: ctx, Rand: rand.New(rand.NewPCG(env.Seed, uint64(id)+1))}
	c.process = int(env.processes.Add(1))
	return c
}

// Close closes the client's connection.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Key returns a key of this run.
func (c *Client) Key(name string) string { return c.env.Prefix + name }

// Pace waits until the next operation is due, and while the workers are stopped.
func (c *Client) Pace() {
	c.Sleep(time.Duration(c.Rand.ExpFloat64() * float64(c.env.Pause)))
	for c.env.quiet.Load() > 0 && c.ctx.Err() == nil {
		c.Sleep(quietLook)
	}
}

// quietLook is the time between two looks whether workers may go on.
const quietLook = 5 * time.Millisecond

// Sleep waits, but not beyond the end of the run.
func (c *Client) Sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// connect ensures a connection to a node that answers, and tries one node after the other. It returns false when the
// run has ended.
func (c *Client) connect() bool {
	if c.conn != nil && c.Rand.IntN(moveOften) == 0 {
		c.Close()
		c.attempt++
	}
	for c.conn == nil {
		if c.ctx.Err() != nil {
			return false
		}
		addr, node, err := c.env.Target.Endpoint(c.ID, c.attempt)
		if err == nil {
			c.conn, err = c.env.Target.Connect(addr, connectMax)
			c.node = node
		}
		if err != nil {
			c.conn = nil
			c.attempt++
			c.Sleep(10 * time.Millisecond)
		}
	}
	return true
}

// sure ensures a connection that works: an idle one may have broken.
func (c *Client) sure() {
	if c.conn != nil {
		if _, err := c.conn.Do(connectMax, "PING"); err != nil {
			c.Close()
			c.attempt++
		}
	}
	c.connect()
}

// Call is one operation: its name in the history, and the commands that are sent.
type Call struct {
	Op, Key string
	In      []string
	Cmds    [][]string // sent at once; all must be answered
	// Out makes the result of the history from the replies; nil: the last reply as a word. An error means that a reply
	// makes no sense.
	Out func(replies []target.Reply) ([]string, error)
	// Same is the only connection on which the call makes sense; nil: any.
	Same *target.Conn
	// Refusable makes an error reply a result like others.
	Refusable bool
	// Waits bounds how long the server may keep the client waiting.
	Waits time.Duration
	// Pause stops the client between sending and reading, or dying.
	Pause time.Duration
	// Die makes the client break its connection after sending, without reading the answer.
	Die bool
	// HangUp makes the client close its half of the connection after sending, and read until the server answers or
	// closes the other half. If the server closes without an answer, the error is model.Gone.
	HangUp bool
}

// Do performs an operation and records it. ok is false if the operation was not done or its outcome is unknown; out is
// its result.
func (c *Client) Do(call Call) (out []string, ok bool) {
	for {
		out, ok = c.try(call)
		reads := !model.Writes(&history.Op{Name: call.Op, Node: c.node})
		if ok || !c.insists || !reads || call.Same != nil || c.ctx.Err() != nil {
			return out, ok
		}
		c.Sleep(retryPause)
	}
}

// try performs an operation once.
func (c *Client) try(call Call) (out []string, ok bool) {
	if call.Same == nil && !c.connect() || call.Same != nil && c.conn != call.Same {
		return nil, false
	}
	ev := history.Event{Process: c.process, Op: call.Op, Key: call.Key, Node: c.node}
	ev.Type, ev.Value = history.Invoke, call.In
	c.env.History.Record(ev)
	replies, err := c.exchange(call)
	ev.Type, ev.Value, ev.Slept = history.OK, nil, int64(call.Pause)
	if err != nil {
		c.Close()
		c.attempt++
		c.doubt(ev, err.Error())
		return nil, false
	}
	if call.HangUp {
		defer c.Close()
	}
	if text := firstError(replies); text != "" && !(call.Refusable && c.settled(text)) {
		return nil, c.refused(ev, text)
	}
	if ev.Value, err = call.result(replies); err != nil {
		c.refused(ev, err.Error())
		return nil, false
	}
	c.env.History.Record(ev)
	return ev.Value, true
}

// Abandon sends an operation whose answer is never read. The client goes on as another process, at another node. The
// connection stays open until hangUp is called, which the caller must do.
func (c *Client) Abandon(call Call) (hangUp func()) {
	if !c.connect() {
		return func() {}
	}
	ev := history.Event{Process: c.process, Type: history.Invoke, Op: call.Op, Key: call.Key, Value: call.In, Node: c.node}
	c.env.History.Record(ev)
	conn := c.conn
	err := conn.Send(answerMax, call.Cmds...)
	c.conn = nil
	c.attempt++
	c.doubts++
	c.process = int(c.env.processes.Add(1))
	return func() {
		conn.Close()
		ev.Type, ev.Value, ev.Error = history.Info, nil, model.Died
		if err != nil {
			ev.Error = err.Error()
		}
		c.env.History.Record(ev)
	}
}

// errDied is the outcome of a call whose client died.
var errDied = errors.New(model.Died)

// errGone is the outcome of a call whose client hung up and was certainly not answered.
var errGone = errors.New(model.Gone)

// exchange sends a call and reads its replies, unless the client dies.
func (c *Client) exchange(call Call) ([]target.Reply, error) {
	if call.Pause == 0 && !call.Die && !call.HangUp {
		return c.conn.Pipe(answerMax+call.Waits, call.Cmds...)
	}
	if err := c.conn.Send(answerMax, call.Cmds...); err != nil {
		return nil, err
	}
	c.Sleep(call.Pause)
	if call.Die {
		c.conn.Close()
		return nil, errDied
	}
	wait := answerMax
	if call.HangUp {
		wait += call.Waits
		if err := c.conn.CloseWrite(); err != nil {
			return nil, err
		}
	}
	replies := make([]target.Reply, len(call.Cmds))
	for i := range replies {
		r, err := c.conn.Wait(wait)
		if call.HangUp && i == 0 && err == target.ErrEnded {
			return nil, errGone
		}
		if err != nil {
			return nil, err
		}
		replies[i] = r
	}
	return replies, nil
}

// result makes the result of the history.
func (call Call) result(replies []target.Reply) ([]string, error) {
	if call.Out != nil {
		return call.Out(replies)
	}
	return []string{replies[len(replies)-1].Text()}, nil
}

// firstError returns the text of the first error among replies, also within a MULTI.
func firstError(replies []target.Reply) string {
	for _, r := range replies {
		if r.IsErr() {
			return r.Str
		}
		if text := firstError(r.Elems); text != "" {
			return text // of a command in a MULTI
		}
	}
	return ""
}

// settled reports whether an error reply tells the outcome, and so is a result.
func (c *Client) settled(text string) bool {
	return !c.env.Target.Unknown(text) && !c.env.Target.NotDone(text)
}

// refused records an error reply. It returns false.
func (c *Client) refused(ev history.Event, text string) bool {
	switch {
	case c.env.Target.Unknown(text):
		c.doubt(ev, text)
	case c.env.Target.NotDone(text):
		ev.Type, ev.Error = history.Fail, text
		c.env.History.Record(ev)
		c.attempt++
		c.Close() // another node may know a leader
	default:
		c.doubt(ev, model.Unexpected+text)
	}
	return false
}

// doubt records an unknown outcome. The worker goes on as another process.
func (c *Client) doubt(ev history.Event, why string) {
	c.doubts++
	ev.Type, ev.Error = history.Info, why
	c.env.History.Record(ev)
	c.process = int(c.env.processes.Add(1))
}

// Local records an operation on something outside the cluster.
func (c *Client) Local(op, key string, in []string, do func() string) {
	ev := history.Event{Process: c.process, Type: history.Invoke, Op: op, Key: key, Value: in}
	c.env.History.Record(ev)
	ev.Type, ev.Value = history.OK, []string{do()}
	c.env.History.Record(ev)
}

// word makes a result of the last reply, which must be one of some words.
func word(allowed ...string) func([]target.Reply) ([]string, error) {
	return func(replies []target.Reply) ([]string, error) {
		text := replies[len(replies)-1].Text()
		for _, a := range allowed {
			if text == a {
				return []string{text}, nil
			}
		}
		return nil, fmt.Errorf("answered %q", text)
	}
}

// number makes a result of the last reply, which must be an integer or nil.
func number(replies []target.Reply) ([]string, error) {
	text := replies[len(replies)-1].Text()
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && text != "nil" {
		return nil, fmt.Errorf("answered %q", text)
	}
	return []string{text}, nil
}

var errShape = errors.New("the answer has another shape")

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
