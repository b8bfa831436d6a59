package target

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"
)

// disk is the state of a node's data folder. A folder that was damaged is in doubt until a process has served from it.
// At most one folder of a cluster is lost or in doubt: a cluster of three does not promise to survive two.
type disk struct {
	lost     bool     // the folder is dropped, and the other nodes have not removed the member yet
	hurt     int      // a start of this number or a later one must serve before the folder is sound; 0 if it is
	restored bool     // the folder is a copy from before
	damaged  []string // damaged files that may be found at any start while they exist
}

// doubtful reports whether the node has lost its folder, or may refuse to start on it.
func (n *lockdNode) doubtful() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk.lost || n.mayRefuse()
}

// mayRefuse reports whether the node may refuse its folder at the next start. n.mu is held.
func (n *lockdNode) mayRefuse() bool {
	n.disk.damaged = slices.DeleteFunc(n.disk.damaged, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
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
func (t lockdDisks) Damage(node string, do func(dir string) (late string)) bool {
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
	if late := do(n.dir); late != "" {
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
	if err := errors.Join(os.RemoveAll(n.dir), os.CopyFS(n.dir, os.DirFS(copied))); err != nil {
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
