package clustertest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/cluster/peer/peertest"
	"lockd/internal/client"
	"lockd/resp"
	"lockd/resp/notation"
)

// Results that a client sees instead of a reply.
const (
	NoConnection = "(no connection)" // the node does not run
	Disconnected = "(disconnected)"  // the connection broke before there was an answer
	NoAnswer     = "(no answer)"     // there was none within AnswerMax
	Waits        = "(waits)"         // there is none yet
	Nothing      = "(nothing)"       // nothing was pushed
)

// AnswerMax bounds the wait of a client for an answer, in virtual time.
const AnswerMax = time.Minute

// Client is a client with a connection of its own, in RESP3. The goroutine of the test uses it.
type Client struct {
	ctx     context.Context // ends with the connection
	hangUp  context.CancelFunc
	ready   chan struct{} // closed once conn is known
	conn    *client.Conn  // nil: there is none, and absent says why
	absent  string
	replies chan string // closed when the connection ends

	mu     sync.Mutex
	pushed []string
	ended  bool // the test has been told of the end
}

// Connect opens a connection to the node, and does not wait for it. It ends with HangUp or the test.
func (n *Node) Connect() *Client {
	c := &Client{ready: make(chan struct{}), replies: make(chan string, 1)}
	c.ctx, c.hangUp = context.WithCancel(context.Background())
	n.cluster.t.Cleanup(c.hangUp)
	w := n.machine.world
	go c.run(w.net.From(w.clientName()), n.machine.ClientAddr)
	return c
}

// run connects, and takes what the node sends until the connection ends.
func (c *Client) run(from peertest.View, addr string) {
	defer close(c.replies)
	var err error
	if c.conn, c.absent, err = c.dial(from, addr); err != nil {
		close(c.ready)
		return
	}
	defer context.AfterFunc(c.ctx, c.conn.Close)()
	close(c.ready)
	for {
		r, err := c.conn.Receive()
		switch {
		case err != nil:
			return
		case r.Kind == resp.KindPush && !confirms(r):
			c.mu.Lock()
			c.pushed = append(c.pushed, inWords(r))
			c.mu.Unlock()
		default:
			select {
			case c.replies <- shown(r):
			case <-c.ctx.Done():
				return
			}
		}
	}
}

func (c *Client) dial(from peertest.View, addr string) (conn *client.Conn, absent string, err error) {
	raw, err := from.Dial(addr, AnswerMax)
	if err != nil {
		return nil, NoConnection, err
	}
	conn, err = (&client.Cluster{}).Greet(c.ctx, raw)
	return conn, Disconnected, err
}

// confirms reports whether a push answers a command: it says that a subscription has begun, or has ended.
func confirms(r resp.Reply) bool {
	return len(r.Elems) > 0 && slices.Contains(
		[]string{"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}, r.Elems[0].Str)
}

// shown writes a reply in the notation of transcripts, and a push in one line.
func shown(r resp.Reply) string {
	if r.Kind == resp.KindPush {
		return inWords(r)
	}
	return strings.Join(notation.Lines(r), "\n")
}

// inWords returns a push in one line: its texts, quoted where they need it, and its lists in brackets.
func inWords(r resp.Reply) string {
	switch r.Kind {
	case resp.KindBulk, resp.KindStatus:
		if r.Str == "" || strings.ContainsAny(r.Str, " \"\r\n") {
			return strconv.Quote(r.Str)
		}
		return r.Str
	case resp.KindInt:
		return strconv.FormatInt(r.Int, 10)
	case resp.KindArray, resp.KindPush:
		var words []string
		for _, e := range r.Elems {
			words = append(words, inWords(e))
		}
		if r.Kind == resp.KindPush {
			return strings.Join(words, " ")
		}
		return "[" + strings.Join(words, " ") + "]"
	}
	return strings.Join(notation.Lines(r), " ")
}

// Do sends a command and returns the reply, in the notation of transcripts, its lines joined by line breaks.
func (c *Client) Do(args ...string) string { return c.Go(args...).Answer() }

// Pushed returns what the node has sent without being asked since the last call, one line each. The last one is
// Disconnected if the connection has ended, and the test was not told of that yet.
func (c *Client) Pushed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.pushed
	c.pushed = nil
	if c.closed() && !c.ended {
		got, c.ended = append(got, Disconnected), true
	}
	return got
}

// closed reports whether the connection has ended. No command is on its way.
func (c *Client) closed() bool {
	select {
	case _, open := <-c.replies:
		return !open
	default:
		return false
	}
}

// HangUp closes the connection.
func (c *Client) HangUp() { c.hangUp() }

// Call is a command that is on its way.
type Call struct {
	client *Client
	done   chan struct{}
	answer string // once done is closed
}

// Go sends a command and does not wait for the answer. The word ; parts commands that are sent at once, as a pipeline:
// their answers follow each other. A client has one command, or one pipeline, on its way at a time.
func (c *Client) Go(args ...string) *Call {
	call := &Call{client: c, done: make(chan struct{})}
	go func() {
		defer close(call.done)
		call.answer = c.do(args)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = c.ended || call.answer == Disconnected
	}()
	return call
}

func (c *Client) do(args []string) string {
	<-c.ready
	if c.conn == nil {
		return c.absent
	}
	cmds := pipeline(args)
	if c.conn.SendAll(cmds...) != nil {
		return Disconnected
	}
	var lines []string
	for _, cmd := range cmds {
		for range answers(cmd) {
			reply, open := <-c.replies
			if !open {
				return Disconnected
			}
			lines = append(lines, reply)
		}
	}
	return strings.Join(lines, "\n")
}

// pipeline returns the commands that the word ; parts.
func pipeline(words []string) (cmds [][]string) {
	for at := slices.Index(words, ";"); 0 < at && at < len(words)-1; at = slices.Index(words, ";") {
		cmds, words = append(cmds, words[:at]), words[at+1:]
	}
	return append(cmds, words)
}

// answers returns how many replies a command has: one for each channel that it names.
func answers(args []string) int {
	if confirms(resp.Push(resp.Bulk(strings.ToLower(args[0])))) {
		return max(1, len(args)-1)
	}
	return 1
}

// Answer returns the reply, as Do does. It waits for it up to AnswerMax, and then hangs up.
func (c *Call) Answer() string {
	late := time.NewTimer(AnswerMax)
	defer late.Stop()
	select {
	case <-c.done:
		return c.answer
	case <-late.C:
		c.HangUp()
		return NoAnswer
	}
}

// Waits reports whether there is no answer yet.
func (c *Call) Waits() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// HangUp closes the connection.
func (c *Call) HangUp() { c.client.HangUp() }

// Do sends a command to the node, as Client.Do does. All calls go over one connection, until it breaks.
func (n *Node) Do(args ...string) string {
	if n.client == nil || n.client.closed() {
		n.client = n.Connect()
	}
	answer := n.client.Do(args...)
	if slices.Contains([]string{NoConnection, Disconnected, NoAnswer}, answer) {
		n.hangUp()
	}
	return answer
}

// hangUp ends the connection of Do.
func (n *Node) hangUp() {
	if n.client != nil {
		n.client.HangUp()
		n.client = nil
	}
}

// Go sends a command to the node on a connection of its own, as Client.Go does.
func (n *Node) Go(args ...string) *Call {
	call := n.Connect().Go(args...)
	settle(n.cluster)
	return call
}
