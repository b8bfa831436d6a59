package clustertest

import (
	"context"
	"errors"
	"time"

	"lockd/internal/client"
)

// Results that a client sees instead of a reply.
const (
	NoConnection = "(no connection)" // the node does not run
	Disconnected = "(disconnected)"  // the connection broke before there was an answer
	NoAnswer     = "(no answer)"     // there was none within AnswerMax
	Waits        = "(waits)"         // there is none yet
)

// AnswerMax bounds the wait of a client for an answer, in virtual time.
const AnswerMax = time.Minute

// Do sends a command to the node and returns the reply, in the notation of transcripts, its lines joined by line
// breaks. All calls go over one connection, until it breaks.
func (n *Node) Do(args ...string) string {
	if n.conn == nil {
		conn, err := n.dial()
		if err != nil {
			return said(err)
		}
		n.conn = conn
	}
	ctx, cancel := context.WithTimeout(context.Background(), AnswerMax)
	defer cancel()
	r, err := n.conn.Do(ctx, args...)
	if err != nil {
		n.hangUp()
		return said(err)
	}
	return shown(r)
}

// hangUp ends the connection of Do.
func (n *Node) hangUp() {
	if n.conn != nil {
		n.conn.Close()
		n.conn = nil
	}
}

// errNoConnection reports a node that cannot be reached.
var errNoConnection = errors.New(NoConnection)

func (n *Node) dial() (*client.Conn, error) {
	raw, err := n.cluster.clients.From("client:1").Dial(n.clientAddr(), AnswerMax)
	if err != nil {
		return nil, errNoConnection
	}
	ctx, cancel := context.WithTimeout(context.Background(), AnswerMax)
	defer cancel()
	return (&client.Cluster{}).Greet(ctx, raw)
}

// said returns the text of an error in a transcript.
func said(err error) string {
	switch {
	case errors.Is(err, errNoConnection):
		return NoConnection
	case errors.Is(err, context.DeadlineExceeded):
		return NoAnswer
	}
	return Disconnected
}

// Call is a command that is on its way.
type Call struct {
	cancel context.CancelFunc
	done   chan struct{}
	answer string // once done is closed
}

// Go sends a command to the node on a separate connection and does not wait for the answer. The connection stays open
// until HangUp or the end of the test.
func (n *Node) Go(args ...string) *Call {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		conn, err := n.dial()
		if err != nil {
			c.answer = said(err)
			close(c.done)
			return
		}
		defer conn.Close()
		r, err := conn.Do(ctx, args...)
		if c.answer = shown(r); err != nil {
			c.answer = said(err)
		}
		close(c.done)
		<-ctx.Done()
	}()
	n.cluster.t.Cleanup(cancel)
	n.cluster.settle()
	return c
}

// Answer returns the reply, as Do does. It waits for it up to AnswerMax.
func (c *Call) Answer() string {
	late := time.NewTimer(AnswerMax)
	defer late.Stop()
	select {
	case <-c.done:
		return c.answer
	case <-late.C:
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
func (c *Call) HangUp() { c.cancel() }
