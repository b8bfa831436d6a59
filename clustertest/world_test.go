package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/client"
	"lockd/resp/fault"
)

// startWorld returns a world of three founding nodes, of which one leads.
func startWorld(t *testing.T, seed uint64) *World {
	t.Helper()
	w := NewWorld(seed)
	t.Cleanup(w.Close)
	members := map[string]string{}
	for _, id := range worldIDs {
		members[id] = id + ":16379"
	}
	for _, id := range worldIDs {
		if err := w.Add(Machine{ID: id, Members: members}); err != nil {
			t.Fatal(err)
		}
		if err := w.Start(id); err != nil {
			t.Fatal(err)
		}
	}
	if got := say(w, "n1", "SET", "founded", "yes"); got != "OK" {
		t.Fatalf("founding: %s", got)
	}
	return w
}

var worldIDs = []string{"n1", "n2", "n3"}

// say sends a command on a connection of its own, and returns the answer, or the error. It tries for ten seconds.
func say(w *World, id string, args ...string) (answer string) {
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		raw, err := w.Dial(id, time.Second)
		if err != nil {
			answer = err.Error()
			continue
		}
		conn, err := (&client.Cluster{}).Greet(context.Background(), raw)
		if err != nil {
			answer = err.Error()
			continue
		}
		defer conn.Close()
		if err := conn.SendAll(args); err != nil {
			answer = err.Error()
			continue
		}
		r, err := conn.Receive()
		if err != nil {
			answer = err.Error()
			continue
		}
		if !strings.HasPrefix(r.Str, "LOADING") { // no leader yet
			return shown(r)
		}
		answer = r.Str
	}
	return answer
}

// Goroutines start, kill, stop, pause and cut the power of nodes at the same time as others use them, and none of it
// ends the test's own goroutine.
func TestWorldIsUsedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 7)
		var all sync.WaitGroup
		stop := make(chan struct{})
		for i := range 4 {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						say(w, worldIDs[(i+n)%3], "SET", fmt.Sprint("k", i), fmt.Sprint(n))
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		for i, do := range []func(id string) error{
			w.Kill, func(id string) error { return w.LosePower(id) }, w.Pause,
			func(id string) error { return w.Stop(context.Background(), id) },
		} {
			all.Go(func() {
				for n := range 10 {
					id := worldIDs[(i+n)%3]
					_ = do(id) // it may not run
					time.Sleep(time.Duration(50+10*i) * time.Millisecond)
					_ = w.Resume(id)
					_ = w.Start(id) // it may run already
					time.Sleep(time.Second)
				}
			})
		}
		time.Sleep(20 * time.Second)
		close(stop)
		all.Wait()
		for _, id := range worldIDs {
			_ = w.Resume(id)
			_ = w.Start(id)
		}
		for _, id := range worldIDs {
			if got := say(w, id, "SET", "last", id); got != "OK" {
				t.Errorf("%s at the end: %s; %v", id, got, w.Why(id))
			}
		}
	})
}

// A world says what is wrong with errors.
func TestWorldErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		for what, err := range map[string]error{
			"there is a node n1 already": w.Add(Machine{ID: "n1"}),
			"needs the id":               w.Add(Machine{}),
			"there is no node n9":        w.Start("n9"),
			"n1 runs already":            w.Start("n1"),
			"n1 runs":                    w.Wipe("n1"),
			"the world is closed": func() error {
				other := NewWorld(1)
				other.Close()
				return errors.Join(other.Add(Machine{ID: "a"}), other.Start("a"))
			}(),
		} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %s", err, what)
			}
		}
		if err := w.Kill("n1"); err != nil || w.Running("n1") {
			t.Error(err)
		}
		<-w.Ended("n1")
		if err := w.Kill("n1"); err == nil || w.Node("n1") != nil || w.Why("n1") != nil {
			t.Errorf("killed twice: %v", err)
		}
	})
}

