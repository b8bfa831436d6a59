package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"lockd/internal/client"
	"lockd/resp"
)

// clientName is the client name of the console's connections, which LOCKS FORCE records.
const clientName = "lockd-console"

// visitor is a browser, with the user and password that it gave; without a password there is no user.
type visitor struct {
	addr           net.Addr
	user, password string
}

// question is a visitor's list of commands for the node, in one database.
type question struct {
	visitor
	db       int
	commands [][]string
}

// key is equal for equal questions of visitors with equal rights.
func (q *question) key() string {
	return fmt.Sprintf("%q %q %d %q", q.user, q.password, q.db, q.commands)
}

// Reasons why a question has no answer.
var (
	errBusy     = errors.New("too much is asked of this console at once")
	errTooLarge = errors.New("the answer is too large for a page: search for less, or ask by LOCKS")
	errEnded    = errors.New("the node has ended the connection: it stops, has too many clients, or does not serve " +
		"other machines")
)

// refusedError is the node's refusal of the visitor: NOAUTH, WRONGPASS.
type refusedError struct{ why string }

func (e refusedError) Error() string { return e.why }

// ask sends the commands of a question to the node on a connection of its own, and returns a reply for each. It waits
// while asksMax questions are on their way.
func (c *Console) ask(ctx context.Context, q question) ([]resp.Reply, error) {
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

// askNow is ask without that limit.
func (c *Console) askNow(ctx context.Context, q question) ([]resp.Reply, error) {
	raw, err := c.cfg.Dial(q.addr)
	if err != nil {
		return nil, err
	}
	answers, err := c.converse(ctx, &meteredConn{Conn: raw, left: answerBytesMax}, &q)
	switch {
	case err == nil:
		return answers, nil
	case errors.Is(err, errTooLarge), errors.As(err, new(resp.Error)), errors.As(err, &refusedError{}),
		errors.As(err, &waitError{}):
		return nil, err
	case ctx.Err() != nil:
		return nil, errors.New("the node has not answered in time")
	}
	return nil, errEnded
}

// meteredConn limits the bytes read from a connection to left.
type meteredConn struct {
	net.Conn
	left int
}

// Read fails with errTooLarge once nothing is left.
func (c *meteredConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLarge
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	return n, err
}

// converse authenticates the visitor and sends the commands.
func (c *Console) converse(ctx context.Context, raw net.Conn, q *question) ([]resp.Reply, error) {
	as := client.Cluster{User: q.user, Password: q.password, Name: clientName, DB: q.db}
	conn, err := as.Greet(ctx, raw)
	if err != nil {
		return nil, refusal(err)
	}
	defer conn.Close()
	if c.cfg.ReadOnly {
		if _, err := conn.Do(ctx, "READONLY"); err != nil {
			return nil, err
		}
	}
	answers := make([]resp.Reply, len(q.commands))
	for i, command := range q.commands {
		if answers[i], err = conn.Do(ctx, command...); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// refusal turns the node's refusal of a visitor into a refusedError or a waitError; other errors stay.
func refusal(err error) error {
	var said resp.Error
	if errors.As(err, &said) {
		if wait, ok := strings.CutPrefix(string(said), resp.ErrWrongPassMax); ok {
			return waitError{wait}
		}
		for _, code := range []string{"NOAUTH", "WRONGPASS"} {
			if strings.HasPrefix(string(said), code) {
				return refusedError{string(said)}
			}
		}
	}
	return err
}

// waitError is the node's refusal of an address with too many wrong passwords, with the time left: "60 s".
type waitError struct{ wait string }

func (e waitError) Error() string {
	return "too many wrong passwords from this address: try again in " + e.wait
}
