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
	{"go-redis", goRedisModule, "single/2", goRedisScenes(single(2), "")},
	{"go-redis", goRedisModule, "single/3", goRedisScenes(single(3), "")},
	{"go-redis", goRedisModule, "sentinel", goRedisScenes(failoverClient, "/kill-leader")},
	{"go-redis", goRedisModule, "cluster", goRedisScenes(clusterClient, "/kill-cluster-leader")},
}

func single(protocol int) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: node(0), Protocol: protocol})
	}
}

// A node that was killed refuses a dial at once; to try that again and again, as
// go-redis does by default, only costs the time in which it could ask for the new leader.
const dialOnce = 1

func failoverClient() redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: master, SentinelAddrs: sentinels, DialerRetries: dialOnce})
}

// go-redis keeps to a master that does not answer until it next loads the state of
// the cluster, with Redis as well: by default that is after a minute.
func clusterClient() redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster, DialerRetries: dialOnce, ClusterStateReloadInterval: time.Second})
}

// goRedisScenes are those of a client that finds the leader by itself, and dies with
// its node if kill is empty.
func goRedisScenes(open func() redis.UniversalClient, kill string) []scene {
	return []scene{{"commands", func(ctx context.Context) error {
		c := open()
		defer c.Close()
		return commands(ctx, c)
	}}, {"failover", func(ctx context.Context) error {
		if kill == "" {
			return noScene("a client of one address does not outlive that node")
		}
		if err := needs(isLockd, "failover of a single server"); err != nil {
			return err
		}
		c := open()
		defer c.Close()
		return outage(ctx, c, kill)
	}}}
}

// outageMax is how long a program waits for its next success when the leader dies.
const outageMax = 3 * time.Second

// outage kills the leader under a program that writes, and tries again what failed.
func outage(ctx context.Context, c redis.UniversalClient, kill string) error {
	name := "{" + freshName("outage") + "}"
	if err := c.Set(ctx, name, 0, time.Minute).Err(); err != nil {
		return err
	}
	end, last, longest := time.Now().Add(8*time.Second), time.Now(), time.Duration(0)
	killed := make(chan error, 1)
	time.AfterFunc(time.Second, func() {
		_, err := tell(ctx, kill)
		killed <- err
	})
	for n := 1; time.Now().Before(end); n++ {
		if c.Set(ctx, name, n, time.Minute).Err() == nil {
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	longest = max(longest, time.Since(last))
	err := <-killed
	if _, healErr := tell(context.WithoutCancel(ctx), "/heal"); err == nil {
		err = healErr
	}
	if err == nil && longest > outageMax {
		err = fmt.Errorf("no write succeeded for %s", longest)
	}
	return err
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