// A node dials its peers where it is told, such as at proxies between them.
func TestWorldWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(1)
		defer w.Close()
		members := map[string]string{"a": "a:1", "b": "b:1"}
		for id, other := range map[string]string{"a": "b", "b": "a"} {
			way := id + "-to-" + other + ":1"
			w.Network().Divert(way, other+":1")
			m := Machine{ID: id, PeerAddr: id + ":1", ClientAddr: id + ":2", Members: members,
				Ways: map[string]string{other + ":1": way}}
			if err := w.Add(m); err != nil {
				t.Fatal(err)
			}
		}
		for id := range members {
			if err := w.Start(id); err != nil {
				t.Fatal(err)
			}
		}
		if got := say(w, "a", "SET", "k", "v"); got != "OK" {
			t.Fatal(got)
		}
		w.Network().SetRefused(true, []string{"a:1"}, []string{"a-to-b:1"})
		w.Network().SetRefused(true, []string{"b:1"}, []string{"b-to-a:1"})
		w.Network().Reset("a:1", "a-to-b:1")
		w.Network().Reset("b:1", "b-to-a:1")
		if got := say(w, "a", "SET", "k", "w"); got == "OK" {
			t.Error("two nodes agree although neither reaches the other on its way")
		}
	})
}

// Each point strikes in its own node only.
func TestWorldStrikes(t *testing.T) {
	for _, tt := range []struct {
		point, act string
		ends       string // why the process ends itself; "": it is killed
	}{
		{fault.LogWrite, fault.ActKill, ""},
		{fault.LogWritten, fault.ActDrop, ""},
		{fault.LogSync, fault.ActTear, ""},
		{fault.LogSynced, fault.ActKill, ""},
		{fault.LogWrite, fault.ActError, "the disk cannot be trusted, this node stops: StoreLogs: input/output error"},
		{fault.LogSync, fault.ActFull, "the disk is full, this node stops"},
		{fault.Applied, fault.ActKill, ""},
		{fault.Propose, fault.ActKill, ""},
	} {
		t.Run(tt.point+" "+tt.act, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWorld(t, 3)
				var struck <-chan struct{}
				hit := "n2"
				if tt.point == fault.Propose {
					hit = leaderOf(w)
				}
				struck, err := w.Arm(hit, Strike{Point: tt.point, Act: tt.act})
				if err != nil {
					t.Fatal(err)
				}
				other := worldIDs[0]
				if hit == other {
					other = worldIDs[1]
				}
				for range 5 {
					if got := say(w, other, "SET", "k", "v"); got != "OK" && !strings.HasPrefix(got, "(error) UNKNOWN") {
						t.Fatal(got)
					}
				}
				<-struck
				<-w.Ended(hit)
				why := ""
				if err := w.Why(hit); err != nil {
					why = err.Error()
				}
				if !strings.HasPrefix(why, tt.ends) || (why == "") != (tt.ends == "") {
					t.Errorf("it ended itself: %q, want %q", why, tt.ends)
				}
				if err := w.Start(hit); err != nil {
					t.Fatal(err)
				}
				if got := say(w, hit, "GET", "k"); got != `"v"` {
					t.Errorf("after a start: %s", got)
				}
			})
		})
	}
}

// leaderOf waits until a node leads.
func leaderOf(w *World) string {
	for ; ; time.Sleep(50 * time.Millisecond) {
		for _, id := range worldIDs {
			if strings.HasPrefix(say(w, id, "ROLE"), `1) "master"`) {
				return id
			}
		}
	}
}

// Time passes while two changes of the members wait for a majority, of which the second waits for the first.
func TestTwoChangesOfMembersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		leader := leaderOf(w)
		for _, id := range worldIDs {
			if id != leader {
				if err := w.Pause(id); err != nil {
					t.Fatal(err)
				}
			}
		}
		var all sync.WaitGroup
		for _, id := range []string{"n8", "n9"} {
			all.Go(func() { say(w, leader, "LOCKD", "ADD", id, id+":16379") })
		}
		time.Sleep(3 * time.Second)
		for _, id := range worldIDs {
			_ = w.Resume(id) // the leader was not paused
		}
		all.Wait()
		if got := say(w, leader, "SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
	})
}

