package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Every node counts, kills and unblocks clients of every other node; a transfer of leadership changes nothing, and
// clients of a killed node disappear at once.
func TestOneClusterOfClients(t *testing.T) {
	t.Parallel()
	all, ctx := startCluster(t, 3, calm...), context.Background()
	subs := map[*proc]*redis.PubSub{}
	for _, p := range all {
		subs[p] = p.client().Subscribe(ctx, "one")
		if _, err := subs[p].Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want int64, nodes ...*proc) {
		t.Helper()
		for _, p := range nodes {
			c := p.client()
			if got, err := c.PubSubNumSub(ctx, "one", "none").Result(); err != nil || got["one"] != want || got["none"] != 0 {
				t.Errorf("NUMSUB at %s: %v, %v, want %d", p.name, got, err, want)
			}
			if got, err := c.Publish(ctx, "one", "x").Result(); err != nil || got != want {
				t.Errorf("PUBLISH at %s: %d, %v, want %d", p.name, got, err, want)
			}
		}
	}
	count(3, all...)
	leader := all.leader(t)
	if err := leader.client().Do(ctx, "LOCKD", "TRANSFER").Err(); err != nil {
		t.Fatal(err)
	}
	count(3, all...)

	waits := all[1].client().Conn()
	id := waits.ClientID(ctx).Val()
	answer := make(chan error, 1)
	go func() { answer <- waits.BLPop(ctx, 0, "queue").Err() }()
	all[1].blockedClients(1)
	if n, err := all[2].client().ClientUnblockWithError(ctx, id).Result(); n != 1 {
		t.Errorf("unblocked through another node: %d, %v", n, err)
	}
	if err := <-answer; err == nil || err.Error() != "UNBLOCKED client unblocked via CLIENT UNBLOCK" {
		t.Errorf("unblocked: %v", err)
	}
	if n, err := all[0].client().ClientKillByFilter(ctx, "ID", fmt.Sprint(id)).Result(); n != 1 {
		t.Errorf("killed through another node: %d, %v", n, err)
	}
	if err := waits.Ping(ctx).Err(); err == nil || strings.Contains(err.Error(), "ERR") {
		t.Errorf("a client that was killed: %v", err)
	}

	all[1].Kill()
	count(2, all[0], all[2])
	all[2].Signal(syscall.SIGTERM)
	all[2].wait(startTimeout)
	if err := all[0].client().PubSubNumSub(ctx, "one").Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING fewer than a majority") {
		t.Errorf("NUMSUB of one of three: %v", err)
	}
}
