package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// take takes a lock and returns its fence.
func (c *trackingClient) take(key string, ms int64, more ...string) string {
	c.t.Helper()
	fence := c.do(append([]string{"LOCK", key, "token", "PX", fmt.Sprint(ms)}, more...)...)
	if fence == "nil" || strings.Contains(fence, " ") {
		c.t.Fatalf("LOCK %s: %s", key, fence)
	}
	return fence
}

func (c *trackingClient) hears(what ...string) {
	c.t.Helper()
	if got, want := c.next(startTimeout), strings.Join(what, " "); got != want {
		c.t.Fatalf("told %q, want %q", got, want)
	}
}

// mustDo runs a command of another client.
func (p *proc) mustDo(args ...any) any {
	p.t.Helper()
	got, err := p.client().Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		p.t.Fatal(args, err)
	}
	return got
}

// A RESP3 client hears at once that it lost its lock, on every node and whatever took the lock away. It does not hear
// of what its own token does.
func TestHolderHearsOfItsLoss(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	others := cluster.others(leader)
	for _, at := range []*proc{others[0], leader} {
		holder := at.resp3()
		for _, c := range []struct {
			reason string
			end    []any
		}{
			{"forced", []any{"LOCKS", "FORCE", "k", "REASON", "it hangs"}},
			{"deleted", []any{"DEL", "k"}},
			{"overwritten", []any{"SET", "k", "other"}},
			{"moved", []any{"RENAME", "k", "k2"}},
			{"released", []any{"EVAL", "return redis.call('del', KEYS[1])", 1, "k"}},
			{"flushed", []any{"FLUSHALL"}},
			{"", []any{"UNLOCK", "k", "token"}},
			{"", []any{"EVAL", "return redis.call('set', KEYS[1], ARGV[1], 'PX', 600000)", 1, "k", "token"}},
		} {
			others[1].mustDo("DEL", "k")
			fence := holder.take("k", 600_000)
			others[1].mustDo(c.end...)
			if c.reason != "" {
				holder.hears("lock-lost", "k", "token", fence, c.reason)
			}
			holder.do("UNLOCK", "k", "token")
			holder.quiet()
		}
		a, b := holder.take("many", 600_000, "SHARED"), others[1].resp3()
		if got := b.do("LOCK", "many", "another", "PX", "600000", "SHARED"); got == "nil" {
			t.Fatal(got)
		}
		leader.mustDo("LOCKS", "FORCE", "many", "TOKEN", "token", "REASON", "it hangs")
		holder.hears("lock-lost", "many", "token", a, "forced")
		b.quiet()
		b.do("UNLOCK", "many", "another")
	}
}

// A holder hears when a third of its lease is left, and when the lease is over. A holder that renews, on any
// connection, hears nothing.
func TestHolderHearsThatItsLeaseEnds(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	other := cluster.others(leader)[0]
	holder := other.resp3()
	for lease := int64(900); ; lease *= 3 { // until this machine is quick enough
		fence := holder.take("k", lease)
		got := holder.next(startTimeout)
		if got == "lock-lost k token "+fence+" expired" && lease < 60_000 {
			continue // it was not at work while a third was left
		}
		var left int64
		if n, err := fmt.Sscanf(got, "lock-expiring k token "+fence+" %d", &left); n != 1 || err != nil || left > lease/3 {
			t.Fatalf("told %q of a lease of %d ms", got, lease)
		}
		holder.hears("lock-lost", "k", "token", fence, "expired")
		break
	}
	for lease := int64(1500); ; lease *= 3 {
		asked := time.Now()
		holder.take("renewed", lease)
		leader.mustDo("RENEW", "renewed", "token", "PX", 600_000)
		holder.do("EXISTS", "renewed") // after the answer the holder's node knows of the renewal
		if took := time.Since(asked).Milliseconds(); took > lease/2 && lease < 100_000 {
			leader.mustDo("UNLOCK", "renewed", "token")
			holder = other.resp3()
			continue
		}
		time.Sleep(time.Duration(lease) * time.Millisecond)
		holder.quiet()
		return
	}
}

// Holders and waiters from before a failover hear of a loss after it.
func TestHolderHearsAfterFailover(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	leader := cluster.leader(t)
	others := cluster.others(leader)
	holder, waits := others[0].resp3(), others[1].resp3()
	fence := holder.take("k", 600_000)
	granted := make(chan string, 1)
	go func() { granted <- waits.do("LOCK", "k", "next", "PX", "600000", "WAIT", "600000") }()
	others[1].blockedClients(1)
	leader.Kill()
	r := newRoaming(others, 0)
	if _, err := r.until(context.Background(), "LOCKS", "FORCE", "k", "TOKEN", "token", "REASON", "x"); err != nil {
		t.Fatal(err)
	}
	holder.hears("lock-lost", "k", "token", fence, "forced")
	next := <-granted
	if next == "nil" || strings.HasPrefix(next, "UNKNOWN") {
		t.Fatal(next)
	}
	others[0].mustDo("SET", "k", "x")
	waits.hears("lock-lost", "k", "next", next, "overwritten")
	holder.quiet()
}

// lockHandler keeps the pushes for which it is registered with go-redis.
type lockHandler struct{ heard [][]any }

func (h *lockHandler) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	h.heard = append(h.heard, n)
	return nil
}

// go-redis delivers pushes to registered handlers with the next command of the connection, and drops pushes without a
// handler.
func TestGoRedisHoldsALock(t *testing.T) {
	t.Parallel()
	node := startSingle(t)
	ctx := context.Background()
	for _, registers := range []bool{true, false} {
		client := node.client()
		conn, heard := client.Conn(), &lockHandler{}
		if registers {
			if err := conn.RegisterPushNotificationHandler("lock-lost", heard, false); err != nil {
				t.Fatal(err)
			}
		}
		fence, err := conn.Do(ctx, "LOCK", "k", "token", "PX", 600_000).Int64()
		if err != nil {
			t.Fatal(err)
		}
		node.mustDo("DEL", "k")
		node.resp3().quiet()
		for i := range 3 {
			if got, err := conn.Echo(ctx, fmt.Sprint(i)).Result(); err != nil || got != fmt.Sprint(i) {
				t.Fatalf("%q, %v", got, err)
			}
		}
		want := []any{"lock-lost", "k", "token", fence, "deleted"}
		if registers != (len(heard.heard) == 1 && slices.Equal(heard.heard[0], want)) {
			t.Errorf("told %v", heard.heard)
		}
		_ = conn.Close()
	}
}
