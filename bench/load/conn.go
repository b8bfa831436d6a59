package load

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is a connection in Redis's protocol. It reuses its buffers, so that an exchange allocates nothing.
type conn struct {
	net  net.Conn
	ctx  context.Context // when it ends, pending waits of the connection fail at once
	stop func() bool     // no more of that
	addr string
	out  []byte // what the next send sends
	in   []byte // in[r:w] was received and not read yet
	r, w int
}

// Limits.
const (
	dialMax   = 5 * time.Second
	answerMax = 30 * time.Second // a server that is silent for longer ends the measurement
	textMax   = 200              // of a reply in an error
)

// Login configures how clients connect and authenticate. The zero Login has neither TLS nor password.
type Login struct {
	User     string // "" is the default user
	Password string // "": none is asked for
	TLS      *tls.Config
}

func (l *Login) dial(ctx context.Context, addr string) (*conn, error) {
	c, err := l.connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", addr, cause(err))
	}
	fresh := &conn{net: c, ctx: ctx, addr: addr, in: make([]byte, 4096)}
	fresh.stop = context.AfterFunc(ctx, fresh.cut)
	if l.Password == "" {
		return fresh, nil
	}
	if _, err := fresh.ask("AUTH", cmp.Or(l.User, "default"), l.Password); err != nil {
		fresh.close()
		return nil, err
	}
	return fresh, nil
}

func (l *Login) connect(ctx context.Context, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialMax}
	if l.TLS == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: d, Config: l.TLS}).DialContext(ctx, "tcp", addr)
}

// cause strips the wrapping that repeats the address.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (c *conn) close() {
	c.stop()
	c.net.Close()
}

// limit sets how much longer the connection waits; 0: for ever.
func (c *conn) limit(d time.Duration) {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	c.net.SetDeadline(until)
	if c.ctx.Err() != nil {
		c.cut() // it may have been cut just before
	}
}

// cut makes pending waits of the connection fail at once.
func (c *conn) cut() { c.net.SetDeadline(time.Unix(1, 0)) }

// command begins a command of n arguments, including the name.
func (c *conn) command(name string, n int) {
	c.out = append(c.out, '*')
	c.out = strconv.AppendInt(c.out, int64(n), 10)
	c.out = append(c.out, '\r', '\n')
	c.arg(name)
}

func (c *conn) arg(s string) {
	c.argLen(len(s))
	c.out = append(c.out, s...)
	c.out = append(c.out, '\r', '\n')
}

func (c *conn) argLen(n int) {
	c.out = append(c.out, '$')
	c.out = strconv.AppendInt(c.out, int64(n), 10)
	c.out = append(c.out, '\r', '\n')
}

func (c *conn) argInt(n int) {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], int64(n), 10)
	c.argLen(len(text))
	c.out = append(c.out, text...)
	c.out = append(c.out, '\r', '\n')
}

// argKey appends the i-th key with a prefix.
func (c *conn) argKey(prefix string, i int) {
	c.argLen(len(prefix) + keyDigits)
	c.out = append(c.out, prefix...)
	c.out = appendDigits(c.out, i)
	c.out = append(c.out, '\r', '\n')
}

// argValue appends the value, of size bytes, of the i-th key.
func (c *conn) argValue(i, size int) {
	c.argLen(size)
	c.out = appendValue(c.out, i, size)
	c.out = append(c.out, '\r', '\n')
}

// send sends the appended commands in one write.
func (c *conn) send() error {
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("%s: sending failed: %w", c.addr, cause(err))
	}
	return nil
}

// reply is one answer, or the head of an array, whose n elements are read next.
type reply struct {
	kind byte   // + - : $ *
	n    int64  // of : and *
	null bool   // of $ and *
	text []byte // of + - $; it holds until the next read
}

func (r reply) String() string {
	text := string(r.text[:min(len(r.text), textMax)])
	switch {
	case r.null:
		return "nil"
	case r.kind == '$':
		return strconv.Quote(text)
	case r.kind == ':' || r.kind == '*':
		return string(r.kind) + strconv.FormatInt(r.n, 10)
	}
	return string(r.kind) + text
}

