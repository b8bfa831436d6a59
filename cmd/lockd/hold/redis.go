package hold

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Cluster is a Server: some nodes of a lockd cluster, any of which will do. Each command has a
// connection of its own. Any goroutine may call it.
type Cluster struct {
	Addrs    []string // host:port of the nodes, one at least
	User     string   // "" is the default user
	Password string   // "": none is asked for
	Name     string   // CLIENT SETNAME
	Key      string
	Token    string
	Lease    time.Duration // milliseconds are what counts
	Options  []string      // further words of LOCK

	turn atomic.Uint64 // of the node that is asked
}

var _ Server = (*Cluster)(nil)

// Lock implements Server. Each call goes to the next node: the last one may hang.
func (c *Cluster) Lock(ctx context.Context, wait time.Duration) (fence int64, err error) {
	args := redis.Args{c.Key, c.Token, "PX", c.Lease.Milliseconds(), "WAIT", wait.Milliseconds()}
	return c.do(ctx, c.turn.Add(1), "LOCK", args.AddFlat(c.Options)...)
}

// Renew implements Server. It asks the node that has answered last, or else the next.
func (c *Cluster) Renew(ctx context.Context) error {
	_, err := c.do(ctx, c.turn.Load(), "RENEW", c.Key, c.Token, "PX", c.Lease.Milliseconds())
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
func (c *Cluster) do(ctx context.Context, turn uint64, command string, args ...any) (int64, error) {
	n, err := c.ask(ctx, c.Addrs[turn%uint64(len(c.Addrs))], command, args...)
	var answer redis.Error
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, redis.ErrNil):
		return 0, ErrNotHeld
	case errors.As(err, &answer) && !passes(string(answer)):
		return 0, RefusedError{string(answer)}
	}
	c.turn.CompareAndSwap(turn, turn+1)
	return 0, err
}

// ask sends one command to one node. Its connection closes when ctx ends.
func (c *Cluster) ask(ctx context.Context, addr, command string, args ...any) (int64, error) {
	conn, err := redis.DialContext(ctx, "tcp", addr,
		redis.DialConnectTimeout(connectMax), redis.DialWriteTimeout(connectMax), redis.DialReadTimeout(connectMax),
		redis.DialUsername(c.User), redis.DialPassword(c.Password), redis.DialClientName(c.Name))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	return redis.Int64(redis.DoWithTimeout(conn, 0, command, args...))
}

// connectMax is how long a node may take to accept a connection, and a command.
const connectMax = 2 * time.Second

// passes reports whether an error answer is one that another try may not get.
func passes(answer string) bool {
	for _, start := range []string{
		"UNKNOWN", "LOADING", "BUSY ", "UNBLOCKED", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS",
		"ERR max number of clients", "ERR another connection waits",
	} {
		if strings.HasPrefix(answer, start) {
			return true
		}
	}
	return false
}
