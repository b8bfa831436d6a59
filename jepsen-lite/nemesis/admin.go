package nemesis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// transfer hands leadership to another node.
func transfer(f *Field, fault Fault) (string, func()) {
	once := func() {
		to := f.victims("follower", fault.Dice+uint64(time.Now().UnixNano()))[0]
		_, _ = f.Target.Do(to, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to)) // refused when the cluster is broken
	}
	if fault.Variant == "often" {
		return "transfer often", repeat(400*time.Millisecond, once)
	}
	once()
	return "transfer once", nil
}

// snapshot has all nodes take a snapshot. The kill variant kills a node at some
// moment meanwhile.
func snapshot(f *Field, fault Fault) (string, func()) {
	victim := ""
	if fault.Variant == "kill" {
		victim = f.victims("all", fault.Dice)[0]
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

// disk kills a node and removes its newest snapshot before it is started again. A
// node that has only one keeps it: nothing older could replace it.
func disk(f *Field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	f.Target.Kill(node)
	found, _ := filepath.Glob(filepath.Join(f.Target.Dir(node), "snapshots", "*-*-*"))
	found = slices.DeleteFunc(found, unfinished)
	slices.Sort(found)
	what := "disk kill " + node
	if len(found) > 1 {
		last := found[len(found)-1]
		_ = os.RemoveAll(last)
		what = fmt.Sprintf("disk %s without snapshot %s", node, filepath.Base(last))
	}
	return what, func() { _ = f.Target.Restart(node) }
}

// member kills a node and loses its disk; at the end the others remove it, and a new
// one takes its place under a new id.
func member(f *Field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	f.Target.Replace(node)
	return "member " + node + " replaced", func() { _ = f.Target.Restart(node) }
}

// unfinished reports whether a snapshot was still being written or removed when its
// node was killed: such a folder replaces nothing.
func unfinished(path string) bool {
	_, noState := os.Stat(filepath.Join(path, "state.bin"))
	_, noMeta := os.Stat(filepath.Join(path, "meta.json"))
	return filepath.Ext(path) == ".tmp" || noState != nil || noMeta != nil
}
