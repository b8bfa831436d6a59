package target

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// Reply is a reply of a server, in RESP2 or RESP3, or a push.
type Reply struct {
	Kind  byte // '+' status, '-' error, ':' integer, '$' string, '*' array or map, '>' push
	Str   string
	Int   int64
	Elems []Reply
	Nil   bool // whether a string or an array is nil
}

// IsErr reports whether the reply is an error; Str is its text.
func (r Reply) IsErr() bool { return r.Kind == '-' }

// Text returns the reply as one word: "nil", the digits of an integer, or the text.
func (r Reply) Text() string {
	switch {
	case r.Nil:
		return "nil"
	case r.Kind == ':':
		return strconv.FormatInt(r.Int, 10)
	case r.Kind == '*':
		return fmt.Sprint(r.Texts())
	}
	return r.Str
}

// Texts returns the elements of an array, each as one word.
func (r Reply) Texts() []string {
	out := make([]string, len(r.Elems))
	for i, e := range r.Elems {
		out[i] = e.Text()
	}
	return out
}

// Conn is a connection to a server. It never repeats a command. One goroutine at a time may use it.
type Conn struct {
	conn   net.Conn
	r      *bufio.Reader
	pushed []Reply // pushes that came before replies, for Wait
}

// Dial connects to a server and has it answer a PING, both within timeout: behind a proxy, an open connection says
// nothing about the server.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	return dial(thisMachine{}, addr, timeout, nil)
}

// dial is Dial, with TLS if secure is not nil.
func dial(at Host, addr string, timeout time.Duration, secure *tls.Config) (*Conn, error) {
	deadline := time.Now().Add(timeout)
	conn, err := at.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		conn = tlsConn{tls.Client(conn, secure)}
	}
	return Over(conn, time.Until(deadline))
}

// tlsConn closes its connection without TLS's closing message, which could block.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error { return c.NetConn().Close() }

// Over makes a Conn of a connection and has the server answer a PING within timeout. If the server does not, Over
// closes the connection.
func Over(conn net.Conn, timeout time.Duration) (*Conn, error) {
	c := &Conn{conn: conn, r: bufio.NewReader(conn)}
	reply, err := c.Do(timeout, "PING")
	if err == nil && reply.Str != "PONG" {
		err = fmt.Errorf("PING was answered with %q", reply.Text())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// CloseWrite closes the client's half of the connection. The client still receives what the server sends until that
// closes the other half.
func (c *Conn) CloseWrite() error {
	conn := c.conn
	if secure, ok := conn.(tlsConn); ok {
		conn = secure.NetConn()
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Do sends a command and waits for the reply. After an error the connection must not be used again, and it is unknown
// whether the command was done.
func (c *Conn) Do(timeout time.Duration, args ...string) (Reply, error) {
	replies, err := c.Pipe(timeout, args)
	if err != nil {
		return Reply{}, err
	}
	return replies[0], nil
}

// Pipe sends commands at once and waits for all replies.
func (c *Conn) Pipe(timeout time.Duration, cmds ...[]string) ([]Reply, error) {
	if err := c.Send(timeout, cmds...); err != nil {
		return nil, err
	}
	replies := make([]Reply, 0, len(cmds))
	for len(replies) < len(cmds) {
		switch r, err := c.read(); {
		case err != nil:
			return nil, err
		case r.Kind == '>':
			c.pushed = append(c.pushed, r)
		default:
			replies = append(replies, r)
		}
	}
	return replies, nil
}

// Send sends commands and does not wait for replies.
func (c *Conn) Send(timeout time.Duration, cmds ...[]string) error {
	var out []byte
	for _, args := range cmds {
		out = append(out, '*')
		out = strconv.AppendInt(out, int64(len(args)), 10)
		out = append(out, '\r', '\n')
		for _, a := range args {
			out = append(out, '$')
			out = strconv.AppendInt(out, int64(len(a)), 10)
			out = append(out, '\r', '\n')
			out = append(out, a...)
			out = append(out, '\r', '\n')
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(out)
	return err
}

// ErrQuiet is the error of Wait when nothing has arrived.
var ErrQuiet = errors.New("nothing has come")

// ErrEnded is the error of Wait when the server has closed the connection between two replies.
var ErrEnded = errors.New("the server has ended the connection")

// Wait waits for one reply without sending a command, such as a message. After ErrQuiet the connection can still be
// used.
func (c *Conn) Wait(timeout time.Duration) (Reply, error) {
	if len(c.pushed) > 0 {
		r := c.pushed[0]
		c.pushed = c.pushed[1:]
		return r, nil
	}
	if err := c.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return Reply{}, err
	}
	switch _, err := c.r.Peek(1); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Reply{}, ErrQuiet
	case err == io.EOF:
		return Reply{}, ErrEnded
	}
	if err := c.conn.SetDeadline(time.Now().Add(restMax)); err != nil {
		return Reply{}, err
	}
	return c.read()
}

// restMax bounds the wait for the rest of a reply after its first byte.
const restMax = 5 * time.Second

var errProtocol = errors.New("not RESP")

const replyBytesMax = 64 << 20 // of a string, or elements of an array

// read reads one reply.
func (c *Conn) read() (Reply, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return Reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return Reply{}, fmt.Errorf("%w: %q", errProtocol, line)
	}
	r, pairs := Reply{Kind: line[0], Str: line[1 : len(line)-2]}, int64(1)
	switch r.Kind {
	case '+', '-':
		return r, nil
	case '_':
		return Reply{Kind: '$', Nil: true}, nil
	case ':', '$', '*', '>':
	case '%':
		pairs = 2
	default:
		return Reply{}, fmt.Errorf("%w: %q", errProtocol, line)
	}
	if r.Int, err = strconv.ParseInt(r.Str, 10, 64); err != nil {
		return Reply{}, fmt.Errorf("%w: %q", errProtocol, line)
	}
	r.Str = ""
	switch {
	case r.Kind == ':':
		return r, nil
	case r.Int == -1:
		r.Nil = true
		return r, nil
	case r.Int < 0 || r.Int > replyBytesMax:
		return Reply{}, fmt.Errorf("%w: %q", errProtocol, line)
	}
	if r.Kind == '$' {
		buf := make([]byte, r.Int+2)
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return Reply{}, err
		}
		r.Str = string(buf[:r.Int])
		return r, nil
	}
	if r.Kind == '%' {
		r.Kind = '*' // as in RESP2
	}
	for n := r.Int * pairs; n > 0; n-- {
		e, err := c.read()
		if err != nil {
			return Reply{}, err
		}
		r.Elems = append(r.Elems, e)
	}
	return r, nil
}
