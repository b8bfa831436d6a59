package sim

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/target"
)

// Time is virtual in a bubble, and the actual one goes on as before.
func TestBubble(t *testing.T) {
	began, actual, slept := time.Now(), time.Time{}, time.Duration(0)
	Bubble(func(outside func(func())) {
		before := time.Now()
		time.Sleep(24 * time.Hour)
		slept = time.Since(before)
		outside(func() { actual = time.Now() })
		go time.Sleep(time.Second) // it may outlast this function
	})
	if slept != 24*time.Hour || actual.Sub(began) > time.Hour || actual.Before(began) {
		t.Errorf("slept %s in %s", slept, actual.Sub(began))
	}
}

// A client that hangs up while it waits for a lock leaves the line: the lock goes to the next one.
func TestHangUp(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		if got := do("n1", "LOCK", "l", "holder", "PX", "10000"); got == "nil" {
			t.Fatalf("LOCK: %s", got)
		}
		addr, _, err := c.Endpoint(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		waiter, err := c.Connect(addr, time.Second)
		if err == nil {
			err = waiter.Send(time.Second, []string{"LOCK", "l", "waiter", "PX", "60000", "WAIT", "30000"})
		}
		if err != nil {
			t.Fatal(err)
		}
		waiter.Close()
		time.Sleep(time.Second)
		if got := do("n2", "UNLOCK", "l", "holder"); got != "1" {
			t.Errorf("UNLOCK: %s", got)
		}
		if got := do("n3", "LOCK", "l", "next", "PX", "1000"); got == "nil" {
			t.Error("the lock went to a client that had hung up")
		}
	})
}

// start starts a cluster, and returns a function that has a node do a command.
func start(t *testing.T, nodes int) (c target.Target, do func(node string, args ...string) string) {
	t.Helper()
	c, err := New(target.Config{Nodes: nodes, Dir: t.TempDir(), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c, func(node string, args ...string) string {
		r, err := c.Do(node, 5*time.Second, args...)
		if err != nil {
			return err.Error()
		}
		return r.Text()
	}
}

// A cluster survives the death of its leader, a pause, and the loss of what was not synced; it is the same everywhere.
func TestCluster(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		if got := do("n1", "SET", "k", "1"); got != "OK" {
			t.Fatalf("SET: %s", got)
		}
		for i, harm := range []func(node string){
			c.Kill, c.Pause, func(node string) { c.Die(node, target.ActDrop) }, c.Shutdown,
		} {
			leader := c.Leader()
			harm(leader)
			other := "n1"
			if leader == other {
				other = "n2"
			}
			if got := do(other, "INCR", "k"); got != string(rune('2'+i)) {
				t.Errorf("harm %d of %s: INCR at %s: %s", i, leader, other, got)
			}
			c.Resume(leader)
			if err := c.Restart(leader); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := errors.Join(c.Healthy(ctx), c.Converged(ctx)); err != nil {
				t.Errorf("after harm %d of %s: %v", i, leader, err)
			}
			cancel()
		}
		if dead := c.Deaths(); len(dead) > 0 {
			t.Errorf("deaths: %q", dead)
		}
	})
}

// The fault port obeys the words of a test build: points strike in their node, and are told in its log; clocks step and
// are set right; a death may tear what was not synced. Other words are errors.
func TestFaultPort(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		armed, err := c.Arm("n2", target.Strike{Point: target.LogSync, Act: target.ActStall, Stall: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if got := do("n1", "SET", "k", "1"); got != "OK" {
			t.Errorf("SET: %s", got)
		}
		time.Sleep(10 * time.Second)
		c.Disarm(armed)
		if !armed.Over() || !c.Logged("n2", "fault: stall at log.sync\n") || !c.Logged("n2", "the disk cannot be trusted") {
			t.Error("n2 goes on though its disk hangs")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Healthy(ctx); err != nil {
			t.Error(err)
		}
		wall := func(node string) int {
			s, err := strconv.Atoi(do(node, "EVAL", "return redis.call('TIME')[1]", "0"))
			if err != nil {
				t.Error(err)
			}
			return s
		}
		before := wall("n1")
		for _, node := range c.Nodes() {
			if _, err := c.Fault(node, "clock 3600000 0"); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		if ahead := wall("n1") - before; ahead < 3600 {
			t.Errorf("the time went %d s forward", ahead)
		}
		for word, want := range map[string]string{
			"reset": "", "stat": "", "stacks": "", "arm nowhere kill": "no such point or action",
			"dance": `unknown command "dance"`,
		} {
			if _, err := c.Fault("n3", word); (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("%s: %v", word, err)
			}
		}
		c.Die("n3", target.ActTear)
		if err := errors.Join(c.Healthy(ctx), c.Converged(ctx)); err != nil {
			t.Error(err)
		}
		if dead := c.Deaths(); len(dead) > 0 {
			t.Errorf("deaths: %q", dead)
		}
	})
}

// A node whose disk was lost is removed, and joins under a new id.
func TestReplace(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		if got := do("n1", "SET", "k", "1"); got != "OK" {
			t.Errorf("SET: %s", got)
		}
		leader := c.Leader()
		c.Replace(leader)
		if err := c.Restart(leader); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(c.Healthy(ctx), c.Converged(ctx)); err != nil {
			t.Error(err)
		}
		if id, got := c.ID(leader), do(leader, "GET", "k"); id == leader || got != "1" {
			t.Errorf("%s: GET: %s", id, got)
		}
		if dead := c.Deaths(); len(dead) > 0 {
			t.Errorf("deaths: %q", dead)
		}
	})
}

