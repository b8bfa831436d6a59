package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// lineWait is the WAIT of clients that are expected to get the lock.
const lineWait = 30 * time.Second

// A read timeout must be longer than WAIT: go-redis treats LOCK like any command, and by default retries after 5 s.
const (
	lineRead     = lineWait + 10*time.Second
	goRedisRead  = 5 * time.Second
	overTheUsual = goRedisRead + 500*time.Millisecond
)

// shortRead is a read timeout that is shorter than WAIT; retriesMax bounds the client's own retries.
const (
	shortRead  = 2 * time.Second
	retriesMax = 20
)

// goRedisLine shows lockd's native locks, by go-redis's call for any command.
type goRedisLine struct{ open goRedisOpen }

func (l goRedisLine) show(ctx context.Context) error {
	if err := needs(isLockd, "LOCK"); err != nil {
		return err
	}
	var askers []asker
	for i := range 3 {
		c := l.open(i, redis.UniversalOptions{ReadTimeout: lineRead})
		defer func() { _ = c.Close() }()
		askers = append(askers, asker{c})
	}
	for _, part := range []struct {
		what string
		show func(context.Context, []asker) error
	}{
		{"in turn", inTurn},
		{"not in turn", notInTurn},
		{"SHARED", readers},
		{"LIMIT", permits},
		{"error", lockOfList},
		{"asked again by the client", l.retried},
	} {
		if err := part.show(ctx, askers); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// asker is a program that asks for locks.
type asker struct{ c redis.UniversalClient }

// do sends a command of a lock, and returns 0 for nil.
func (a asker) do(ctx context.Context, args ...any) (int64, error) {
	n, err := a.c.Do(ctx, args...).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

// lock returns the fence; more are the arguments after the lease.
func (a asker) lock(ctx context.Context, key, token string, more ...any) (int64, error) {
	return a.do(ctx, append([]any{"LOCK", key, token, "PX", longLease.Milliseconds()}, more...)...)
}

// granted is the result of a wait.
type granted struct {
	fence int64
	err   error
	at    time.Time
}

// wait asks for the lock, and waits in its line.
func (a asker) wait(ctx context.Context, key, token string, more ...any) <-chan granted {
	got := make(chan granted, 1)
	go func() {
		fence, err := a.lock(ctx, key, token, append([]any{"WAIT", lineWait.Milliseconds()}, more...)...)
		got <- granted{fence, err, time.Now()}
	}()
	return got
}

// waitTwice asks for the lock on two connections with one token. The later connection takes over the place in line,
// and the earlier one is told so. After that the token is certainly in line.
func waitTwice(ctx context.Context, a, b asker, key, token string) (<-chan granted, error) {
	one, other := a.wait(ctx, key, token), b.wait(ctx, key, token)
	var told granted
	left := one
	select {
	case told = <-one:
		left = other
	case told = <-other:
	}
	const want = "ERR another connection waits for this lock with the same token now"
	if told.err == nil || !strings.HasPrefix(told.err.Error(), want) {
		return nil, fmt.Errorf("the connection before: %d, %v, not %s", told.fence, told.err, want)
	}
	return left, nil
}

// expect returns a function that fails unless a command answers want.
func expect(what string, want int64) func(got int64, err error) error {
	return func(got int64, err error) error {
		if err == nil && got != want {
			err = fmt.Errorf("%d, not %d", got, want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

// above fails unless the fence exceeds an earlier one.
func above(before int64, g granted) error {
	if g.err != nil || g.fence <= before {
		return fmt.Errorf("%d, %v, after the fence %d", g.fence, g.err, before)
	}
	return nil
}

// inTurn shows that two waiters behind the holder, at other nodes, get the lock in their order.
func inTurn(ctx context.Context, askers []asker) error {
	key := freshName("line")
	first, err := askers[0].lock(ctx, key, "a", "OWNER", "first", "NOTE", "is the first")
	if err := above(0, granted{fence: first, err: err}); err != nil {
		return err
	}
	second, err := waitTwice(ctx, askers[1], askers[2], key, "b")
	if err != nil {
		return err
	}
	third, err := waitTwice(ctx, askers[2], askers[0], key, "c")
	if err != nil {
		return err
	}
	b, err := handOver(ctx, askers[0], key, "a", first, second)
	if err != nil {
		return fmt.Errorf("from the first to the second: %w", err)
	}
	select {
	case c := <-third:
		return fmt.Errorf("the third did not wait: %d, %v", c.fence, c.err)
	default:
	}
	if _, err := handOver(ctx, askers[1], key, "b", b, third); err != nil {
		return fmt.Errorf("from the second to the third: %w", err)
	}
	return expect("UNLOCK by the third", 1)(askers[2].do(ctx, "UNLOCK", key, "c"))
}

// handOver releases a lock that has a fence, and returns the fence of the next holder, who gets the lock at once.
func handOver(
	ctx context.Context, a asker, key, token string, fence int64, next <-chan granted,
) (int64, error) {
	if err := expect("UNLOCK", 1)(a.do(ctx, "UNLOCK", key, token)); err != nil {
		return 0, err
	}
	released := time.Now()
	got := <-next
	if err := above(fence, got); err != nil {
		return 0, err
	}
	if late := got.at.Sub(released); late > pushWake {
		return got.fence, tooLate("the next one came %s after the release", late)
	}
	return got.fence, nil
}

// notInTurn checks the answers to a holder that asks again, and to clients that do not get the lock.
func notInTurn(ctx context.Context, askers []asker) error {
	key := freshName("line")
	fence, err := askers[0].lock(ctx, key, "a")
	if err != nil {
		return err
	}
	if err := expect("LOCK by its holder", fence)(askers[1].lock(ctx, key, "a")); err != nil {
		return err
	}
	lease := longLease.Milliseconds()
	if err := expect("RENEW", fence)(askers[0].do(ctx, "RENEW", key, "a", "PX", lease)); err != nil {
		return err
	}
	if err := expect("RENEW by another", 0)(askers[1].do(ctx, "RENEW", key, "b", "PX", lease)); err != nil {
		return err
	}
	if err := expect("UNLOCK by another", 0)(askers[1].do(ctx, "UNLOCK", key, "b")); err != nil {
		return err
	}
	if err := expect("LOCK, taken", 0)(askers[1].lock(ctx, key, "b")); err != nil {
		return err
	}
	if reply := askers[1].c.Do(ctx, "LOCK", key, "b", "PX", lease); !errors.Is(reply.Err(), redis.Nil) {
		return fmt.Errorf("nil is %v, not redis.Nil", reply.Err())
	}
	asked := time.Now()
	if err := expect("WAIT that ends", 0)(
		askers[1].lock(ctx, key, "b", "WAIT", overTheUsual.Milliseconds())); err != nil {
		return err
	}
	if took := time.Since(asked); took < overTheUsual {
		return fmt.Errorf("a wait of %s ended after %s", overTheUsual, took)
	}
	return expect("UNLOCK", 1)(askers[0].do(ctx, "UNLOCK", key, "a"))
}

// readers shows that two clients hold a lock SHARED at once, and no writer does.
func readers(ctx context.Context, askers []asker) error {
	key := freshName("line")
	first, err := askers[0].lock(ctx, key, "a", "SHARED")
	if err != nil {
		return err
	}
	second, err := askers[1].lock(ctx, key, "b", "SHARED")
	if err := above(first, granted{fence: second, err: err}); err != nil {
		return err
	}
	if err := expect("LOCK by a writer", 0)(askers[2].lock(ctx, key, "c")); err != nil {
		return err
	}
	if err := expect("UNLOCK", 1)(askers[0].do(ctx, "UNLOCK", key, "a")); err != nil {
		return err
	}
	return expect("UNLOCK by the second", 1)(askers[1].do(ctx, "UNLOCK", key, "b"))
}

// permits shows that the third client of a semaphore of two waits until one of the others leaves.
func permits(ctx context.Context, askers []asker) error {
	key := freshName("line")
	first, err := askers[0].lock(ctx, key, "a", "LIMIT", 2)
	if err != nil {
		return err
	}
	second, err := askers[1].lock(ctx, key, "b", "LIMIT", 2)
	if err := above(first, granted{fence: second, err: err}); err != nil {
		return err
	}
	if err := expect("LOCK by the third", 0)(askers[2].lock(ctx, key, "c", "LIMIT", 2)); err != nil {
		return err
	}
	third := askers[2].wait(ctx, key, "c", "LIMIT", 2)
	if err := expect("UNLOCK", 1)(askers[0].do(ctx, "UNLOCK", key, "a")); err != nil {
		return err
	}
	return above(second, <-third)
}

// lockOfList shows that LOCK of a list fails with WRONGTYPE.
func lockOfList(ctx context.Context, askers []asker) error {
	key := freshName("line")
	if err := askers[0].c.RPush(ctx, key, "x").Err(); err != nil {
		return err
	}
	_, err := askers[1].lock(ctx, key, "a", "WAIT", lineWait.Milliseconds())
	var is redis.Error
	if !errors.As(err, &is) || !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("LOCK of a list: %v, not WRONGTYPE", err)
	}
	return nil
}

// retried shows that a client whose read timeout is too short disconnects, retries on another connection, and gets the
// lock once.
func (l goRedisLine) retried(ctx context.Context, askers []asker) error {
	key := freshName("line")
	first, err := askers[0].lock(ctx, key, "a")
	if err != nil {
		return err
	}
	asked := make(chan struct{}, 2*retriesMax)
	c := l.open(1, redis.UniversalOptions{
		ReadTimeout: shortRead, MaxRetries: retriesMax, MaxRedirects: retriesMax, Dialer: dialWatched(asked),
	})
	defer func() { _ = c.Close() }()
	second := asker{c}.wait(ctx, key, "b")
	for range 2 {
		select {
		case <-asked:
		case b := <-second:
			return fmt.Errorf("it did not ask again: %d, %v", b.fence, b.err)
		}
	}
	if err := expect("UNLOCK", 1)(askers[0].do(ctx, "UNLOCK", key, "a")); err != nil {
		return err
	}
	b := <-second
	if err := above(first, b); err != nil {
		return err
	}
	if err := expect("LOCK, taken", 0)(askers[2].lock(ctx, key, "c")); err != nil {
		return err
	}
	if err := expect("UNLOCK after it", 1)(askers[1].do(ctx, "UNLOCK", key, "b")); err != nil {
		return err
	}
	third, err := askers[2].lock(ctx, key, "c")
	return above(b.fence, granted{fence: third, err: err})
}

// dialWatched returns a dialer whose connections report each LOCK that they send, while the channel has room.
func dialWatched(asked chan<- struct{}) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return watched{c, asked}, nil
	}
}

type watched struct {
	net.Conn
	asked chan<- struct{}
}

func (w watched) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nLOCK\r\n")) {
		select {
		case w.asked <- struct{}{}:
		default:
		}
	}
	return w.Conn.Write(p)
}
