package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const goRedisModule = "github.com/redis/go-redis/v9"

// goRedis is go-redis in each mode it has, in both versions of the protocol.
var goRedis = []library{
	{"go-redis", goRedisModule, "single/2", goRedisScenes(single(2), true)},
	{"go-redis", goRedisModule, "single/3", goRedisScenes(single(3), true)},
	{"go-redis", goRedisModule, "sentinel", goRedisScenes(failoverClient, len(sentinels) > 0)},
	{"go-redis", goRedisModule, "cluster", goRedisScenes(clusterClient, len(cluster) > 0)},
}

func single(protocol int) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: node(0), Protocol: protocol})
	}
}

func failoverClient() redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: master, SentinelAddrs: sentinels})
}

func clusterClient() redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster})
}

func goRedisScenes(open func() redis.UniversalClient, there bool) []scene {
	return []scene{{"commands", func(ctx context.Context) error {
		if err := needs(there, "such mode"); err != nil {
			return err
		}
		c := open()
		defer c.Close()
		return commands(ctx, c)
	}}}
}

var compareAndDelete = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

// commands is what a program does that locks by hand.
func commands(ctx context.Context, c redis.UniversalClient) error {
	name := "{" + freshName("commands") + "}"
	for _, step := range []struct {
		what string
		want any
		do   func() (any, error)
	}{
		{"SET NX PX", true, func() (any, error) { return c.SetNX(ctx, name, "me", time.Minute).Result() }},
		{"SET NX PX, taken", false, func() (any, error) { return c.SetNX(ctx, name, "you", time.Minute).Result() }},
		{"release by another", int64(0), func() (any, error) { return compareAndDelete.Run(ctx, c, []string{name}, "you").Result() }},
		{"release", int64(1), func() (any, error) { return compareAndDelete.Run(ctx, c, []string{name}, "me").Result() }},
		{"GET of nothing", redis.Nil.Error(), func() (any, error) {
			err := c.Get(ctx, name).Err()
			if err == nil {
				return nil, errors.New("it is there")
			}
			return err.Error(), nil
		}},
		{"pipeline", int64(3), func() (any, error) {
			cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range 3 {
					p.Incr(ctx, name)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			return cmds[2].(*redis.IntCmd).Val(), nil
		}},
		{"transaction", int64(4), func() (any, error) {
			var n *redis.IntCmd
			err := c.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					n = p.Incr(ctx, name)
					return nil
				})
				return err
			}, name)
			if err != nil {
				return nil, err
			}
			return n.Val(), nil
		}},
		{"error", "WRONGTYPE Operation against a key holding the wrong kind of value", func() (any, error) {
			return fmt.Sprint(c.HGet(ctx, name, "f").Err()), nil
		}},
		{"Pub/Sub", "hello", func() (any, error) {
			sub := c.Subscribe(ctx, name)
			defer sub.Close()
			if _, err := sub.Receive(ctx); err != nil {
				return nil, err
			}
			if err := c.Publish(ctx, name, "hello").Err(); err != nil {
				return nil, err
			}
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return nil, err
			}
			return m.Payload, nil
		}},
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
