package main

import (
	"context"
	"fmt"
	"time"
)

// plain is a client without a lock library, with the operations of a program that locks by hand. Each method uses the
// client's native call.
type plain interface {
	take(ctx context.Context, key, token string, lease time.Duration) (bool, error) // SET NX PX
	release(ctx context.Context, key, token string) (int64, error)                  // a script, EVALSHA first
	set(ctx context.Context, key, value string) error
	get(ctx context.Context, key string) (value string, found bool, err error)
	pipeline(ctx context.Context, key string) (int64, error)    // three INCR at once; the last answer
	transaction(ctx context.Context, key string) (int64, error) // WATCH, MULTI, INCR, EXEC
	wrongType(ctx context.Context, key string) error            // HGET
	hear(ctx context.Context, channel, message string) (string, error)
	close()
}

// compareAndDelete is the usual script to release a lock.
const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else ` +
	`return 0 end`

// plainScenes returns the scenes of a client; finds: it finds a new leader, instead of failing with its node.
func plainScenes(open func() (plain, error), finds bool) []scene {
	with := func(show func(context.Context, plain) error) func(context.Context) error {
		return func(ctx context.Context) error {
			c, err := open()
			if err != nil {
				return err
			}
			defer c.close()
			return show(ctx, c)
		}
	}
	failover := scene{"failover", true, func(ctx context.Context, d *death, ready func()) (string, error) {
		if err := needs(isLockd, "failover of a single server"); err != nil {
			return "", err
		}
		return "", with(func(ctx context.Context, c plain) error { return outage(ctx, c, d, ready) })(ctx)
	}}
	if !finds {
		failover = calm("failover",
			func(context.Context) error { return noScene("a client of one address does not outlive that node") })
	}
	return []scene{calm("commands", with(commands)), failover}
}

// commands runs the commands of a program that locks by hand.
func commands(ctx context.Context, c plain) error {
	key := "{" + freshName("commands") + "}"
	for _, step := range []struct {
		what string
		want any
		do   func() (any, error)
	}{
		{"SET NX PX", true, func() (any, error) { return c.take(ctx, key, "me", time.Minute) }},
		{"SET NX PX, taken", false, func() (any, error) { return c.take(ctx, key, "you", time.Minute) }},
		{"release by another", int64(0), func() (any, error) { return c.release(ctx, key, "you") }},
		{"release", int64(1), func() (any, error) { return c.release(ctx, key, "me") }},
		{"GET of nothing", false, func() (any, error) {
			_, found, err := c.get(ctx, key)
			return found, err
		}},
		{"pipeline", int64(3), func() (any, error) { return c.pipeline(ctx, key) }},
		{"transaction", int64(4), func() (any, error) { return c.transaction(ctx, key) }},
		{"GET", "4", func() (any, error) {
			value, _, err := c.get(ctx, key)
			return value, err
		}},
		{"error", "WRONGTYPE Operation against a key holding the wrong kind of value", func() (any, error) {
			return fmt.Sprint(c.wrongType(ctx, key)), nil
		}},
		{"Pub/Sub", "hello", func() (any, error) { return c.hear(ctx, key, "hello") }},
	} {
		got, err := step.do()
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		if got != step.want {
			return fmt.Errorf("%s: %v, not %v", step.what, got, step.want)
		}
	}
	return nil
}

// outageMax bounds the time from the leader's death to a program's next success.
const outageMax = 3 * time.Second

// outage writes while the leader dies, and retries failed writes.
func outage(ctx context.Context, c plain, d *death, ready func()) error {
	key := "{" + freshName("outage") + "}"
	if err := c.set(ctx, key, "0"); err != nil {
		return err
	}
	ready()
	last, longest := time.Now(), time.Duration(0)
	for n := 1; !d.isOver(); n++ {
		if c.set(ctx, key, fmt.Sprint(n)) == nil {
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	longest = max(longest, time.Since(last))
	if d.failed == nil && longest > outageMax {
		return tooLate("no write succeeded for %s", longest)
	}
	return d.failed
}
