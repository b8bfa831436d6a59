package clustertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lockd/clustertest"
)

// A test in Go: it runs in a bubble, in which time.Sleep takes no time.
func TestInGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Start(t, 3)
		if got := c.Node("n1").Do("SET", "lock", "alice", "NX", "PX", "30000"); got != "OK" {
			t.Fatal(got)
		}
		bob := c.Node("n2").Go("LOCK", "lock", "bob", "PX", "30000", "WAIT", "60000")
		c.Kill("n1")
		time.Sleep(2 * time.Second)
		if !bob.Waits() {
			t.Errorf("bob is answered %s, and alice holds the lock", bob.Answer())
		}
		if got := c.Node(c.Leader()).Do("UNLOCK", "lock", "alice"); got != "(integer) 1" {
			t.Error(got)
		}
		if fence := c.Node("n3").Do("FENCE", "lock"); bob.Answer() != fence {
			t.Errorf("bob is answered %s, and the fence is %s", bob.Answer(), fence)
		}
	})
}
