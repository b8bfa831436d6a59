package main

import (
	"context"
	"strings"
	"testing"
)

// What became of a lock, and whose it was, every node tells alike: also after the leader was killed,
// and after a restart.
func TestEveryNodeTellsWhatBecameOfALock(t *testing.T) {
	ctx := context.Background()
	cluster := startCluster(t, 3)
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
	leader.kill()
	tell(cluster.others(leader))
	leader.start()
	leader.awaitServing()
	tell(cluster)
}