// A process that is launched tells how it has ended: by a kill, also at once, in order, by itself while it runs, or
// while it starts.
func TestExit(t *testing.T) {
	for name, tt := range map[string]struct {
		end func(w *World, p *Process)
		how End
		why string
	}{
		"killed":   {func(_ *World, p *Process) { p.Kill() }, WasKilled, ""},
		"no power": {func(w *World, _ *Process) { _ = w.LosePower("n1") }, WasKilled, ""},
		"stopped":  {func(_ *World, p *Process) { _ = p.Opened(); _ = p.Stop(context.Background()) }, Stopped, ""},
		"failed": {func(w *World, p *Process) {
			_ = p.Opened()
			w.Disk("n1").SetFull(true)
			say(w, "n1", "SET", "k", "v")
		}, Failed, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWorld(t, 1)
				_ = w.Kill("n1")
				p, err := w.Launch("n1")
				if err != nil {
					t.Fatal(err)
				}
				if how, _ := p.Exit(); how != Running {
					t.Errorf("it runs: %v", how)
				}
				tt.end(w, p)
				<-p.Ended()
				how, why := p.Exit()
				if how != tt.how || (why == nil) != (tt.why == "") || why != nil && !strings.Contains(why.Error(), tt.why) {
					t.Errorf("%v, %v", how, why)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		_ = w.Kill("n1")
		if w.Disk("n1").Rot(Votes) == "" {
			t.Fatal("no votes")
		}
		p, err := w.Launch("n1")
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if how, why := p.Exit(); how != Refused || why == nil || p.Opened() == nil || !strings.Contains(why.Error(), "is damaged") {
			t.Errorf("on damaged votes: %v, %v", how, why)
		}
		_ = w.Kill("n2")
		l, err := w.Network().From("n2:6379").Listen("n2:6379")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if p, err = w.Launch("n2"); err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if how, why := p.Exit(); how != Refused || why == nil || !strings.Contains(why.Error(), "in use") {
			t.Errorf("on a port in use: %v, %v", how, why)
		}
	})
}

// A paused process that is told to stop does so once it is resumed. A pause ends with its process.
func TestPauseAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		p, _ := w.machine("n2")
		_ = w.Pause("n2")
		stopped := make(chan struct{})
		go func() {
			_ = w.Stop(context.Background(), "n2")
			close(stopped)
		}()
		time.Sleep(time.Minute)
		if p.last().closing.Load() {
			t.Error("a paused process begins to stop")
		}
		_ = w.Resume("n2")
		<-stopped
		if how, why := p.last().Exit(); how != Stopped {
			t.Errorf("%v, %v", how, why)
		}
		_ = w.Pause("n2") // nothing runs
		if err := w.Start("n2"); err != nil {
			t.Fatal(err)
		}
		if got := say(w, "n2", "SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
	})
}

// A node asks another one to be added, at the address for clients, and ends itself if that refuses it.
func TestWorldJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		if err := w.Add(Machine{ID: "n4", Join: "n2:6379"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Start("n4"); err != nil {
			t.Fatal(err)
		}
		if got := say(w, "n4", "SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
		if got := say(w, "n1", "LOCKD", "MEMBERS"); !strings.Contains(got, "n4:16379") {
			t.Errorf("members: %s", got)
		}
		if err := w.Add(Machine{ID: "n5", PeerAddr: "n4:16379", ClientAddr: "n5:6379", Join: "n2:6379"}); err != nil {
			t.Fatal(err)
		}
		_ = w.Kill("n4")
		p, err := w.Launch("n5")
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if how, why := p.Exit(); how != Failed || !strings.Contains(fmt.Sprint(why), "refuses this node") {
			t.Errorf("a node at the address of another one: %v, %v", how, why)
		}
	})
}

// A node that ends itself while it starts leaves nothing behind: time would stand still for it at the end of the test.
func TestWorldFullAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		for _, id := range worldIDs {
			w.Disk(id).SetFull(true)
			_ = w.Kill(id)
			if err := w.Start(id); err == nil {
				<-w.Ended(id)
			}
		}
		for range 5 {
			for _, id := range worldIDs {
				_ = w.Start(id)
			}
			time.Sleep(5 * time.Second)
		}
		for _, id := range worldIDs {
			if why := w.Why(id); why == nil || !strings.Contains(why.Error(), "no space left on device") {
				t.Errorf("%s on a full disk: %v", id, why)
			}
			w.Disk(id).SetFull(false)
			_ = w.Start(id)
		}
		if got := say(w, "n1", "SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
	})
}
