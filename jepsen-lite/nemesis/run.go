package nemesis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of programs that run under a lock, and the flags of `lockd run`.
const (
	runLease  = 2 * time.Second
	runGrace  = 500 * time.Millisecond
	runWait   = time.Minute
	runStarts = 5 * time.Second // for the first program to run
	// runFree bounds the time until the second program runs when the first one has lost its lock.
	runFree = runLease + 8*time.Second
	// runEnds bounds the time until a program has ended whose lock was taken away: by then a renewal was refused.
	runEnds = runLease + runGrace + time.Second
	runOver = 500 * time.Millisecond // for a program to die, on a busy machine, when another one runs
	runSees = 700 * time.Millisecond // for which nothing more may be heard of it
)

// Times of programs that may ask every node.
const (
	severalLease = 6 * time.Second // which an election takes a part of
	severalGrace = 500 * time.Millisecond
	// severalKept is the time after which the lock of a program is gone that has not renewed it.
	severalKept = severalLease + time.Second
	severalWait = 300 * time.Millisecond // for a program to say that it runs
)

// runBeats is a program that says that it runs, again and again, until there is a file. It does not obey SIGTERM.
const runBeats = `trap '' TERM; echo "$1 starts $LOCKD_FENCE" >> "$2"
while [ ! -e "$2.$1.end" ]; do echo "$1 runs" >> "$2"; sleep 0.02; done`

// underLock is two programs that `lockd run` runs under one lock, the second one when the first one has lost it.
type underLock struct {
	*field
	key, dir      string
	lease, grace  time.Duration
	first, second target.Program
}

// runUnderLock has two programs run under one lock. The node of the first one falls silent or dies, or the first
// `lockd run` is killed, or the lock is taken from it: the first program has ended when the second one runs. Or both
// may ask every node, one of which falls silent or dies: the first program goes on, and the second one is the next.
func runUnderLock(f *field, fault Fault) (string, func()) {
	what := "run " + fault.Variant
	if !settled(f) {
		return what + " (not settled)", nil
	}
	node := f.victims("any", fault.Dice)[0]
	dir, err := os.MkdirTemp(filepath.Dir(f.Target.Dir(node)), "run-")
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	u := &underLock{
		field: f, key: fmt.Sprintf("%sdoor:%d", ledgerPrefix, fault.Dice), dir: dir, lease: runLease, grace: runGrace,
	}
	defer u.end()
	via := f.others(node)[:1]
	asked := []string{node}
	several := strings.HasPrefix(fault.Variant, "one ")
	if several { // the node is named twice, so that it is asked first, with whichever of them a program begins
		asked = slices.Concat(asked, asked, f.others(node))
		via, u.lease, u.grace = asked, severalLease, severalGrace
	}
	if u.first, err = u.start("first", asked); err != nil {
		return what + ": " + err.Error(), nil
	}
	if !u.heard("first starts", runStarts) {
		return what + ": nothing runs", nil
	}
	if u.second, err = u.start("second", via); err != nil {
		return what + ": " + err.Error(), nil
	}
	f.wait(busyMin)
	switch fault.Variant {
	case "taken":
		u.take(via[0])
		return what, nil
	case "orphan":
		u.first.Kill()
	case "node killed", "one killed":
		f.Target.Kill(node)
	default:
		f.Target.Pause(node)
	}
	if several {
		u.outlive(node)
	}
	u.succeed()
	f.Target.Resume(node)
	restartAll(f, []string{node})
	return fmt.Sprintf("%s [%s]", what, node), nil
}

// outlive judges that the first program has its lock when a node that it asks has been away for longer than a lease, and
// ends it.
func (u *underLock) outlive(node string) {
	if !u.wait(severalKept) {
		return
	}
	u.found.stake("run-outlives-nodes")
	before := u.beats("first")
	if !u.until(severalWait, func() bool { return u.beats("first") > before }) {
		u.found.add("ended with a node", fmt.Sprintf("a program under a lock, whose lockd asks every node, does not run %s "+
			"after %s was lost", severalKept, node))
	}
	_ = os.WriteFile(u.file()+".first.end", nil, 0o600)
}

// until looks again and again whether something is so.
func (u *underLock) until(within time.Duration, so func() bool) bool {
	for until := time.Now().Add(within); ; {
		if so() {
			return true
		}
		if !time.Now().Before(until) || !u.wait(heirLook) {
			return false
		}
	}
}

// beats returns how often a program has said that it runs.
func (u *underLock) beats(name string) int {
	text, _ := os.ReadFile(u.file())
	return strings.Count(string(text), name+" runs")
}

// start starts a program whose `lockd run` may ask some nodes.
func (u *underLock) start(name string, nodes []string) (target.Program, error) {
	args := slices.Concat([]string{"run", "--lock", u.key, "--px", u.lease.String(), "--grace", u.grace.String(),
		"--wait", runWait.String()}, u.Target.Reach(false, nodes...),
		[]string{"--", "sh", "-c", runBeats, "sh", name, u.file()})
	return u.Target.StartTool(filepath.Join(u.dir, "log"), args...)
}

// file returns the file to which the programs write.
func (u *underLock) file() string { return filepath.Join(u.dir, "beats") }

// heard waits until a program has said something.
func (u *underLock) heard(what string, within time.Duration) bool {
	return u.until(within, func() bool {
		text, err := os.ReadFile(u.file())
		return err == nil && strings.Contains(string(text), what)
	})
}

// succeed waits until the second program runs, and judges that the first one does not.
func (u *underLock) succeed() {
	if !u.heard("second starts", runFree) {
		if !u.isOver() {
			u.found.stake("run-in-turn")
			u.found.add("nothing runs", fmt.Sprintf("the second program under a lock does not run %s after the first one "+
				"lost it", runFree))
		}
		return
	}
	u.found.stake("run-in-turn")
	u.found.stake("run-while-held")
	u.silent("runs beside another one")
}

// take takes the lock from the first program.
func (u *underLock) take(via string) {
	if r, err := u.Target.Do(via, ledgerWait, "DEL", u.key); err != nil || r.Int != 1 || !u.wait(runEnds) {
		return
	}
	u.found.stake("run-while-held")
	u.silent("runs " + runEnds.String() + " after its lock was deleted")
}

// silent judges that the first program says no more, a moment from now on.
func (u *underLock) silent(what string) {
	time.Sleep(runOver)
	before, err := os.ReadFile(u.file())
	time.Sleep(runSees)
	after, errAfter := os.ReadFile(u.file())
	if err == nil && errAfter == nil && strings.Contains(string(after[len(before):]), "first") {
		u.found.add("runs without its lock", "a program under a lock "+what)
	}
}

// end ends both programs.
func (u *underLock) end() {
	for _, name := range []string{"first", "second"} {
		_ = os.WriteFile(u.file()+"."+name+".end", nil, 0o600)
	}
	for _, p := range []target.Program{u.first, u.second} {
		p.End(runGrace)
	}
	_ = os.RemoveAll(u.dir)
}
