package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const goRedisModule = "github.com/redis/go-redis/v9"

// goRedis lists go-redis in each of its modes, in both versions of the protocol.
var goRedis = []library{
	{"go-redis", goRedisModule, "single/2", goRedisScenes(single(2), false)},
	{"go-redis", goRedisModule, "single/3", goRedisScenes(single(3), false)},
	{"go-redis", goRedisModule, "sentinel", goRedisScenes(failoverClient, true)},
	{"go-redis", goRedisModule, "cluster", goRedisScenes(clusterClient, true)},
}

// goRedisOpen makes a client of node number i, if the mode names a node.
type goRedisOpen func(i int, o redis.UniversalOptions) redis.UniversalClient

func goRedisScenes(open goRedisOpen, finds bool) []scene {
	first := func() (plain, error) { return goRedisClient{open(0, redis.UniversalOptions{})}, nil }
	return append(plainScenes(first, finds), calm("line", goRedisLine{open}.show))
}

func single(protocol int) goRedisOpen {
	return func(i int, o redis.UniversalOptions) redis.UniversalClient {
		o.Addrs, o.Protocol = []string{node(i)}, protocol
		return redis.NewClient(o.Simple())
	}
}

// A killed node refuses a dial at once; go-redis's default retries only delay the question for the new leader.
const dialOnce = 1

func failoverClient(_ int, o redis.UniversalOptions) redis.UniversalClient {
	o.MasterName, o.Addrs, o.DialerRetries = master, sentinels, dialOnce
	return redis.NewFailoverClient(o.Failover())
}

// go-redis keeps to a master that does not answer until it next loads the state of the cluster, with Redis as well:
// after a minute by default.
func clusterClient(_ int, o redis.UniversalOptions) redis.UniversalClient {
	o.Addrs, o.DialerRetries = cluster, dialOnce
	options := o.Cluster()
	options.ClusterStateReloadInterval = time.Second
	return redis.NewClusterClient(options)
}

type goRedisClient struct{ c redis.UniversalClient }

var goRedisRelease = redis.NewScript(compareAndDelete)

func (g goRedisClient) take(ctx context.Context, key, token string, lease time.Duration) (bool, error) {
	return g.c.SetNX(ctx, key, token, lease).Result()
}

func (g goRedisClient) release(ctx context.Context, key, token string) (int64, error) {
	return goRedisRelease.Run(ctx, g.c, []string{key}, token).Int64()
}

func (g goRedisClient) set(ctx context.Context, key, value string) error {
	return g.c.Set(ctx, key, value, time.Minute).Err()
}

func (g goRedisClient) get(ctx context.Context, key string) (string, bool, error) {
	value, err := g.c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}

func (g goRedisClient) pipeline(ctx context.Context, key string) (int64, error) {
	cmds, err := g.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 3 {
			p.Incr(ctx, key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return cmds[2].(*redis.IntCmd).Val(), nil
}

func (g goRedisClient) transaction(ctx context.Context, key string) (int64, error) {
	var n *redis.IntCmd
	err := g.c.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			n = p.Incr(ctx, key)
			return nil
		})
		return err
	}, key)
	if err != nil {
		return 0, err
	}
	return n.Val(), nil
}

func (g goRedisClient) wrongType(ctx context.Context, key string) error {
	return g.c.HGet(ctx, key, "f").Err()
}

func (g goRedisClient) hear(ctx context.Context, channel, message string) (string, error) {
	sub := g.c.Subscribe(ctx, channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return "", err
	}
	if err := g.c.Publish(ctx, channel, message).Err(); err != nil {
		return "", err
	}
	m, err := sub.ReceiveMessage(ctx)
	if err != nil {
		return "", err
	}
	return m.Payload, nil
}

func (g goRedisClient) close() { _ = g.c.Close() }
