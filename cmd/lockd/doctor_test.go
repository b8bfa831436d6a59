package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// named is a client of a node that says its name.
func (p *proc) named(name string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: p.addr, ClientName: name, MaxRetries: -1, DialerRetries: 1, ReadTimeout: startTimeout,
		WriteTimeout: startTimeout, DialTimeout: startTimeout, DisableIdentity: true,
	})
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// finding is one finding about the locks of a template.
type finding struct{ mistake, keys, client, says string }

func (p *proc) findings(ctx context.Context) (list []finding) {
	p.t.Helper()
	got, err := p.client().Do(ctx, "LOCKS", "DOCTOR").Result()
	if err != nil {
		p.t.Fatal(err)
	}
	m := got.(map[any]any)
	if m["node"] != p.name || m["seen-since"] == nil {
		p.t.Errorf("%s: %v", p.name, m)
	}
	for _, f := range m["findings"].([]any) {
		text := func(name string) string { s, _ := f.(map[any]any)[name].(string); return s }
		list = append(list, finding{text("mistake"), text("keys"), text("client"), text("says")})
	}
	return list
}

// mistakes returns the findings of all nodes, each with its template, client and nodes: all nodes report findings
// from the log, one node its own observations.
func (n nodes) mistakes(ctx context.Context) []string {
	by := map[string]string{}
	for _, p := range n {
		for _, f := range p.findings(ctx) {
			p.t.Log(p.name, f.says)
			by[fmt.Sprint(f.keys, ": ", f.mistake, " by ", f.client)] += " " + p.name
		}
	}
	var list []string
	for f, names := range by {
		list = append(list, f+","+names)
	}
	slices.Sort(list)
	return list
}

