package nemesis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// disk kills a node and removes its newest snapshot before it is started again. A
// node that has only one keeps it: nothing older could replace it. One whose log was
// begun by a snapshot from its leader cannot go back to an older one: it refuses its
// folder, and is replaced.
func disk(f *Field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	what := "disk kill " + node
	f.Target.Damage(node, func(dir string) string {
		if found := snapshots(dir); len(found) > 1 {
			last := found[len(found)-1]
			_ = os.RemoveAll(last)
			what = fmt.Sprintf("disk %s without snapshot %s", node, filepath.Base(last))
		}
		return ""
	})
	return what, func() { f.Target.Revive(node) }
}

// snapshots are the whole snapshots in a data folder, the oldest first.
func snapshots(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*-*-*"))
	found = slices.DeleteFunc(found, unfinished)
	slices.SortFunc(found, func(a, b string) int { return slices.Compare(age(a), age(b)) })
	return found
}

// age is the term, index and time in a snapshot's name.
func age(path string) []int {
	n := make([]int, 3)
	_, _ = fmt.Sscanf(filepath.Base(path), "%d-%d-%d", &n[0], &n[1], &n[2])
	return n
}

// unfinished reports whether a snapshot was still being written or removed when its
// node was killed: such a folder replaces nothing.
func unfinished(path string) bool {
	_, noState := os.Stat(filepath.Join(path, "state.bin"))
	_, noMeta := os.Stat(filepath.Join(path, "meta.json"))
	return filepath.Ext(path) == ".tmp" || noState != nil || noMeta != nil
}
