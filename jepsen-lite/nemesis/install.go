package nemesis

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// installLinks are the ways to a follower that gets a snapshot, by the names of the variants.
// Each begins with them whole, and is over when the layer is cleared.
var installLinks = map[string]func(f *Field, d *rand.Rand, node string) (what string, stop func()){
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
func install(f *Field, fault Fault) (string, func()) {
	node, d := f.victims("follower", fault.Dice)[0], dice(fault.Dice)
	rest := f.others(node)
	f.split([]string{node}, rest)
	f.lengthen(rest[0])
	for range 2 { // the log is trimmed up to the end of the older snapshot
		if !f.isOver() {
			f.saveAll(rest)
		}
	}
	for _, other := range rest {
		f.Target.Net().Reset(node, other) // it may be all that it lacks
	}
	f.links.Clear()
	what, stop := installLinks[fault.Variant](f, d, node)
	return fmt.Sprintf("install %s %s: %s", fault.Variant, node, what), func() {
		stop()
		f.links.Clear()
	}
}

// saveAll writes something and has nodes take a snapshot of it at the same time. When the time
// of the run is over nobody waits for that.
func (f *Field) saveAll(nodes []string) {
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

// toNode sets the links to a node.
func (f *Field) toNode(node string, s target.Shape) {
	for _, other := range f.others(node) {
		f.links.Set(other, node, s)
	}
}

func installDrips(f *Field, d *rand.Rand, node string) (string, func()) {
	rate := installSlowest + d.IntN(installFastest-installSlowest)
	f.toNode(node, target.Shape{BytesPerSecond: rate})
	return fmt.Sprintf("%d MiB/s", rate>>20), func() {}
}

func installBreaks(f *Field, d *rand.Rand, node string) (string, func()) {
	every := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	stop := repeat(every, func() {
		for _, other := range f.others(node) {
			f.Target.Net().Reset(other, node)
		}
	})
	return fmt.Sprintf("all connections break every %s", every), stop
}

func installIsCut(f *Field, d *rand.Rand, node string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	f.toNode(node, target.Shape{Cut: true})
	return fmt.Sprintf("cut after %s", after), func() {}
}

func installLosesLeader(f *Field, d *rand.Rand, _ string) (string, func()) {
	after := time.Duration(50+d.IntN(installBeginMs)) * time.Millisecond
	time.Sleep(after)
	leader := f.pick("leader", d.Uint64())[0]
	f.Target.Kill(leader)
	f.restartAll([]string{leader}) // with it there is a majority again, without it there is none
	return fmt.Sprintf("kill %s after %s, and start it at once", leader, after), func() {}
}
