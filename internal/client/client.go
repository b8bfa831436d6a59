// Package client sends commands to a cluster for the parts of this binary that are not servers: one at a time, in
// RESP3, to any node that answers. A client library would be larger (go-redis by 11 MB) or lack RESP3, without which
// maps look like arrays.
package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"lockd/resp"
)

// Limits on the time of a node to accept a connection and its greeting, and to answer a command. Only tests set them.
var (
	connectMax = 2 * time.Second
	answerMax  = 5 * time.Second
)

// Cluster is a client of a cluster by the addresses of some of its nodes. Any node will do. It is not safe for
// concurrent use.
type Cluster struct {
	Addrs    []string    // host:port of the nodes, one at least
	User     string      // "": the default user
	Password string      // without user and password there is no AUTH
	TLS      *tls.Config // nil: no TLS. Without a ServerName the certificate must match the host of the address
	Name     string      // CLIENT SETNAME
	DB       int
	// Connect opens connections; nil: they are of TCP. TLS does not come into it then.
	Connect func(ctx context.Context, addr string) (net.Conn, error)

	turn int // index of the current node
	kept *Conn
}

// ErrUnknown reports that a command may or may not have been executed.
var ErrUnknown = errors.New("whether it was done is not known")

// Addr returns the node that answered last, or is tried next.
func (c *Cluster) Addr() string { return c.Addrs[c.turn%len(c.Addrs)] }

// Close ends the connection, if there is one.
func (c *Cluster) Close() {
	if c.kept != nil {
		c.kept.Close()
		c.kept = nil
	}
}

