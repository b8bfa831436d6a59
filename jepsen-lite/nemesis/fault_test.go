//go:build faults

package nemesis

import (
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/target"
)

// server builds a test build of the server, with a bug planted in it unless bug is "".
func server(t *testing.T, bug string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "server")
	var bugs []string
	if bug != "" {
		bugs = append(bugs, bug)
	}
	if err := target.Kinds[0].Build(path, bugs); err != nil {
		t.Fatal(err)
	}
	return path
}

// startField starts three nodes of a test build, and a client that writes.
func startField(t *testing.T) *field {
	t.Helper()
	return startFieldOf(t, target.Config{})
}

// startFieldOf is startField with a configuration.
func startFieldOf(t *testing.T, c target.Config) *field {
	t.Helper()
	c.Binary, c.Dir, c.Nodes = server(t, ""), t.TempDir(), 3
	tgt, err := target.Kinds[0].New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tgt.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tgt.Start(ctx); err != nil {
		t.Fatal(err)
	}
	turn := 0
	t.Cleanup(repeat(5*time.Millisecond, func() {
		turn++
		_, _ = tgt.Do(tgt.Nodes()[turn%3], time.Second, "SET", "test", "1") // some fail while no node leads
		_, _ = tgt.Do(tgt.Nodes()[turn%3], time.Second, "GET", "test")
	}))
	return (&Runner{Target: tgt}).field(nil)
}

// builds makes a configuration with one more build.
func builds(t *testing.T, build string) target.Config {
	t.Helper()
	return target.Config{Builds: map[string]string{build: server(t, build)}}
}

// whole waits until all nodes serve again.
func whole(t *testing.T, f *field) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Target.Healthy(ctx); err != nil {
		t.Fatal(err)
	}
}

