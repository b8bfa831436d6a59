package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// disk is what was done to a node's data folder. At most one folder of a cluster is
// in doubt at a time: losing two disks of three is more than is promised.
type disk struct {
	lost    bool     // it counts as lost, and the others have not agreed to the node's removal yet
	hurt    int      // start number that must serve before the folder counts as sound; 0: none
	copied  bool     // it was put back as it was before
	wounded []string // files that are damaged, and may be found so at any start while they are there
}

// doubtful reports whether the node may refuse to start on its folder, or has.
func (n *lockdNode) doubtful() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk.lost || n.mayRefuse()
}

// mayRefuse is doubtful for the next start. n.mu is held.
func (n *lockdNode) mayRefuse() bool {
	n.disk.wounded = slices.DeleteFunc(n.disk.wounded, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
	return int(n.answered.Load()) < n.disk.hurt || len(n.disk.wounded) > 0 || n.disk.copied
}

// spare reports whether the cluster can do without the disk of a node: every node is
// a member with a vote and answers, and no other disk is in doubt.
func (t *lockd) spare(node string) bool {
	for _, other := range t.names {
		if other != node && t.nodes[other].doubtful() {
			return false
		}
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

// Replace implements Target. It only kills the node while its disk cannot be spared.
func (t *lockd) Replace(node string) {
	n := t.nodes[node]
	spare := t.spare(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.lost = n.disk.lost || spare
	n.kill()
}

// Damage implements Target.
func (t *lockd) Damage(node string, do func(dir string) (late string)) bool {
	n := t.nodes[node]
	spare := t.spare(node)
	n.mu.Lock() // nobody starts it meanwhile
	defer n.mu.Unlock()
	n.kill()
	if !spare {
		return false
	}
	start, _ := n.present()
	n.disk.hurt = start + 1
	if late := do(n.dir); late != "" {
		n.disk.wounded = append(n.disk.wounded, late)
	}
	return true
}

// PutBack implements Target.
func (t *lockd) PutBack(node, copied string) bool {
	n := t.nodes[node]
	spare := !slices.ContainsFunc(
		t.names,
		func(other string) bool { return other != node && t.nodes[other].doubtful() },
	)
	n.mu.Lock() // nobody starts it meanwhile
	defer n.mu.Unlock()
	n.kill()
	if !spare || n.mayRefuse() || n.disk.lost {
		return false
	}
	n.disk.copied = true
	if err := errors.Join(os.RemoveAll(n.dir), os.CopyFS(n.dir, os.DirFS(copied))); err != nil {
		n.accuse("cannot be put back: %v", err)
	}
	return true
}

// Restart implements Target. A node whose disk is lost is removed first, and comes
// back under a new id; the old one must never vote again. So does one that has
// refused to start on a folder that was damaged on purpose.
func (t *lockd) Restart(node string) error {
	n := t.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.lost = n.disk.lost || n.refused()
	if n.disk.lost {
		via, err := t.remove(node, n.id)
		if err != nil {
			return err
		}
		n.disk = disk{}
		n.generation++
		n.id = fmt.Sprintf("%s-%d", node, n.generation)
		n.dir = filepath.Join(filepath.Dir(n.dir), n.id)
		n.begin("--join", t.tls.joinable(t.nodes[via].client.Addr()))
	}
	var expected []*End
	if n.mayRefuse() {
		expected = append(expected, &folderDamaged, &folderCopied)
	}
	if n.full {
		expected = append(expected, &diskFilled, &diskFull) // the second: its log was to be mended
	}
	return n.start(expected...)
}

// refused reports whether the last process refused a folder that was damaged on purpose,
// or put back.
func (p *proc) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.runs && (p.met == &folderDamaged || p.met == &folderCopied)
}

// removeMax bounds the tries to have a node removed.
const removeMax = 6 * time.Second

// remove has the others remove a member. via is the node that knows it is gone.
func (t *lockd) remove(node, id string) (via string, err error) {
	for until := time.Now().Add(removeMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		for _, other := range t.names {
			if other == node {
				continue
			}
			r, doErr := t.Do(other, 4*time.Second, "LOCKD", "REMOVE", id)
			if doErr == nil && (r.Str == "OK" || strings.Contains(r.Str, "is not a member of this cluster")) {
				return other, nil
			}
			err = fmt.Errorf("node %s is not removed: %s (%w)", id, r.Str, doErr)
		}
	}
	return "", err
}