// A node that refuses a damaged folder is replaced; one whose newest snapshot is removed goes back to the one before.
func TestDamage(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		for part, replaced := range map[target.Part]bool{target.Log: true, target.Votes: true, target.Snapshot: false, "": false} {
			for range 3 {
				if got := do("n2", "SET", "k", "1"); got != "OK" {
					t.Errorf("SET: %s", got)
				}
				do("n2", "LOCKD", "SNAPSHOT")
			}
			before := c.ID("n2")
			if !c.Damage("n2", func(f target.Folder) (late string) {
				kept := f.Snapshots()
				if part != "" {
					if where, err := f.Flip(part, nil); where == "" || err != nil {
						t.Errorf("%s: %q, %v", part, where, err)
					}
				} else if err := f.RemoveSnapshot(kept[len(kept)-1]); err != nil || len(f.Snapshots()) != len(kept)-1 {
					t.Errorf("%v: %q, %q", err, kept, f.Snapshots())
				}
				if part == target.Snapshot {
					return kept[len(kept)-1]
				}
				return ""
			}) {
				t.Fatalf("%q: nothing is damaged", part)
			}
			_ = c.Restart("n2") // Healthy tries again
			if err := errors.Join(c.Healthy(ctx), c.Converged(ctx)); err != nil {
				t.Errorf("%q: %v", part, err)
			}
			if (c.ID("n2") != before) != replaced {
				t.Errorf("%q: %s is now %s", part, before, c.ID("n2"))
			}
		}
		if dead := c.Deaths(); len(dead) > 0 {
			t.Errorf("deaths: %q", dead)
		}
	})
}

// Operators have nodes drained and backed up, and new clusters made of a backup and of a folder.
func TestTools(t *testing.T) {
	Bubble(func(func(func())) {
		c, do := start(t, 3)
		defer c.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		tool := func(want int, says string, args ...string) {
			t.Helper()
			status, said, err := c.Tool(ctx, args...)
			if err != nil || status != want || !strings.Contains(said, says) {
				t.Errorf("%s: status %d, %v: %s", args[0], status, err, said)
			}
		}
		if got := do("n1", "SET", "k", "1"); got != "OK" {
			t.Errorf("SET: %s", got)
		}
		led := c.Leader()
		tool(0, led+" can be taken away", append([]string{"drain", "--wait", "10s"}, c.Reach(true, led)...)...)
		if c.Leader() == led {
			t.Errorf("%s leads", led)
		}
		dir := filepath.Dir(c.Dir("n1"))
		file := filepath.Join(dir, "backup")
		tool(0, "", append([]string{"backup", "--out", file}, c.Reach(false, "n2")...)...)
		tool(1, "is there already", append([]string{"backup", "--out", file}, c.Reach(false, "n2")...)...)
		tool(0, "", "inspect", file)

		serves := func(id, dir string, flags ...string) {
			t.Helper()
			node, err := c.NewSingle(id, dir)
			if err != nil {
				t.Fatal(err)
			}
			flags = append(flags, "--hold", "1s", "--peer-advertise", node.PeerAddr)
			tool(1, "give --fence-above", flags...)
			tool(0, "", append(flags, "--fence-above", "1000")...)
			for range 2 {
				if err := node.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if r, err := node.Do(time.Second, "GET", "k"); err != nil || r.Text() != "1" {
					t.Errorf("%s: GET: %q, %v", flags[0], r.Text(), err)
				}
				node.Stop()
			}
		}
		serves("heir", filepath.Join(dir, "heir"), "restore", "--in", file, "--dir", filepath.Join(dir, "heir"), "--id", "heir")
		c.Shutdown("n3")
		copied := filepath.Join(dir, "copied")
		if err := c.Folder("n3").CopyTo(copied); err != nil {
			t.Error(err)
		}
		serves("n3", copied, "recover", "--dir", copied, "--yes")
		if _, _, err := c.Tool(ctx, "run"); err == nil {
			t.Error("`lockd run` is not simulated, and runs")
		}
	})
}
