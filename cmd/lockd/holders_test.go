package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// mustDo runs a command of another client.
func (p *proc) mustDo(args ...any) any {
	p.t.Helper()
	got, err := p.client().Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		p.t.Fatal(args, err)
	}
	return got
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