// Every point is reached by its lead, and a death at it is not reported.
func TestFaultSpots(t *testing.T) {
	f := startField(t)
	for _, s := range spots {
		who := "follower"
		if s.name == target.Gather || s.name == target.Propose {
			who = "leader"
		}
		node := f.victims(who, 1)[0]
		what, undo := strike(f, []string{node}, target.Strike{Point: s.name, Act: target.ActKill})
		began := time.Now()
		for f.Target.Running(node) && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if f.Target.Running(node) {
			t.Errorf("%s: not reached", what)
		}
		t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
		undo()
		restartAll(f, []string{node})
		whole(t, f)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// Whatever happens to a node's port, no other node logs that the living node has ended, and it can be reached
// afterwards. While its connections are cut the links are marked as harmed.
func TestFaultPort(t *testing.T) {
	f := startField(t)
	for i, variant := range Find("port").Variants {
		what, undo := port(f, Fault{Kind: "port", Variant: variant, Dice: uint64(i)})
		time.Sleep(time.Second)
		if harmed := strings.HasPrefix(variant, "cut") || variant == "apart"; harmed != (harmedLinks(f) > 0) {
			t.Errorf("%s: %d links are harmed", what, harmedLinks(f))
		}
		undo()
		whole(t, f)
		if n := harmedLinks(f); n > 0 {
			t.Errorf("%s is over, and %d links are harmed", what, n)
		}
		for _, node := range f.Target.Nodes() {
			for _, p := range f.Target.Ports(node) {
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				_ = conn.Close()
			}
		}
	}
	if e := f.Target.Ends(); len(e.Wrong) > 0 || e.Ended != 2 {
		t.Errorf("%+v", e)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Error(deaths)
	}
}

// harmedLinks counts the links between nodes that are not whole.
func harmedLinks(f *field) (n int) {
	for _, from := range f.Target.Nodes() {
		for _, to := range f.others(from) {
			if f.Target.Net().State(from, to) != target.Whole {
				n++
			}
		}
	}
	return n
}

// A follower with a flipped bit starts or is replaced, and no node dies of it. Meanwhile no other disk is touched.
func TestFaultFlip(t *testing.T) {
	f := startField(t)
	for i, which := range Find("flip").Variants {
		what, undo := flip(f, Fault{Kind: "flip", Variant: which, Dice: uint64(i)})
		for _, node := range f.Target.Nodes() {
			if !f.Target.Running(node) {
				continue
			}
			if f.Target.Damage(node, func(target.Folder) string { t.Errorf("%s: %s, too", what, node); return "" }) {
				t.Errorf("%s: a second disk in doubt", what)
			}
			restartAll(f, []string{node})
			break
		}
		undo()
		whole(t, f)
		t.Logf("%s: now %v", what, ids(f))
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// ids returns the present member ids of the nodes.
func ids(f *field) (all []string) {
	for _, n := range f.Target.Nodes() {
		all = append(all, f.Target.ID(n))
	}
	return all
}

// A node that is paused for long in the middle of a write goes on: its disk was not slow.
func TestFaultPauseInWrite(t *testing.T) {
	f := startField(t)
	node := f.victims("follower", 1)[0]
	_, undo := strike(f, []string{node}, target.Strike{Point: target.LogSync, Act: target.ActStall, Stall: time.Second})
	time.Sleep(300 * time.Millisecond) // the write hangs
	f.Target.Pause(node)
	time.Sleep(6 * time.Second) // longer than the disk may take
	f.Target.Resume(node)
	undo()
	whole(t, f)
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// A disk that fails or hangs for too long ends its node, which is no death to report. A shorter hang does not.
func TestFaultStore(t *testing.T) {
	f := startField(t)
	for _, s := range []target.Strike{
		{Point: target.LogWrite, Act: target.ActError},
		{Point: target.LogSync, Act: target.ActFull},
		{Point: target.VoteWrite, Act: target.ActFull},
		{Point: target.LogSync, Act: target.ActStall, Stall: 500 * time.Millisecond},
		{Point: target.LogSync, Act: target.ActSlow, Stall: 300 * time.Millisecond},
		{Point: target.LogSync, Act: target.ActStall, Stall: 30 * time.Second},
		{Point: target.LogWrite, Act: target.ActStall, Stall: 500 * time.Millisecond},
		{Point: target.LogWrite, Act: target.ActStall, Stall: 30 * time.Second},
		{Point: target.VoteWrite, Act: target.ActStall, Stall: 500 * time.Millisecond},
		{Point: target.VoteWrite, Act: target.ActStall, Stall: 30 * time.Second},
		{Point: target.SnapshotWrite, Act: target.ActStall, Stall: 6 * time.Second},
	} {
		node := f.victims("follower", 1)[0]
		what, undo := strike(f, []string{node}, s)
		time.Sleep(time.Second) // the point is reached
		undo()
		if ended := !f.Target.Running(node); ended == survives(s) {
			t.Errorf("%s: ended %v", what, ended)
		}
		restartAll(f, []string{node})
		whole(t, f)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// survives reports whether a node goes on after a strike.
func survives(s target.Strike) bool {
	return s.Stall > 0 && (s.Stall < time.Second || s.Point == target.SnapshotWrite)
}

// A disk that hangs at the beginning of a leader's snapshot ends its node.
func TestFaultInstallHangs(t *testing.T) {
	f := startField(t)
	node := f.victims("follower", 1)[0]
	a, err := f.Target.Arm(node, target.Strike{Point: target.SnapshotWrite, Act: target.ActStall, Stall: 40 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	stop := installs(f, a)
	for began := time.Now(); !a.Over() && time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
	}
	if !a.Over() {
		t.Error("it goes on")
	}
	stop()
	f.Target.Disarm(a)
	restartAll(f, []string{node})
	whole(t, f)
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// A node with a full disk ends, again and again, and serves when there is space again.
func TestFaultFull(t *testing.T) {
	f := startField(t)
	for dice := range uint64(3) {
		what, undo := full(f, Fault{Kind: "full", Variant: "follower", Dice: dice << 32}) // it is started at once, or at the end
		node := strings.Trim(strings.Fields(what)[2], "[]")
		for until := time.Now().Add(time.Minute); f.Target.Running(node); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%s: it goes on", what)
			}
		}
		time.Sleep(time.Second)
		undo()
		whole(t, f)
		t.Log(what)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// A node with few file descriptors rejects clients, and neither stops nor loses its place. With more descriptors it
// accepts clients again.
func TestFaultDescriptors(t *testing.T) {
	f := startField(t)
	for i, variant := range Find("descriptors").Variants {
		what, undo := descriptors(f.withOwnLinks(), Fault{Kind: "descriptors", Variant: variant, Dice: uint64(i)})
		if undo == nil {
			t.Fatal(what)
		}
		node := strings.Trim(regexp.MustCompile(` n\d`).FindString(what), " ")
		refused := func() bool {
			_, err := f.Target.Do(node, time.Second, "PING")
			return err != nil && strings.Contains(err.Error(), "max number of clients reached")
		}
		for until := time.Now().Add(time.Minute); !refused(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%s: it takes them all", what)
			}
		}
		time.Sleep(3 * time.Second) // its log goes on
		undo()
		whole(t, f)
		if refused() {
			t.Errorf("%s: it refuses clients afterwards", what)
		}
		t.Log(what)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// In each variant of install a follower gets a snapshot from its leader.
func TestFaultInstall(t *testing.T) {
	f := startField(t)
	const installed = "fault: stall at " + target.Installed
	for i, variant := range Find("install").Variants {
		var armed []target.Armed
		for _, n := range f.Target.Nodes() {
			f.Target.Kill(n) // so that its present log begins here
			_ = f.Target.Restart(n)
		}
		whole(t, f)
		for _, n := range f.Target.Nodes() {
			a, err := f.Target.Arm(n, target.Strike{Point: target.Installed, Act: target.ActStall, Stall: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			armed = append(armed, a)
		}
		what, undo := install(f.withOwnLinks(), Fault{Kind: "install", Variant: variant, Dice: uint64(i)})
		undo()
		whole(t, f)
		for until := time.Now().Add(time.Minute); !slices.ContainsFunc(f.Target.Nodes(), func(n string) bool { return f.Target.Logged(n, installed) }); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%s: nobody has installed a snapshot", what)
			}
		}
		for _, a := range armed {
			f.Target.Disarm(a)
		}
		t.Log(what)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// A node that was cut off until the others have trimmed what it lacks is reported by Lacking, until it has their
// snapshot.
func TestFaultLacking(t *testing.T) {
	f := startField(t)
	node := f.victims("follower", 1)[0]
	until := func(want []string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !slices.Equal(f.Target.Lacking(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v lack something, want %v", f.Target.Lacking(), want)
			}
		}
	}
	until(nil)
	f.links.split([]string{node}, f.others(node))
	lengthenLog(f, f.others(node)[0])
	saveTogether(f, f.others(node))
	until([]string{node})
	f.links.Clear()
	until(nil)
	whole(t, f)
}

// All nodes are changed to another build and back, one after the other and together. Nothing is found, and in the end
// they are whole.
func TestFaultBuildOfAll(t *testing.T) {
	f := startFieldOf(t, builds(t, target.OtherBuild))
	for i, variant := range []string{"rolling", "together"} {
		what, _ := build(f, Fault{Kind: "build", Variant: variant, Dice: uint64(i)})
		whole(t, f)
		t.Log(what)
	}
	if found := f.found.all; len(found) > 0 {
		t.Errorf("found: %v", found)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// A node of another build refuses the others and is refused, does nothing, and is a member again in its own build.
func TestFaultBuild(t *testing.T) {
	f := startFieldOf(t, builds(t, target.OtherBuild))
	for i, variant := range []string{"leader", "follower"} {
		what, undo := build(f, Fault{Kind: "build", Variant: variant, Dice: uint64(i)})
		if undo == nil {
			t.Fatal(what)
		}
		node := what[len(what)-2:]
		if f.Target.Serving(node) || !f.Target.Running(node) {
			t.Errorf("%s: serving %v, running %v", what, f.Target.Serving(node), f.Target.Running(node))
		}
		if r, err := f.Target.Do(f.others(node)[0], 5*time.Second, "SET", "test", "2"); err != nil || r.IsErr() {
			t.Errorf("%s: the others answer a write with %q, %v", what, r.Text(), err)
		}
		undo()
		whole(t, f)
		t.Log(what)
	}
	if found := f.found.all; len(found) > 0 {
		t.Errorf("found: %v", found)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// Nodes go to the next release and back, and up: every node serves after each step, and the level rises when all are
// up.
func TestFaultUpgrade(t *testing.T) {
	f := startFieldOf(t, builds(t, target.NextBuild))
	for i, variant := range []string{"back", "up", "back"} {
		what, _ := upgrade(f, Fault{Kind: Upgrade, Variant: variant, Dice: uint64(i)})
		whole(t, f)
		want := 1
		if i > 0 {
			want = 2
		}
		if got := (rollout{f}).level(f.Target.Nodes()[0]); got != want {
			t.Errorf("%s: level %d", what, got)
		}
		t.Log(what)
	}
	if found := f.found.all; len(found) > 0 {
		t.Errorf("found: %v", found)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// Every scenario ends, finds nothing, and leaves a whole cluster. The node whose folder was put back is replaced.
func TestFaultScenario(t *testing.T) {
	f := startField(t)
	for _, which := range Find("scenario").Variants {
		what, undo := scenario(f.withOwnLinks(), Fault{Kind: "scenario", Variant: which, Dice: 3})
		if undo == nil {
			t.Fatal(what)
		}
		before := ids(f)
		undo()
		whole(t, f)
		t.Logf("%s: now %v", what, ids(f))
		if replaced := !slices.Equal(before, ids(f)); replaced != (which == "folder") {
			t.Errorf("%s: %v, and then %v", what, before, ids(f))
		}
	}
	if found := f.found.all; len(found) > 0 {
		t.Errorf("found: %v", found)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}

// Messages of every kind are caught between real nodes, and the cluster is whole afterwards.
func TestFaultFrame(t *testing.T) {
	f := startField(t)
	for _, kind := range frameKinds {
		node := f.victims("follower", 1)[0]
		struck, seed := 0, uint64(0)
		for ; struck == 0 && seed < 30; seed++ {
			stop := catchMany(f.withOwnLinks(), kind, node, dice(seed))
			time.Sleep(2 * time.Second)
			struck = stop()
		}
		t.Logf("%s: %d caught in try %d", kind, struck, seed)
		if struck == 0 {
			t.Errorf("no %s was caught", kind)
		}
		whole(t, f)
	}
	if deaths := f.Target.Deaths(); len(deaths) > 0 {
		t.Errorf("deaths: %s", strings.Join(deaths, "\n"))
	}
}