// DoIdempotent sends a command that may be executed twice, to one node after the other until one answers. An error
// reply of a node is a reply; the error is that of the last node, if none has answered.
func (c *Cluster) DoIdempotent(ctx context.Context, args ...string) (r resp.Reply, err error) {
	for range len(c.Addrs) + 1 {
		kept := c.kept != nil
		r, err = c.tryKept(ctx, args)
		if err == nil && !(r.IsErr() && Temporary(r.Str)) {
			return r, nil
		}
		c.Close()
		if !kept || err == nil || errors.Is(err, context.DeadlineExceeded) {
			c.turn++ // otherwise the node has closed an idle connection, and gets one more try
		}
		if err == nil {
			err = errors.New(r.Str)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return resp.Reply{}, err
}

// tryKept sends a command to the current node, on the connection that is kept open.
func (c *Cluster) tryKept(ctx context.Context, args []string) (resp.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	if c.kept == nil {
		conn, err := c.Dial(ctx, c.Addr())
		if err != nil {
			return refusal(err)
		}
		c.kept = conn
	}
	return c.kept.Do(ctx, args...)
}

// refusal turns a resp.Error into a reply.
func refusal(err error) (resp.Reply, error) {
	var said resp.Error
	if errors.As(err, &said) {
		return resp.Err(string(said)), nil
	}
	return resp.Reply{}, err
}

// DoOnce sends a command that must not be executed twice. It tries another node only if certainly nothing was executed.
// The error is, or wraps, ErrUnknown if the command may have been executed.
func (c *Cluster) DoOnce(ctx context.Context, args ...string) (r resp.Reply, err error) {
	for range c.Addrs {
		r, err = c.tryNew(ctx, args)
		switch {
		case errors.Is(err, ErrUnknown):
			return r, err
		case err != nil:
		case r.IsErr() && resp.Code(r.Str) == resp.CodeUnknown:
			return r, fmt.Errorf("%w: %s", ErrUnknown, r.Str)
		case r.IsErr() && Temporary(r.Str):
			err = errors.New(r.Str)
		default:
			return r, nil
		}
		c.turn++
		if ctx.Err() != nil {
			break
		}
	}
	return resp.Reply{}, err
}

// tryNew sends a command to the current node, on a new connection: a kept one may be dead, which would leave the
// outcome unknown.
func (c *Cluster) tryNew(ctx context.Context, args []string) (resp.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	conn, err := c.Dial(ctx, c.Addr())
	if err != nil {
		return refusal(err)
	}
	defer conn.Close()
	r, err := conn.Do(ctx, args...)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return r, nil
}

// temporaryCodes are the codes of errors that pass. Two that pass have the code of all errors.
var temporaryCodes = []string{
	resp.CodeUnknown, "LOADING", "BUSY", "UNBLOCKED", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "MOVED",
}

// Temporary reports whether an error reply is temporary, so that another try may succeed.
func Temporary(answer string) bool {
	return slices.Contains(temporaryCodes, resp.Code(answer)) ||
		answer == resp.ErrMaxClients || answer == resp.ErrTokenElsewhere
}

// Conn is a connection to one node. It carries one command at a time.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to one node and greets it. The error is a resp.Error if the node refuses the greeting. It is safe for
// concurrent use.
func (c *Cluster) Dial(ctx context.Context, addr string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return c.Greet(ctx, conn)
}

// Greet makes a Conn of a connection to a node, as Dial does, and closes the connection if that fails.
func (c *Cluster) Greet(ctx context.Context, conn net.Conn) (*Conn, error) {
	made := &Conn{conn: conn, in: bufio.NewReaderSize(conn, lineMax)}
	for _, args := range c.greetings() {
		r, err := made.Do(ctx, args...)
		if err == nil && r.IsErr() {
			err = resp.Error(r.Str)
		}
		if err != nil {
			made.Close()
			return nil, err
		}
	}
	return made, nil
}

// connect opens a connection, with TLS if it is configured.
func (c *Cluster) connect(ctx context.Context, addr string) (net.Conn, error) {
	switch {
	case c.Connect != nil:
		return c.Connect(ctx, addr)
	case c.TLS == nil:
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{Config: c.TLS}).DialContext(ctx, "tcp", addr)
}

// greetings returns the commands that begin a connection.
func (c *Cluster) greetings() [][]string {
	hello := []string{"HELLO", "3"}
	if c.User != "" || c.Password != "" {
		hello = append(hello, "AUTH", cmp.Or(c.User, "default"), c.Password)
	}
	if c.Name != "" {
		hello = append(hello, "SETNAME", c.Name)
	}
	if c.DB != 0 {
		return [][]string{hello, {"SELECT", strconv.Itoa(c.DB)}}
	}
	return [][]string{hello}
}

// Close ends the connection.
func (c *Conn) Close() { c.conn.Close() }

// Do sends one command and waits for its answer without a limit; the connection closes when ctx ends. An error that
// the server answers is a reply. After an error the connection is unusable.
func (c *Conn) Do(ctx context.Context, args ...string) (resp.Reply, error) {
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	r, err := c.do(args)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer from %s: %w", c.conn.RemoteAddr(), ctx.Err())
	}
	return r, err
}

// do sends a command and reads its reply, past pushes.
func (c *Conn) do(args []string) (resp.Reply, error) {
	if err := c.Send(args...); err != nil {
		return resp.Reply{}, err
	}
	for {
		r, err := c.Receive()
		if err != nil || r.Kind != resp.KindPush { // pushes are skipped
			return r, err
		}
	}
}

// Send sends one command, and does not wait for its answer.
func (c *Conn) Send(args ...string) error { return c.SendAll(args) }

// SendAll sends commands at once, as a pipeline, and does not wait for their answers.
func (c *Conn) SendAll(cmds ...[]string) error {
	var text []byte
	for _, args := range cmds {
		items := make([]resp.Reply, len(args))
		for i, arg := range args {
			items[i] = resp.Bulk(arg)
		}
		text = resp.Array(items...).AppendTo(text, 2)
	}
	_, err := c.conn.Write(text)
	return err
}

// Receive waits for the next reply or push. Another goroutine may send meanwhile.
func (c *Conn) Receive() (resp.Reply, error) { return (&reader{in: c.in, left: replyMax}).reply(0) }
