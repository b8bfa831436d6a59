package target

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Folder is the data folder of a node on its host. Only Snapshots may be called while a node uses it.
type Folder interface {
	// Snapshots returns the ids of the complete snapshots, the oldest first.
	Snapshots() []string
	// RemoveSnapshot removes one of them.
	RemoveSnapshot(id string) error
	// Flip flips a random bit of a part. It returns the place; "" if the part is empty.
	Flip(p Part, dice *rand.Rand) (where string, err error)
	// CopyTo makes another folder a copy of this one.
	CopyTo(dir string) error
}

// Part is a part of a folder.
type Part string

// Parts.
const (
	Log      Part = "log"
	Snapshot Part = "snapshot" // the newest
	Votes    Part = "votes"
)

// disk is the state of a node's data folder. A folder that was damaged is in doubt until a process has served from it.
// At most one folder of a cluster is lost or in doubt: a cluster of three does not promise to survive two.
type disk struct {
	lost     bool     // the folder is dropped, and the other nodes have not removed the member yet
	hurt     int      // a start of this number or a later one must serve before the folder is sound; 0 if it is
	restored bool     // the folder is a copy from before
	damaged  []string // ids of damaged snapshots, which may be found at any start while they exist
}

// doubtful reports whether the node has lost its folder, or may refuse to start on it.
func (n *lockdNode) doubtful() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk.lost || n.mayRefuse()
}

// mayRefuse reports whether the node may refuse its folder at the next start. n.mu is held.
func (n *lockdNode) mayRefuse() bool {
	if len(n.disk.damaged) > 0 {
		kept := n.where().Folder(n.dir).Snapshots()
		n.disk.damaged = slices.DeleteFunc(n.disk.damaged, func(id string) bool { return !slices.Contains(kept, id) })
	}
	return int(n.answered.Load()) < n.disk.hurt || len(n.disk.damaged) > 0 || n.disk.restored
}

// lockdDisks implements Disks.
type lockdDisks struct{ *fleet }

// Dir implements Disks.
func (t lockdDisks) Dir(node string) string {
	n := t.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dir
}

// Folder implements Disks.
func (t lockdDisks) Folder(node string) Folder { return t.net.on().Folder(t.Dir(node)) }

// canLose reports whether the cluster can lose the disk of a node: every node is a voting member and answers, and no
// other disk is in doubt.
func (t lockdDisks) canLose(node string) bool {
	if t.othersInDoubt(node) {
		return false
	}
	leader := t.Leader()
	if leader == "" {
		return false
	}
	r, err := t.Do(leader, 2*time.Second, "LOCKD", "MEMBERS")
	if err != nil {
		return false
	}
	good := 0
	for _, m := range r.Elems {
		text := strings.Join(m.Texts(), " ")
		if strings.Contains(text, " suffrage voter ") && strings.Contains(text, " state up ") {
			good++
		}
	}
	return good == len(t.names) && len(r.Elems) == good
}

// othersInDoubt reports whether the disk of another node is lost or in doubt.
func (t lockdDisks) othersInDoubt(node string) bool {
	return slices.ContainsFunc(t.names, func(other string) bool { return other != node && t.nodes[other].doubtful() })
}

