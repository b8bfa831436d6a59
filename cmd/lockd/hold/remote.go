package hold

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"lockd/internal/client"
	"lockd/resp"
)

// Cluster is a Server: some nodes of a lockd cluster, any of which can answer. Each command uses a separate
// connection. It is safe for concurrent use.
type Cluster struct {
	Addrs    []string    // host:port of the nodes, one at least
	User     string      // "": the default user
	Password string      // without user and password no AUTH is sent
	TLS      *tls.Config // nil: none
	Name     string      // CLIENT SETNAME
	Key      string
	Token    string
	Lease    time.Duration // in whole milliseconds
	Options  []string      // further words of LOCK

	turn atomic.Uint64 // of the node that is asked
}

var _ Server = (*Cluster)(nil)

// Lock implements Server. Each call goes to the next node: the last one may hang.
func (c *Cluster) Lock(ctx context.Context, wait time.Duration) (fence int64, err error) {
	args := []string{"LOCK", c.Key, c.Token, "PX", milliseconds(c.Lease), "WAIT", milliseconds(wait)}
	return c.do(ctx, c.turn.Add(1), append(args, c.Options...)...)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Renew implements Server. It asks the node that has answered last, or else the next.
func (c *Cluster) Renew(ctx context.Context) error {
	_, err := c.do(ctx, c.turn.Load(), "RENEW", c.Key, c.Token, "PX", milliseconds(c.Lease))
	return err
}

// Unlock implements Server. It asks the node that has answered last, or else the next.
func (c *Cluster) Unlock(ctx context.Context) error {
	n, err := c.do(ctx, c.turn.Load(), "UNLOCK", c.Key, c.Token)
	if err == nil && n == 0 {
		return ErrNotHeld
	}
	return err
}

// do sends one command to the node whose turn it is, and reads an integer; null is ErrNotHeld.
func (c *Cluster) do(ctx context.Context, turn uint64, args ...string) (int64, error) {
	n, err := c.tryKept(ctx, c.Addrs[turn%uint64(len(c.Addrs))], args)
	var answer resp.Error
	switch {
	case err == nil || errors.Is(err, ErrNotHeld):
		return n, err
	case errors.As(err, &answer) && !client.Temporary(string(answer)):
		return 0, RefusedError{string(answer)}
	}
	c.turn.CompareAndSwap(turn, turn+1)
	return 0, err
}

var errNoInteger = errors.New("the server answers something else than an integer")

// ask sends one command to one node. Its connection closes when ctx ends.
func (c *Cluster) tryKept(ctx context.Context, addr string, args []string) (int64, error) {
	as := client.Cluster{User: c.User, Password: c.Password, TLS: c.TLS, Name: c.Name}
	conn, err := as.Dial(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r, err := conn.Do(ctx, args...)
	switch {
	case err != nil:
		return 0, err
	case r.IsErr():
		return 0, resp.Error(r.Str)
	case r.IsNil():
		return 0, ErrNotHeld
	case r.Kind != resp.KindInt:
		return 0, errNoInteger
	}
	return r.Int, nil
}
