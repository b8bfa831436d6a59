package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

const redigoModule = "github.com/gomodule/redigo"

// redigoClients lists redigo, which speaks RESP2 only: a pool of one node, and a pool whose dial function tries all
// nodes, as programs without sentinels do.
var redigoClients = []library{
	{"redigo", redigoModule, "single/2", plainScenes(openRedigo(firstNode), false)},
	{"redigo", redigoModule, "nodes/2", plainScenes(openRedigo(func() []string { return nodes }), true)},
}

func openRedigo(addrs func() []string) func() (plain, error) {
	return func() (plain, error) {
		return redigoClient{&redis.Pool{MaxIdle: 4, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return dialFirst(ctx, addrs())
		}}}, nil
	}
}

// dialFirst connects to the first node that answers.
func dialFirst(ctx context.Context, addrs []string) (c redis.Conn, err error) {
	connecting, reading := redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(5*time.Second)
	for _, addr := range addrs {
		if c, err = redis.DialContext(ctx, "tcp", addr, connecting, reading); err == nil {
			return c, nil
		}
	}
	return nil, err
}

type redigoClient struct{ pool *redis.Pool }

var redigoRelease = redis.NewScript(1, compareAndDelete)

// use lends a connection of the pool.
func (r redigoClient) use(ctx context.Context, with func(redis.Conn) error) error {
	c, err := r.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return with(c)
}

func (r redigoClient) take(ctx context.Context, key, token string, lease time.Duration) (taken bool, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		_, err := redis.String(redis.DoContext(c, ctx, "SET", key, token, "NX", "PX", lease.Milliseconds()))
		taken = err == nil
		if errors.Is(err, redis.ErrNil) {
			return nil
		}
		return err
	})
	return taken, err
}

func (r redigoClient) release(ctx context.Context, key, token string) (n int64, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		n, err = redis.Int64(redigoRelease.DoContext(ctx, c, key, token))
		return err
	})
	return n, err
}

func (r redigoClient) set(ctx context.Context, key, value string) error {
	return r.use(ctx, func(c redis.Conn) error {
		_, err := redis.DoContext(c, ctx, "SET", key, value, "PX", time.Minute.Milliseconds())
		return err
	})
}

func (r redigoClient) get(ctx context.Context, key string) (value string, found bool, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		value, err = redis.String(redis.DoContext(c, ctx, "GET", key))
		found = err == nil
		if errors.Is(err, redis.ErrNil) {
			return nil
		}
		return err
	})
	return value, found, err
}

func (r redigoClient) pipeline(ctx context.Context, key string) (n int64, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		for range 3 {
			if err := c.Send("INCR", key); err != nil {
				return err
			}
		}
		replies, err := redis.Int64s(redis.DoContext(c, ctx, ""))
		if err == nil && len(replies) != 3 {
			err = fmt.Errorf("%d replies", len(replies))
		}
		if err == nil {
			n = replies[2]
		}
		return err
	})
	return n, err
}

func (r redigoClient) transaction(ctx context.Context, key string) (n int64, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		if _, err := redis.DoContext(c, ctx, "WATCH", key); err != nil {
			return err
		}
		if err := errors.Join(c.Send("MULTI"), c.Send("INCR", key)); err != nil {
			return err
		}
		replies, err := redis.Int64s(redis.DoContext(c, ctx, "EXEC"))
		if err == nil {
			n = replies[0]
		}
		return err
	})
	return n, err
}

func (r redigoClient) wrongType(ctx context.Context, key string) error {
	return r.use(ctx, func(c redis.Conn) error {
		_, err := redis.DoContext(c, ctx, "HGET", key, "f")
		return err
	})
}

// hear returns its connection to the pool while it is subscribed: the pool unsubscribes it, and the next user finds it
// unchanged.
func (r redigoClient) hear(ctx context.Context, channel, message string) (text string, err error) {
	err = r.use(ctx, func(c redis.Conn) error {
		sub := redis.PubSubConn{Conn: c}
		if err := sub.Subscribe(channel); err != nil {
			return err
		}
		if s, is := sub.ReceiveContext(ctx).(redis.Subscription); !is || s.Count != 1 {
			return errors.New("it is not subscribed")
		}
		if err := r.use(ctx, func(c redis.Conn) error {
			_, err := redis.DoContext(c, ctx, "PUBLISH", channel, message)
			return err
		}); err != nil {
			return err
		}
		m, is := sub.ReceiveContext(ctx).(redis.Message)
		if !is {
			return errors.New("what it received is no message")
		}
		text = string(m.Data)
		return nil
	})
	if err != nil {
		return "", err
	}
	_, _, err = r.get(ctx, channel)
	return text, err
}

func (r redigoClient) close() { _ = r.pool.Close() }
