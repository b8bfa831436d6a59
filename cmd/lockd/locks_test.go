package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// A waiter for a lock of Redisson is woken on every node, by the message that the library listens to, when the lease
// of a dead holder ends or somebody deletes or forces the lock. Nothing else wakes the waiter here.
func TestRedissonsWaitersAreWoken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := startCluster(t, 3, calm...)
	for name, end := range map[string][]any{
		"expiry": {"PEXPIRE", "expiry", "500"}, "del": {"DEL", "del"}, "force": {"LOCKS", "FORCE", "force", "REASON", "a test"},
	} {
		t.Run(name, func(t *testing.T) {
			dead := &rlock{c: cluster[0].client(), name: name, holder: "8a2f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5b:1", lease: 10 * time.Minute}
			if wait, err := dead.try(ctx); err != nil || wait != 0 {
				t.Fatal(wait, err)
			}
			var waiting, done sync.WaitGroup
			for i := range cluster {
				waiting.Add(1)
				w := &rlock{c: cluster[i].client(), name: name, holder: fmt.Sprintf("0f0f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5b:%d", i), lease: 10 * time.Minute}
				done.Go(func() {
					if err := w.lockAsWaiter(ctx, waiting.Done); err != nil {
						t.Error(err)
					} else if freed, err := w.unlock(ctx); err != nil || !freed {
						t.Error(freed, err)
					}
				})
			}
			waiting.Wait()
			do(ctx, t, cluster[1], end...)
			done.Wait()
		})
	}
}

// do runs a command that must be answered.
func do(ctx context.Context, t *testing.T, p *proc, args ...any) {
	t.Helper()
	c := p.client()
	defer c.Close()
	if err := c.Do(ctx, args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}
