package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// clientName is that of the console's connections, which LOCKS FORCE writes down.
const clientName = "lockd-console"

// visitor is who asks: a browser, and the password that it gave.
type visitor struct {
	addr           net.Addr
	user, password string
	given          bool // there is a password
}

// question is what a page asks of the node: commands in one database.
type question struct {
	visitor
	db       int
	commands [][]string
}

// key is the same for equal questions of equal rights.
func (q *question) key() string {
	return fmt.Sprintf("%q %q %v %d %q", q.user, q.password, q.given, q.db, q.commands)
}

// Why a question has no answer.
var (
	errBusy     = errors.New("too much is asked of this console at once")
	errTooLarge = errors.New("the answer is too large for a page: search for less, or ask by LOCKS")
	errEnded    = errors.New("the node has ended the connection: it stops, has too many clients, or does not serve " +
		"other machines")
)

// refusedError is the node's refusal of whoever asks: NOAUTH, WRONGPASS.
type refusedError struct{ why string }

func (e refusedError) Error() string { return e.why }

// ask has the node answer a question on a connection of its own: for each command a value of redigo, or
// its error. Any other error means that the rest has no answer.
func (c *Console) ask(ctx context.Context, q question) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeMax)
	defer cancel()
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, errBusy
	}
	return c.askNow(ctx, q)
}

// askNow is ask, however many others ask.
func (c *Console) askNow(ctx context.Context, q question) ([]any, error) {
	raw, err := c.cfg.Dial(q.addr)
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(&meteredConn{Conn: raw, left: answerBytesMax}, 0, 0)
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	answers, err := c.converse(conn, &q)
	switch {
	case err == nil:
		return answers, nil
	case errors.Is(err, errTooLarge), errors.As(err, new(redis.Error)), errors.As(err, &refusedError{}):
		return nil, err
	case ctx.Err() != nil:
		return nil, errors.New("the node has not answered in time")
	}
	return nil, errEnded
}

// meteredConn reads no more than an answer may have.
type meteredConn struct {
	net.Conn
	left int
}

// Read reads as long as there is something left.
func (c *meteredConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLarge
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	return n, err
}

// converse introduces the visitor and asks.
func (c *Console) converse(conn redis.Conn, q *question) ([]any, error) {
	if q.given {
		if _, err := conn.Do("AUTH", q.user, q.password); err != nil {
			return nil, refusal(err)
		}
	}
	if _, err := conn.Do("CLIENT", "SETNAME", clientName); err != nil {
		return nil, refusal(err)
	}
	if c.cfg.ReadOnly {
		if _, err := conn.Do("READONLY"); err != nil {
			return nil, err
		}
	}
	if q.db != 0 {
		if _, err := conn.Do("SELECT", q.db); err != nil {
			return nil, err
		}
	}
	answers := make([]any, 0, len(q.commands))
	for _, command := range q.commands {
		v, err := conn.Do(command[0], redis.Args{}.AddFlat(command[1:])...)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			v = refused
		case err != nil:
			return nil, err
		}
		answers = append(answers, v)
	}
	return answers, nil
}

// refusal tells a wrong password from what else can go wrong.
func refusal(err error) error {
	var answer redis.Error
	if errors.As(err, &answer) {
		for _, code := range []string{"NOAUTH", "WRONGPASS"} {
			if strings.HasPrefix(string(answer), code) {
				return refusedError{string(answer)}
			}
		}
	}
	return err
}

// askAs asks for a visitor whose wrong passwords are counted.
func (c *Console) askAs(ctx context.Context, q question) ([]any, error) {
	if !q.given {
		return c.ask(ctx, q)
	}
	if wait := c.failures.begin(q.addr, time.Now()); wait > 0 {
		return nil, waitError{wait}
	}
	answers, err := c.ask(ctx, q)
	c.failures.end(q.addr, errors.As(err, &refusedError{}))
	return answers, err
}

// waitError is the answer to who has given too many wrong passwords.
type waitError struct{ wait time.Duration }

func (e waitError) Error() string {
	return fmt.Sprintf("too many wrong passwords from this address: try again in %s", e.wait.Round(time.Second))
}
