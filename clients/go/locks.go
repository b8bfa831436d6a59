package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredisclient "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// pollEvery is the polling interval given to libraries that poll.
const pollEvery = 50 * time.Millisecond

// pushWake bounds the time from a release until a waiter that the server wakes gets the lock.
const pushWake = 300 * time.Millisecond

// pollWake bounds the time from a release until a polling waiter gets the lock.
const pollWake = 500 * time.Millisecond

var locks = []library{
	{"redsync", "github.com/go-redsync/redsync/v4", "go-redis", lockScenes(openRedsync, pollWake)},
	{"redsync", "github.com/go-redsync/redsync/v4", "redigo", lockScenes(openRedsyncRedigo, pollWake)},
	{"bsm/redislock", "github.com/bsm/redislock", "single", lockScenes(openRedislock, pollWake)},
	{"rueidislock", rueidisModule, "single/3", lockScenes(openRueidislock(rueidislock.LockerOption{}), pushWake)},
	// KeyMajority 1 does not work: a failed try may drop its gate before the failure is counted; then the
	// invalidation wakes nobody, and the waiter sleeps forever (v1.0.77, also on redis-server).
	{
		"rueidislock",
		rueidisModule,
		"noloop/3",
		lockScenes(openRueidislock(rueidislock.LockerOption{NoLoopTracking: true}), pushWake),
	},
	{"rueidislock", rueidisModule, "sentinel", lockScenes(openRueidislock(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: sentinels, Sentinel: rueidis.SentinelOption{MasterSet: master}},
	}), pushWake)},
}

type redsyncLock struct {
	mutex *redsync.Mutex
	close func() error
}

func openRedsync(i int, name string, lease time.Duration) (locker, error) {
	c := goredisclient.NewClient(&goredisclient.Options{Addr: node(i)})
	return &redsyncLock{newMutex(redsync.New(goredis.NewPool(c)), name, lease), c.Close}, nil
}

func openRedsyncRedigo(i int, name string, lease time.Duration) (locker, error) {
	pool := &redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", node(i)) },
	}
	return &redsyncLock{newMutex(redsync.New(rsredigo.NewPool(pool)), name, lease), pool.Close}, nil
}

func newMutex(r *redsync.Redsync, name string, lease time.Duration) *redsync.Mutex {
	return r.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1000), redsync.WithRetryDelay(pollEvery))
}

func (l *redsyncLock) lock(ctx context.Context) error { return l.mutex.LockContext(ctx) }
func (l *redsyncLock) unlock(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}
func (l *redsyncLock) die() { _ = l.close() }

type redislockLock struct {
	client *goredisclient.Client
	name   string
	lease  time.Duration
	held   *redislock.Lock
}

func openRedislock(i int, name string, lease time.Duration) (locker, error) {
	return &redislockLock{
		client: goredisclient.NewClient(&goredisclient.Options{Addr: node(i)}),
		name:   name,
		lease:  lease,
	}, nil
}

func (l *redislockLock) lock(ctx context.Context) (err error) {
	l.held, err = redislock.New(l.client).Obtain(
		ctx,
		l.name,
		l.lease,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(pollEvery)},
	)
	return err
}
func (l *redislockLock) unlock(ctx context.Context) error { return l.held.Release(ctx) }
func (l *redislockLock) die()                             { _ = l.client.Close() }

// rueidisLock is rueidislock, whose waiters are woken by invalidations only.
type rueidisLock struct {
	locker rueidislock.Locker
	name   string
	held   context.Context // ends when the lock is lost
	free   context.CancelFunc
}

// openRueidislock opens a locker of node i, or of the sentinels in option. By default the library gives up a key
// after 20 ms, less than a disk sync of a busy machine takes; the library's own tests use a second.
func openRueidislock(option rueidislock.LockerOption) func(int, string, time.Duration) (locker, error) {
	return func(i int, name string, lease time.Duration) (locker, error) {
		option := option
		option.KeyValidity, option.TryNextAfter = lease, time.Second
		if option.ClientOption.InitAddress == nil {
			option.ClientOption.InitAddress = []string{node(i)}
		}
		l, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return &rueidisLock{locker: l, name: name}, nil
	}
}

func (l *rueidisLock) lock(ctx context.Context) (err error) {
	l.held, l.free, err = l.locker.WithContext(ctx, l.name)
	return err
}

func (l *rueidisLock) unlock(context.Context) error {
	l.free()
	return nil
}

func (l *rueidisLock) die() {
	if c := l.locker.Client(); c != nil {
		c.Close() // the locker's own Close would release first
	}
}
