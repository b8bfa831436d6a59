package nemesis

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// disk kills a node and removes its newest snapshot before it is started again. A
// node that has only one keeps it: nothing older could replace it. One whose log was
// begun by a snapshot from its leader cannot go back to an older one: it refuses its
// folder, and is replaced.
func disk(f *field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	saveSnapshots(f, node, node)
	what := "disk kill " + node
	f.Target.Damage(node, func(dir string) string {
		if found := snapshots(dir); len(found) > 1 {
			last := found[len(found)-1]
			_ = os.RemoveAll(last)
			what = fmt.Sprintf("disk %s without snapshot %s", node, filepath.Base(last))
		}
		return ""
	})
	return what, func() { revive(f, node) }
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

// flip kills a follower and flips one bit in its log, its newest snapshot or its
// record of votes. Whether the node starts all the same or refuses its folder, it may
// not be wrong about what it knows.
func flip(f *field, fault Fault) (string, func()) {
	node := f.victims("follower", fault.Dice)[0]
	d := dice(fault.Dice)
	if fault.Variant == "snapshot" {
		for range 1 + d.IntN(2) { // with one it has nothing to go back to
			saveSnapshots(f, node)
		}
	}
	what, file := "flip kill "+node, ""
	f.Target.Damage(node, func(dir string) (late string) {
		files := flippable(dir, fault.Variant)
		if len(files) == 0 {
			return ""
		}
		file = files[d.IntN(len(files))]
		offset, err := flipBit(file, d)
		what = fmt.Sprintf("flip %s %s byte %d", node, strings.TrimPrefix(file, dir), offset)
		if err != nil {
			what = fmt.Sprintf("flip kill %s (%v)", node, err)
		}
		if fault.Variant == "snapshot" {
			return file // read when the node must go back to it, which may be later
		}
		return ""
	})
	return what, func() {
		revive(f, node)
		if fault.Variant == "snapshot" && file != "" {
			awaitRemoval(f, node, file)
		}
	}
}

// flippable are the files of a data folder of which one may get a wrong bit.
func flippable(dir, which string) []string {
	var files []string
	switch which {
	case "log":
		files, _ = filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
		bolt, _ := filepath.Glob(filepath.Join(dir, "log.db"))
		files = append(files, bolt...)
	case "votes":
		files, _ = filepath.Glob(filepath.Join(dir, "votes.db"))
	case "snapshot":
		if found := snapshots(dir); len(found) > 0 {
			files = []string{filepath.Join(found[len(found)-1], "state.bin")}
		}
	}
	return files
}

// flipBit flips one bit of a file, in the part of it that is used: files of logs end
// in zeros that nobody reads.
func flipBit(file string, d *rand.Rand) (offset int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	used := len(bytes.TrimRight(text, "\x00"))
	if used == 0 {
		return 0, fmt.Errorf("%s holds nothing", file)
	}
	offset = d.IntN(used)
	w, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	_, err = w.WriteAt([]byte{text[offset] ^ 1<<d.IntN(8)}, int64(offset))
	return offset, err
}

// reviveMax is for a node that reads a damaged folder, refuses it, is removed and
// joins again.
const reviveMax = 15 * time.Second

// revive starts a node again and waits until it serves.
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

// mend has a node take new snapshots until it has let go of one with a wrong bit.
func awaitRemoval(f *field, node, file string) {
	for until := time.Now().Add(mendMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(file); err != nil ||
			!strings.HasPrefix(file, f.Target.Dir(node)+string(filepath.Separator)) {
			return
		}
		saveSnapshots(f, node)
	}
}

// mendMax bounds mend: without a leader there is nothing new to snapshot.
const mendMax = 5 * time.Second

// member kills a node and loses its disk; at the end the others remove it, and a new
// one takes its place under a new id.
func member(f *field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	f.Target.Replace(node)
	return "member " + node + " replaced", func() { _ = f.Target.Restart(node) }
}
