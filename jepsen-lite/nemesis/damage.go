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

// disk kills a node and removes its newest snapshot before it starts again. A node with one snapshot keeps it, since it
// has nothing older to go back to. A node whose log begins after an installed snapshot cannot go back behind that: it
// refuses its folder and is replaced.
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

// snapshots returns the complete snapshots in a data folder, the oldest first.
func snapshots(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*-*-*"))
	found = slices.DeleteFunc(found, unfinished)
	slices.SortFunc(found, func(a, b string) int { return slices.Compare(age(a), age(b)) })
	return found
}

// age returns the term, index and time in a snapshot's name.
func age(path string) []int {
	n := make([]int, 3)
	_, _ = fmt.Sscanf(filepath.Base(path), "%d-%d-%d", &n[0], &n[1], &n[2])
	return n
}

// unfinished reports whether a snapshot was being written or removed when its node was killed. Such a folder replaces
// no older one.
func unfinished(path string) bool {
	_, noState := os.Stat(filepath.Join(path, "state.bin"))
	_, noMeta := os.Stat(filepath.Join(path, "meta.json"))
	return filepath.Ext(path) == ".tmp" || noState != nil || noMeta != nil
}

// flip kills a follower and flips one bit in its log, its newest snapshot or its record of votes. The node may start or
// refuse its folder, but may not be wrong about its data.
func flip(f *field, fault Fault) (string, func()) {
	node := f.victims("follower", fault.Dice)[0]
	d := dice(fault.Dice)
	if fault.Variant == "snapshot" {
		for range 1 + d.IntN(2) { // a node with one snapshot has nothing to go back to
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
			return file // it is read when the node goes back to it, which may be later
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

// flippable returns the files of a data folder in which a bit may be flipped.
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

// flipBit flips one bit in the used part of a file: files of logs end in zeros that are never read.
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

// awaitRemoval makes a node take new snapshots until it has removed a damaged one.
func awaitRemoval(f *field, node, file string) {
	for until := time.Now().Add(mendMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(file); err != nil ||
			!strings.HasPrefix(file, f.Target.Dir(node)+string(filepath.Separator)) {
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
