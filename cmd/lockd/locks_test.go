package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// All nodes report the same history of a lock and of its holders, also after the leader was killed and after a
// restart.
func TestEveryNodeTellsWhatBecameOfALock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	at := cluster.others(leader)[0]
	holder, next := at.client().Conn(), leader.client().Conn()
	for _, args := range [][]any{
		{"CLIENT", "SETNAME", "web-7"},
		{"LOCK", "order:42", "the-first-token", "PX", "600000", "NOTE", "bills"},
	} {
		if err := holder.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	granted := make(chan error, 1)
	go func() {
		granted <- next.Do(ctx, "LOCK", "order:42", "the-second-token", "PX", "600000", "WAIT", "60000").Err()
	}()
	leader.blockedClients(1)
	if err := holder.Do(ctx, "DEL", "order:42").Err(); err != nil { // by the client itself, so it is released
		t.Fatal(err)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	id := holder.ClientID(ctx).Val()
	told := ""
	tell := func(nodes nodes) {
		t.Helper()
		for _, p := range nodes {
			why, err := p.client().Do(ctx, "LOCKS", "WHY", "order:42", "the-first-token").Text()
			if told == "" {
				told = why
			}
			if err != nil || why != told {
				t.Errorf("%s: %s, %v, want %s", p.name, why, err, told)
			}
			info, err := p.client().Do(ctx, "LOCKS", "HISTORY", "order:42").Result()
			events, _ := info.(map[any]any)["events"].([]any)
			if err != nil || len(events) != 3 {
				t.Fatalf("%s: %v, %v", p.name, info, err)
			}
			first, last := events[0].(map[any]any), events[2].(map[any]any)
			if first["client-name"] != "web-7" || first["client-id"] != id || first["node"] != at.name || last["node"] != leader.name {
				t.Errorf("%s: %v, %v", p.name, first, last)
			}
		}
	}
	tell(cluster)
	if !strings.Contains(told, " and released it ") || !strings.Contains(told, "Next was the-seco...") {
		t.Errorf("%s", told)
	}
	leader.Kill()
	tell(cluster.others(leader))
	leader.start()
	leader.awaitServing()
	tell(cluster)
}

// Subscribers of every node hear what becomes of locks: each event once, all in the same order, whichever
// node the command came by, and also what ends by itself.
func TestEveryNodeHearsWhatBecomesOfLocks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := startCluster(t, 3, calm...)
	heard := make([]chan string, len(cluster))
	for i, p := range cluster {
		sub := p.client().PSubscribe(ctx, "__lock@0__:order:*")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		heard[i] = make(chan string, 100)
		go func() {
			defer close(heard[i])
			for {
				msg, err := sub.ReceiveMessage(ctx)
				if err != nil {
					return
				}
				if heard[i] <- msg.Channel + " " + msg.Payload; msg.Channel == "__lock@0__:order:last" {
					return
				}
			}
		}()
	}
	for i := range 9 {
		key := fmt.Sprint("order:", i)
		do(ctx, t, cluster[i%3], "SET", key, "the-token", "NX", "PX", 600_000)
		do(ctx, t, cluster[(i+1)%3], "PEXPIRE", key, 1)
		do(ctx, t, cluster[(i+2)%3], "LOCK", key, "the-other-token", "PX", 600_000, "WAIT", 60_000)
		do(ctx, t, cluster[i%3], "LOCKS", "FORCE", key, "REASON", "a test")
	}
	do(ctx, t, cluster[0], "LOCK", "order:last", "the-token", "PX", 600_000)
	var all [][]string
	for _, c := range heard {
		all = append(all, nil)
		for open := true; open; {
			var line string
			select {
			case line, open = <-c:
			case <-time.After(startTimeout):
				t.Fatalf("no more is heard after\n%s", strings.Join(all[len(all)-1], "\n"))
			}
			if open {
				all[len(all)-1] = append(all[len(all)-1], line)
			}
		}
	}
	for i := range all {
		if !slices.Equal(all[i], all[0]) || len(all[i]) != 9*4+1 {
			t.Fatalf("node %d heard\n%s\nthe first one\n%s", i, strings.Join(all[i], "\n"), strings.Join(all[0], "\n"))
		}
	}
	for i, event := range []string{"granted", "expired", "granted", "forced"} {
		if !strings.HasPrefix(all[0][i], `__lock@0__:order:0 {"key":"order:0","time":"`) || !strings.Contains(all[0][i], `"event":"`+event+`"`) {
			t.Errorf("%s, want %s", all[0][i], event)
		}
	}
}

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

// A waiter for a lock of python-redis-lock, in BLPOP, is woken in the same way.
func TestSignalOfAListIsPushed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := startCluster(t, 3, calm...)
	woken := make(chan error, 1)
	go func() { woken <- cluster[1].client().BLPop(ctx, 0, "lock-signal:job").Err() }()
	eventually(t, startTimeout, "the waiter is woken", func() error { // it may not have begun to wait at first
		do(ctx, t, cluster[2], "SET", "lock:job", "dead", "PX", 1)
		select {
		case err := <-woken:
			if err != nil {
				t.Fatal(err)
			}
			return nil
		default:
			return errors.New("it sleeps")
		}
	})
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
