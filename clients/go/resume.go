package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// resumers measure how long a program waits after the death of the node that its client is connected to, with the
// settings of docs/clients.md and with the library's defaults. They kill the leader repeatedly, so each runs alone.
var resumers = []library{
	{"go-redis", goRedisModule, "sentinel", resume("/kill-leader", goRedisSentinel(true), goRedisSentinel(false))},
	{"go-redis", goRedisModule, "cluster", resume("/kill-cluster-leader", goRedisCluster(true), goRedisCluster(false))},
}

const (
	resumeRounds = 5                    // deaths of the leader
	resumeMax    = time.Second          // without a write, with the settings of docs/clients.md
	resumeBefore = time.Second          // for programs to write before the leader dies
	resumeSettle = 3 * time.Second      // from the death until a write succeeds for certain
	resumeWait   = 10 * time.Second     // from the death until the scene gives the program up
	resumePause  = 5 * time.Millisecond // between two writes
)

// resume is the scene of a client with the settings of docs/clients.md and with its defaults. kill is the way in
// which the node of the connection dies.
func resume(kill string, tuned, usual func() plain) []scene {
	return []scene{{"resume", false, func(ctx context.Context, _ *death, _ func()) (string, error) {
		if err := needs(isLockd, "failover of a single server"); err != nil {
			return "", err
		}
		var with, without []time.Duration
		for range resumeRounds {
			outages, err := strikeUnder(context.WithoutCancel(ctx), kill, tuned(), usual())
			if err != nil {
				return "", err
			}
			with, without = append(with, outages[0]), append(without, outages[1])
		}
		words := fmt.Sprintf("no write for %s ms; by default no write for %s ms", inMs(with), inMs(without))
		if slices.Max(with) > resumeMax {
			return "", errors.New(words)
		}
		return words, nil
	}}}
}

func inMs(all []time.Duration) string {
	var ms []string
	for _, d := range all {
		ms = append(ms, fmt.Sprint(d.Milliseconds()))
	}
	return strings.Join(ms, " ")
}

// strikeUnder kills the leader while programs write, and returns how long each was without a write.
func strikeUnder(ctx context.Context, kill string, programs ...plain) (outages []time.Duration, err error) {
	struck := make(chan struct{})
	var ended []chan time.Duration
	for _, p := range programs {
		defer p.close()
		e := make(chan time.Duration, 1)
		ended = append(ended, e)
		go func() { e <- writeUntilWell(ctx, p, struck) }()
	}
	time.Sleep(resumeBefore)
	_, err = tell(ctx, kill)
	close(struck)
	for _, e := range ended {
		outages = append(outages, <-e)
	}
	_, healed := tell(ctx, "/heal")
	return outages, errors.Join(err, healed)
}

// writeUntilWell writes, and retries failed writes. It returns the longest time without a write.
func writeUntilWell(ctx context.Context, c plain, struck <-chan struct{}) (longest time.Duration) {
	key := freshName("resume")
	settled, end := make(chan struct{}), make(chan struct{})
	go func() {
		<-struck
		time.AfterFunc(resumeSettle, func() { close(settled) })
		time.AfterFunc(resumeWait, func() { close(end) })
	}()
	for last := time.Now(); ; time.Sleep(resumePause) {
		enough := is(settled)
		if c.set(ctx, key, "x") == nil {
			longest = max(longest, time.Since(last))
			last = time.Now()
			if enough {
				return longest
			}
		}
		if is(end) {
			return max(longest, time.Since(last))
		}
	}
}

// is reports whether a channel is closed.
func is(closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	default:
		return false
	}
}

func goRedisSentinel(tuned bool) func() plain {
	return func() plain {
		o := &redis.FailoverOptions{MasterName: master, SentinelAddrs: sentinels}
		if tuned {
			o.DialerRetries = dialOnce
		}
		return goRedisClient{redis.NewFailoverClient(o)}
	}
}

func goRedisCluster(tuned bool) func() plain {
	return func() plain {
		o := &redis.ClusterOptions{Addrs: cluster}
		if tuned {
			o.DialerRetries, o.ClusterStateReloadInterval = dialOnce, 200*time.Millisecond
		}
		return goRedisClient{redis.NewClusterClient(o)}
	}
}
