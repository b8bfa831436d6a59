package nemesis

import (
	"fmt"
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

// disk kills a node and removes its newest snapshot before it starts again. A node with one snapshot keeps it, since it
// has nothing older to go back to. A node whose log begins after an installed snapshot cannot go back behind that: it
// refuses its folder and is replaced.
func disk(f *field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	saveSnapshots(f, node, node)
	what := "disk kill " + node
	f.Target.Damage(node, func(dir target.Folder) string {
		if found := dir.Snapshots(); len(found) > 1 {
			last := found[len(found)-1]
			if err := dir.RemoveSnapshot(last); err == nil {
				what = fmt.Sprintf("disk %s without snapshot %s", node, last)
			}
		}
		return ""
	})
	return what, func() { revive(f, node) }
}

// flip kills a follower and flips one bit in its log, its newest snapshot or its record of votes. The node may start or
// refuse its folder, but may not be wrong about its data.
func flip(f *field, fault Fault) (string, func()) {
	node := f.victims("follower", fault.Dice)[0]
	d, part := dice(fault.Dice), target.Part(fault.Variant)
	if part == target.Snapshot {
		for range 1 + d.IntN(2) { // a node with one snapshot has nothing to go back to
			saveSnapshots(f, node)
		}
	}
	what, flipped := "flip kill "+node, "" // the id of a snapshot
	f.Target.Damage(node, func(dir target.Folder) (late string) {
		where, err := dir.Flip(part, d)
		switch {
		case err != nil:
			what = fmt.Sprintf("flip kill %s (%v)", node, err)
		case where != "":
			what = fmt.Sprintf("flip %s %s", node, where)
		}
		if found := dir.Snapshots(); part == target.Snapshot && len(found) > 0 {
			flipped = found[len(found)-1]
		}
		return flipped // it is read when the node goes back to it, which may be later
	})
	return what, func() {
		revive(f, node)
		if flipped != "" {
			awaitRemoval(f, node, flipped)
		}
	}
}

// reviveMax bounds the time for a node to read a damaged folder, refuse it, be removed and join again.
const reviveMax = 15 * time.Second

// revive starts a node until it serves.
func revive(f *field, node string) {
	for until := time.Now().Add(reviveMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if !f.Target.Running(node) {
			_ = f.Target.Restart(node) // what cannot start is found by the health check
		}
		if _, err := f.Target.Do(node, time.Second, "PING"); err == nil {
			return
		}
	}
}

// awaitRemoval makes a node take new snapshots until it has removed a damaged one, or the time of the run ends.
func awaitRemoval(f *field, node, id string) {
	for until := time.Now().Add(mendMax); time.Now().Before(until) && !f.isOver(); f.wait(50 * time.Millisecond) {
		if !slices.Contains(f.Target.Folder(node).Snapshots(), id) {
			return
		}
		saveSnapshots(f, node)
	}
}

// mendMax bounds awaitRemoval: without a leader there is nothing new to save.
const mendMax = 5 * time.Second

// member kills a node and drops its disk. When the fault stops, the others remove the member, and a new one joins under
// a new id.
func member(f *field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	f.Target.Replace(node)
	return "member " + node + " replaced", func() { _ = f.Target.Restart(node) }
}
