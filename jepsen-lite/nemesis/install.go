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

// snapshot makes all nodes take a snapshot. The variant kill kills a node at some moment of that.
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

// installLinks are the variants of install: what happens on the way to a follower that gets a snapshot. Each begins
// with whole links, and is over when the layer is cleared.
var installLinks = map[string]func(f *field, d *rand.Rand, node string) (what string, stop func()){
	"drip":  installDrips,
	"break": installBreaks,
	"cut":   installIsCut,
	"kill":  installLosesLeader,
}

// Times and rates of the fault install.
const (
	installSave    = 30 * time.Second // for a snapshot; it is written slowly, so that clients are served meanwhile
	installSlowest = 4 << 20          // bytes per second
	installFastest = 64 << 20
	installBeginMs = 1000 // the way is broken within this time
)

// install makes a follower need a snapshot, by trimming the entries that it lacks from the logs of the others, and
// disturbs the way to it. Installing a large state may take longer than the fault.
func install(f *field, fault Fault) (string, func()) {
	node, d := f.victims("follower", fault.Dice)[0], dice(fault.Dice)
	rest := f.others(node)
	f.links.split([]string{node}, rest)
	lengthenLog(f, rest[0])
	for range 2 { // the log is trimmed up to the second newest snapshot
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

// saveTogether writes something and makes nodes take a snapshot of it at the same time. It returns early when the time
// of the run ends.
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

// installDrips limits the rate of the links to the node.
func installDrips(f *field, d *rand.Rand, node string) (string, func()) {
	rate := installSlowest + d.IntN(installFastest-installSlowest)
	f.links.into(node, f.others(node), target.Shape{BytesPerSecond: rate})
	return fmt.Sprintf("%d MiB/s", rate>>20), func() {}
}

// installBreaks breaks the node's connections again and again.
func installBreaks(f *field, d *rand.Rand, node string) (string, func()) {
	every := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	stop := repeat(every, func() { f.links.reset(node, f.others(node)) })
	return fmt.Sprintf("all connections break every %s", every), stop
}

// installIsCut cuts the links to the node.
func installIsCut(f *field, d *rand.Rand, node string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	f.links.into(node, f.others(node), target.Shape{Cut: true})
	return fmt.Sprintf("cut after %s", after), func() {}
}

// installLosesLeader kills the leader, and starts it at once.
func installLosesLeader(f *field, d *rand.Rand, _ string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	leader := f.pick("leader", d.Uint64())[0]
	f.Target.Kill(leader)
	restartAll(f, []string{leader}) // the others are no majority while the follower installs
	return fmt.Sprintf("kill %s after %s, and start it at once", leader, after), func() {}
}

// provokeKey is a key that faults write when they need new entries.
const provokeKey = "nemesis:provoke"

// saveSnapshots writes something and makes nodes take a snapshot of it, one after the other.
func saveSnapshots(f *field, nodes ...string) {
	for _, n := range nodes {
		_, _ = f.Target.Do(n, 2*time.Second, "SET", provokeKey, time.Now().String())
		_, _ = f.Target.Do(n, 5*time.Second, "LOCKD", "SNAPSHOT") // either may fail: a fault is on
	}
}

// Size of the entries that the node must lack. They must be more than one message of Raft, since one is waiting to be
// sent, and more than one file of the log (target.segmentBytes), since trimmed entries of the newest file can still be
// read.
const (
	lackEntries = 40
	lackBytes   = 600 << 10
)

// lengthenLog adds so many entries to the log.
func lengthenLog(f *field, via string) {
	value := strings.Repeat("x", lackBytes/lackEntries)
	for range lackEntries {
		if r, err := f.Target.Do(via, 4*time.Second, "SET", provokeKey, value); err != nil || r.IsErr() {
			return // another fault prevents it
		}
	}
}

// outrun cuts a node off until the others have trimmed from their logs the entries that it lacks. Bytes that were held
// back on its links are lost.
func outrun(f *field, node string) {
	others := f.others(node)
	f.links.split([]string{node}, others)
	lengthenLog(f, others[0])
	for _, other := range slices.Concat(others, others) { // the log is trimmed up to the second newest snapshot
		if !f.isOver() {
			saveSnapshots(f, other)
		}
	}
	f.links.reset(node, others) // or the bytes that were held back could be all that it lacks
}