// Replace implements Disks.
func (t lockdDisks) Replace(node string) {
	n := t.nodes[node]
	canLose := t.canLose(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.lost = n.disk.lost || canLose
	n.kill()
}

// Damage implements Disks.
func (t lockdDisks) Damage(node string, do func(Folder) (late string)) bool {
	n := t.nodes[node]
	canLose := t.canLose(node)
	n.mu.Lock() // no process starts meanwhile
	defer n.mu.Unlock()
	n.kill()
	if !canLose {
		return false
	}
	start, _ := n.present()
	n.disk.hurt = start + 1
	if late := do(n.where().Folder(n.dir)); late != "" {
		n.disk.damaged = append(n.disk.damaged, late)
	}
	return true
}

// PutBack implements Disks.
func (t lockdDisks) PutBack(node, copied string) bool {
	n := t.nodes[node]
	othersInDoubt := t.othersInDoubt(node)
	n.mu.Lock() // no process starts meanwhile
	defer n.mu.Unlock()
	n.kill()
	if othersInDoubt || n.mayRefuse() || n.disk.lost {
		return false
	}
	n.disk.restored = true
	if err := n.where().Folder(copied).CopyTo(n.dir); err != nil {
		n.report("cannot be put back: %v", err)
	}
	return true
}

// Fill implements Disks. A process that has met the full disk may end because of it later, too.
func (t lockdDisks) Fill(node string, full bool) {
	n := t.nodes[node]
	n.mu.Lock() // no process starts meanwhile
	defer n.mu.Unlock()
	if n.full = full; full {
		n.expect(&diskFilled)
	}
	if err := n.where().Fill(n.fullFile, full); err != nil {
		n.report("cannot be filled, or emptied: %v", err)
	}
}

// realFolder is a Folder of thisMachine, by its path.
type realFolder string

// Folder implements Host.
func (thisMachine) Folder(dir string) Folder { return realFolder(dir) }

// CopyTo implements Folder.
func (d realFolder) CopyTo(dir string) error {
	return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(string(d))))
}

// snapshot returns the path of a snapshot.
func (d realFolder) snapshot(id string) string { return filepath.Join(string(d), "snapshots", id) }

// RemoveSnapshot implements Folder.
func (d realFolder) RemoveSnapshot(id string) error { return os.RemoveAll(d.snapshot(id)) }

// Snapshots implements Folder. A snapshot that was being written or removed when its node was killed replaces no older
// one.
func (d realFolder) Snapshots() (ids []string) {
	found, _ := filepath.Glob(d.snapshot("*-*-*"))
	for _, path := range found {
		_, noState := os.Stat(filepath.Join(path, snapshotState))
		_, noMeta := os.Stat(filepath.Join(path, "meta.json"))
		if filepath.Ext(path) != ".tmp" && noState == nil && noMeta == nil {
			ids = append(ids, filepath.Base(path))
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return slices.Compare(age(a), age(b)) })
	return ids
}

// snapshotState is the file of a snapshot that has the state.
const snapshotState = "state.bin"

// age returns the term, index and time in a snapshot's id.
func age(id string) []int {
	n := make([]int, 3)
	_, _ = fmt.Sscanf(id, "%d-%d-%d", &n[0], &n[1], &n[2])
	return n
}

// Flip implements Folder.
func (d realFolder) Flip(p Part, dice *rand.Rand) (where string, err error) {
	files := d.files(p)
	if len(files) == 0 {
		return "", nil
	}
	file := files[dice.IntN(len(files))]
	offset, err := flipBit(file, dice)
	return fmt.Sprintf("%s byte %d", strings.TrimPrefix(file, string(d)), offset), err
}

// files returns the files of a part.
func (d realFolder) files(p Part) (files []string) {
	switch p {
	case Log:
		files, _ = filepath.Glob(filepath.Join(string(d), "wal", "*.wal"))
		bolt, _ := filepath.Glob(filepath.Join(string(d), "log.db"))
		files = append(files, bolt...)
	case Votes:
		files, _ = filepath.Glob(filepath.Join(string(d), "votes.db"))
	case Snapshot:
		if found := d.Snapshots(); len(found) > 0 {
			files = []string{filepath.Join(d.snapshot(found[len(found)-1]), snapshotState)}
		}
	}
	return files
}

// flipBit flips one bit in the used part of a file: files of logs end in zeros that are never read.
func flipBit(file string, dice *rand.Rand) (offset int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	used := len(bytes.TrimRight(text, "\x00"))
	if used == 0 {
		return 0, fmt.Errorf("%s holds nothing", file)
	}
	offset = dice.IntN(used)
	w, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	_, err = w.WriteAt([]byte{text[offset] ^ 1<<dice.IntN(8)}, int64(offset))
	return offset, err
}
