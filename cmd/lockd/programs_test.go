package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockd/internal/strict"
)

// Programs in the style that people write with a lock server, run against three real nodes. failover_test.go shows
// them when a node dies.

// release is the compare-and-delete script of the SET NX PX recipe.
var release = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

// renew is the compare-and-extend script of the same recipe.
var renew = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`)

// newToken makes the random value of one acquisition.
func newToken() string { return rand.Text() }

// Without a lock, ten workers that read, add and write lose updates.
func TestCounterWithoutLock(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	const workers, rounds = 10, 10
	if err := cluster[0].client().Set(ctx, "counter", 0, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		var read, wrote sync.WaitGroup
		read.Add(workers)
		for w := range workers {
			wrote.Add(1)
			c := cluster[w%3].client()
			go func() {
				defer wrote.Done()
				n, err := c.Get(ctx, "counter").Int()
				read.Done()
				read.Wait() // all have read before one writes: the mistake, made certain
				if err == nil {
					err = c.Set(ctx, "counter", n+1, 0).Err()
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
		wrote.Wait()
	}
	got, err := cluster[1].client().Get(ctx, "counter").Int()
	if err != nil || got != rounds {
		t.Fatalf("counter is %d, %v: of %d updates made in step, all but one of each round are lost", got, err, workers*rounds)
	}
}

// With SET NX PX and a Lua release the result is exact, through every node and
// with the lock libraries of Go.
func TestCounterWithLock(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	for name, locked := range map[string]func(c *redis.Client, work func()) error{
		"set nx px": func(c *redis.Client, work func()) error {
			mine := newToken()
			for {
				got, err := c.SetNX(ctx, "lock:plain", mine, time.Minute).Result()
				if err != nil {
					return err
				}
				if got {
					break
				}
				time.Sleep(time.Millisecond)
			}
			work()
			n, err := release.Run(ctx, c, []string{"lock:plain"}, mine).Int()
			if err == nil && n != 1 {
				err = errors.New("the lock was not ours when we released it")
			}
			return err
		},
		"redislock": func(c *redis.Client, work func()) error {
			lock, err := redislock.Obtain(ctx, c, "lock:redislock", 5*time.Minute, // tries for this long
				&redislock.Options{RetryStrategy: redislock.LinearBackoff(2 * time.Millisecond)})
			if err != nil {
				return err
			}
			work()
			return lock.Release(ctx)
		},
		"redsync": func(c *redis.Client, work func()) error {
			m := redsync.New(goredis.NewPool(c)).NewMutex("lock:redsync",
				redsync.WithExpiry(5*time.Minute), redsync.WithTries(10000), redsync.WithRetryDelay(2*time.Millisecond),
				redsync.WithTimeoutFactor(0.2)) // of the lease: by default a slow answer is none after a twentieth
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			work()
			_, err := m.UnlockContext(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := "counter:" + name
			if err := cluster[0].client().Set(ctx, key, 0, 0).Err(); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for w := range 10 {
				wg.Add(1)
				c := cluster[w%3].client()
				go func() {
					defer wg.Done()
					for range 10 {
						err := locked(c, func() {
							n, err := c.Get(ctx, key).Int()
							if err == nil {
								err = c.Set(ctx, key, n+1, 0).Err()
							}
							if err != nil {
								t.Error(err)
							}
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				}()
			}
			wg.Wait()
			if got, err := cluster[2].client().Get(ctx, key).Int(); err != nil || got != 100 {
				t.Errorf("counter is %d, %v, want 100", got, err)
			}
		})
	}
}

// The five mistakes that lock programs make, each happening, and its cure holding.
func TestFiveMistakes(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	a, b := cluster[0].client(), cluster[1].client()
	mustSet := func(t *testing.T, c *redis.Client, args ...any) {
		t.Helper()
		if got, err := c.Do(ctx, args...).Result(); err != nil || (got != "OK" && got != int64(1)) {
			t.Fatalf("%v: %v, %v", args, got, err)
		}
	}
	mustNot := func(t *testing.T, c *redis.Client, args ...any) {
		t.Helper()
		if got, err := c.Do(ctx, args...).Result(); err != redis.Nil && (err != nil || got != int64(0)) {
			t.Fatalf("%v: %v, %v; want it refused", args, got, err)
		}
	}
	gone := func(t *testing.T, c *redis.Client, key string) {
		t.Helper()
		eventually(t, startTimeout, key+" ends", func() error {
			if n, err := c.Exists(ctx, key).Result(); err != nil || n != 0 {
				return fmt.Errorf("exists %d, %v", n, err)
			}
			return nil
		})
	}

	t.Run("setnx without expiry and a dead holder", func(t *testing.T) {
		mustSet(t, a, "SETNX", "m1", "a") // and a dies here
		mustNot(t, b, "SETNX", "m1", "b")
		if ttl := b.PTTL(ctx, "m1").Val(); ttl != -1 {
			t.Fatalf("the lock of the dead ends in %v; the mistake is that it never does", ttl)
		}
		mustSet(t, a, "SET", "m1 cured", "a", "NX", "PX", "200")
		gone(t, b, "m1 cured")
		mustSet(t, b, "SET", "m1 cured", "b", "NX", "PX", "30000")
	})

	t.Run("setnx then expire with a crash between", func(t *testing.T) {
		conn := a.Conn()
		if err := conn.SetNX(ctx, "m2", "a", 0).Err(); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close() // the crash: EXPIRE is never sent
		if ttl := b.PTTL(ctx, "m2").Val(); ttl != -1 {
			t.Fatalf("PTTL %v", ttl)
		}
		mustSet(t, a, "SET", "m2 cured", "a", "NX", "PX", "30000") // one command: no place to crash in
		if ttl := b.PTTL(ctx, "m2 cured").Val(); ttl <= 0 || ttl > 30*time.Second {
			t.Fatalf("PTTL %v", ttl)
		}
	})

	t.Run("a fixed value and a late del", func(t *testing.T) {
		mustSet(t, a, "SET", "m3", "1", "NX", "PX", "100")
		gone(t, b, "m3") // a works too long
		mustSet(t, b, "SET", "m3", "1", "NX", "PX", "30000")
		mustSet(t, a, "DEL", "m3") // a frees b's lock
		mustSet(t, cluster[2].client(), "SET", "m3", "1", "NX", "PX", "30000")

		mustSet(t, a, "SET", "m3 cured", "token a", "NX", "PX", "100")
		gone(t, b, "m3 cured")
		mustSet(t, b, "SET", "m3 cured", "token b", "NX", "PX", "30000")
		if n, err := release.Run(ctx, a, []string{"m3 cured"}, "token a").Int(); err != nil || n != 0 {
			t.Fatalf("a's release freed b's lock: %d, %v", n, err)
		}
		mustNot(t, cluster[2].client(), "SET", "m3 cured", "token c", "NX", "PX", "30000")
	})

	t.Run("get, compare, del in two steps", func(t *testing.T) {
		mustSet(t, a, "SET", "m4", "token a", "NX", "PX", "30000")
		if v := a.Get(ctx, "m4").Val(); v != "token a" {
			t.Fatalf("a reads %q", v)
		}
		mustSet(t, a, "PEXPIRE", "m4", "100")
		gone(t, b, "m4") // between a's two steps the lease ends
		mustSet(t, b, "SET", "m4", "token b", "NX", "PX", "30000")
		mustSet(t, a, "DEL", "m4") // the second step frees b's lock
		if n := b.Exists(ctx, "m4").Val(); n != 0 {
			t.Fatal("the mistake did not happen")
		}
		mustSet(t, b, "SET", "m4", "token b", "NX", "PX", "30000")
		if n, err := release.Run(ctx, a, []string{"m4"}, "token a").Int(); err != nil || n != 0 {
			t.Fatalf("one step: %d, %v", n, err)
		}
		if v := b.Get(ctx, "m4").Val(); v != "token b" {
			t.Fatalf("the lock is now %q", v)
		}
	})

	t.Run("a lease shorter than the work", func(t *testing.T) {
		mustSet(t, a, "SET", "m5", "token a", "NX", "PX", "30000")
		fenceA, err := a.Do(ctx, "FENCE", "m5").Int64()
		if err != nil {
			t.Fatal(err)
		}
		mustSet(t, a, "PEXPIRE", "m5", "100")
		gone(t, b, "m5")
		mustSet(t, b, "SET", "m5", "token b", "NX", "PX", "30000") // both believe to hold it
		fenceB, err := b.Do(ctx, "FENCE", "m5").Int64()
		if err != nil || fenceB <= fenceA {
			t.Fatalf("fences %d then %d, %v: a resource that remembers the highest could not refuse a", fenceA, fenceB, err)
		}

		renewed := func(lease time.Duration) int {
			n, err := renew.Run(ctx, a, []string{"m5 cured"}, "token a", lease.Milliseconds()).Int()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		mustSet(t, a, "SET", "m5 cured", "token a", "NX", "PX", "60000")
		for lease := 2 * time.Minute; lease < 5*time.Minute; lease += time.Minute { // a watchdog renews while a works
			if n, left := renewed(lease), b.PTTL(ctx, "m5 cured").Val(); n != 1 || left <= lease-time.Minute {
				t.Fatalf("renewal for %v: %d, then %v are left", lease, n, left)
			}
			mustNot(t, b, "SET", "m5 cured", "token b", "NX", "PX", "30000")
		}
		if n := renewed(100 * time.Millisecond); n != 1 { // the last one
			t.Fatal("renewal:", n)
		}
		gone(t, b, "m5 cured") // it ends when the watchdog does
		if n := renewed(time.Minute); n != 0 {
			t.Fatal("renewal of a lease that has ended:", n)
		}
	})
}

// order takes 1 of sku1 and 2 of sku2, or nothing.
const order = `
local one, two = tonumber(redis.call('GET', KEYS[1])), tonumber(redis.call('GET', KEYS[2]))
if one < 1 or two < 2 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
redis.call('DECRBY', KEYS[2], 2)
return 1`

// 10,000 orders by one Lua script, pipelined from many connections to all nodes,
// sell out exactly and never oversell.
func TestStock(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	for _, tt := range []struct {
		name               string
		stock1, stock2     int
		sold, left1, left2 int
	}{
		{"sells out exactly", 10_000, 20_000, 10_000, 0, 0},
		{"never oversells", 10_000, 10_000, 5_000, 5_000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if err := cluster[0].client().MSet(ctx, "sku1", tt.stock1, "sku2", tt.stock2).Err(); err != nil {
				t.Fatal(err)
			}
			const conns, batches, batch = 20, 10, 50
			var sold atomic.Int64
			var wg sync.WaitGroup
			for i := range conns {
				wg.Add(1)
				c := cluster[i%3].client()
				go func() {
					defer wg.Done()
					for range batches {
						pipe := c.Pipeline()
						for range batch {
							pipe.Eval(ctx, order, []string{"sku1", "sku2"})
						}
						replies, err := pipe.Exec(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						for _, r := range replies {
							n, err := r.(*redis.Cmd).Int64()
							if err != nil {
								t.Error(err)
								return
							}
							sold.Add(n)
						}
					}
				}()
			}
			wg.Wait()
			left, err := cluster[1].client().MGet(ctx, "sku1", "sku2").Result()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(sold.Load(), left), fmt.Sprint(tt.sold, []any{strconv.Itoa(tt.left1), strconv.Itoa(tt.left2)}); got != want {
				t.Errorf("sold and left %s, want %s", got, want)
			}
		})
	}
}

// The scripts of Redisson's RLock.
var (
	redissonLock = redis.NewScript(`if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
		`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`)
	redissonRenew  = redis.NewScript(`if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end; return 0;`)
	redissonUnlock = redis.NewScript(`local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; ` +
		`if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
		`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; ` +
		`else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;`)
)

// rlock is Redisson's reentrant lock, with the calls of its Java code.
type rlock struct {
	c        *redis.Client
	name     string
	holder   string // uuid:threadId
	lease    time.Duration
	attempts int
}

// try returns 0 when the lock is held now, else how long it may take.
func (l *rlock) try(ctx context.Context) (time.Duration, error) {
	l.attempts++
	ms, err := redissonLock.Run(ctx, l.c, []string{l.name}, l.lease.Milliseconds(), l.holder).Int64()
	if err == redis.Nil {
		return 0, nil
	}
	return time.Duration(ms) * time.Millisecond, err
}

func (l *rlock) unlock(ctx context.Context) (bool, error) {
	latch := fmt.Sprintf("redisson_unlock_latch:{%s}:%s", l.name, newToken())
	freed, err := redissonUnlock.Run(ctx, l.c, []string{l.name, "redisson_lock__channel:{" + l.name + "}", latch},
		0, l.lease.Milliseconds(), l.holder, "PUBLISH", 10_000).Int()
	return freed == 1, err
}

// Redisson's lock is taken twice and freed twice, kept alive by its watchdog, and
// its waiters on every node are woken by PUBLISH, not by polling.
func TestRedissonLock(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	const lease = time.Minute
	holder := &rlock{c: cluster[0].client(), name: "rlock", holder: "uuid-a:1", lease: lease}
	for range 2 {
		if wait, err := holder.try(ctx); err != nil || wait != 0 {
			t.Fatalf("lock: wait %v, %v", wait, err)
		}
	}
	var waiters sync.WaitGroup
	var waiting sync.WaitGroup
	var inside, most atomic.Int32
	for i := range 3 {
		waiters.Add(1)
		waiting.Add(1)
		w := &rlock{c: cluster[i].client(), name: "rlock", holder: fmt.Sprintf("uuid-w:%d", i), lease: 30 * time.Second}
		go func() {
			defer waiters.Done()
			if err := w.lockAsWaiter(ctx, waiting.Done); err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(10 * time.Millisecond)
			inside.Add(-1)
			if freed, err := w.unlock(ctx); err != nil || !freed {
				t.Errorf("waiter's unlock: %v, %v", freed, err)
			}
			// One attempt before and one after subscribing, then one per wake-up; each of
			// the three unlocks before it wakes it at most once.
			if w.attempts > 2+3 {
				t.Errorf("waiter made %d attempts: it polls", w.attempts)
			}
		}()
	}
	waiting.Wait()
	n, err := redissonRenew.Run(ctx, holder.c, []string{"rlock"}, 2*lease.Milliseconds(), holder.holder).Int() // the watchdog
	if left := holder.c.PTTL(ctx, "rlock").Val(); err != nil || n != 1 || left <= lease {
		t.Fatalf("renewal for %v: %d, %v, then %v are left", 2*lease, n, err, left)
	}
	if n := inside.Load(); n != 0 {
		t.Fatalf("%d waiters entered while the lock was held", n)
	}
	if freed, err := holder.unlock(ctx); err != nil || freed {
		t.Fatalf("first unlock: freed %v, %v; the lock was taken twice", freed, err)
	}
	if wait, err := (&rlock{c: cluster[2].client(), name: "rlock", holder: "uuid-x:1", lease: lease}).try(ctx); err != nil || wait == 0 {
		t.Fatalf("another got the half-freed lock: wait %v, %v", wait, err)
	}
	start := time.Now()
	if freed, err := holder.unlock(ctx); err != nil || !freed {
		t.Fatalf("second unlock: freed %v, %v", freed, err)
	}
	waiters.Wait()
	strict.AtMost(t, "waking three waiters", time.Since(start), 10*time.Second)
	if most.Load() != 1 {
		t.Errorf("%d waiters were inside at once", most.Load())
	}
}

// lockAsWaiter waits as Redisson does: try, subscribe, try again, then sleep until
// a message comes or the lease it was told has passed.
func (l *rlock) lockAsWaiter(ctx context.Context, waiting func()) error {
	wait, err := l.try(ctx)
	if err != nil || wait == 0 {
		return fmt.Errorf("the lock should be held: wait %v, %v", wait, err)
	}
	sub := l.c.Subscribe(ctx, "redisson_lock__channel:{"+l.name+"}")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	woken := sub.Channel()
	waiting()
	for {
		wait, err := l.try(ctx)
		if err != nil || wait == 0 {
			return err
		}
		select {
		case <-woken:
		case <-time.After(startTimeout):
			return errors.New("not woken")
		}
	}
}

// Redlock needs independent masters: redsync over five single-node servers
// excludes, also when two of them are dead.
func TestRedlock(t *testing.T) {
	t.Parallel()
	var pools []string
	var servers nodes
	for range 5 {
		p := startSingle(t)
		servers = append(servers, p)
		pools = append(pools, p.addr)
	}
	newMutex := func() *redsync.Mutex {
		var all []redsyncredis.Pool
		for _, p := range servers {
			all = append(all, goredis.NewPool(p.client()))
		}
		return redsync.New(all...).NewMutex("redlock", redsync.WithExpiry(5*time.Minute), redsync.WithTries(2000),
			redsync.WithRetryDelay(5*time.Millisecond), redsync.WithTimeoutFactor(0.2))
	}
	count := func(t *testing.T) {
		t.Helper()
		var n int
		var inside atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Add(1)
			m := newMutex()
			go func() {
				defer wg.Done()
				for range 5 {
					if err := m.Lock(); err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two hold the lock")
					}
					n++
					inside.Add(-1)
					if ok, err := m.Unlock(); !ok {
						t.Error("unlock:", err)
					}
				}
			}()
		}
		wg.Wait()
		if n != 20 {
			t.Errorf("counted %d, want 20, servers %s", n, strings.Join(pools, " "))
		}
	}
	count(t)
	servers[1].Kill()
	servers[3].Kill()
	count(t)
}
