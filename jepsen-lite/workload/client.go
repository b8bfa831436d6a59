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

// Env is what the workers of a run share.
type Env struct {
	Target  Servers
	History *history.Recorder
	Prefix  string // of all keys of this run
	Workers int
	Pause   time.Duration // mean time between two operations of a worker
	Seed    uint64
	Until   time.Time // when the work ends as a rule, though a fault that cannot be ended may make it later; zero: never

	worked    <-chan struct{} // closed when the work has ended; nil: it never does
	quiet     atomic.Int64    // how many want silence
	processes atomic.Int64
	counter   atomic.Int64
	ending    atomic.Bool // nobody works any more, and listeners wait for the last
}

// Unique returns a number that no one else gets.
func (e *Env) Unique() int64 { return e.counter.Add(1) }

// Quiet has the workers begin no operation, from Quiet(true) until as many Quiet(false).
func (e *Env) Quiet(on bool) {
	if on {
		e.quiet.Add(1)
	} else {
		e.quiet.Add(-1)
	}
}

// withinWork is for how long a client waits that would wait for so long: no longer than the clients beside the workers
// have after the end of the work.
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
	moveOften  = 50 // after so many operations on average a client moves to another node
)

// Client is one worker's view of the cluster. One goroutine uses it.
type Client struct {
	ID   int
	Rand *rand.Rand
	env  *Env
	ctx  context.Context

	process int
	conn    *target.Conn
	node    string
	attempt int
	doubts  int64 // operations whose outcome is unknown
	insists bool  // on an answer to what it reads
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

// Key is a key of this run.
func (c *Client) Key(name string) string { return c.env.Prefix + name }

// Pace waits until the next operation is due, and while the workers are to be quiet.
func (c *Client) Pace() {
	c.Sleep(time.Duration(c.Rand.ExpFloat64() * float64(c.env.Pause)))
	for c.env.quiet.Load() > 0 && c.ctx.Err() == nil {
		c.Sleep(quietLook)
	}
}

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

// connect makes sure of a connection to a node that answers. It goes round the
// nodes until one does; false: the run has ended.
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

// sure makes sure of a connection that answers: one on which nothing was asked for a while may have broken.
func (c *Client) sure() {
	if c.conn != nil {
		if _, err := c.conn.Do(connectMax, "PING"); err != nil {
			c.Close()
			c.attempt++
		}
	}
	c.connect()
}

// Call is one operation: how the history names it, and what is sent.
type Call struct {
	Op, Key string
	In      []string
	Cmds    [][]string // sent at once; all must be answered
	// Out makes the history's result from the answers; nil: the last one as a word.
	// Its error marks an answer that makes no sense.
	Out func(replies []target.Reply) ([]string, error)
	// Same is the connection that it must be sent on; on another one it means nothing.
	Same *target.Conn
	// Refusable: an error reply is an answer like others.
	Refusable bool
	// Waits is for how long the server may keep the client waiting.
	Waits time.Duration
	// Pause stops the client for so long between sending and reading, or dying.
	Pause time.Duration
	// Die has the client break its connection after sending; nobody reads the answer.
	Die bool
	// HangUp has the client end its half of the connection after sending, and hear whether an answer comes before the
	// server ends the other half. If none does, nothing was written to it: the error is model.Gone.
	HangUp bool
}

// Do runs an operation and records it. ok is false when it was not done, or nobody
// can tell; out is its result.
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

// Abandon sends an operation and does not wait for its answer, which nobody reads; the client goes on as another
// process, at another node. The connection stays open until hangUp, which must be called.
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

// errGone is the outcome of a call whose client hung up, and was certainly not answered.
var errGone = errors.New(model.Gone)

// exchange sends a call and reads its answers, if the client lives.
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

func (call Call) result(replies []target.Reply) ([]string, error) {
	if call.Out != nil {
		return call.Out(replies)
	}
	return []string{replies[len(replies)-1].Text()}, nil
}

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

// settled reports whether an error says nothing about the outcome: it is the answer.
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

// doubt records an unknown outcome; the worker goes on as another process.
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

// word makes a result of one word out of the last answer, by a table; other
// answers make no sense.
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

// number makes a result of an integer or nil.
func number(replies []target.Reply) ([]string, error) {
	text := replies[len(replies)-1].Text()
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && text != "nil" {
		return nil, fmt.Errorf("answered %q", text)
	}
	return []string{text}, nil
}

var errShape = errors.New("the answer has another shape")

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
