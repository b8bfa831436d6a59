package load

import (
	"context"
	"io"
	"time"
)

// Locks are locks that are taken and kept, each under a separate key. They measure the memory of a server, not its
// speed.
type Locks struct {
	Count int
	Until time.Time // all leases end at this moment; zero: after an hour each
}

// Held locks have separate names: no workload releases them.
const (
	heldPrefix  = keyPrefix + "held:"
	heldLeaseMs = 3_600_000
	tokenSize   = 20
)

// Key returns the name of the i-th lock.
func (l Locks) Key(i int) string { return string(appendDigits([]byte(heldPrefix), i)) }

// Token returns the token of the i-th lock.
func (l Locks) Token(i int) string { return string(appendValue(nil, i, tokenSize)) }

// Take takes all locks, by SET NX PX, from the server at addr; a lock that is not free is an error.
func (l Locks) Take(ctx context.Context, addr string, progress io.Writer) error {
	option, ms := "PX", int64(heldLeaseMs)
	if !l.Until.IsZero() {
		option, ms = "PXAT", l.Until.UnixMilli()
	}
	d := &redisDriver{target: Target{Addrs: []string{addr}}}
	report := newCounter(progress, addr+": locks taken", l.Count)
	err := d.batches(ctx, &plan{keys: l.Count}, report.add, func(c *conn, i int) {
		c.command("SET", 6)
		c.argKey(heldPrefix, i)
		c.argValue(i, tokenSize)
		c.arg("NX")
		c.arg(option)
		c.argInt(int(ms))
	}, func(c *conn) error { return c.expectOK("SET NX PX on a free lock") })
	return interrupted(ctx, err)
}
