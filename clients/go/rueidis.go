package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const rueidisModule = "github.com/redis/rueidis"

// rueidisClients lists rueidis in each of its modes. With RESP3, its default, it sends CLIENT TRACKING on every
// connection.
var rueidisClients = []library{
	{
		"rueidis",
		rueidisModule,
		"single/2",
		plainScenes(openRueidis(rueidisOptions{resp2: true, addrs: firstNode}), false),
	},
	{
		"rueidis",
		rueidisModule,
		"single/3",
		append(plainScenes(openRueidis(rueidisOptions{addrs: firstNode}), false), calm("caching", rueidisCaching)),
	},
	{
		"rueidis",
		rueidisModule,
		"sentinel",
		plainScenes(openRueidis(rueidisOptions{addrs: func() []string { return sentinels }, sentinel: true}), true),
	},
	{
		"rueidis",
		rueidisModule,
		"cluster",
		plainScenes(openRueidis(rueidisOptions{addrs: func() []string { return cluster }}), true),
	},
}

type rueidisOptions struct {
	addrs           func() []string
	resp2, sentinel bool
}

func firstNode() []string { return nodes[:1] }

func openRueidis(o rueidisOptions) func() (plain, error) {
	return func() (plain, error) {
		option := rueidis.ClientOption{InitAddress: o.addrs(), AlwaysRESP2: o.resp2, DisableCache: o.resp2}
		if o.sentinel {
			option.Sentinel.MasterSet = master
		}
		c, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		return rueidisClient{c}, nil
	}
}

type rueidisClient struct{ c rueidis.Client }

var rueidisRelease = rueidis.NewLuaScript(compareAndDelete)

func (r rueidisClient) take(ctx context.Context, key, token string, lease time.Duration) (bool, error) {
	err := r.c.Do(ctx, r.c.B().Set().Key(key).Value(token).Nx().Px(lease).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (r rueidisClient) release(ctx context.Context, key, token string) (int64, error) {
	return rueidisRelease.Exec(ctx, r.c, []string{key}, []string{token}).AsInt64()
}

func (r rueidisClient) set(ctx context.Context, key, value string) error {
	return r.c.Do(ctx, r.c.B().Set().Key(key).Value(value).Px(time.Minute).Build()).Error()
}

func (r rueidisClient) get(ctx context.Context, key string) (string, bool, error) {
	value, err := r.c.Do(ctx, r.c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", false, nil
	}
	return value, err == nil, err
}

func (r rueidisClient) pipeline(ctx context.Context, key string) (int64, error) {
	var cmds rueidis.Commands
	for range 3 {
		cmds = append(cmds, r.c.B().Incr().Key(key).Build())
	}
	return r.c.DoMulti(ctx, cmds...)[2].AsInt64()
}

func (r rueidisClient) transaction(ctx context.Context, key string) (n int64, err error) {
	err = r.c.Dedicated(func(c rueidis.DedicatedClient) error {
		if err := c.Do(ctx, c.B().Watch().Key(key).Build()).Error(); err != nil {
			return err
		}
		results := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Incr().Key(key).Build(), c.B().Exec().Build())
		replies, err := results[2].AsIntSlice()
		if err != nil {
			return err
		}
		n = replies[0]
		return nil
	})
	return n, err
}

func (r rueidisClient) wrongType(ctx context.Context, key string) error {
	return r.c.Do(ctx, r.c.B().Hget().Key(key).Field("f").Build()).Error()
}

// hear publishes until a subscriber has received it: rueidis does not tell when it has subscribed.
func (r rueidisClient) hear(ctx context.Context, channel, message string) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- r.c.Receive(ctx, r.c.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
			select {
			case heard <- m.Message:
			default:
			}
		})
	}()
	for {
		if err := r.c.Do(ctx, r.c.B().Publish().Channel(channel).Message(message).Build()).Error(); err != nil {
			return "", err
		}
		select {
		case text := <-heard:
			return text, nil
		case err := <-done:
			return "", err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r rueidisClient) close() { r.c.Close() }

// rueidisCaching shows that the client forgets a cached value when it changes through another node, and when its
// lease ends.
func rueidisCaching(ctx context.Context) error {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: nodes[:1]})
	if err != nil {
		return err
	}
	defer c.Close()
	other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{node(1)}})
	if err != nil {
		return err
	}
	defer other.Close()
	key := freshName("caching")
	read := func() (string, bool, error) {
		r := c.DoCache(ctx, c.B().Get().Key(key).Cache(), time.Minute)
		value, err := r.ToString()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return value, r.IsCacheHit(), err
	}
	becomes := func(want string) error {
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			got, _, err := read()
			if err != nil || got == want {
				return err
			}
			if limit := cachingMax(); time.Since(begun) > limit {
				return fmt.Errorf("it reads %q and not %q for %s", got, want, limit)
			}
		}
	}
	for _, value := range []string{"one", "two"} {
		if err := (rueidisClient{other}).set(ctx, key, value); err != nil {
			return err
		}
		if err := becomes(value); err != nil {
			return err
		}
		if _, hit, err := read(); err != nil || !hit {
			return errors.Join(errors.New("the second read was not served from the cache"), err)
		}
	}
	if err := other.Do(ctx, other.B().Pexpire().Key(key).Milliseconds(50).Build()).Error(); err != nil {
		return err
	}
	return becomes("")
}

// cachingMax bounds the time in which a client may read an old value from its cache.
func cachingMax() time.Duration {
	if safetyOnly {
		return sceneMax / 3 // it will never come
	}
	return time.Second
}
