package target

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockdProcesses implements Processes.
type lockdProcesses struct{ *fleet }

// Kill implements Processes.
func (t lockdProcesses) Kill(node string) { t.nodes[node].kill() }

// Pause implements Processes.
func (t lockdProcesses) Pause(node string) { t.nodes[node].pause(true) }

// Resume implements Processes.
func (t lockdProcesses) Resume(node string) { t.nodes[node].pause(false) }

// Running implements Processes.
func (t lockdProcesses) Running(node string) bool { return t.nodes[node].alive() }

// Observe implements Processes.
func (t lockdProcesses) Observe(o Observer) {
	t.net.observe(o.Link)
	for name, n := range t.nodes {
		n.observe(func() {
			if o.Ended != nil {
				o.Ended(name)
			}
		})
	}
}

// LimitFiles implements Processes.
func (t lockdProcesses) LimitFiles(node string, room int) error {
	return t.nodes[node].withPID(func(pid int) error { return limitFiles(pid, room) })
}

// Memory implements Processes.
func (t lockdProcesses) Memory(node string) (now, most int64, err error) {
	return t.nodes[node].memory()
}

// stopMax is longer than a node waits for its clients and for its successor.
const stopMax = 30 * time.Second

// Shutdown implements Processes.
func (t lockdProcesses) Shutdown(node string) {
	if n := t.nodes[node]; !n.end(syscall.SIGTERM, stopMax) {
		n.report("did not stop within %s of SIGTERM", stopMax)
	}
}

// Restart implements Processes. A node whose disk is lost is removed from the cluster first and comes back under a new
// id, since the old member must never vote again. The same happens to a node that refused a folder that was damaged on
// purpose.
func (t lockdProcesses) Restart(node string) error {
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
		n.setClusterArgs("--join", t.tls.joinAddr(t.nodes[via].client.Addr()))
	}
	var expected []*End
	if n.mayRefuse() {
		expected = append(expected, &folderDamaged, &folderCopied)
	}
	if n.full {
		expected = append(expected, &diskFilled, &diskFull) // diskFull: the start repairs the log, which needs space
	}
	if n.former {
		expected = append(expected, &tooOld, &tooOldAtStart)
	}
	return n.start(expected...)
}

// removeMax bounds the tries to remove a member.
const removeMax = 6 * time.Second

// remove has the other nodes remove a member. via is a node that has confirmed it.
func (t lockdProcesses) remove(node, id string) (via string, err error) {
	for until := time.Now().Add(removeMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		for _, other := range t.names {
			if other == node {
				continue
			}
			r, doErr := t.Do(other, 4*time.Second, "LOCKD", "REMOVE", id)
			if doErr == nil && (r.Str == "OK" || strings.HasPrefix(r.Str, "NOMEMBER ")) {
				return other, nil
			}
			err = fmt.Errorf("node %s is not removed: %s (%w)", id, r.Str, doErr)
		}
	}
	return "", err
}
