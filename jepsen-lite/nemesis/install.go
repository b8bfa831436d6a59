package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// snapshot has all nodes take a snapshot. The kill variant kills a node at some
// moment meanwhile.
func snapshot(f *field, fault Fault) (string, func()) {
	victim := ""
	if fault.Variant == "kill" {
		victim = f.victims("any", fault.Dice)[0]
	}
	for _, n := range f.Target.Nodes() {
		go func() { _, _ = f.Target.Do(n, 5*time.Second, "LOCKD", "SNAPSHOT") }()
	}
	if victim == "" {
		return "snapshot all", nil
	}
	time.Sleep(time.Duration(fault.Dice%20_000) * time.Microsecond)
	f.Target.Kill(victim)
	return "snapshot kill " + victim, func() { _ = f.Target.Restart(victim) }
}

// installLinks are the ways to a follower that gets a snapshot, by the names of the variants.
// Each begins with them whole, and is over when the layer is cleared.
var installLinks = map[string]func(f *field, d *rand.Rand, node string) (what string, stop func()){
	"drip":  installDrips,
	"break": installBreaks,
	"cut":   installIsCut,
	"kill":  installLosesLeader,
}

// Times and rates of the fault install.
const (
	installSave    = 30 * time.Second // for a snapshot: it takes its time, so that clients have theirs
	installSlowest = 4 << 20          // bytes a second
	installFastest = 64 << 20
	installBeginMs = 1000 // within which the way is broken
)

// install has a follower miss what the others have trimmed from their logs, so that it needs
// a snapshot, and the way to it be bad meanwhile. What is the whole state may take longer
// than the fault.
func install(f *field, fault Fault) (string, func()) {
	node, d := f.victims("follower", fault.Dice)[0], dice(fault.Dice)
	rest := f.others(node)
	f.links.split([]string{node}, rest)
	lengthenLog(f, rest[0])
	for range 2 { // the log is trimmed up to the end of the older snapshot
		if !f.isOver() {
			saveTogether(f, rest)
		}
	}
	f.links.reset(node, rest) // or the bytes that were held back could be all that it lacks
	f.links.Clear()
	what, stop := installLinks[fault.Variant](f, d, node)
	return fmt.Sprintf("install %s %s: %s", fault.Variant, node, what), func() {
		stop()
		f.links.Clear()
	}
}

// saveAll writes something and has nodes take a snapshot of it at the same time. When the time
// of the run is over nobody waits for that.
func saveTogether(f *field, nodes []string) {
	_, _ = f.Target.Do(nodes[0], 2*time.Second, "SET", provokeKey, time.Now().String())
	var saving sync.WaitGroup
	for _, n := range nodes {
		saving.Go(func() { _, _ = f.Target.Do(n, installSave, "LOCKD", "SNAPSHOT") }) // a fault may be on
	}
	saved := make(chan struct{})
	go func() {
		saving.Wait()
		close(saved)
	}()
	select {
	case <-saved:
	case <-f.over:
	}
}

func installDrips(f *field, d *rand.Rand, node string) (string, func()) {
	rate := installSlowest + d.IntN(installFastest-installSlowest)
	f.links.into(node, f.others(node), target.Shape{BytesPerSecond: rate})
	return fmt.Sprintf("%d MiB/s", rate>>20), func() {}
}

func installBreaks(f *field, d *rand.Rand, node string) (string, func()) {
	every := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	stop := repeat(every, func() { f.links.reset(node, f.others(node)) })
	return fmt.Sprintf("all connections break every %s", every), stop
}

func installIsCut(f *field, d *rand.Rand, node string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	f.links.into(node, f.others(node), target.Shape{Cut: true})
	return fmt.Sprintf("cut after %s", after), func() {}
}

func installLosesLeader(f *field, d *rand.Rand, _ string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	leader := f.pick("leader", d.Uint64())[0]
	f.Target.Kill(leader)
	restartAll(f, []string{leader}) // with it there is a majority again, without it there is none
	return fmt.Sprintf("kill %s after %s, and start it at once", leader, after), func() {}
}

// provokeKey is what nemeses write to have something to snapshot.
const provokeKey = "nemesis:provoke"

// save writes something and has nodes take a snapshot of it.
func saveSnapshots(f *field, nodes ...string) {
	for _, n := range nodes {
		_, _ = f.Target.Do(n, 2*time.Second, "SET", provokeKey, time.Now().String())
		_, _ = f.Target.Do(n, 5*time.Second, "LOCKD", "SNAPSHOT") // whichever fails: a fault is on
	}
}

// What the node must lack: more than one message of Raft carries, as one waits for it
// meanwhile, and more than one file of the log holds (target.segmentBytes), as what is
// trimmed from the newest one can still be read.
const (
	lackEntries = 40
	lackBytes   = 600 << 10
)

// lengthen makes the log longer than that.
func lengthenLog(f *field, via string) {
	value := strings.Repeat("x", lackBytes/lackEntries)
	for range lackEntries {
		if r, err := f.Target.Do(via, 4*time.Second, "SET", provokeKey, value); err != nil || r.IsErr() {
			return // another fault is in the way
		}
	}
}

// outrun cuts a node off until the others have trimmed from their logs what it lacks. What
// was held back meanwhile is lost.
func outrun(f *field, node string) {
	others := f.others(node)
	f.links.split([]string{node}, others)
	lengthenLog(f, others[0])
	for _, other := range slices.Concat(others, others) { // the log is trimmed up to the end of the older snapshot
		if !f.isOver() {
			saveSnapshots(f, other)
		}
	}
	f.links.reset(node, others) // or the bytes that were held back could be all that it lacks
}