// The mistakes that lock programs make are named by the doctor, and nothing else is: neither their
// cures nor the locks of libraries.
func TestDoctorNamesMistakes(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	a, b := cluster[0].named("a"), cluster[1].named("b")
	must := func(want any, c redis.Cmdable, args ...any) {
		t.Helper()
		got, err := c.(interface {
			Do(ctx context.Context, args ...any) *redis.Cmd
		}).Do(ctx, args...).Result()
		if err == redis.Nil {
			err = nil
		}
		if err != nil || got != want {
			t.Fatalf("%v: %v, %v, want %v", args, got, err, want)
		}
	}
	gone := func(key string) {
		t.Helper()
		eventually(t, startTimeout, key+" ends", func() error {
			if n, err := b.Exists(ctx, key).Result(); err != nil || n != 0 {
				return fmt.Errorf("exists %d, %v", n, err)
			}
			return nil
		})
	}
	expect := func(want ...string) {
		t.Helper()
		if got := cluster.mistakes(ctx); !slices.Equal(got, want) {
			t.Fatalf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	for i := range 12 { // what is right, by all nodes
		c, key := cluster[i%3].named("right"), fmt.Sprint("right:", i%2)
		must("OK", c, "SET", key, "plain", "NX", "PX", 60000)
		must(int64(1), c, "EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end", 1, key, "plain", 60000)
		must(int64(0), c, "EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", 1, key, "another")
		must(int64(1), c, "DELIFEQ", key, "plain")
		lock, err := redislock.Obtain(ctx, c, key, time.Minute, nil)
		if err == nil {
			err = lock.Refresh(ctx, time.Minute, nil)
		}
		if err == nil {
			err = lock.Release(ctx)
		}
		mutex := redsync.New(goredis.NewPool(c)).NewMutex(key, redsync.WithExpiry(5*time.Minute), redsync.WithTimeoutFactor(0.2))
		if err == nil {
			err = mutex.LockContext(ctx)
		}
		if err == nil {
			_, err = mutex.UnlockContext(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{}
	expect(want...)

	// A lock without a lease, whose holder dies.
	must(int64(1), a, "SETNX", "forever", "token a")
	for range 4 {
		must(int64(0), b, "SETNX", "forever", "token b")
	}
	must("OK", a, "SET", "forever cured", "token a", "NX", "PX", 100)
	gone("forever cured")
	must("OK", b, "SET", "forever cured", "token b", "NX", "PX", 60000)
	want = append(want, "forever: setnx-without-lease by b, "+cluster[1].name)
	expect(want...)

	// SETNX, then EXPIRE, with a crash in between.
	for range 3 {
		must(int64(1), a, "SETNX", "two steps", "token a")
		must(int64(1), a, "EXPIRE", "two steps", 60)
		must(int64(1), a, "UNLOCK", "two steps", "token a")
	}
	must(int64(1), a, "SETNX", "two steps", "token a")
	must("OK", a, "SET", "two steps cured", "token a", "NX", "PX", 60000)
	want = append(want, "two steps: setnx-then-expire by a, "+cluster[0].name)
	slices.Sort(want)
	expect(want...)

	// A fixed value and a late DEL.
	all := " " + cluster[0].name + " " + cluster[1].name + " " + cluster[2].name
	must("OK", a, "SET", "fixed", "1", "NX", "PX", 100)
	gone("fixed")
	must("OK", b, "SET", "fixed", "1", "NX", "PX", 60000)
	must(int64(1), a, "DEL", "fixed")
	must("OK", b, "SET", "fixed", "1", "NX", "PX", 60000)
	want = append(want, "fixed: constant-token by b,"+all, "fixed: del-of-anothers-lock by a,"+all)
	slices.Sort(want)
	expect(want...)

	// GET, compare, DEL.
	must("OK", a, "SET", "compared", "token a", "NX", "PX", 60000)
	must("token a", a, "GET", "compared")
	must(int64(1), a, "DEL", "compared")
	want = append(want, "compared: get-then-del by a, "+cluster[0].name)
	slices.Sort(want)
	expect(want...)

	// GET, then SET; and what is no lock, as it is read.
	for range 3 {
		for _, key := range []string{"looked at", "cached"} {
			must(nil, a, "GET", key)
			must("OK", a, "SET", key, "token a", "EX", 60)
			if key == "cached" {
				must("token a", a, "GET", key)
			}
			must(int64(1), a, "DEL", key)
		}
	}
	want = append(want, "looked at: get-then-set by a, "+cluster[0].name)
	slices.Sort(want)
	expect(want...)

	// EXPIRE after the end of one's own lease, for another; and in time, for oneself.
	must("OK", a, "SET", "extended", "token a", "NX", "PX", 100)
	gone("extended")
	must("OK", b, "SET", "extended", "token b", "NX", "PX", 60000)
	must(int64(1), a, "PEXPIRE", "extended", 60000)
	must(int64(1), b, "PEXPIRE", "extended", 60000)
	want = append(want, "extended: expire-of-anothers-lock by a, "+cluster[0].name)
	slices.Sort(want)
	expect(want...)

	// A lease shorter than the work.
	must("OK", a, "SET", "short", "token a", "NX", "PX", 100)
	gone("short")
	must("OK", b, "SET", "short", "token b", "NX", "PX", 60000)
	time.Sleep(20 * time.Millisecond) // the work
	must(int64(0), a, "EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", 1, "short", "token a")
	must(int64(1), b, "UNLOCK", "short", "token b")
	want = append(want, "short: late-release by a, "+cluster[0].name)
	slices.Sort(want)
	expect(want...)

	// In a transaction it knows the same.
	queued := cluster[0].client().TxPipeline()
	inside := queued.Do(ctx, "LOCKS", "DOCTOR")
	if _, err := queued.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if m, _ := inside.Val().(map[any]any); m["node"] != cluster[0].name || len(m["findings"].([]any)) == 0 {
		t.Errorf("%v", inside.Val())
	}

	advice, err := cluster[0].client().Do(ctx, "LOCKS", "ADVICE", "short").Result()
	if err != nil {
		t.Fatal(err)
	}
	locks := advice.(map[any]any)["locks"].([]any)
	if len(locks) != 1 {
		t.Fatalf("%v", advice)
	}
	short := locks[0].(map[any]any)
	if short["keys"] != "short" || short["acquisitions"] != int64(2) || short["expired-in-use"] != int64(1) ||
		short["lease-enough-ms"].(int64) < 200 {
		t.Errorf("%v", short)
	}
}

// Redlock over the nodes of one cluster never gets a lock: the doctor says why, by a node that refused.
func TestDoctorNamesRedlockOverTheNodes(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	var pools []redsyncredis.Pool
	for _, p := range cluster {
		pools = append(pools, goredis.NewPool(p.named("redlock")))
	}
	eventually(t, startTimeout, "redlock is named", func() error {
		m := redsync.New(pools...).NewMutex("over the nodes", redsync.WithExpiry(2*time.Second),
			redsync.WithTimeoutFactor(0.9), redsync.WithTries(1))
		if err := m.LockContext(ctx); err == nil {
			return errors.New("the lock was taken")
		}
		for _, f := range cluster.mistakes(ctx) {
			if strings.HasPrefix(f, "over the nodes: redlock-masters by redlock,") {
				return nil
			}
		}
		return errors.New("it is not named yet")
	})
}