// read reads the next reply.
func (c *conn) read() (reply, error) {
	line, err := c.line()
	if err != nil {
		return reply{}, err
	}
	if len(line) == 0 {
		return reply{}, c.garbled("an empty line")
	}
	r := reply{kind: line[0], text: line[1:]}
	switch r.kind {
	case '+', '-':
		return r, nil
	case ':', '*', '$':
		n, ok := parseInt(r.text)
		if !ok {
			return reply{}, c.garbled(strconv.Quote(string(line)))
		}
		r.n, r.null, r.text = n, n < 0 && r.kind != ':', nil
		if r.kind == '$' && !r.null {
			r.text, err = c.bulk(int(n))
		}
		return r, err
	}
	return reply{}, c.garbled(strconv.Quote(string(line[:min(len(line), textMax)])))
}

func (c *conn) garbled(what string) error {
	return fmt.Errorf("%s: %s is no reply in Redis's protocol", c.addr, what)
}

// line reads the next line, without its end.
func (c *conn) line() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(c.in[c.r+seen:c.w], '\n'); i >= 0 {
			line := c.in[c.r : c.r+seen+i]
			c.r += seen + i + 1
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		seen = c.w - c.r
		if err := c.receive(); err != nil {
			return nil, err
		}
	}
}

// bulk reads the next n bytes, and the end of line after them.
func (c *conn) bulk(n int) ([]byte, error) {
	for c.w-c.r < n+2 {
		if err := c.receive(); err != nil {
			return nil, err
		}
	}
	text := c.in[c.r : c.r+n]
	if c.in[c.r+n] != '\r' || c.in[c.r+n+1] != '\n' {
		return nil, c.garbled("a bulk string without an end of line")
	}
	c.r += n + 2
	return text, nil
}

// receive makes room for more bytes and waits for them.
func (c *conn) receive() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.in) {
		if c.r > 0 {
			c.w = copy(c.in, c.in[c.r:c.w])
			c.r = 0
		} else {
			c.in = append(c.in, make([]byte, len(c.in))...)
		}
	}
	n, err := c.net.Read(c.in[c.w:])
	c.w += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s closed the connection", c.addr)
	case err == nil:
		return io.ErrNoProgress
	}
	return fmt.Errorf("%s: no answer: %w", c.addr, cause(err))
}

// expect reads the reply to the named command, which must be of this kind.
func (c *conn) expect(name string, kind byte) (reply, error) {
	r, err := c.read()
	if err == nil && r.kind != kind {
		err = c.wrong(name, r)
	}
	return r, err
}

// expectOK reads +OK.
func (c *conn) expectOK(name string) error {
	r, err := c.expect(name, '+')
	if err == nil && string(r.text) != "OK" {
		err = c.wrong(name, r)
	}
	return err
}

// expectInt reads the integer want.
func (c *conn) expectInt(name string, want int64) error {
	r, err := c.expect(name, ':')
	if err == nil && r.n != want {
		err = c.wrong(name, r)
	}
	return err
}

// expectText reads a bulk string that must equal want.
func (c *conn) expectText(name, want string) error {
	r, err := c.expect(name, '$')
	if err == nil && (r.null || string(r.text) != want) {
		err = c.wrong(name, r)
	}
	return err
}

// wrong returns the error for an unexpected reply.
func (c *conn) wrong(name string, r reply) error {
	return fmt.Errorf("%s answered %s with %v", c.addr, name, r)
}

// ask is Ask over this connection.
func (c *conn) ask(args ...string) ([]string, error) {
	c.command(args[0], len(args))
	for _, a := range args[1:] {
		c.arg(a)
	}
	c.limit(answerMax)
	defer c.limit(0)
	if err := c.send(); err != nil {
		return nil, err
	}
	var all []string
	for left := int64(1); left > 0; left-- {
		r, err := c.read()
		if err != nil {
			return nil, err
		}
		switch r.kind {
		case '-':
			return nil, c.wrong(args[0], r)
		case '*':
			left += max(r.n, 0)
		case ':':
			all = append(all, strconv.FormatInt(r.n, 10))
		default:
			all = append(all, string(r.text))
		}
	}
	return all, nil
}

func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
