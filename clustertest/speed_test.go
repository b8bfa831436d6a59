package clustertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/client"
)

// A minute of three nodes that nobody asks anything.
func BenchmarkIdleMinute(b *testing.B) { minutes(b, 0) }

// A minute of three nodes with ten clients that together send some 300 commands a second.
func BenchmarkBusyMinute(b *testing.B) { minutes(b, 10) }

// minutes measures minutes of virtual time.
func minutes(b *testing.B, clients int) {
	for range b.N {
		inBubble(func(t *testing.T) {
			w := startWorld(t, 1)
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() { askForAMinute(t, w, i) })
			}
			time.Sleep(time.Minute)
			all.Wait()
		})
	}
}

// inBubble runs a test in a bubble, outside a test.
func inBubble(do func(t *testing.T)) {
	testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "bubble", F: func(t *testing.T) { synctest.Test(t, do) },
	}})
}

// askForAMinute sends a command every 33 ms over one connection.
func askForAMinute(t *testing.T, w *World, i int) {
	raw, err := w.Dial(worldIDs[i%len(worldIDs)], time.Second)
	if err != nil {
		t.Error(err)
		return
	}
	conn, err := (&client.Cluster{}).Greet(context.Background(), raw)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	key, me := fmt.Sprint("k", i%5), fmt.Sprint("c", i)
	for n := 0; n < 1800; n++ {
		cmd := [][]string{{"LOCK", key, me, "PX", "5000"}, {"GET", key}, {"UNLOCK", key, me}, {"SET", me, fmt.Sprint(n)}}[n%4]
		if err := conn.SendAll(cmd); err != nil {
			t.Error(err)
			return
		}
		if _, err := conn.Receive(); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(33 * time.Millisecond)
	}
}
